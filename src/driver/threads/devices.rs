//! Devices of a runtime: replica memory, copy engines, and the addresses that task bodies receive.

#![allow(unsafe_code)] // addresses of replicas are computed here; every use states its reason

use super::device_queue::DeviceQueue;
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::{AccessRecord, Kinds, OwnedTask, Site};
use crate::device::{Accelerator, Buffer, Copying, Device, DeviceCopy, End, Execution, Overrun};
use crate::engine::{CopyOrder, CopyTime, Event, Nanos, ReplicaRef};
use crate::error::DeviceError;
use crate::ids::{DataId, DeviceId, SpaceId};
use crate::kernel::DeviceSite;
use crate::machine::{Machine, UnitKind};
use crate::memory::dlpack::{DlDevice, LentSite};
use crate::memory::{DataCell, strides_of};
use crate::region::{Block, MAX_DIMS};
use crate::sync::Sleep;
use dashmap::{DashMap, Entry};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// Minimum array size for page-locking, which takes longer than it saves on smaller arrays. Smaller copies do not
/// trigger page-locking either.
const PAGE_LOCK_FROM_BYTES: usize = 1 << 20;
/// Index of the copy that triggers page-locking of its array, counting from 1. Locking does not pay for an array that
/// is copied at most once. Locking it earlier would also place its pages, which the first thread that writes the array
/// should determine.
const PAGE_LOCK_AT_COPY: usize = 2;

/// Minimum size of a unified-memory region that is prefetched. Pages of smaller regions move at the first access.
const PREFETCH_FROM_BYTES: usize = 1 << 16;

/// All devices of one runtime.
pub(super) struct Devices {
    devices: Vec<Box<dyn Device>>,
    /// Per accelerator, the tasks in flight.
    queues: Vec<DeviceQueue>,
    replicas: DashMap<ReplicaId, Memory>,
    /// Number of replicas whose memory was freed.
    released: AtomicU64,
    homes: DashMap<DataId, Arc<Home>>,
    engines: Vec<Sender<CopyJob>>,
    /// Number of copies that are still with the copy engines: unfinished, or finished with consequences still
    /// unprocessed.
    copying: AtomicUsize,
}

/// The memory of one replica.
struct Memory {
    buffer: Buffer,
    /// Per dimension, the distance in elements between consecutive indices; `None` if the layout is row-major.
    strides: Option<[usize; MAX_DIMS]>,
}

struct Home {
    base: *mut u8,
    /// Per dimension, the distance in elements between consecutive indices.
    strides: [usize; MAX_DIMS],
    /// Alignment of each element's address, which replicas must preserve.
    element_align: usize,
    /// Number of bytes that may be page-locked.
    lockable_bytes: usize,
    /// Whether the array is page-locked only on request, because its pages are not allocated until the first touch.
    by_request: bool,
    /// Number of copies so far that were large enough to count towards page-locking.
    copies: AtomicUsize,
    /// Guard that undoes the page-locking. Unset until locking is attempted; `None` inside if the array cannot be
    /// locked.
    pin_memory: OnceLock<Option<Box<dyn Send + Sync>>>,
}

impl Home {
    fn is_locked(&self) -> bool {
        matches!(self.pin_memory.get(), Some(Some(_)))
    }
}

// SAFETY: the only field that is not `Send` is the address `base`. The directory and the dependences keep conflicting
// copies and bodies apart, so using this address on another thread creates no data race.
unsafe impl Send for Home {}
// SAFETY: the only field that is not `Sync` is the address `base`. Through a shared reference it can only be read, so
// concurrent accesses to the field are not a data race.
unsafe impl Sync for Home {}

/// A command to a device's copy engine.
pub(super) enum CopyJob {
    /// Perform a copy.
    Copy(CopyId, Box<DeviceCopy>),
    /// Stop the copy engine.
    Stop,
}

// SAFETY: the addresses belong to replicas that stay pinned until the copy is reported as finished, so they remain
// valid on the copy engine's thread.
unsafe impl Send for CopyJob {}

impl Devices {
    /// Creates the set of devices. Also returns a job queue for each device whose copies need a separate thread.
    pub(super) fn new(devices: Vec<Box<dyn Device>>) -> (Self, Vec<(DeviceId, Receiver<CopyJob>)>) {
        let (engines, jobs): (_, Vec<_>) = devices.iter().map(|_| channel()).unzip();
        let queues = devices.iter().map(|_| DeviceQueue::default()).collect();
        let copies_apart = |device: &DeviceId| devices[device.index()].copies_apart();
        let jobs = (0..).map(DeviceId).zip(jobs).filter(|(device, _)| copies_apart(device)).collect();
        let (replicas, homes, released) = (DashMap::new(), DashMap::new(), AtomicU64::new(0));
        (Self { devices, queues, replicas, released, homes, engines, copying: AtomicUsize::new(0) }, jobs)
    }

    /// Returns the tasks that an accelerator has in flight.
    pub(super) fn queue(&self, device: DeviceId) -> &DeviceQueue {
        &self.queues[device.index()]
    }

    /// Lets each device wake the thread that hosts it.
    pub(super) fn connect(&self, machine: &Machine, idle: &Arc<Sleep>) {
        for (queue, device) in self.queues.iter().zip((0..).map(DeviceId)) {
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

    /// Registers the home of a data object.
    pub(super) fn add_home(&self, cell: &DataCell) {
        let bytes = cell.datum.whole().volume() * cell.datum.element_bytes;
        // The gaps of a borrowed home do not belong to the runtime, and memory that devices use directly must not be
        // page-locked.
        let lockable = bytes > 0 && !cell.datum.is_unified() && cell.is_contiguous(&cell.datum.whole());
        let home = Home {
            base: cell.base(),
            strides: cell.strides(),
            element_align: cell.element_align(),
            lockable_bytes: if lockable { bytes } else { 0 },
            by_request: cell.is_reserved(),
            copies: AtomicUsize::new(0),
            pin_memory: OnceLock::new(),
        };
        self.homes.insert(cell.datum.id, Arc::new(home));
    }

    /// Page-locks a home if that pays off. Called before an accelerator copies `bytes` bytes from or to the home.
    fn prepare_home(&self, data: DataId, bytes: u64) {
        let home = self.home(data);
        if home.by_request || home.lockable_bytes < PAGE_LOCK_FROM_BYTES || bytes < PAGE_LOCK_FROM_BYTES as u64 {
            return;
        }
        if home.copies.fetch_add(1, Ordering::Relaxed) + 1 >= PAGE_LOCK_AT_COPY {
            self.lock_home(&home);
        }
    }

    fn lock_home(&self, home: &Home) {
        home.pin_memory.get_or_init(|| {
            // SAFETY: the home outlives the lock, because [`Driver::unregister`](crate::driver::Driver) undoes the
            // lock and is called before the home is freed.
            self.devices.iter().find_map(|device| unsafe { device.pin_memory(home.base, home.lockable_bytes) })
        });
    }

    /// Page-locks a data object's home if possible. Returns whether the home is locked.
    pub(super) fn pin_memory(&self, cell: &DataCell) -> bool {
        // Another thread may be taking the home. The home must be forgotten before it is freed, and it cannot be
        // forgotten while this guard is held, so it stays valid here.
        let Some(home) = self.homes.get(&cell.datum.id) else { return false };
        if home.lockable_bytes > 0 {
            self.lock_home(&home);
        }
        home.is_locked()
    }

    fn home(&self, data: DataId) -> Arc<Home> {
        self.homes.get(&data).expect("a data object in use has a home").clone()
    }

    /// Returns a device as an accelerator, if it is an accelerator.
    pub(super) fn accelerator(&self, device: DeviceId) -> Option<&dyn Accelerator> {
        match self.execution(device) {
            Execution::Queued(accelerator) => Some(accelerator),
            Execution::Here(_) => None,
        }
    }

    /// Returns the number of registered homes.
    #[cfg(test)]
    pub(super) fn homes(&self) -> usize {
        self.homes.len()
    }

    /// Returns how a device runs tasks.
    pub(super) fn execution(&self, device: DeviceId) -> Execution<'_> {
        self.devices[device.index()].execution()
    }

    /// Returns the addresses of a task's regions, for a task launched on an emulated device.
    pub(super) fn sites(&self, task: &OwnedTask, places: &[ReplicaRef]) -> Result<Vec<Site>, (DeviceId, DeviceError)> {
        let mut sites = Vec::with_capacity(places.len());
        let mut failed = None;
        task.body().accesses(&mut |AccessRecord { datum, block, .. }| {
            let place = &places[sites.len()];
            sites.push(match self.end(place, block, datum.element_bytes) {
                Ok(End::Host { first, strides, .. }) => Site { first, strides },
                Ok(End::Device(_)) => unreachable!("emulated devices are in host memory"),
                Err(error) => {
                    failed = place.space.device().map(|device| (device, error));
                    Site { first: std::ptr::null_mut(), strides: [0; MAX_DIMS] }
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
    pub(super) fn release(&self, replica: ReplicaId) {
        drop(self.replicas.remove(&replica));
        self.released.fetch_add(1, Ordering::Release);
    }

    /// Returns the device whose memory the DLPack device `memory` denotes.
    ///
    /// # Errors
    /// If there is no such device, returns the reason.
    pub(super) fn of_dlpack(&self, memory: DlDevice) -> Result<DeviceId, String> {
        let all = (0..).map(DeviceId).zip(&self.devices).filter_map(|(id, device)| Some((id, device.dlpack()?)));
        let found = all.clone().find(|(_, theirs)| *theirs == memory).map(|(id, _)| id);
        let alike = all.filter(|(_, theirs)| theirs.device_type == memory.device_type);
        let alike: Vec<_> = alike.map(|(_, theirs)| theirs.device_id.to_string()).collect();
        found.ok_or_else(|| {
            let problem = match (memory.device_type, &alike[..]) {
                (4, _) => {
                    return "an OpenCL buffer belongs to a context, and the runtime has a different one; try host memory"
                        .to_owned();
                }
                (_, []) => format!("have no {} device", memory.interface()),
                (_, alike) => format!("have only {} devices {}", memory.interface(), alike.join(", ")),
            };
            format!("the runtime's units {problem}; try a unit for that device, or copying it to host memory")
        })
    }

    /// Checks whether foreign memory can serve as a replica on a device. Other code has allocated the memory and must
    /// not enqueue any more work that uses it.
    ///
    /// # Errors
    /// If the memory cannot be used, returns the reason.
    pub(super) fn look_at(&self, device: DeviceId, first: usize, bytes: usize) -> Result<(), String> {
        if self.is_lost(device) {
            return Err("the device was lost; try copying it from another memory".to_owned());
        }
        let here = &self.devices[device.index()];
        let problem = |error: DeviceError| {
            self.lose(Some(device), &error);
            error.to_string()
        };
        match bytes == 0 || here.owns(first, bytes).map_err(problem)? {
            true => here.settle().map_err(problem),
            false => Err(format!(
                "the device has no such memory ({first:#x}, {bytes} bytes): it may have been freed, or belong to \
                 another device; try keeping it until the tensor is given back"
            )),
        }
    }

    /// Makes a replica use existing memory: memory allocated by other code, or the home itself.
    pub(super) fn adopt(&self, replica: ReplicaId, base: usize, strides: [usize; MAX_DIMS]) {
        self.replicas.insert(replica, Memory { buffer: Buffer::new(base, ()), strides: Some(strides) });
    }

    /// Allocates unified memory, which the host and all devices use at the same addresses. Returns `None` if a device
    /// cannot use such memory, or not concurrently with other devices, or if there is not enough memory.
    pub(super) fn unified(&self, bytes: usize) -> Option<Buffer> {
        let first = self.devices.first()?;
        let is_apart = |device: &dyn Device| device.domain().0 != first.domain().0 || !device.reaches_unified();
        if bytes == 0 || self.devices.iter().any(|device| is_apart(&**device)) {
            return None;
        }
        for (id, device) in (0..).map(DeviceId).zip(&self.devices).filter(|(id, _)| !self.is_lost(*id)) {
            match device.allocate_unified(bytes) {
                Ok(buffer) => return Some(buffer),
                Err(error) => {
                    log!(debug, "cannot allocate {bytes} bytes of unified memory: {error}");
                    self.lose(Some(id), &error);
                    if !error.is_loss() {
                        break;
                    }
                }
            }
        }
        None
    }

    /// Returns the address spaces of the devices.
    pub(super) fn spaces(&self) -> impl Iterator<Item = SpaceId> {
        (0..self.devices.len() as u16).map(|number| DeviceId(number).space())
    }

    /// Returns whether other code can use a device's memory by address.
    pub(super) fn is_addressed(&self, device: DeviceId) -> bool {
        self.devices[device.index()].dlpack().is_some()
    }

    /// Returns the address of a block of a replica and the DLPack device of its memory. The address stays valid for as
    /// long as the block is exported.
    pub(super) fn lend(
        &self,
        place: &ReplicaRef,
        block: &Block,
        element_bytes: usize,
    ) -> Result<LentSite, DeviceError> {
        let memory = place.space.device().and_then(|device| self.devices[device.index()].dlpack());
        let (first, strides) = match self.end(place, block, element_bytes)? {
            End::Host { first, strides, .. } => (first, strides),
            End::Device(DeviceSite { base, offset_bytes, strides, .. }) => {
                (std::ptr::with_exposed_provenance_mut(base + offset_bytes), strides)
            }
        };
        Ok(LentSite { memory: memory.unwrap_or(DlDevice::HOST), first, strides })
    }

    /// Waits for the work that other code has enqueued on a device's default stream.
    pub(super) fn settle(&self, device: DeviceId) {
        if let Err(error) = self.devices[device.index()].settle() {
            log!(debug, "{error}");
            self.lose(Some(device), &error);
        }
    }

    /// Returns the number of replicas whose memory was freed so far.
    pub(super) fn released(&self) -> u64 {
        self.released.load(Ordering::Acquire)
    }

    /// Forgets the home of a data object.
    pub(super) fn forget_home(&self, data: DataId) {
        drop(self.homes.remove(&data));
    }

    /// Performs or starts a copy. If the copy was performed synchronously, returns the resulting event.
    pub(super) fn copy(&self, order: &CopyOrder) -> Option<Event<'static>> {
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
        let device = |id: DeviceId| &*self.devices[id.index()];
        // SAFETY: the copy pins both replicas, so their memory stays allocated. Until the copy has completed, the
        // directory lets nothing else write its source or use its target. The copied boxes are inside the boxes that
        // the replicas hold, so all accesses are in bounds.
        unsafe {
            if let (End::Device(_), Some(source), End::Device(_)) = (copy.from, source, copy.to)
                && device(source).domain() != device(maker).domain()
            {
                copy_through_host(device(source), device(maker), &copy)?;
                return Ok(true);
            }
            match device(maker).copy(&copy, *id)? {
                Copying::Arrived => return Ok(true),
                Copying::Enqueued => self.queue(maker).announce(),
                Copying::Apart => {
                    self.copying.fetch_add(1, Ordering::SeqCst);
                    if self.engines[maker.index()].send(CopyJob::Copy(*id, Box::new(copy))).is_err() {
                        self.copied();
                        device(maker).copy_now(&copy)?;
                        return Ok(true);
                    }
                }
            }
        }
        Ok(false)
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
    pub(super) fn serve(&self, device: DeviceId, job: &CopyJob) -> Option<Event<'static>> {
        let CopyJob::Copy(id, copy) = job else { return None };
        let start = Instant::now();
        // SAFETY: both replicas are pinned until the copy is reported as finished, so their memory stays allocated.
        // Until then the directory keeps all other users away, so nothing accesses the memory concurrently.
        let copied = unsafe { self.devices[device.index()].copy_now(copy) };
        let elapsed_ns = start.elapsed().as_nanos() as Nanos;
        let arrived = |()| Event::Copied(*id, Some(CopyTime::alone(elapsed_ns)));
        Some(copied.map_or_else(|error| Event::CopyFailed(*id, device, error), arrived))
    }

    /// Notes that a copy engine has finished a copy and processed its consequences.
    pub(super) fn copied(&self) {
        self.copying.fetch_sub(1, Ordering::SeqCst);
    }

    /// Returns whether any copy engine has work.
    pub(super) fn is_copying(&self) -> bool {
        self.copying.load(Ordering::SeqCst) > 0
    }

    /// Stops all copy engines.
    pub(super) fn stop(&self) {
        for engine in &self.engines {
            let _ = engine.send(CopyJob::Stop); // sending fails only if the engine has already ended
        }
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
        let device = &self.devices[device.index()];
        let (base, strides) = match self.replicas.entry(place.replica) {
            Entry::Occupied(known) => (known.get().buffer.base(), known.get().strides),
            Entry::Vacant(new) => {
                let bytes = (place.holds.volume() * element_bytes) as u64;
                let buffer = device.allocate(bytes, self.home(place.data).element_align)?;
                (new.insert(Memory { buffer, strides: None }).buffer.base(), None)
            }
        };
        let strides = strides.unwrap_or_else(|| strides_of(&place.holds.extents()));
        Ok(device.end(DeviceSite { base, offset_bytes: offset_bytes(&strides), strides, extents: block.extents() }))
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
