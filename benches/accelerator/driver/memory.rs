//! Costs of allocation and page-locking, on an idle device and while a kernel runs.

use super::{Figure, figure};
use crate::cuda::{Cuda, Work, time};
use crate::{Result, Setting};

pub(super) fn measure(cuda: &Cuda, setting: &Setting) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for bytes in [512, 64 << 10, 2 << 20, setting.bytes] {
        let (buffer, allocating) = time(|| cuda.allocate(bytes))?;
        let ((), freeing) = time(|| cuda.free(buffer))?;
        let name = format!("cuMemAlloc of {} KiB", bytes as f64 / 1024.0);
        figures.push(figure(name, allocating, "us", format!("cuMemFree {freeing:.1} us")));
    }
    let bytes = 4 * setting.bytes;
    let mut memory = vec![1u8; bytes];
    let [locking, unlocking] = cuda.lock(&mut memory)?;
    let note = format!("cuMemHostUnregister {:.2} ms", unlocking / 1e3);
    figures.push(figure(format!("cuMemHostRegister of {} MiB", bytes >> 20), locking / 1e3, "ms", note));
    let (locked, allocating) = time(|| cuda.locked(bytes))?;
    drop(locked);
    let note = "with the first write";
    figures.push(figure(format!("cuMemHostAlloc of {} MiB", bytes >> 20), allocating / 1e3, "ms", note));
    figures.extend(while_a_kernel_runs(cuda)?);
    Ok(figures)
}

/// Times a call that is made while a kernel runs on another stream.
fn during<T>(cuda: &Cuda, kernel: Work, name: &str, call: impl FnOnce() -> Result<T>) -> Result<(T, Figure)> {
    cuda.synchronize_all()?;
    cuda.launch(kernel, 0)?;
    let (value, took) = time(call)?;
    let ((), rest) = time(|| cuda.synchronize(0))?;
    let note = format!("the kernel ran for {rest:.0} us more");
    Ok((value, figure(format!("{name}, while a kernel runs"), took, "us", note)))
}

/// Measures which calls wait for a kernel of 50 ms.
fn while_a_kernel_runs(cuda: &Cuda) -> Result<Vec<Figure>> {
    let kernel = Work::Busy(cuda.rounds(50_000.0)?);
    let (buffer, allocating) = during(cuda, kernel, "cuMemAlloc of 64 MiB", || cuda.allocate(64 << 20))?;
    let ((), freeing) = during(cuda, kernel, "cuMemFree of 64 MiB", || cuda.free(buffer))?;
    let (_, on_host) = during(cuda, kernel, "cuMemHostAlloc of 1 MiB", || cuda.locked(1 << 20))?;
    let mut memory = vec![1u8; 16 << 20];
    let name = "cuMemHostRegister and Unregister of 16 MiB";
    let (_, locking) = during(cuda, kernel, name, || cuda.lock(&mut memory))?;
    let (module, loading) = during(cuda, kernel, "cuModuleLoadData", || cuda.load_again())?;
    let ((), first) = during(cuda, kernel, "the first launch of that module, to its end", || {
        cuda.launch(module, 1)?;
        cuda.synchronize(1)
    })?;
    let mut figures = vec![allocating, freeing, on_host, locking, loading, first];
    // The second time, the pool has the memory. A driver without pools has no such figures.
    for name in ["cuMemAllocAsync of 64 MiB, first", "cuMemAllocAsync of 64 MiB, again"] {
        let (times, both) = during(cuda, kernel, name, || cuda.pooled(64 << 20, 1))?;
        if let Some([allocating, freeing]) = times {
            let note = format!("cuMemFreeAsync {freeing:.1} us; {}", both.note);
            figures.push(figure(both.name, allocating, "us", note));
        }
    }
    Ok(figures)
}
