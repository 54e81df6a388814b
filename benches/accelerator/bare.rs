//! The same launches as direct calls to the vendor's interface: the baseline for the runtime.

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

/// Launches the given number of kernels and returns the time per launch in nanoseconds.
pub(crate) type Launches = Box<dyn FnMut(usize) -> Result<f64>>;

/// Returns a function that launches kernels directly on the first device of the kind in `setting`. Returns `None` if
/// this file does not implement that interface.
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
    // SAFETY: the device belongs to the context, and no host memory is passed, so no pointer has to stay valid.
    let (queue, buffer) = unsafe {
        let queue = CommandQueue::create(&context, device, 0).map_err(failed)?;
        (queue, Buffer::<f64>::create(&context, CL_MEM_READ_WRITE, 1, ptr::null_mut()).map_err(failed)?)
    };
    let run = move |count: usize| {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the arguments match the kernel's parameters, a buffer and an offset, and the buffer outlives all
            // work in the queue.
            unsafe {
                kernel.set_arg(0, &buffer).map_err(failed)?;
                kernel.set_arg(1, &0u64).map_err(failed)?;
                let (threads, group) = ([64usize, 1, 1], [64usize, 1, 1]);
                let event =
                    queue.enqueue_nd_range_kernel(kernel.get(), 3, ptr::null(), threads.as_ptr(), group.as_ptr(), &[]);
                event.map_err(failed)?;
            }
            queue.flush().map_err(failed)?; // the runtime also flushes, so that the device starts
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
    result::init()?; // cannot fail to find the library: the runtime has already loaded it
    let device = result::device::get(0)?;
    // SAFETY: the device exists, and its context is current on this thread and lives until the process ends.
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
    // SAFETY: the image comes from the compiler, so it is valid; the module and the memory live until the process ends.
    let (function, mut memory) = unsafe {
        let module = result::module::load_data(image.as_ptr().cast())?;
        (result::module::get_function(module, c"touch".to_owned())?, result::malloc_sync(size_of::<f64>())?)
    };
    let mut run = move |count: usize| {
        let start = Instant::now();
        for _ in 0..count {
            // SAFETY: the kernel's only argument is the address of memory for one number, which is all that the kernel
            // touches.
            unsafe {
                let arguments = &mut [ptr::from_mut(&mut memory).cast()];
                result::launch_kernel(function, (1, 1, 1), (64, 1, 1), 0, stream, arguments)?;
            }
        }
        // SAFETY: the stream was created above and has not been destroyed.
        unsafe { result::stream::synchronize(stream)? };
        Ok(start.elapsed().as_nanos() as f64 / count as f64)
    };
    run(1)?;
    Ok(Box::new(run))
}
