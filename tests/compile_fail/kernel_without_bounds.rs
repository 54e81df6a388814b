// The signature of a kernel declares how many elements of each buffer the kernel may touch.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x), int n)
                    { REGION(x); int i = GLOBAL_ID(0); if (i < n) x[i] = 1; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static FILL: Kernel<(Write<f64>, i32)> = Kernel::new(&PROGRAM, "fill");

fn main() {
    println!("{}", FILL.name());
}
