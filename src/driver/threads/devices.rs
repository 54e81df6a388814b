//! The devices of a runtime: replicas' memory, copy engines, and the addresses that bodies get.

#![allow(unsafe_code)] // addresses of replicas are computed here; every use states its reason

use super::accelerators::InFlight;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::{AccessRecord, OwnedTask, Site};
use crate::device::{Accelerator, Buffer, Device, DeviceCopy, Emulated, End};
use crate::engine::{Command, CopyOrder, Event, ReplicaRef};
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
pub(crate) struct Devices {
    pub(crate) devices: Vec<Device>,
    /// What each accelerator has in flight.
    pub(crate) in_flight: Vec<InFlight>,
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
pub(crate) enum CopyJob {
    /// Make a copy.
    Copy(CopyId, BoxCopy),
    /// End.
    Stop,
}

// SAFETY: the addresses belong to replicas that are pinned until the copy is reported as arrived.
unsafe impl Send for CopyJob {}

impl Devices {
    /// The devices, and for each emulated one the jobs of its copy engine, which a thread is to serve.
    pub(crate) fn new(devices: Vec<Device>) -> (Self, Vec<(DeviceId, Receiver<CopyJob>)>) {
        let (engines, jobs): (_, Vec<_>) = devices.iter().map(|_| channel()).unzip();
        let in_flight = devices.iter().map(|_| InFlight::default()).collect();
        let jobs = (0..).map(DeviceId).zip(jobs).filter(|(device, _)| devices[device.index()].accelerator().is_none());
        let jobs = jobs.collect();
        (Self { devices, in_flight, replicas: DashMap::new(), homes: DashMap::new(), engines }, jobs)
    }

    /// Registers where a data object is at home.
    pub(crate) fn add_home(&self, cell: &DataCell) {
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        let accelerator = || self.devices.iter().find_map(Device::accelerator);
        let page_lock = (bytes >= PAGE_LOCK_FROM_BYTES).then(accelerator).flatten().and_then(|accelerator| {
            // SAFETY: the home lives until [`Command::Unregister`], which comes before its end.
            unsafe { accelerator.page_lock(cell.base(), bytes) }
        });
        let (base, element_align) = (cell.base(), cell.element_align());
        self.homes.insert(cell.datum.id, Home { base, element_align, _page_lock: page_lock });
    }

    /// An emulated device.
    pub(crate) fn emulated(&self, device: DeviceId) -> Option<&Emulated> {
        match &self.devices[device.index()] {
            Device::Emulated(device) => Some(device),
            Device::Accelerator(_) => None,
        }
    }

    /// Where a task's regions lie that was launched on an emulated device.
    pub(crate) fn sites(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Vec<Site> {
        let mut sites = Vec::with_capacity(places.len());
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let place = &places[sites.len()];
            sites.push(self.host_site(place, block, datum.element_bytes).expect("emulated devices are in host memory"));
        });
        sites
    }

    /// Where a task's regions lie that was launched on an accelerator; of what lies at home, nothing that means
    /// anything.
    pub(crate) fn device_sites(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Result<Vec<DeviceSite>, DeviceError> {
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

    /// Carries out what concerns memory. Copies that are made here and now are reported to `happened` at once.
    pub(crate) fn carry_out(&self, command: Command, happened: impl FnOnce(Event)) {
        match command {
            Command::Release(released) => {
                drop(self.replicas.remove(&released.replica));
                happened(Event::Released(released.space, released.bytes));
            }
            Command::Unregister { data } => drop(self.homes.remove(&data)),
            Command::Copy(order) => match self.copy(&order) {
                Ok(true) => happened(Event::Copied(order.copy)),
                Ok(false) => {}
                Err(error) => {
                    let device = order.to.space.device().or(order.from.space.device());
                    let device = device.expect("a copy has a device at one end at least");
                    happened(Event::CopyFailed(order.copy, device, error));
                }
            },
            Command::Run(_) | Command::Launch(_) | Command::Skip(_) | Command::Nothing => {
                unreachable!("these do not concern memory")
            }
        }
    }

    /// Makes a copy, or has it made; whether it has arrived.
    fn copy(&self, order: &CopyOrder) -> Result<bool, DeviceError> {
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
                    let [source, target] = [&order.from, &order.to].map(|place| self.accelerator(device(place)));
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
        unsafe { self.accelerator(device).copy(copy, id)? };
        if let Some(device) = device {
            self.in_flight[device.index()].announce();
        }
        Ok(())
    }

    fn accelerator(&self, device: Option<DeviceId>) -> &dyn Accelerator {
        let device = device.expect("memory that the host cannot reach is a device's");
        self.devices[device.index()].accelerator().expect("emulated devices are in host memory")
    }

    /// Does what a device's copy engine was told; what has happened, or nothing at the end.
    pub(crate) fn serve(&self, device: DeviceId, job: &CopyJob) -> Option<Event> {
        let CopyJob::Copy(id, copy) = job else { return None };
        let emulated = self.emulated(device).expect("accelerators copy by themselves");
        // SAFETY: as in `copy`.
        let copied = unsafe { emulated.copy(copy) };
        Some(copied.map_or_else(|error| Event::CopyFailed(*id, device, error), |()| Event::Copied(*id)))
    }

    /// Ends all copy engines.
    pub(crate) fn stop(&self) {
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

#[cfg(test)]
mod tests {
    use crate::Runtime;

    #[test]
    fn homes_are_forgotten_with_their_data() {
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build().unwrap();
        let homes = || rt.core.devices().unwrap().homes.len();
        let (kept, taken) = (rt.scalar(1u64), rt.scalar(2u64));
        for n in 0..100u64 {
            let x = rt.data(vec![n; 10]);
            rt.task("use", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        assert_eq!(rt.take(taken).unwrap(), [2]);
        rt.wait().unwrap();
        assert_eq!(homes(), 1);
        drop(kept);
        rt.wait().unwrap();
        assert_eq!(homes(), 0);
    }
}
