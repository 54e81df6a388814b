// That a text keeps to its heads is its author's promise.
#![forbid(unsafe_code)]
use thalweg::kernel::Program;

const TEXT: &str = "KERNEL(64, 1, 1) wild(OUT(double, x, n), int n) { REGION(x); x[-1000] = n; }";
const PROGRAM: Program = Program::new("wild.cl", TEXT);

fn main() {
    println!("{}", PROGRAM.name());
}
