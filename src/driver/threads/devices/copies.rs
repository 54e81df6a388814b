//! Copies between memories: performed by a device, by its copy engine, or through the host.

use super::Devices;
use crate::coherence::CopyId;
use crate::device::{Copying, Device, DeviceCopy, End};
use crate::engine::{CopyOrder, CopyTime, Event, Nanos};
use crate::error::DeviceError;
use crate::ids::DeviceId;
use crate::memory::strides_of;
use crate::region::MAX_DIMS;
use std::sync::atomic::Ordering;
use std::time::Instant;

/// Minimum size of a unified-memory region that is prefetched. Pages of smaller regions move at the first access.
const PREFETCH_FROM_BYTES: usize = 1 << 16;

/// A command to a device's copy engine.
pub(in crate::driver::threads) enum CopyJob {
    /// Perform a copy, from the device `via` through the host if there is one.
    Copy { id: CopyId, via: Option<DeviceId>, copy: Box<DeviceCopy> },
    /// Stop the copy engine.
    Stop,
}

impl CopyJob {
    /// Returns the copy's number.
    pub(in crate::driver::threads) fn number(&self) -> u64 {
        match self {
            Self::Copy { id, .. } => id.0,
            Self::Stop => u64::MAX,
        }
    }
}

// SAFETY: the addresses belong to replicas that stay pinned until the copy is reported as finished, so they remain
// valid on the copy engine's thread.
unsafe impl Send for CopyJob {}

impl Devices {
    /// Performs or starts a copy. If the copy was performed synchronously, returns the resulting event.
    pub(in crate::driver::threads) fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
        let start = Instant::now();
        match self.start_copy(order) {
            Ok(true) if order.unified => Some(Event::Copied(order.copy, None)),
            Ok(true) => Some(Event::Copied(order.copy, Some(CopyTime::alone(start.elapsed().as_nanos() as Nanos)))),
            Ok(false) => None,
            Err(error) => {
                let device = order.to.space.device().or(order.from.space.device());
                let device = device.expect("a copy has a device at one end at least");
                Some(Event::CopyFailed(order.copy, device, error))
            }
        }
    }

    /// Performs or starts a copy. Returns whether the copy is already complete.
    fn start_copy(&self, order: &CopyOrder) -> Result<bool, DeviceError> {
        let CopyOrder { copy: id, block, element_bytes, .. } = order;
        let (source, target) = (order.from.space.device(), order.to.space.device());
        if order.unified {
            return self.start_prefetch(order);
        }
        if source.is_some() && !self.replicas.contains_key(&order.from.replica) {
            return Ok(true); // the task was skipped, so its replica was never written or allocated
        }
        // Page-locked memory does not speed up the copies of an emulated device.
        if target.or(source).is_some_and(|device| self.accelerator(device).is_some()) {
            let bytes = (block.volume() * element_bytes) as u64;
            let homes = [&order.from, &order.to].into_iter().filter(|place| place.space.is_host());
            homes.for_each(|place| self.prepare_home(place.data, bytes));
        }
        let [from, to] = [&order.from, &order.to].map(|place| self.end(place, block, *element_bytes));
        let copy = DeviceCopy { from: from?, to: to?, extents: block.extents(), element_bytes: *element_bytes };
        // If the host cannot reach a device's memory, that device performs the copy itself. Between two such devices,
        // the target performs the copy.
        let maker = match (copy.from, copy.to) {
            (End::Device(_), End::Host { .. }) => source,
            _ => target.or(source),
        };
        let maker = maker.expect("a copy has a device at one end at least");
        // Copies between devices that cannot reach each other wait for both of them.
        let via = source.filter(|source| {
            matches!((copy.from, copy.to), (End::Device(_), End::Device(_)))
                && self.domain(*source) != self.domain(maker)
        });
        let made = match via {
            Some(_) => Copying::Apart,
            // SAFETY: the copy pins both replicas, so their memory stays allocated. Until the copy has completed, the
            // directory lets nothing else write its source or use its target. The copied boxes are inside the boxes
            // that the replicas hold, so all accesses are in bounds.
            None => unsafe { self.devices[maker.index()].copy(&copy, *id)? },
        };
        match made {
            Copying::Arrived => return Ok(true),
            Copying::Enqueued => self.queue(maker).announce(),
            Copying::Apart => {
                self.copying.fetch_add(1, Ordering::SeqCst);
                let job = CopyJob::Copy { id: *id, via, copy: Box::new(copy) };
                let engine = usize::from(!matches!(copy.to, End::Host { .. }));
                if self.engines[maker.index()][engine].send(job).is_err() {
                    self.copied();
                    // SAFETY: the same argument as for the copy above.
                    unsafe { self.make(maker, via, &copy)? };
                    return Ok(true);
                }
            }
        }
        Ok(false)
    }

    /// Makes a copy and waits for its end. If `via` is a device, the copy comes from it through the host.
    ///
    /// # Safety
    /// Same contract as [`Device::copy_now`].
    unsafe fn make(&self, maker: DeviceId, via: Option<DeviceId>, copy: &DeviceCopy) -> Result<(), DeviceError> {
        let maker = &*self.devices[maker.index()];
        // SAFETY: the caller's promise.
        unsafe {
            match via {
                Some(source) => copy_through_host(&*self.devices[source.index()], maker, copy),
                None => maker.copy_now(copy),
            }
        }
    }

    /// Moves the pages of a block of unified memory to the space that uses them next. Returns whether the block needs
    /// no further work: the move is complete, or it would not pay off.
    fn start_prefetch(&self, order: &CopyOrder) -> Result<bool, DeviceError> {
        let (to, block) = (order.to.space.device(), &order.block);
        let Some(device) = to.or(order.from.space.device()) else { return Ok(true) };
        let home = self.home(order.to.data);
        let at = |place: &[usize; MAX_DIMS]| (0..MAX_DIMS).map(|d| place[d] * home.strides[d]).sum::<usize>();
        let (first, last) = (at(block.lo()), at(&block.hi().map(|index| index - 1)));
        let bytes = (last + 1 - first) * order.element_bytes;
        if bytes < PREFETCH_FROM_BYTES || self.is_lost(device) {
            return Ok(true);
        }
        let first = home.base.expose_provenance() + first * order.element_bytes;
        // SAFETY: both replicas of the home are pinned until the prefetch has ended, so the home stays allocated until
        // then.
        match unsafe { self.devices[device.index()].prefetch(first, bytes, to.is_none(), order.copy)? } {
            Copying::Arrived | Copying::Apart => Ok(true),
            Copying::Enqueued => {
                self.queue(device).announce();
                Ok(false)
            }
        }
    }

    /// Performs a job of a device's copy engine. Returns the resulting event, or `None` for [`CopyJob::Stop`].
    pub(in crate::driver::threads) fn serve(&self, device: DeviceId, job: &CopyJob) -> Option<Event<'static>> {
        let CopyJob::Copy { id, via, copy } = job else { return None };
        let start = Instant::now();
        // SAFETY: both replicas are pinned until the copy is reported as finished, so their memory stays allocated.
        // Until then the directory keeps all other users away, so nothing accesses the memory concurrently.
        let copied = unsafe { self.make(device, *via, copy) };
        let elapsed_ns = start.elapsed().as_nanos() as Nanos;
        let arrived = |()| Event::Copied(*id, Some(CopyTime::alone(elapsed_ns)));
        Some(copied.map_or_else(|error| Event::CopyFailed(*id, device, error), arrived))
    }

    /// Notes that a copy engine has finished a copy and processed its consequences.
    pub(in crate::driver::threads) fn copied(&self) {
        self.copying.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether any copy engine has work.
    pub(in crate::driver::threads) fn is_copying(&self) -> bool {
        self.copying.load(Ordering::SeqCst) > 0
    }

    /// Stops all copy engines, and the thread that page-locks memory.
    pub(in crate::driver::threads) fn stop(&self) {
        for engine in self.engines.iter().flatten() {
            let _ = engine.send(CopyJob::Stop); // sending fails only if the engine has already ended
        }
        let _ = self.locks.send(None); // likewise
    }
}

/// Copies between two devices that cannot reach each other's memory, through staging memory on the host.
///
/// # Safety
/// Same contract as [`Device::copy_now`].
unsafe fn copy_through_host(source: &dyn Device, target: &dyn Device, copy: &DeviceCopy) -> Result<(), DeviceError> {
    let mut staging = vec![0u8; copy.extents.iter().product::<usize>() * copy.element_bytes];
    let middle = End::Host { first: staging.as_mut_ptr(), strides: strides_of(&copy.extents), locked: false };
    // SAFETY: the caller keeps both ends valid until this function returns, and the local staging memory outlives both
    // copies, so all addresses are valid.
    unsafe {
        source.copy_now(&DeviceCopy { to: middle, ..*copy })?;
        target.copy_now(&DeviceCopy { from: middle, ..*copy })
    }
}
