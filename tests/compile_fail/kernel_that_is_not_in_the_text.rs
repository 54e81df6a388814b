// The text must contain the kernel.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x, 64)) { REGION(x); x[GLOBAL_ID(0)] = 1; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static CLEAR: Kernel<(Write<f64>,)> = Kernel::new(&PROGRAM, "clear");

fn main() {
    println!("{}", CLEAR.name());
}
