// A kernel gets one argument for each of its parameters.
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

const TEXT: &str = "KERNEL(64, 1, 1) fill(OUT(double, x, 64), double value) { REGION(x); x[GLOBAL_ID(0)] = value; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("fill.cl", TEXT) };
static FILL: Kernel<(Write<f64>, f64)> = Kernel::new(&PROGRAM, "fill");

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0; 64]);
    rt.task("fill", (x.output(),)).gpu(|k, (mut x,)| k.launch(&FILL, 64, (&mut x,))).submit().unwrap();
}
