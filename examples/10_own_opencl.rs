//! Existing OpenCL C code between two tasks written in Thalweg's dialect. Half of the tasks let the runtime compile and
//! launch the kernel; the other half call OpenCL directly, as a body does that calls a library. The runtime gives such
//! a body a queue and the locations of its regions. In both cases it keeps the order: no thread waits in between, and
//! nothing is copied back to the host.
//!
//! It needs an OpenCL device; PoCL provides one that runs on the machine's cores.

#![allow(unsafe_code)] // calls foreign functions

use cl3::{command_queue, event, kernel, program};
use std::ffi::c_void;
use std::ptr;
use thalweg::kernel::{Kernel, Module, ModuleKernel, OpenClRegion, Program, Write};
use thalweg::prelude::*;

/// A kernel in the dialect that computes `x[i] += 1`.
const TEXT: &str = "
    KERNEL(64, 1, 1) increment(INOUT(float, x, n), int n)
    {
        REGION(x);
        int i = GLOBAL_ID(0);
        if (i < n) x[i] += 1;
    }";

// SAFETY: the kernel touches the first n elements of x, as its signature declares.
const PROGRAM: Program = unsafe { Program::new("increment.cl", TEXT) };
static INCREMENT: Kernel<(Write<f32>, i32)> = Kernel::new(&PROGRAM, "increment");

/// Existing OpenCL C code. Kernels that use subgroups or images, or kernels from a library, would work as well.
const OWN: &str = "
    __kernel void square(__global float *x, ulong first, int n)
    {
        size_t i = first + get_global_id(0);
        if (get_global_id(0) < n) x[i] = x[i] * x[i];
    }";
/// The same code, for the runtime to launch. It passes the index of the region's first element after the buffer.
const MODULE: Module = Module::new("square.cl").opencl(OWN);
static SQUARE: ModuleKernel<(Write<f32>, i32)> = ModuleKernel::new(&MODULE, "square", [64, 1, 1]);

/// A failed OpenCL call: its name and error code.
type Failure = String;

fn failed(call: &str) -> impl Fn(i32) -> Failure + '_ {
    move |code| format!("{call}: OpenCL error {code}")
}

/// The compiled kernel. Each queue of the device keeps its own copy, so that no two threads set the arguments at the
/// same time.
struct Square {
    program: *mut c_void,
    kernel: *mut c_void,
}

// SAFETY: OpenCL objects are not bound to a thread, so they may move between threads.
unsafe impl Send for Square {}

impl Square {
    fn new(context: *mut c_void, device: *mut c_void) -> Result<Self, Failure> {
        let program =
            program::create_program_with_source(context, &[OWN]).map_err(failed("clCreateProgramWithSource"))?;
        let mut square = Self { program, kernel: ptr::null_mut() };
        program::build_program(program, &[device], c"", None, ptr::null_mut()).map_err(failed("clBuildProgram"))?;
        square.kernel = kernel::create_kernel(program, c"square").map_err(failed("clCreateKernel"))?;
        Ok(square)
    }

    fn enqueue(&self, queue: *mut c_void, x: OpenClRegion, len: usize) -> Result<(), Failure> {
        let (first, n) = ((x.first_byte / size_of::<f32>()) as u64, len as i32);
        // SAFETY: the arguments have the sizes of the kernel's parameters, and OpenCL copies them. There are as many
        // threads as the region has elements, so each thread stays in bounds.
        unsafe {
            kernel::set_kernel_arg(self.kernel, 0, size_of::<*mut c_void>(), (&raw const x.buffer).cast())
                .and_then(|()| kernel::set_kernel_arg(self.kernel, 1, size_of::<u64>(), (&raw const first).cast()))
                .and_then(|()| kernel::set_kernel_arg(self.kernel, 2, size_of::<i32>(), (&raw const n).cast()))
                .map_err(failed("clSetKernelArg"))?;
            let (none, nothing, threads) = (ptr::null(), ptr::null(), [len]);
            command_queue::enqueue_nd_range_kernel(
                queue,
                self.kernel,
                1,
                none,
                threads.as_ptr(),
                ptr::null(),
                0,
                nothing,
            )
            .and_then(|done| event::release_event(done))
            .map_err(failed("clEnqueueNDRangeKernel"))
        }
    }
}

impl Drop for Square {
    fn drop(&mut self) {
        // SAFETY: this value owns both objects, so each is released exactly once.
        unsafe {
            if !self.kernel.is_null() {
                let _ = kernel::release_kernel(self.kernel);
            }
            let _ = program::release_program(self.program);
        }
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = match Runtime::builder().compute_units("1:OPENCL:1").build() {
        Ok(rt) => rt,
        Err(error) => {
            println!("nothing to show: {error}");
            return Ok(());
        }
    };
    let x = rt.data((0..1000).map(|i| i as f32).collect::<Vec<_>>());
    for (number, part) in x.blocks(300).iter().enumerate() {
        let increment = |part: &Region<'_, f32>| {
            rt.task("increment", (part.inout(),))
                .gpu(|k, (mut x,)| {
                    let n = x.len();
                    k.launch(&INCREMENT, n, (&mut x, n as i32))
                })
                .submit()
        };
        increment(&part)?;
        let square = rt.task("square", (part.inout(),));
        if number % 2 == 0 {
            let launched = square.gpu(|k, (mut x,)| {
                let n = x.len();
                // SAFETY: the kernel touches the first n elements of x.
                unsafe { k.launch_module(&SQUARE, n, (&mut x, n as i32)) }
            });
            launched.submit()?;
        } else {
            let called = square.opencl(|cx, (mut x,)| {
                let (queue, region, len) = (cx.queue(), cx.region_mut(&mut x), x.len());
                let (context, device) = (cx.context(), cx.device());
                cx.keep(|_| Square::new(context, device))?.enqueue(queue, region, len)
            });
            called.submit()?;
        }
        increment(&part)?;
    }
    let expected: Vec<_> = (0..1000).map(|i| (i as f32 + 1.0).powi(2) + 1.0).collect();
    assert_eq!(rt.take(x)?, expected);
    print!("{}", rt.statistics());
    Ok(())
}
