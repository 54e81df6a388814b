//! Devices of a runtime: replica memory, copy engines, and the addresses that task bodies receive.

#![allow(unsafe_code)] // addresses of replicas are computed here; every use states its reason

mod copies;
mod foreign;
mod homes;
mod page_locks;
mod sanitized;

pub(super) use copies::CopyJob;
pub(super) use page_locks::LockJob;

use super::device_queue::DeviceQueue;
use crate::coherence::ReplicaId;
use crate::depend::{AccessRecord, Kinds, OwnedTask, Site};
use crate::device::{Accelerator, Buffer, Device, Disk, End, Execution, Overrun};
use crate::engine::{Release, ReplicaRef};
use crate::error::DeviceError;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId};
use crate::kernel::DeviceSite;
use crate::machine::{Machine, UnitKind};
use crate::memory::strides_of;
use crate::region::{Block, MAX_DIMS};
use crate::sync::Sleep;
use dashmap::{DashMap, Entry};
use homes::Home;
use sanitized::Sanitized;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};

/// All devices of one runtime.
pub(super) struct Devices {
    devices: Vec<Box<dyn Device>>,
    /// Per accelerator, the tasks in flight.
    queues: Vec<DeviceQueue>,
    replicas: DashMap<ReplicaId, Memory>,
    /// The guarded copies of tasks that accelerators run under the access sanitizer.
    sanitized: DashMap<TaskId, Vec<Sanitized>>,
    /// Number of replicas whose memory was freed.
    released: AtomicU64,
    homes: DashMap<DataId, Arc<Home>>,
    /// For each device, its engine for copies to the host and its engine for all others.
    engines: Vec<[Sender<CopyJob>; 2]>,
    /// Requests to page-lock homes; `None` ends the thread that serves them.
    locks: Sender<Option<LockJob>>,
    /// The last device if it is a disk, for which homes leave.
    disk: Option<Disk>,
    /// Number of copies that are still with the copy engines: unfinished, or finished with consequences still
    /// unprocessed.
    copying: AtomicUsize,
}

/// The jobs of the threads that work for devices.
#[derive(Default)]
pub(super) struct Jobs {
    /// For each device whose copies need threads, the jobs of one thread: copies to the host, or all others.
    pub(super) copies: Vec<(DeviceId, &'static str, Receiver<CopyJob>)>,
    /// If a device can page-lock memory.
    pub(super) locks: Option<Receiver<Option<LockJob>>>,
}

/// The memory of one replica.
struct Memory {
    buffer: Buffer,
    /// Per dimension, the distance in elements between consecutive indices; `None` if the layout is row-major.
    strides: Option<[usize; MAX_DIMS]>,
}

impl Devices {
    /// Creates the set of devices. Also returns the queues of jobs for separate threads.
    pub(super) fn new(mut devices: Vec<Box<dyn Device>>, disk: Option<Disk>) -> (Self, Jobs) {
        devices.extend(disk.iter().map(|disk| Box::new(disk.clone()) as Box<dyn Device>));
        let (mut engines, mut copies) = (Vec::new(), Vec::new());
        for (number, device) in (0..).map(DeviceId).zip(&devices) {
            let [(to_host, out), (to_device, into)] = [channel(), channel()];
            engines.push([to_host, to_device]);
            if device.copies_apart() {
                copies.extend([(number, "out", out), (number, "in", into)]);
            }
        }
        let (locks, lock_jobs) = channel();
        let queues = devices.iter().map(|_| DeviceQueue::default()).collect();
        let locks_pages = devices.iter().any(|device| device.locks_pages());
        let jobs = Jobs { copies, locks: locks_pages.then_some(lock_jobs) };
        let (replicas, homes, sanitized) = (DashMap::new(), DashMap::new(), DashMap::new());
        let (released, copying) = (AtomicU64::new(0), AtomicUsize::new(0));
        (Self { devices, queues, replicas, sanitized, released, homes, engines, locks, disk, copying }, jobs)
    }

    /// Returns the tasks that an accelerator has in flight.
    pub(super) fn queue(&self, device: DeviceId) -> &DeviceQueue {
        &self.queues[device.index()]
    }

    /// Lets each device wake the thread that hosts it.
    pub(super) fn connect(&self, machine: &Machine, idle: &Arc<Sleep>) {
        let devices = (0..machine.num_devices() as u16).map(DeviceId); // no unit hosts the disk
        for (queue, device) in self.queues.iter().zip(devices) {
            queue.connect(idle.clone(), machine.unit_of_device(device));
        }
    }

    /// Requests that the next completion on any of these devices wake the hosting thread.
    pub(super) fn arm(&self, devices: &[DeviceId]) {
        for device in devices {
            if let (Some(accelerator), Some(waker)) = (self.accelerator(*device), self.queue(*device).waker()) {
                accelerator.arm(waker);
            }
        }
    }

    /// Returns whether any of these devices has a completion that its hosting thread has to process.
    pub(super) fn have_news(&self, devices: &[DeviceId]) -> bool {
        devices.iter().any(|device| self.queue(*device).has_news())
    }

    /// Returns the unit kinds that the devices of the `GPU` units would form according to their interfaces; `None` if
    /// the machine has no such unit.
    pub(super) fn gpu_interfaces(&self, machine: &Machine) -> Option<Kinds> {
        let gpus = machine.device_units().filter(|unit| unit.kind == UnitKind::Gpu).flat_map(|unit| &unit.devices);
        let interfaces = gpus.filter_map(|device| Some(self.accelerator(*device)?.interface()));
        interfaces.fold(None, |kinds, kind| Some(kinds.unwrap_or(Kinds::NONE).with(kind)))
    }

    /// Returns the domain of a device. Devices of the same domain may be able to reach each other's memory.
    pub(super) fn domain(&self, device: DeviceId) -> (&'static str, usize) {
        self.devices[device.index()].domain()
    }

    /// Returns the maximum size in bytes of one replica on a device.
    pub(super) fn largest_buffer_bytes(&self, device: DeviceId) -> u64 {
        self.devices[device.index()].largest_buffer_bytes()
    }

    /// Returns whether a device was lost.
    pub(super) fn is_lost(&self, device: DeviceId) -> bool {
        self.queue(device).is_lost()
    }

    /// Notes the loss of a device if `error` reports such a loss.
    pub(super) fn lose(&self, device: Option<DeviceId>, error: &DeviceError) {
        if let Some(device) = device.filter(|_| error.is_loss()) {
            self.queue(device).lose();
        }
    }

    /// Returns a device as an accelerator, if it is an accelerator.
    pub(super) fn accelerator(&self, device: DeviceId) -> Option<&dyn Accelerator> {
        match self.execution(device) {
            Execution::Queued(accelerator) => Some(accelerator),
            Execution::Here(_) => None,
        }
    }

    /// Returns how a device runs tasks.
    pub(super) fn execution(&self, device: DeviceId) -> Execution<'_> {
        self.devices[device.index()].execution()
    }

    /// Returns the addresses of a task's regions, for a task launched on an emulated device.
    pub(super) fn sites(
        &self,
        task: &OwnedTask,
        places: &[ReplicaRef],
    ) -> Result<Vec<Option<Site>>, (DeviceId, DeviceError)> {
        let mut sites = Vec::with_capacity(places.len());
        let mut failed = None;
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let place = &places[sites.len()];
            sites.push(match self.end(place, block, datum.element_bytes) {
                Ok(End::Host { first, strides, .. }) => Some(Site { first, strides }),
                Ok(End::Device(_)) => unreachable!("emulated devices are in host memory"),
                Err(error) => {
                    failed = place.space.device().map(|device| (device, error));
                    None
                }
            });
        });
        failed.map_or(Ok(sites), Err)
    }

    /// Returns an error for the first data object that the task's body or kernel wrote out of bounds, on a device that
    /// checks bounds. A kernel launched later on the same replica may also have caused the overrun.
    pub(super) fn overrun(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Option<DeviceError> {
        if !Overrun::IS_LOOKED_FOR {
            return None;
        }
        let (mut places, mut found) = (places.iter(), None);
        task.body().accesses(&mut |AccessRecord { datum, .. }| {
            let place = places.next().filter(|place| !place.space.is_host());
            let overrun = place.and_then(|place| self.replicas.get(&place.replica)?.buffer.overrun());
            if let (Some(Overrun { bytes, side }), Some(place)) = (overrun, place) {
                let device = place.space.to_string();
                found.get_or_insert(DeviceError::Overrun { device, data: datum.to_string(), bytes, side });
            }
        });
        found
    }

    /// Returns the addresses of a task's regions, for a task launched on an accelerator. The address of a region in
    /// host memory is meaningless.
    pub(super) fn device_sites(
        &self,
        task: &OwnedTask,
        places: &[ReplicaRef],
    ) -> Result<Vec<DeviceSite>, (DeviceId, DeviceError)> {
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
                Ok(End::Device(DeviceSite { base, offset_bytes, strides, extents })) if datum.is_unified() => {
                    DeviceSite { base: base + offset_bytes, offset_bytes: 0, strides, extents }
                }
                Ok(End::Device(site)) => site,
                Ok(End::Host { .. }) => nowhere,
                Err(error) => {
                    failed = place.space.device().map(|device| (device, error));
                    nowhere
                }
            };
            sites.push(site);
        });
        failed.map_or(Ok(sites), Err)
    }

    /// Frees a replica's memory.
    pub(super) fn release(&self, release: &Release) {
        match release.replica {
            ReplicaId::HOME => self.free_pages(release.data),
            replica => drop(self.replicas.remove(&replica)),
        }
        self.released.fetch_add(1, Ordering::Release);
    }

    /// Returns the address spaces of the devices.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        (0..self.devices.len() as u16).map(|number| DeviceId(number).space())
    }

    /// Returns the number of replicas whose memory was freed so far.
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Returns the address of a block in a replica. The replica's memory is allocated on the first call.
    fn end(&self, place: &ReplicaRef, block: &Block, element_bytes: usize) -> Result<End, DeviceError> {
        let offset_bytes = |strides: &[usize; MAX_DIMS]| {
            let offset: usize = (0..MAX_DIMS).map(|d| (block.lo()[d] - place.holds.lo()[d]) * strides[d]).sum();
            offset * element_bytes
        };
        let Some(device) = place.space.device() else {
            let home = self.home(place.data);
            let first = home.base.wrapping_add(offset_bytes(&home.strides));
            return Ok(End::Host { first, strides: home.strides, locked: home.is_locked() });
        };
        let device = &*self.devices[device.index()];
        let known = self.replicas.get(&place.replica).map(|known| known.site());
        let bytes = || (place.holds.volume() * element_bytes) as u64;
        let (base, strides) = known.map_or_else(|| self.allocate(device, place, bytes()), Ok)?;
        let strides = strides.unwrap_or_else(|| strides_of(&place.holds.extents()));
        Ok(device.end(DeviceSite { base, offset_bytes: offset_bytes(&strides), strides, extents: block.extents() }))
    }

    /// Allocates a replica's memory, and returns its address and strides. The device may block, so the memory is
    /// allocated without a lock. If another thread has allocated it meanwhile, that memory is the replica's.
    fn allocate(&self, device: &dyn Device, place: &ReplicaRef, bytes: u64) -> Result<PlacedAt, DeviceError> {
        let made = device.allocate(bytes, self.home(place.data).element_align);
        match self.replicas.entry(place.replica) {
            Entry::Occupied(known) => Ok(known.get().site()),
            Entry::Vacant(new) => Ok(new.insert(Memory { buffer: made?, strides: None }).site()),
        }
    }
}

/// The address of a replica's memory, and its strides unless it is row-major.
type PlacedAt = (usize, Option<[usize; MAX_DIMS]>);

impl Memory {
    fn site(&self) -> PlacedAt {
        (self.buffer.base(), self.strides)
    }
}
