//! A task with a body for CPU cores and one for accelerators. The same program runs on GPUs if there are any: the
//! runtime copies the vectors to the device's memory, and back when they are read.

use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

/// The kernel in Thalweg's dialect, which CUDA, HIP and OpenCL all compile. Its signature declares how much of `x`
/// and `y` it touches.
const TEXT: &str = "
    KERNEL(256, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] += a * x[i];
    }";

#[allow(unsafe_code)]
// SAFETY: the kernel touches the first n elements of x and y, as its signature declares.
const PROGRAM: Program = unsafe { Program::new("axpy.cl", TEXT) };
static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "axpy");

const N: usize = 1 << 20;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = match Runtime::builder().compute_units("1:CPU:1,1:GPU:1").build() {
        Ok(rt) => rt,
        Err(error) => {
            println!("{error}; using cores alone:");
            Runtime::builder().build()?
        }
    };
    let (x, y) = (rt.data(vec![1.0; N]), rt.data(vec![2.0; N]));

    rt.for_each("axpy", (x.blocks(N / 8).input(), y.blocks(N / 8).inout()))
        .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x))
        .gpu(|k, (x, mut y)| k.launch(&AXPY, x.len(), (3.0, &x, &mut y, x.len() as i32)))
        .submit()?;

    assert!(rt.take(y)?.iter().all(|&y| y == 5.0));
    print!("{}", rt.statistics());
    Ok(())
}
