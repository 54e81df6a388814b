// A kernel has to be in the text.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x)) { REGION(x); x[GLOBAL_ID(0)] = 1; }";
static CLEAR: Kernel<(Write<f64>,)> = Kernel::new(&Program::new("fill.cl", TEXT), "clear");

fn main() {
    println!("{}", CLEAR.name());
}
