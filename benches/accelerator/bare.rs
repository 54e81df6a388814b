//! The same launches by bare calls of the interface: the baseline of the runtime.

use super::launches::{PROGRAM, TEXT};
use super::{Result, Setting};
use cudarc::driver::{result, sys};
use opencl3::command_queue::CommandQueue;
use opencl3::context::Context;
use opencl3::device::{CL_DEVICE_TYPE_ALL, get_all_devices};
use opencl3::kernel::Kernel;
use opencl3::memory::{Buffer, CL_MEM_READ_WRITE};
use opencl3::program::Program;
use std::ptr;
use std::time::Instant;
use thalweg::devices::compile_for;
use thalweg::machine::UnitKind;

/// Launches the given number of kernels, and returns the nanoseconds per launch.
pub(crate) type Launches = Box<dyn FnMut(usize) -> Result<f64>>;

/// Returns bare launches on the first device of the setting's kind, if this file implements them.
pub(crate) fn launches(setting: &Setting) -> Result<Option<Launches>> {
    match setting.kind {
        UnitKind::OpenCl | UnitKind::Fpga => opencl().map(Some),
        UnitKind::Cuda => cuda().map(Some),
        _ => Ok(None),
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
    // SAFETY: the device belongs to the context, and no host memory is passed.
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
            queue.flush().map_err(failed)?; // as the runtime does, so that the device begins
        }
        queue.finish().map_err(failed)?;
        let _ = (&context, &program);
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    };
    run(1)?;
    Ok(Box::new(run))
}

#[allow(unsafe_code)] // the interface's calls are unsafe
fn cuda() -> Result<Launches> {
    use sys::CUdevice_attribute as Attribute;
    result::init()?; // the runtime has found the library
    let device = result::device::get(0)?;
    // SAFETY: the device exists; its context stays until the process ends, and is current on this thread.
    let (major, minor) = unsafe {
        result::ctx::set_current(result::primary_ctx::retain(device)?)?;
        let capability = |attribute| result::device::get_attribute(device, attribute);
        (
            capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
            capability(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
        )
    };
    let image = compile_for(&PROGRAM, &format!("sm_{major}{minor}"))?;
    let stream = result::stream::create(result::stream::StreamKind::NonBlocking)?;
    // SAFETY: the image was made by the compiler; module and memory stay until the process ends.
    let (function, mut memory) = unsafe {
        let module = result::module::load_data(image.as_ptr().cast())?;
        (result::module::get_function(module, c"touch".to_owned())?, result::malloc_sync(size_of::<f64>())?)
    };
    let mut run = move |count: usize| {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the kernel's argument is the address of memory for one number.
            unsafe {
                let arguments = &mut [ptr::from_mut(&mut memory).cast()];
                result::launch_kernel(function, (1, 1, 1), (64, 1, 1), 0, stream, arguments)?;
            }
        }
        // SAFETY: the stream exists.
        unsafe { result::stream::synchronize(stream)? };
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    };
    run(1)?;
    Ok(Box::new(run))
}
