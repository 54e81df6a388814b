//! The devices of a runtime: replicas' memory, copy engines, and the addresses that bodies get.

#![allow(unsafe_code)] // addresses of replicas are computed here; every use states its reason

use super::device_queue::DeviceQueue;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::{AccessRecord, OwnedTask, Site};
use crate::device::{Accelerator, Buffer, Device, DeviceCopy, Emulated, End};
use crate::engine::{CopyOrder, Event, ReplicaRef};
use crate::error::DeviceError;
use crate::ids::{DataId, DeviceId};
use crate::kernel::DeviceSite;
use crate::memory::{BoxCopy, DataCell, strides_of};
use crate::region::{Block, MAX_DIMS};
use dashmap::{DashMap, Entry};
use std::sync::mpsc::{Receiver, Sender, channel};

/// Smaller arrays are not page-locked: that takes longer than it saves.
const PAGE_LOCK_FROM_BYTES: usize = 1 << 20;

/// All devices of one runtime.
pub(super) struct Devices {
    devices: Vec<Device>,
    /// What each accelerator has in flight.
    queues: Vec<DeviceQueue>,
    replicas: DashMap<ReplicaId, Buffer>,
    homes: DashMap<DataId, Home>,
    engines: Vec<Sender<CopyJob>>,
}

struct Home {
    base: *mut u8,
    /// What addresses of elements are multiples of, in replicas, too.
    element_align: usize,
    /// Undoes what was done for accelerators' copies.
    _page_lock: Option<Box<dyn Send + Sync>>,
}

// SAFETY: only an address; who dereferences it answers for that.
unsafe impl Send for Home {}
// SAFETY: as above.
unsafe impl Sync for Home {}

/// What a device's copy engine is told.
pub(super) enum CopyJob {
    /// Make a copy.
    Copy(CopyId, BoxCopy),
    /// End.
    Stop,
}

// SAFETY: the addresses belong to replicas that are pinned until the copy is reported as arrived.
unsafe impl Send for CopyJob {}

impl Devices {
    /// The devices, and for each emulated one the jobs of its copy engine, which a thread is to serve.
    pub(super) fn new(devices: Vec<Device>) -> (Self, Vec<(DeviceId, Receiver<CopyJob>)>) {
        let (engines, jobs): (_, Vec<_>) = devices.iter().map(|_| channel()).unzip();
        let queues = devices.iter().map(|_| DeviceQueue::default()).collect();
        let jobs = (0..).map(DeviceId).zip(jobs).filter(|(device, _)| devices[device.index()].accelerator().is_none());
        let jobs = jobs.collect();
        (Self { devices, queues, replicas: DashMap::new(), homes: DashMap::new(), engines }, jobs)
    }

    /// What an accelerator has in flight.
    pub(super) fn queue(&self, device: DeviceId) -> &DeviceQueue {
        &self.queues[device.index()]
    }

    /// Lets each device wake the thread that hosts it.
    pub(super) fn connect(&self, wake: impl Fn(DeviceId) + Clone + Send + Sync + 'static) {
        for (queue, device) in self.queues.iter().zip((0..).map(DeviceId)) {
            let wake = wake.clone();
            queue.connect(move || wake(device));
        }
    }

    /// Asks to be woken when the next thing ends on one of these devices.
    pub(super) fn arm(&self, devices: &[DeviceId]) {
        for device in devices {
            if let (Some(accelerator), Some(waker)) = (self.accelerator(*device), self.queue(*device).waker()) {
                accelerator.arm(waker);
            }
        }
    }

    /// Whether one of these devices has something for its hosting thread to look at.
    pub(super) fn have_news(&self, devices: &[DeviceId]) -> bool {
        devices.iter().any(|device| self.queue(*device).has_news())
    }

    /// Whether a device is gone.
    pub(super) fn is_lost(&self, device: DeviceId) -> bool {
        self.queue(device).is_lost()
    }

    /// Notes that a device is gone, if this error says so.
    pub(super) fn lose(&self, device: Option<DeviceId>, error: &DeviceError) {
        if let Some(device) = device.filter(|_| error.is_loss()) {
            self.queue(device).lose();
        }
    }

    /// Registers where a data object is at home.
    pub(super) fn add_home(&self, cell: &DataCell) {
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        let accelerator = || self.devices.iter().find_map(Device::accelerator);
        let page_lock = (bytes >= PAGE_LOCK_FROM_BYTES).then(accelerator).flatten().and_then(|accelerator| {
            // SAFETY: the home lives until [`Driver::unregister`](crate::driver::Driver), which comes before its end.
            unsafe { accelerator.page_lock(cell.base(), bytes) }
        });
        let (base, element_align) = (cell.base(), cell.element_align());
        self.homes.insert(cell.datum.id, Home { base, element_align, _page_lock: page_lock });
    }

    /// An accelerator among the devices.
    pub(super) fn accelerator(&self, device: DeviceId) -> Option<&dyn Accelerator> {
        self.devices[device.index()].accelerator()
    }

    /// How many homes are known.
    #[cfg(test)]
    pub(super) fn homes(&self) -> usize {
        self.homes.len()
    }

    /// An emulated device.
    pub(super) fn emulated(&self, device: DeviceId) -> Option<&Emulated> {
        match &self.devices[device.index()] {
            Device::Emulated(device) => Some(device),
            Device::Accelerator(_) => None,
        }
    }

    /// Where a task's regions lie that was launched on an emulated device.
    pub(super) fn sites(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Vec<Site> {
        let mut sites = Vec::with_capacity(places.len());
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let place = &places[sites.len()];
            sites.push(self.host_site(place, block, datum.element_bytes).expect("emulated devices are in host memory"));
        });
        sites
    }

    /// Where a task's regions lie that was launched on an accelerator; of what lies at home, nothing that means
    /// anything.
    pub(super) fn device_sites(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Result<Vec<DeviceSite>, DeviceError> {
        let mut sites = Vec::with_capacity(places.len());
        let mut failed = None;
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let place = &places[sites.len()];
            let nowhere = DeviceSite {
                base: 0,
                offset_bytes: 0,
                strides: strides_of(&block.extents()),
                extents: block.extents(),
            };
            let site = match self.end(place, block, datum.element_bytes) {
                Ok(End::Device(site)) => site,
                Ok(End::Host { .. }) => nowhere,
                Err(error) => {
                    failed = Some(error);
                    nowhere
                }
            };
            sites.push(site);
        });
        failed.map_or(Ok(sites), Err)
    }

    /// Gives a replica's memory back.
    pub(super) fn release(&self, replica: ReplicaId) {
        drop(self.replicas.remove(&replica));
    }

    /// A data object has no home any more.
    pub(super) fn forget_home(&self, data: DataId) {
        drop(self.homes.remove(&data));
    }

    /// Makes a copy, or has it made; what has become of it, if it was made here and now.
    pub(super) fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
        match self.start_copy(order) {
            Ok(true) => Some(Event::Copied(order.copy)),
            Ok(false) => None,
            Err(error) => {
                let device = order.to.space.device().or(order.from.space.device());
                let device = device.expect("a copy has a device at one end at least");
                Some(Event::CopyFailed(order.copy, device, error))
            }
        }
    }

    /// Makes a copy, or has it made; whether it has arrived.
    fn start_copy(&self, order: &CopyOrder) -> Result<bool, DeviceError> {
        let CopyOrder { copy: id, block, element_bytes, .. } = order;
        let ends = [&order.from, &order.to].map(|place| self.end(place, block, *element_bytes));
        let [from, to] = ends;
        let (from, to, extents) = (from?, to?, block.extents());
        let copy = DeviceCopy { from, to, extents, element_bytes: *element_bytes };
        let device = |place: &ReplicaRef| place.space.device();
        // SAFETY: both replicas are pinned by the copy; the directory lets nobody write what is being read or use what
        // is being filled until it has arrived; the boxes lie inside what the replicas hold.
        unsafe {
            match (from, to) {
                (End::Host { first: f, strides: fs }, End::Host { first: t, strides: ts }) => {
                    let device = device(&order.to).or(device(&order.from)).expect("a copy has a device at one end");
                    let (from, to) = (Site { first: f, strides: fs }, Site { first: t, strides: ts });
                    let copy = BoxCopy { from, to, extents, element_bytes: *element_bytes };
                    let emulated = self.emulated(device).expect("only emulated devices are in host memory");
                    let apart = emulated.copies_apart(copy.bytes());
                    if apart && self.engines[device.index()].send(CopyJob::Copy(*id, copy)).is_ok() {
                        return Ok(false);
                    }
                    emulated.copy(&copy)?;
                    return Ok(true);
                }
                (End::Host { .. }, End::Device(_)) => self.enqueue(device(&order.to), &copy, *id)?,
                (End::Device(_), End::Host { .. }) => self.enqueue(device(&order.from), &copy, *id)?,
                (End::Device(_), End::Device(_)) => {
                    let [source, target] = [&order.from, &order.to].map(|place| self.accelerator_at(device(place)));
                    if source.domain() != target.domain() {
                        copy_through_host(source, target, &copy)?;
                        return Ok(true);
                    }
                    self.enqueue(device(&order.to), &copy, *id)?;
                }
            }
        }
        Ok(false)
    }

    /// # Safety
    /// As for [`Accelerator::copy`].
    unsafe fn enqueue(&self, device: Option<DeviceId>, copy: &DeviceCopy, id: CopyId) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise.
        unsafe { self.accelerator_at(device).copy(copy, id)? };
        if let Some(device) = device {
            self.queue(device).announce();
        }
        Ok(())
    }

    fn accelerator_at(&self, end: Option<DeviceId>) -> &dyn Accelerator {
        let device = end.expect("memory that the host cannot reach is a device's");
        self.accelerator(device).expect("emulated devices are in host memory")
    }

    /// Does what a device's copy engine was told; what has happened, or nothing at the end.
    pub(super) fn serve(&self, device: DeviceId, job: &CopyJob) -> Option<Event<'static>> {
        let CopyJob::Copy(id, copy) = job else { return None };
        let emulated = self.emulated(device).expect("accelerators copy by themselves");
        // SAFETY: as in `start_copy`.
        let copied = unsafe { emulated.copy(copy) };
        Some(copied.map_or_else(|error| Event::CopyFailed(*id, device, error), |()| Event::Copied(*id)))
    }

    /// Ends all copy engines.
    pub(super) fn stop(&self) {
        for engine in &self.engines {
            let _ = engine.send(CopyJob::Stop); // an engine that is gone has ended
        }
    }

    /// Where a block lies in a replica that the host can reach.
    fn host_site(&self, place: &ReplicaRef, block: &Block, element_bytes: usize) -> Option<Site> {
        match self.end(place, block, element_bytes) {
            Ok(End::Host { first, strides }) => Some(Site { first, strides }),
            Ok(End::Device(_)) | Err(_) => None,
        }
    }

    /// Where a block lies in a replica, whose memory is made if this is the first look.
    fn end(&self, place: &ReplicaRef, block: &Block, element_bytes: usize) -> Result<End, DeviceError> {
        let strides = strides_of(&place.holds.extents());
        let offset: usize = (0..MAX_DIMS).map(|d| (block.lo()[d] - place.holds.lo()[d]) * strides[d]).sum();
        let offset_bytes = offset * element_bytes;
        let at = |base: *mut u8| End::Host { first: base.wrapping_add(offset_bytes), strides };
        let Some(device) = place.space.device() else {
            return Ok(at(self.homes.get(&place.data).expect("a data object in use has a home").base));
        };
        let bytes = (place.holds.volume() * element_bytes) as u64;
        let device = &self.devices[device.index()];
        let base = match self.replicas.entry(place.replica) {
            Entry::Occupied(known) => known.get().base(),
            Entry::Vacant(new) => match device {
                Device::Emulated(emulated) => {
                    let align = self.homes.get(&place.data).expect("a data object in use has a home").element_align;
                    new.insert(emulated.allocate(bytes, align)).base()
                }
                Device::Accelerator(accelerator) => new.insert(accelerator.allocate(bytes)?).base(),
            },
        };
        Ok(match device {
            Device::Emulated(_) => at(std::ptr::with_exposed_provenance_mut(base)),
            Device::Accelerator(_) => End::Device(DeviceSite { base, offset_bytes, strides, extents: block.extents() }),
        })
    }
}

/// Between devices that know nothing of each other.
///
/// # Safety
/// As for [`Accelerator::copy_now`].
unsafe fn copy_through_host(
    source: &dyn Accelerator,
    target: &dyn Accelerator,
    copy: &DeviceCopy,
) -> Result<(), DeviceError> {
    let mut staging = vec![0u8; copy.extents.iter().product::<usize>() * copy.element_bytes];
    let middle = End::Host { first: staging.as_mut_ptr(), strides: strides_of(&copy.extents) };
    // SAFETY: the caller's promise; the staging memory is ours.
    unsafe {
        source.copy_now(&DeviceCopy { to: middle, ..*copy })?;
        target.copy_now(&DeviceCopy { from: middle, ..*copy })
    }
}
