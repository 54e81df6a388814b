// A kernel's Rust type is compared with its text: these numbers are `double`.
use thalweg::kernel::{Kernel, Program, Write};

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x), double value) { REGION(x); x[GLOBAL_ID(0)] = value; }";
static FILL: Kernel<(Write<f32>, f64)> = Kernel::new(&Program::new("fill.cl", TEXT), "fill");

fn main() {
    println!("{}", FILL.name());
}
