// A kernel gets as many arguments as it has parameters.
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x), double value) { REGION(x); x[GLOBAL_ID(0)] = value; }";
static FILL: Kernel<(Write<f64>, f64)> = Kernel::new(&Program::new("fill.cl", TEXT), "fill");

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0; 64]);
    rt.task("fill", (x.output(),)).gpu(|k, (mut x,)| k.launch(&FILL, 64, (&mut x,))).submit().unwrap();
}
