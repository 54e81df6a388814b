//! State that the threads of the real driver share, in addition to the state common to all drivers.

use super::devices::{Devices, Jobs};
use super::explored::Explored;
use super::host::Host;
use super::hosting::{Hosting, hosting_of};
use super::ready::{OwnQueue, ReadyQueues};
use crate::depend::{Datum, Entrance, Kinds, OwnedTask};
#[cfg(unix)]
use crate::device::UserFile;
use crate::device::{Buffer, Device, Disk};
use crate::driver::Driver;
use crate::driver::shared::Shared;
use crate::error::DeviceError;
use crate::ids::{DeviceId, SpaceId, TaskId};
use crate::machine::CoresTaken;
use crate::memory::DataCell;
use crate::memory::dlpack::{DlDevice, LentSite};
use crate::region::{Block, MAX_DIMS};
use parking_lot::{Mutex, MutexGuard};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};
use std::thread::JoinHandle;
use std::time::Instant;

/// Driver whose tasks are executed by threads, and by the devices that these threads manage.
pub(crate) struct Threads {
    /// Weak reference to this driver, for code that outlives the call in which it was created.
    pub(super) this: Weak<Self>,
    pub(super) shared: Shared,
    pub(super) ready: ReadyQueues,
    /// The devices; `None` if there cannot be any. With `Some`, tasks are placed and arrive with an assigned unit.
    /// With `None`, tasks take the fast path.
    pub(super) devices: Option<Devices>,
    /// For each unit, and last for a guest, the threads that execute tasks for it.
    pub(super) hosting: Box<[Hosting]>,
    /// The guest's part in the runtime. While unit 0 has no thread of its own, the thread that holds this lock
    /// executes tasks for it.
    pub(super) seat: OnceLock<Mutex<Host>>,
    /// Whether unit 0's own host is waiting for the seat, because woken bodies can be resumed only on its thread.
    pub(super) seat_wanted: AtomicBool,
    /// Whether unit 0's own host is running tasks without the seat.
    pub(super) hosts_unseated: AtomicBool,
    /// The exploration, if the calling thread plays all units.
    pub(super) explored: OnceLock<Explored>,
    /// Functions that idle threads call between searches.
    pub(super) while_idle: OnceLock<Vec<Poll>>,
    pub(super) crew: Mutex<Crew>,
    pub(super) shutdown: AtomicBool,
    pub(super) built: Instant,
    /// Slot of the thread that a test causes to panic.
    #[cfg(test)]
    pub(crate) doomed: std::sync::atomic::AtomicUsize,
}

/// Advances events outside of the runtime for which tasks wait, and returns whether one is on its way.
pub(crate) type Poll = Box<dyn Fn() -> bool + Send + Sync>;

/// Error text for foreign device memory that cannot be used.
const NO_DEVICE: &str = "the runtime's units have no device; try a unit for that device, or copying it to host memory";

/// Resources to release when the threads end.
#[derive(Default)]
pub(super) struct Crew {
    pub(super) units: Vec<JoinHandle<()>>,
    /// The threads that work for devices.
    pub(super) helpers: Vec<JoinHandle<()>>,
    /// The entrances through which children are submitted, one per host.
    pub(super) entrances: Vec<Arc<Entrance>>,
    /// The rayon pool of unit 0, if its host is a user's thread.
    pub(super) pool: Option<Arc<rayon::ThreadPool>>,
    /// The reserved cores.
    pub(super) cores: Option<CoresTaken>,
}

/// The devices of a runtime, and the disk for which homes leave, if host memory is limited.
pub(crate) type DevicesAndDisk = (Vec<Box<dyn Device>>, Option<Disk>);

/// The queues that the threads receive when they are started.
pub(crate) struct Unstarted {
    pub(super) queues: Vec<OwnQueue>,
    pub(super) jobs: Jobs,
}

impl Threads {
    /// Returns whether homes leave for a disk.
    pub(crate) fn lets_homes_leave(&self) -> bool {
        self.devices.as_ref().is_some_and(Devices::have_disk)
    }

    /// Creates a driver without threads. If `devices` is `Some`, tasks are placed, even if the list is empty.
    pub(crate) fn new(shared: Shared, devices: Option<DevicesAndDisk>) -> (Arc<Self>, Unstarted) {
        let (ready, queues) = ReadyQueues::new(&shared.machine, &shared.idle);
        let (devices, jobs) = devices.map(|(devices, disk)| Devices::new(devices, disk)).unzip();
        let units = shared.machine.num_units();
        if let Some(tracer) = &shared.tracer {
            tracer.set_clock(0);
        }
        let threads = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            ready,
            devices,
            hosting: hosting_of(units),
            seat: OnceLock::new(),
            seat_wanted: AtomicBool::new(false),
            hosts_unseated: AtomicBool::new(false),
            explored: OnceLock::new(),
            while_idle: OnceLock::new(),
            crew: Mutex::default(),
            shutdown: AtomicBool::new(false),
            built: Instant::now(),
            #[cfg(test)]
            doomed: std::sync::atomic::AtomicUsize::new(usize::MAX),
            shared,
        });
        let this = threads.this.clone();
        let interrupt = move || this.upgrade().into_iter().for_each(|threads| threads.interrupt_replays(None));
        let _first = threads.shared.interrupt.set(Box::new(interrupt));
        (threads, Unstarted { queues, jobs: jobs.unwrap_or_default() })
    }

    /// Lets idle threads call these functions between searches.
    pub(crate) fn poll_by(&self, polls: Vec<Poll>) {
        _ = self.while_idle.set(polls);
    }

    /// Returns whether any thread may run any task.
    #[inline]
    pub(crate) fn on_fast_path(&self) -> bool {
        self.devices.is_none()
    }

    /// Takes the seat if it is free and this waiting thread may have it, as unit 0's host or as a guest. If bodies on
    /// the thread of unit 0's own host were woken, that host requests the seat from a guest.
    pub(super) fn take_seat(&self, host: Option<&Host>) -> Option<MutexGuard<'_, Host>> {
        let seat = self.seat.get()?;
        let Some(host) = host else { return if self.is_seat_wanted() { None } else { seat.try_lock() } };
        let taken = seat.try_lock();
        self.want_seat(taken.is_none() && host.aside.has_woken());
        taken
    }

    /// Returns whether a guest has to leave its seat.
    pub(super) fn is_seat_wanted(&self) -> bool {
        self.seat_wanted.load(Ordering::SeqCst)
    }

    /// Requests the seat for unit 0's own host, or withdraws the request.
    pub(super) fn want_seat(&self, wanted: bool) {
        if self.seat_wanted.swap(wanted, Ordering::SeqCst) != wanted {
            self.shared.wake_everybody();
        }
    }

    /// Returns whether tasks can end while no thread waits: either no unit depends on a user's thread, or other units
    /// can replace that unit.
    pub(crate) fn goes_on_by_itself(&self) -> bool {
        self.seat.get().is_none()
            || self.explored.get().is_none() && self.on_fast_path() && self.shared.machine.num_units() > 1
    }

    /// Returns whether this process is a forked child that has none of the threads.
    pub(super) fn is_in_child(&self) -> bool {
        self.shared.is_in_child()
    }

    /// Returns the unit kinds that the devices of the `GPU` units would form according to their interfaces; `None` if
    /// the machine has no such unit.
    pub(crate) fn gpu_interfaces(&self) -> Option<Kinds> {
        self.devices.as_ref()?.gpu_interfaces(&self.shared.machine)
    }

    /// Returns whether a device has its own queues, which means that it is not emulated.
    pub(crate) fn has_queues(&self, device: DeviceId) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.accelerator(device).is_some())
    }

    /// Returns whether every device can repeat the launches of a task by itself.
    pub(crate) fn devices_repeat(&self) -> bool {
        let Some(devices) = &self.devices else { return false };
        let mut all = self.shared.machine.units().iter().flat_map(|unit| &unit.devices);
        all.all(|device| devices.accelerator(*device).is_some_and(|device| device.has_loops()))
    }

    /// Page-locks a data object's home if possible. Returns whether the home is locked.
    pub(crate) fn pin_memory(&self, cell: &DataCell) -> bool {
        self.devices.as_ref().is_some_and(|devices| devices.pin_memory(cell))
    }

    /// Returns the device that the DLPack device `memory` denotes, after checking that it can use these bytes, which
    /// other code has allocated.
    ///
    /// # Errors
    /// If there is no such device or it cannot use the memory, returns the reason.
    pub(crate) fn device_of(&self, memory: DlDevice, first: usize, bytes: usize) -> Result<DeviceId, String> {
        let Some(devices) = &self.devices else { return Err(NO_DEVICE.to_owned()) };
        let device = devices.of_dlpack(memory)?;
        devices.look_at(device, first, bytes)?;
        Ok(device)
    }

    /// Makes memory that other code has allocated the first replica of a new data object on this device.
    pub(crate) fn adopt(&self, datum: &Datum, device: DeviceId, first: usize, strides: [usize; MAX_DIMS]) {
        let engine = &self.shared.engine;
        let replica = engine.new_replica();
        self.placed().adopt(replica, first, strides);
        self.react(|out| engine.adopt(datum, replica, device.space(), out));
    }

    /// Makes a part of a file the first replica of a new data object, which has a home that can leave for the disk.
    #[cfg(unix)]
    pub(crate) fn open(&self, datum: &Datum, file: Arc<UserFile>, position: u64) {
        let engine = &self.shared.engine;
        let replica = engine.new_replica();
        let disk = self.placed().open(replica, file, position);
        self.react(|out| engine.adopt(datum, replica, disk, out));
    }

    /// Allocates unified memory, which the host and all devices use at the same addresses, if such memory is
    /// available.
    pub(crate) fn unified(&self, bytes: usize) -> Option<Buffer> {
        self.devices.as_ref()?.unified(bytes)
    }

    /// Lets devices use a new data object in place, because its home is unified memory.
    pub(crate) fn alias(&self, cell: &DataCell) {
        let (engine, devices) = (&self.shared.engine, self.placed());
        let aliases: Vec<_> = devices.spaces().map(|space| (engine.new_replica(), space)).collect();
        for (replica, _) in &aliases {
            devices.adopt(*replica, cell.base().expose_provenance(), cell.strides());
        }
        self.react(|out| engine.alias(&cell.datum, &aliases, out));
    }

    /// Returns whether other code can use memory in this space.
    pub(crate) fn can_lend(&self, space: SpaceId) -> bool {
        space.device().is_none_or(|device| self.placed().is_addressed(device))
    }

    /// Returns the address of a region that one of the runtime's internal tasks exports.
    pub(crate) fn lent(&self, task: TaskId, cell: &DataCell, block: &Block) -> Result<LentSite, DeviceError> {
        match (&self.devices, self.shared.engine.places_of(task).as_deref()) {
            (Some(devices), Some([place, ..])) => devices.lend(place, block, cell.datum.element_bytes),
            _ => Ok(LentSite { memory: DlDevice::HOST, first: cell.address(block), strides: cell.strides() }),
        }
    }

    /// Waits for the work that other code has enqueued on a device's default stream.
    pub(crate) fn settle_device(&self, device: DeviceId) {
        self.placed().settle(device);
    }

    /// Returns the maximum size in bytes of one replica on a device.
    pub(crate) fn largest_buffer_bytes(&self, device: DeviceId) -> u64 {
        self.placed().largest_buffer_bytes(device)
    }

    /// Returns the devices. They exist whenever placement has requested anything of them.
    pub(super) fn placed(&self) -> &Devices {
        self.devices.as_ref().expect("tasks are placed only if there can be devices")
    }

    /// Queues a task that was ready at submission and that any unit may run.
    #[inline]
    pub(super) fn run_submitted(&self, task: OwnedTask, host: Option<&Host>) {
        if task.shared().internal && task.owned().as_ref().is_some_and(|side| side.here) {
            return self.run_here(task, host);
        }
        self.ready.push_submitted(task, host.map(|host| &host.queue));
        self.shared.idle.wake(1);
    }

    /// Runs one of the runtime's internal tasks on the thread that has submitted it.
    #[cold]
    fn run_here(&self, task: OwnedTask, host: Option<&Host>) {
        self.shared.run_here(task, |ready| self.run_anywhere(ready, host));
        self.shared.tell_waiters();
    }

    /// Queues a task that has become ready and that any unit may run.
    #[inline]
    pub(super) fn run_anywhere(&self, task: OwnedTask, host: Option<&Host>) {
        self.ready.push(task, host.map(|host| &host.queue));
        self.shared.idle.wake(1);
    }

    /// Ends the units' threads. Threads that still have tasks finish these tasks first.
    pub(super) fn shut_down(&self) {
        self.shutdown.store(true, Ordering::SeqCst);
        self.shared.wake_everybody();
    }
}
