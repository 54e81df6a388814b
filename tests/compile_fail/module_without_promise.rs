// Only its author knows what a kernel in another language touches, so each launch is an `unsafe` promise.
use thalweg::kernel::{Module, ModuleKernel, Write};
use thalweg::prelude::*;

const MODULE: Module = Module::new("clear.cl").opencl("__kernel void clear(__global int *x, ulong first) { x[first] = 0; }");
static CLEAR: ModuleKernel<(Write<i32>,)> = ModuleKernel::new(&MODULE, "clear", [1, 1, 1]);

fn clear(rt: &Runtime, x: &Data<i32>) -> Result<TaskId, SubmitError> {
    rt.task("clear", (x.inout(),)).gpu(|k, (mut x,)| k.launch_module(&CLEAR, 1, (&mut x,))).submit()
}

fn main() {
    let _ = clear;
}
