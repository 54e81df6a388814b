// A kernel names its buffers in a REGION: it would use memory from its start, not from the region's.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x, n), OUT(double, y, n), int n)
                    { REGION(x); /* REGION(y); */ int i = GLOBAL_ID(0); if (i < n) x[i] = y[i] = 1; }";
// SAFETY: it does not get as far as that.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static FILL: Kernel<(Write<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "fill");

fn main() {
    println!("{}", FILL.name());
}
