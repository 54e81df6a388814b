// A kernel names each buffer in a REGION; without it, it would use the memory from its start, not from the region's.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x, n), OUT(double, y, n), int n)
                    { REGION(x); /* REGION(y); */ int i = GLOBAL_ID(0); if (i < n) x[i] = y[i] = 1; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static FILL: Kernel<(Write<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "fill");

fn main() {
    println!("{}", FILL.name());
}
