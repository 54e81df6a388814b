//! The same launches as direct calls to the vendor's interface: the baseline for the runtime.

use super::cuda::{Cuda, Work, time};
use super::launches::{RECORDED, TEXT};
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

/// Launches the given number of kernels and returns the time per kernel in nanoseconds.
type Launches = Box<dyn FnMut(usize) -> Result<f64>>;

/// Direct calls to an interface.
pub(crate) struct Bare {
    /// Launches kernels one by one.
    pub(crate) launches: Launches,
    /// Launches graphs that are chains of [`RECORDED`] kernels each.
    pub(crate) graphs: Option<Launches>,
}

/// Returns functions that launch kernels directly on the first device of the kind in `setting`. Returns `None` if this
/// file does not implement that interface.
pub(crate) fn launches(setting: &Setting) -> Result<Option<Bare>> {
    match setting.kind {
        UnitKind::OpenCl | UnitKind::Fpga => opencl().map(Some),
        UnitKind::Cuda => cuda().map(Some),
        _ => Ok(None),
    }
}

#[allow(unsafe_code)] // the interface's calls are unsafe
fn opencl() -> Result<Bare> {
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
    Ok(Bare { launches: Box::new(run), graphs: None })
}

fn cuda() -> Result<Bare> {
    let cuda: &'static Cuda = Box::leak(Box::new(Cuda::open()?)); // closures below use it until the process ends
    let launches = move |count: usize| {
        let ((), all) = time(|| {
            (0..count).try_for_each(|_| cuda.launch(Work::Touch, 0))?;
            cuda.synchronize(0)
        })?;
        Ok(all * 1e3 / count as f64)
    };
    launches(1)?;
    let graph = cuda.graph(Work::Touch, RECORDED, 1)?;
    let graphs = move |count: usize| {
        let launches = count.div_ceil(RECORDED);
        let ((), all) = time(|| {
            (0..launches).try_for_each(|_| cuda.launch_graph(&graph, 0))?;
            cuda.synchronize(0)
        })?;
        Ok(all * 1e3 / (launches * RECORDED) as f64)
    };
    graphs(1)?;
    Ok(Bare { launches: Box::new(launches), graphs: Some(Box::new(graphs)) })
}

/// Copies blocks to the device and back, each back as soon as it is there. The blocks are in page-locked memory.
/// Returns the time of all copies in seconds.
pub(crate) fn copies(cuda: &Cuda, blocks: usize, bytes: usize) -> Result<f64> {
    let buffers = (0..blocks).map(|_| cuda.allocate(bytes)).collect::<Result<Vec<_>>>()?;
    let mut host = (0..blocks).map(|_| cuda.locked(bytes)).collect::<Result<Vec<_>>>()?;
    let mut fastest = f64::INFINITY;
    for _ in 0..5 {
        let ((), all) = time(|| {
            for (buffer, host) in buffers.iter().zip(&mut host) {
                let event = cuda.event()?;
                cuda.copy_in(buffer, host, 0)?;
                cuda.record(&event, 0)?;
                cuda.wait(1, &event)?;
                cuda.copy_out(host, buffer, 1)?;
            }
            cuda.synchronize(0).and_then(|()| cuda.synchronize(1))
        })?;
        fastest = fastest.min(all);
    }
    Ok(fastest / 1e6)
}
