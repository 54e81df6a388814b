//! An emulated device: a separate address space in host memory, with a capacity, a speed and slow links.
//!
//! It runs CPU bodies on its own replicas, so that every code path for coherence, eviction and overlap can be
//! exercised on a machine without any accelerator. It emulates neither the arithmetic of a real device nor its many
//! threads.

use super::Buffer;
use super::device::{Copying, Device, DeviceCopy, End, Execution, Synchronous};
use crate::coherence::CopyId;
use crate::depend::Site;
use crate::error::DeviceError;
use crate::kernel::DeviceSite;
use crate::memory::dlpack::DlDevice;
use crate::memory::{BoxCopy, copy_box};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// The name of the interface in errors.
const API: &str = "emulated";

/// Copies of at least this many bytes are made by a separate thread, even on a device without delays.
const APART_FROM_BYTES: u64 = 256 << 10;

/// The minimum speed, at which a body of one microsecond takes one second.
const LEAST_SPEED: f64 = 1e-6;
const LONGEST_LATENCY: Duration = Duration::from_secs(3600);

/// Describes the behaviour of an emulated device.
///
/// ```
/// use thalweg::prelude::*;
/// use std::time::Duration;
/// let slow = EmulatedDevice::new().capacity_bytes(1 << 20).speed(0.5).copy_delay(Duration::from_micros(10), 1e9);
/// let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(move |_| slow.clone()).build()?;
/// let x = rt.data(vec![1.0; 100]);
/// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
/// assert_eq!(rt.take(x)?, [2.0; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, PartialEq)]
pub struct EmulatedDevice {
    capacity_bytes: u64,
    speed: f64,
    copy_latency: Duration,
    copy_bytes_per_second: f64,
    lost_after_tasks: u64,
    failing_copy: u64,
    holds_bytes: u64,
    refused_allocation: u64,
    /// Whether each copy, whatever its size, is left to the copy engine.
    explored: bool,
}

/// A running emulated device. Its counters determine when scripted faults occur.
#[derive(Debug)]
pub(crate) struct Emulated {
    description: EmulatedDevice,
    name: String,
    tasks: AtomicU64,
    copies: AtomicU64,
    allocations: AtomicU64,
    used_bytes: Arc<AtomicU64>,
}

/// An allocation on an emulated device, counted against the device's capacity.
struct Counted {
    bytes: u64,
    used_bytes: Arc<AtomicU64>,
    _memory: Buffer,
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.used_bytes.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

impl Default for EmulatedDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl EmulatedDevice {
    /// Describes a device with 1 GiB of memory that computes as fast as a core and copies at the speed of host
    /// memory.
    pub fn new() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            speed: 1.0,
            copy_latency: Duration::ZERO,
            copy_bytes_per_second: f64::INFINITY,
            lost_after_tasks: u64::MAX,
            failing_copy: u64::MAX,
            holds_bytes: u64::MAX,
            refused_allocation: u64::MAX,
            explored: false,
        }
    }

    /// Scripts a fault: the device is lost after this many tasks. The next task that the device begins fails, and
    /// data that was only in the device's memory is lost.
    #[must_use]
    pub fn lost_after_tasks(self, tasks: u64) -> Self {
        Self { lost_after_tasks: tasks, ..self }
    }

    /// Scripts a fault: the copy with this index, counted from 0, fails, and the device continues to work.
    #[must_use]
    pub fn failing_copy(self, number: u64) -> Self {
        Self { failing_copy: number, ..self }
    }

    /// Scripts a fault: allocations that exceed this many bytes in total are refused, regardless of the capacity, as
    /// on a device that is shared with other processes.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let shared = EmulatedDevice::new().capacity_bytes(2000).holds_bytes(1000);
    /// let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(move |_| shared.clone()).build()?;
    /// let data: Vec<_> = (0..4).map(|_| rt.data(vec![1.0; 50])).collect();
    /// for x in &data {
    ///     rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// }
    /// rt.wait()?;
    /// assert!(rt.statistics().evictions >= 2, "2 of 4 fit, though all should");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn holds_bytes(self, bytes: u64) -> Self {
        Self { holds_bytes: bytes, ..self }
    }

    /// Scripts a fault: the allocation with this index, counted from 0, is refused.
    #[must_use]
    pub fn refused_allocation(self, number: u64) -> Self {
        Self { refused_allocation: number, ..self }
    }

    /// Sets the capacity of the device's memory.
    #[must_use]
    pub fn capacity_bytes(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }

    /// Sets the device's speed relative to a core, from 0.000001 to 1. At a speed of 0.5, a body takes twice as long.
    /// An emulated device cannot be faster than the host.
    #[must_use]
    pub fn speed(self, speed: f64) -> Self {
        Self { speed, ..self }
    }

    /// Sets the latency of a copy, which must be at most an hour, and its bandwidth in bytes per second, which must
    /// be at least 1.
    #[must_use]
    pub fn copy_delay(self, latency: Duration, bytes_per_second: f64) -> Self {
        Self { copy_latency: latency, copy_bytes_per_second: bytes_per_second, ..self }
    }

    /// Describes the device as an exploration has it: without delays, with all copies left to the copy engine, and with
    /// at most this much memory, of which other programs leave `holds_bytes`.
    pub(crate) fn explored(self, capacity_bytes: u64, holds_bytes: u64) -> Self {
        Self {
            capacity_bytes: self.capacity_bytes.min(capacity_bytes),
            holds_bytes: self.holds_bytes.min(holds_bytes),
            speed: 1.0,
            copy_latency: Duration::ZERO,
            copy_bytes_per_second: f64::INFINITY,
            explored: true,
            ..self
        }
    }

    /// Returns a description of the first invalid setting, if any.
    pub(crate) fn problem(&self) -> Option<String> {
        let Self { speed, copy_latency: latency, copy_bytes_per_second: rate, .. } = *self;
        if !(LEAST_SPEED..=1.0).contains(&speed) {
            return Some(format!("a speed of {speed} cannot be emulated; try one from {LEAST_SPEED} to 1"));
        }
        if rate.is_nan() || rate < 1.0 {
            return Some(format!("{rate} bytes a second cannot be emulated; try 1 or more"));
        }
        if latency > LONGEST_LATENCY {
            return Some(format!(
                "a latency of {latency:?} cannot be emulated; try one of at most {LONGEST_LATENCY:?}"
            ));
        }
        (self.capacity_bytes == 0).then(|| "a memory of 0 bytes holds no data".to_owned())
    }

    fn delay(&self, bytes: u64) -> Duration {
        // This cannot overflow, because `problem` has checked that the rate is at least 1 byte per second, and there
        // are fewer than 2⁶⁴ bytes.
        self.copy_latency + Duration::from_secs_f64(bytes as f64 / self.copy_bytes_per_second)
    }
}

impl Emulated {
    /// Creates the device, with all counters at zero.
    pub(super) fn new(description: EmulatedDevice, name: String) -> Self {
        let [tasks, copies, allocations, used] = [0; 4].map(AtomicU64::new);
        Self { description, name, tasks, copies, allocations, used_bytes: Arc::new(used) }
    }
}

impl Device for Emulated {
    fn execution(&self) -> Execution<'_> {
        Execution::Here(self)
    }

    fn domain(&self) -> (&'static str, usize) {
        (API, 0)
    }

    fn capacity_bytes(&self) -> u64 {
        self.description.capacity_bytes
    }

    fn copies_apart(&self) -> bool {
        true
    }

    fn dlpack(&self) -> Option<DlDevice> {
        Some(DlDevice::HOST)
    }

    fn allocate(&self, bytes: u64, align: usize) -> Result<Buffer, DeviceError> {
        let (number, used) = (&self.allocations, &self.used_bytes);
        let fits = |used: u64| used.checked_add(bytes).filter(|sum| *sum <= self.description.holds_bytes);
        let refused = number.fetch_add(1, Ordering::Relaxed) == self.description.refused_allocation;
        if refused || used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_err() {
            let device = self.name.clone();
            return Err(DeviceError::OutOfMemory { device, needed_bytes: bytes, in_use_bytes: 0, api: API, code: -1 });
        }
        let memory = Buffer::guarded(usize::try_from(bytes).expect("a replica fits the address space"), align);
        Ok(memory.owned_by(|memory| Counted { bytes, used_bytes: used.clone(), _memory: memory }))
    }

    fn end(&self, DeviceSite { base, offset_bytes, strides, .. }: DeviceSite) -> End {
        let base: *mut u8 = std::ptr::with_exposed_provenance_mut(base);
        End::Host { first: base.wrapping_add(offset_bytes), strides, locked: false }
    }

    unsafe fn copy(&self, copy: &DeviceCopy, _: CopyId) -> Result<Copying, DeviceError> {
        if self.description.explored
            || copy.bytes() >= APART_FROM_BYTES
            || !self.description.delay(copy.bytes()).is_zero()
        {
            return Ok(Copying::Apart);
        }
        // SAFETY: the caller keeps both boxes valid and exclusive until the copy has ended, and the copy ends before
        // this function returns.
        unsafe { self.copy_now(copy)? };
        Ok(Copying::Arrived)
    }

    unsafe fn copy_now(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        if self.copies.fetch_add(1, Ordering::Relaxed) == self.description.failing_copy {
            let (device, what) = (self.name.clone(), "scripted fault".to_owned());
            return Err(DeviceError::Call { device, call: "copy", api: API, code: -1, what });
        }
        let start = Instant::now();
        let [from, to] = [copy.from, copy.to].map(|end| match end {
            End::Host { first, strides, .. } => Site { first, strides },
            End::Device(_) => unreachable!("accelerators copy from and to their memory themselves"),
        });
        // SAFETY: the caller keeps both boxes valid and exclusive until this function returns, because the engine
        // pins the replicas.
        unsafe { copy_box(&BoxCopy { from, to, extents: copy.extents, element_bytes: copy.element_bytes }) };
        let rest = self.description.delay(copy.bytes()).saturating_sub(start.elapsed());
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
        Ok(())
    }
}

impl Synchronous for Emulated {
    fn run(&self, body: &mut dyn FnMut()) -> Result<(), DeviceError> {
        if self.tasks.fetch_add(1, Ordering::Relaxed) >= self.description.lost_after_tasks {
            return Err(DeviceError::Lost { device: self.name.clone(), what: "scripted fault".to_owned() });
        }
        let start = Instant::now();
        body();
        if self.description.speed < 1.0 {
            std::thread::sleep(start.elapsed().mul_f64(1.0 / self.description.speed - 1.0));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Copies this many bytes from the host to the device, and checks that they arrived unchanged.
    fn copying(description: EmulatedDevice, bytes: usize) -> Copying {
        let (device, mut host) = (Emulated::new(description, "one".to_owned()), vec![7u8; bytes]);
        let memory = device.allocate(bytes as u64, 128).unwrap();
        assert!(memory.base().is_multiple_of(128));
        let (strides, extents) = ([bytes, bytes, bytes, 1], [1, 1, 1, bytes]);
        let from = End::Host { first: host.as_mut_ptr(), strides, locked: false };
        let to = device.end(DeviceSite { base: memory.base(), offset_bytes: 0, strides, extents });
        let copy = DeviceCopy { from, to, extents, element_bytes: 1 };
        assert_eq!(copy.bytes(), bytes as u64);
        // SAFETY: both ends belong to this test, and the copy has ended when `copy_now` returns.
        let copying = unsafe {
            let copying = device.copy(&copy, CopyId(0)).unwrap();
            if copying == Copying::Apart {
                device.copy_now(&copy).unwrap();
            }
            copying
        };
        let End::Host { first, .. } = to else { panic!("an emulated device is in host memory") };
        // SAFETY: `bytes` bytes were just copied to this address.
        assert_eq!(unsafe { std::slice::from_raw_parts(first, bytes) }, host);
        copying
    }

    #[test]
    fn large_or_slow_copies_are_made_apart() {
        let large = APART_FROM_BYTES as usize;
        assert_eq!(copying(EmulatedDevice::new(), large - 1), Copying::Arrived);
        assert_eq!(copying(EmulatedDevice::new(), large), Copying::Apart);
        let slow = EmulatedDevice::new().copy_delay(Duration::from_nanos(1), f64::INFINITY);
        assert_eq!(copying(slow, 8), Copying::Apart);
    }
}
