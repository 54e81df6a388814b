//! Rates of copies, and the time for which a copy that follows a kernel holds up its caller.

use super::{Figure, figure};
use crate::cuda::{Cuda, Work, time};
use crate::{Result, Setting};

pub(super) fn measure(cuda: &Cuda, setting: &Setting) -> Result<Vec<Figure>> {
    let most = setting.bytes.max(2 << 20);
    let buffer = cuda.allocate(most)?;
    let mut locked = cuda.locked(most)?;
    let mut pageable = vec![1u8; most];
    let mut figures = Vec::new();
    for bytes in [64 << 10, 1 << 20, most] {
        for is_locked in [true, false] {
            let host: &mut [u8] = if is_locked { &mut locked } else { &mut pageable };
            let host = &mut host[..bytes];
            let kind = if is_locked { "page-locked" } else { "pageable" };
            for inwards in [true, false] {
                let count = if bytes == most { 5 } else { 50 };
                let (mut calls, mut all) = (0.0, 0.0);
                for _ in 0..count {
                    let (call, copy) = time(|| {
                        let ((), call) = time(|| one(cuda, inwards, host, &buffer, 0))?;
                        cuda.synchronize(0).map(|()| call)
                    })?;
                    (calls, all) = (calls + call, all + copy);
                }
                let name = format!("copy {}, {kind}, {} KiB", if inwards { "in" } else { "out" }, bytes >> 10);
                let note = format!("the call {:.1} us", calls / f64::from(count));
                figures.push(figure(name, bytes as f64 * f64::from(count) / all / 1e3, "GB/s", note));
            }
        }
    }
    figures.extend(after_kernels(cuda, &mut pageable[..2 << 20], "pageable", &buffer)?);
    figures.extend(after_kernels(cuda, &mut locked[..2 << 20], "page-locked", &buffer)?);
    Ok(figures)
}

fn one(cuda: &Cuda, inwards: bool, host: &mut [u8], buffer: &crate::cuda::Buffer<'_>, stream: usize) -> Result<()> {
    if inwards { cuda.copy_in(buffer, host, stream) } else { cuda.copy_out(host, buffer, stream) }
}

/// Measures calls that copy after a kernel on the same stream, and while a kernel runs on another stream.
fn after_kernels(cuda: &Cuda, host: &mut [u8], kind: &str, buffer: &crate::cuda::Buffer<'_>) -> Result<Vec<Figure>> {
    let kernel = Work::Busy(cuda.rounds(20_000.0)?);
    let mut figures = Vec::new();
    for inwards in [true, false] {
        for stream in [0, 1] {
            cuda.launch(kernel, 0)?;
            let ((), call) = time(|| one(cuda, inwards, host, buffer, stream))?;
            let ((), end) = time(|| cuda.synchronize(stream))?;
            cuda.synchronize_all()?;
            let place = if stream == 0 { "after" } else { "beside" };
            let name = format!("copy {} {place} a kernel of 20 ms, {kind}", if inwards { "in" } else { "out" });
            figures.push(figure(name, call, "us", format!("the call; {end:.0} us more until the end")));
        }
    }
    Ok(figures)
}
