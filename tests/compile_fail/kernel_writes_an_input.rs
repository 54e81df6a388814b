// A region that the task only reads does not fit a parameter that the kernel writes.
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

const TEXT: &str = "KERNEL(64, 1, 1) clear(OUT(double, x, 64)) { REGION(x); x[GLOBAL_ID(0)] = 0; }";
// SAFETY: the program does not compile, so the text never runs.
const PROGRAM: Program = unsafe { Program::new("clear.cl", TEXT) };
static CLEAR: Kernel<(Write<f64>,)> = Kernel::new(&PROGRAM, "clear");

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0; 64]);
    rt.task("clear", (x.input(),)).gpu(|k, (mut x,)| k.launch(&CLEAR, 64, (&mut x,))).submit().unwrap();
}
