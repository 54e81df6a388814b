// Only the author of a text can promise that its kernels respect their declared bounds.
#![forbid(unsafe_code)]
use thalweg::kernel::Program;

const TEXT: &str = "KERNEL(64, 1, 1) wild(OUT(double, x, n), int n) { REGION(x); x[-1000] = n; }";
const PROGRAM: Program = Program::new("wild.cl", TEXT);

fn main() {
    println!("{}", PROGRAM.name());
}
