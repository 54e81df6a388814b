//! An emulated device: an address space of its own in host memory, with a capacity, a speed and slow links.
//!
//! It runs the CPU bodies on its own replicas, so every path of coherence, eviction and overlap is taken on a machine
//! without any accelerator. What it does not emulate: a device's arithmetic, or its many threads.

use super::Buffer;
use crate::error::DeviceError;
use crate::memory::{BoxCopy, copy_box};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// Copies of at least this many bytes are made by the copy engine even on a device without delays.
const APART_FROM_BYTES: u64 = 256 << 10;

/// How an emulated device behaves.
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
}

/// An emulated device at work: what it has done decides when its scripted faults come.
#[derive(Debug)]
pub(crate) struct Emulated {
    description: EmulatedDevice,
    name: String,
    tasks: AtomicU64,
    copies: AtomicU64,
}

impl Default for EmulatedDevice {
    fn default() -> Self {
        Self::new()
    }
}

impl EmulatedDevice {
    /// 1 GiB of memory, as fast as a core, copies at the speed of host memory.
    pub fn new() -> Self {
        Self {
            capacity_bytes: 1 << 30,
            speed: 1.0,
            copy_latency: Duration::ZERO,
            copy_bytes_per_second: f64::INFINITY,
            lost_after_tasks: u64::MAX,
            failing_copy: u64::MAX,
        }
    }

    /// A scripted fault: after this many tasks the device is lost. The next task that it begins fails, and what was in its
    /// memory alone is gone.
    #[must_use]
    pub fn lost_after_tasks(self, tasks: u64) -> Self {
        Self { lost_after_tasks: tasks, ..self }
    }

    /// A scripted fault: the copy of this number, counted from 0, fails; the device goes on.
    #[must_use]
    pub fn failing_copy(self, number: u64) -> Self {
        Self { failing_copy: number, ..self }
    }

    /// How many bytes its memory holds.
    #[must_use]
    pub fn capacity_bytes(self, capacity_bytes: u64) -> Self {
        Self { capacity_bytes, ..self }
    }

    /// How fast it runs a body compared to a core; 0.5 takes twice as long. At most 1: it cannot outrun the host.
    #[must_use]
    pub fn speed(self, speed: f64) -> Self {
        Self { speed, ..self }
    }

    /// How long every copy takes at least, and how many bytes a second pass.
    #[must_use]
    pub fn copy_delay(self, latency: Duration, bytes_per_second: f64) -> Self {
        Self { copy_latency: latency, copy_bytes_per_second: bytes_per_second, ..self }
    }

    /// What is wrong with these figures, if anything.
    pub(crate) fn problem(&self) -> Option<String> {
        if !(self.speed > 0.0 && self.speed <= 1.0) {
            return Some(format!("a speed of {} cannot be emulated; it must be above 0 and at most 1", self.speed));
        }
        if self.copy_bytes_per_second.is_nan() || self.copy_bytes_per_second <= 0.0 {
            return Some(format!("{} bytes a second pass nothing; give a number above 0", self.copy_bytes_per_second));
        }
        (self.capacity_bytes == 0).then(|| "a memory of 0 bytes holds no data".to_owned())
    }

    fn delay(&self, bytes: u64) -> Duration {
        self.copy_latency + Duration::from_secs_f64(bytes as f64 / self.copy_bytes_per_second)
    }
}

impl Emulated {
    /// A device that has done nothing yet.
    pub(super) fn new(description: EmulatedDevice, name: String) -> Self {
        Self { description, name, tasks: AtomicU64::new(0), copies: AtomicU64::new(0) }
    }

    /// How many bytes its memory holds.
    pub(super) fn capacity_bytes(&self) -> u64 {
        self.description.capacity_bytes
    }

    /// Memory for a replica, zeroed; aligned as its elements are, and to 64 bytes at least.
    pub(crate) fn allocate(&self, bytes: u64, element_align: usize) -> Buffer {
        Buffer::in_host_memory(usize::try_from(bytes).expect("a replica fits the address space"), element_align)
    }

    /// Whether a copy of so many bytes takes long enough to be made on the device's own copy engine.
    pub(crate) fn copies_apart(&self, bytes: u64) -> bool {
        bytes >= APART_FROM_BYTES || !self.description.delay(bytes).is_zero()
    }

    /// Copies a box to, from or inside the device's memory; returns when it has arrived.
    ///
    /// # Errors
    /// If this copy was scripted to fail.
    ///
    /// # Safety
    /// As for [`crate::memory::copy_box`].
    pub(crate) unsafe fn copy(&self, copy: &BoxCopy) -> Result<(), DeviceError> {
        if self.copies.fetch_add(1, Ordering::Relaxed) == self.description.failing_copy {
            let (device, what) = (self.name.clone(), "as its script says".to_owned());
            return Err(DeviceError::Call { device, call: "copy", api: "emulated", code: -1, what });
        }
        let start = Instant::now();
        // SAFETY: the caller keeps both boxes valid and to itself until this returns: the engine pins the replicas of a
        // copy.
        unsafe { copy_box(copy) };
        let rest = self.description.delay(copy.bytes()).saturating_sub(start.elapsed());
        if !rest.is_zero() {
            std::thread::sleep(rest);
        }
        Ok(())
    }

    /// Runs a body at the device's speed.
    ///
    /// # Errors
    /// If the device is lost; then the body was not run.
    pub(crate) fn run(&self, body: &mut dyn FnMut()) -> Result<(), DeviceError> {
        if self.tasks.fetch_add(1, Ordering::Relaxed) >= self.description.lost_after_tasks {
            return Err(DeviceError::Lost { device: self.name.clone(), what: "as its script says".to_owned() });
        }
        let start = Instant::now();
        body();
        if self.description.speed < 1.0 {
            std::thread::sleep(start.elapsed().mul_f64(1.0 / self.description.speed - 1.0));
        }
        Ok(())
    }
}
