//! Measurement of a device's copy bandwidth and launch latency.

use super::interfaces::InterfaceId;
use super::{Accelerator, Completion, DeviceCopy, End, Mark};
use crate::error::DeviceError;
use crate::ids::TaskId;
use crate::kernel::{DeviceSite, DeviceViewMut, Kernel, Launcher, Program, Write};
use std::time::Instant;

const BYTES: usize = 64 << 20;
const REPETITIONS: usize = 5;
const LAUNCHES: u64 = 200;

const TEXT: &str = "KERNEL(64, 1, 1) touch(INOUT(double, x, 1)) { REGION(x); if (GLOBAL_ID(0) == 0) x[0] += 1; }";
// SAFETY: the kernel touches only the first element of x.
const PROGRAM: Program = unsafe { Program::new("measure.cl", TEXT) };
static TOUCH: Kernel<(Write<f64>,)> = Kernel::new(&PROGRAM, "touch");

/// Measured performance of a device. Each figure is the best of several repetitions.
///
/// ```
/// for interface in thalweg::devices::interfaces() {
///     for number in 0..interface.devices.len() {
///         let measured = thalweg::devices::measurement(interface.name, number)?;
///         println!("{}: {:.1} GB/s", interface.devices[number].name, measured.to_device_bytes_per_s * 1e-9);
///     }
/// }
/// # Ok::<(), thalweg::error::DeviceError>(())
/// ```
#[derive(Debug, Clone, Copy)]
#[non_exhaustive]
pub struct Measurement {
    /// Copy bandwidth from the host to the device, in bytes per second. The host memory is page-locked if possible.
    pub to_device_bytes_per_s: f64,
    /// Copy bandwidth from the device to the host, in bytes per second.
    pub from_device_bytes_per_s: f64,
    /// The time in nanoseconds from the launch of a kernel with a single thread group until the host finds that the
    /// kernel has ended.
    pub round_trip_ns: u64,
    /// The time in nanoseconds per kernel in a chain of 200 kernels, without any host waits in between.
    pub launch_ns: u64,
}

/// Measures the copy bandwidth and latencies of an interface's device with index `number`.
///
/// ```
/// let error = thalweg::devices::measurement("CUDA", 4096).unwrap_err();
/// assert_eq!(error.to_string(), "CUDA device 4096 was lost: it is not there");
/// ```
///
/// # Errors
/// Returns an error if there is no such device, or if the device fails.
pub fn measurement(interface: &str, number: usize) -> Result<Measurement, DeviceError> {
    let device = format!("{interface} device {number}");
    let missing = || DeviceError::Lost { device: device.clone(), what: "it is not there".to_owned() };
    let interface = InterfaceId::ALL.into_iter().find(|known| known.name() == interface).ok_or_else(missing)?;
    let found = interface.find().map_err(|_| missing())?;
    measure(&*found.get(number).ok_or_else(missing)?.open(false)?)
}

/// Measures a device.
///
/// # Errors
/// Returns an error if the device fails.
fn measure(device: &dyn Accelerator) -> Result<Measurement, DeviceError> {
    let memory = device.allocate(BYTES as u64, 1)?;
    let mut host = vec![1u8; BYTES];
    // SAFETY: the vector outlives the lock, because the lock is dropped first.
    let lock = unsafe { device.pin_memory(host.as_mut_ptr(), BYTES) };
    let (strides, extents) = ([BYTES, BYTES, BYTES, 1], [1, 1, 1, BYTES]);
    let here = End::Host { first: host.as_mut_ptr(), strides, locked: lock.is_some() };
    let there = End::Device(DeviceSite { base: memory.base(), offset_bytes: 0, strides, extents });
    let rate = |from, to| -> Result<f64, DeviceError> {
        let copy = DeviceCopy { from, to, extents, element_bytes: 1 };
        let mut best = f64::INFINITY;
        for _ in 0..REPETITIONS {
            let start = Instant::now();
            // SAFETY: both ends belong to this function, and the copy has ended when the call returns.
            unsafe { device.copy_now(&copy)? };
            best = best.min(start.elapsed().as_secs_f64());
        }
        Ok(BYTES as f64 / best)
    };
    let (to_device_bytes_per_s, from_device_bytes_per_s) = (rate(here, there)?, rate(there, here)?);
    drop(lock);

    let site = DeviceSite { base: memory.base(), offset_bytes: 0, strides: [1; 4], extents: [1; 4] };
    run(device, 0..1, site)?; // compiles the kernel
    let mut round_trip_ns = u64::MAX;
    for _ in 0..20 {
        round_trip_ns = round_trip_ns.min(run(device, 0..1, site)?);
    }
    let mut launch_ns = u64::MAX;
    for _ in 0..REPETITIONS {
        launch_ns = launch_ns.min(run(device, 0..LAUNCHES, site)? / LAUNCHES);
    }
    Ok(Measurement { to_device_bytes_per_s, from_device_bytes_per_s, round_trip_ns, launch_ns })
}

/// Runs kernels one after the other, and returns the time in nanoseconds until the last kernel has ended.
fn run(device: &dyn Accelerator, tasks: std::ops::Range<u64>, site: DeviceSite) -> Result<u64, DeviceError> {
    let start = Instant::now();
    let mut left = tasks.end - tasks.start;
    for task in tasks {
        let after = if task > 0 { vec![TaskId(task - 1)] } else { Vec::new() };
        let mut session = device.open(TaskId(task), &after, &[])?;
        let mut view = DeviceViewMut::<f64>::new(site);
        Launcher::new(&mut *session).launch(&TOUCH, 1, (&mut view,))?;
        session.close(false)?;
    }
    let mut ended = Vec::new();
    while left > 0 {
        device.poll(&mut ended);
        for Completion { mark, result } in ended.drain(..) {
            debug_assert!(matches!(mark, Mark::Task(_)));
            result?;
            left -= 1;
        }
        std::hint::spin_loop();
    }
    Ok(start.elapsed().as_nanos() as u64)
}
