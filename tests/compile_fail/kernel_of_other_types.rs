// The Rust type of a kernel is compared with its text: this one takes `double`.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x, 64), double value) { REGION(x); x[GLOBAL_ID(0)] = value; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static FILL: Kernel<(Write<f32>, f64)> = Kernel::new(&PROGRAM, "fill");

fn main() {
    println!("{}", FILL.name());
}
