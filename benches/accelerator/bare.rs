//! The same launches by the interface's bare calls: what the runtime is measured against.

use super::launches::TEXT;
use super::{Result, Setting};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use std::ptr;
use std::time::Instant;
use thalweg::machine::UnitKind;

/// Launches so many and says how long each took, in nanoseconds.
pub(crate) type Launches = Box<dyn FnMut(usize) -> Result<f64>>;

/// Bare launches on the first device of the setting's kind.
pub(crate) fn launches(setting: &Setting) -> Result<Launches> {
    match setting.kind {
        UnitKind::OpenCl | UnitKind::Fpga => opencl(),
        _ => Err("no bare contender for this kind of device".into()),
    }
}

#[allow(unsafe_code)] // the interface's calls are unsafe
fn opencl() -> Result<Launches> {
    let failed = |error: opencl3::error_codes::ClError| format!("OpenCL error {}", error.0);
    let device = *get_all_devices(CL_DEVICE_TYPE_ALL).map_err(failed)?.first().ok_or("there is no OpenCL device")?;
    let context = Context::from_devices(&[device], &[], None, ptr::null_mut()).map_err(failed)?;
    let source = format!("{}\n{TEXT}", include_str!("../../kernels/dialect.h"));
    let program = Program::create_and_build_from_source(&context, &source, "-cl-std=CL1.2")?;
    let kernel = Kernel::create(&program, "touch").map_err(failed)?;
    // SAFETY: the device is the context's; no host memory is given.
    let (queue, buffer) = unsafe {
        let queue = CommandQueue::create(&context, device, 0).map_err(failed)?;
        (queue, Buffer::<f64>::create(&context, CL_MEM_READ_WRITE, 1, ptr::null_mut()).map_err(failed)?)
    };
    let run = move |count: usize| {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the kernel's arguments are a buffer and an offset, and the buffer outlives the queue's work.
            unsafe {
                kernel.set_arg(0, &buffer).map_err(failed)?;
                kernel.set_arg(1, &0u64).map_err(failed)?;
                let (threads, group) = ([64usize, 1, 1], [64usize, 1, 1]);
                let event =
                    queue.enqueue_nd_range_kernel(kernel.get(), 3, ptr::null(), threads.as_ptr(), group.as_ptr(), &[]);
                event.map_err(failed)?;
            }
            queue.flush().map_err(failed)?; // as the runtime does: the device is to begin
        }
        queue.finish().map_err(failed)?;
        let _ = (&context, &program);
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    };
    run(1)?;
    Ok(Box::new(run))
}
