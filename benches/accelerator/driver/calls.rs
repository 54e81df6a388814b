//! Costs of calls, and the number of streams whose kernels run concurrently.

use super::{Figure, figure};
use crate::Result;
use crate::Setting;
use crate::cuda::{Cuda, Work, time};

/// Returns the time of a call in microseconds, as the mean of `count` calls.
fn each(count: usize, mut call: impl FnMut(usize) -> Result<()>) -> Result<f64> {
    let ((), all) = time(|| (0..count).try_for_each(&mut call))?;
    Ok(all / count as f64)
}

pub(super) fn calls(cuda: &Cuda, setting: &Setting) -> Result<Vec<Figure>> {
    let count = (setting.tasks / 20).max(20);
    let (event, buffer) = (cuda.event()?, cuda.allocate(64)?);
    let mut figures = vec![figure("cuCtxSetCurrent", each(count, |_| cuda.bind())?, "us", "")];
    for streams in [1, 4, 16, 32] {
        cuda.launch(Work::Touch, 0)?;
        cuda.synchronize_all()?;
        let (call, wall) = time(|| {
            let call = each(count, |n| cuda.launch(Work::Touch, n % streams))?;
            (0..streams).try_for_each(|stream| cuda.synchronize(stream)).map(|()| call)
        })?;
        let note = format!("{:.2} us until the end", wall / count as f64);
        figures.push(figure(format!("cuLaunchKernel, {streams} streams"), call, "us", note));
    }
    figures.push(figure("cuEventRecord", each(count, |_| cuda.record(&event, 0))?, "us", ""));
    cuda.synchronize(0)?;
    let over = each(count, |_| cuda.is_over(&event).map(drop))?;
    figures.push(figure("cuEventQuery, over", over, "us", ""));
    let long = cuda.rounds(5000.0)?;
    cuda.launch(Work::Busy(long), 0)?;
    cuda.record(&event, 0)?;
    let mut early = 0;
    let pending = each(count, |_| cuda.is_over(&event).map(|over| early += usize::from(!over)))?;
    figures.push(figure("cuEventQuery, not over", pending, "us", format!("{early} of {count} were not")));
    figures.push(figure("cuStreamWaitEvent", each(count, |n| cuda.wait(1 + n % 8, &event))?, "us", ""));
    cuda.synchronize_all()?;
    figures.push(figure("cuPointerGetAttribute", each(count, |_| cuda.owner(&buffer))?, "us", ""));
    let host = cuda.locked(64)?;
    let copy = each(count, |_| cuda.copy_in(&buffer, &host, 0))?;
    cuda.synchronize(0)?;
    figures.push(figure("cuMemcpyHtoDAsync of 64 bytes, page-locked", copy, "us", ""));
    Ok(figures)
}

/// Kernels per stream.
const DEPTH: usize = 24;

/// Measures how many kernels run side by side. CUDA maps streams to hardware queues, 8 unless
/// `CUDA_DEVICE_MAX_CONNECTIONS` says otherwise, and kernels in one queue may wait for each other.
pub(super) fn concurrency(cuda: &Cuda, setting: &Setting) -> Result<Vec<Figure>> {
    let one = if setting.bench { 100.0 } else { 10.0 };
    let work = Work::Busy(cuda.rounds(one)?);
    let run = |streams: usize, by_stream: bool| {
        let order = |n| if by_stream { n / DEPTH } else { n % streams };
        let (calls, wall) = time(|| {
            let ((), calls) = time(|| (0..streams * DEPTH).try_for_each(|n| cuda.launch(work, order(n))))?;
            cuda.synchronize_all().map(|()| calls)
        })?;
        Ok::<_, Box<dyn std::error::Error>>((calls, wall))
    };
    let (_, alone) = run(1, true)?;
    let mut figures = Vec::new();
    for streams in [2, 4, 8, 16, 32, 64] {
        for (by_stream, how) in [(true, "stream after stream"), (false, "one for each stream in rotation")] {
            let (calls, wall) = run(streams, by_stream)?;
            let name = format!("{streams} streams of {DEPTH} kernels, {how}");
            figures.push(figure(name, wall / alone, "x", format!("1 is one stream alone; calls took {calls:.0} us")));
        }
    }
    Ok(figures)
}
