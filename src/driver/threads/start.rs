//! Start of a runtime's threads: one thread hosts each unit, one thread performs the copies of each device that needs
//! such a thread, one thread page-locks memory if a device can, and rayon's pool threads belong to the units.
//!
//! Each thread gets a name, is bound to the cores of its unit if binding is enabled, and ends by itself when the
//! runtime ends. The work of the threads is implemented elsewhere: [`super::run`] runs tasks, and [`super::devices`]
//! performs copies and page-locks memory.

use super::devices::Devices;
use super::explored::Explored;
use super::host::Host;
use super::hosting::Members;
use super::kept;
use super::ready::OwnQueue;
use super::state::{Crew, Threads, Unstarted};
use crate::depend::{Entrance, Team, running};
use crate::device::on_own_thread;
use crate::driver::{Driver, inside};
use crate::error::{BuildError, FailureReason};
use crate::explore::Choices;
use crate::ids::DeviceId;
use crate::machine::{ComputeUnit, CoresTaken};
use crate::sync::start;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;
use std::sync::{Arc, Weak};
use std::thread::{Builder, JoinHandle};

/// Settings for starting threads.
#[derive(Debug, Clone)]
pub(crate) struct ThreadStyle {
    /// Name of the runtime, if it has one.
    pub(crate) name: Option<Arc<str>>,
    /// For each unit, the cores to which its threads are bound, starting with the unit's own cores; `None` if threads
    /// are not bound.
    pub(crate) bindings: Option<Vec<Vec<usize>>>,
    pub(crate) stack_bytes: usize,
}

impl ThreadStyle {
    /// Returns the settings for the threads of a unit.
    fn of(&self, unit: &ComputeUnit) -> UnitStyle {
        let bound_to = self.bindings.as_ref().map(|all| all[unit.id.index()].clone().into());
        UnitStyle { name: self.name.clone(), bound_to, stack_bytes: self.stack_bytes }
    }
}

/// Number of bytes of a thread name that Linux shows.
const NAME_BYTES: usize = 15;

/// Returns the name of a thread that is `part` of a runtime with this name. Truncates the runtime's name if the part
/// would otherwise be cut off.
fn thread_name(runtime: Option<&str>, part: &str) -> String {
    let runtime = match runtime {
        None => "thalweg",
        Some(name) => {
            let room = NAME_BYTES.saturating_sub(part.len() + 1);
            let ends = name.char_indices().map(|(at, c)| at + c.len_utf8());
            &name[..ends.take_while(|end| *end <= room).last().unwrap_or(0)]
        }
    };
    format!("{runtime}-{part}")
}

/// Settings for starting the threads of one unit.
#[derive(Clone)]
struct UnitStyle {
    name: Option<Arc<str>>,
    bound_to: Option<Arc<[usize]>>,
    stack_bytes: usize,
}

impl UnitStyle {
    /// Binds the calling thread, which has index `n` in its unit, to the unit's cores. The thread starts on core `n`
    /// of them.
    fn bind(&self, n: usize) {
        if let Some(cores) = &self.bound_to {
            bind(cores[n], cores);
        }
    }
}

impl Threads {
    /// Starts all threads. If the calling thread `hosts` unit 0, no thread is started for that unit. In an exploration
    /// the calling thread hosts all units, and no thread is started. The cores stay reserved until the threads end.
    ///
    /// # Errors
    /// Fails if the system cannot start a thread. [`Driver::stop`] ends the threads that were started.
    pub(crate) fn start(
        self: &Arc<Self>,
        unstarted: Unstarted,
        hosts: bool,
        style: &ThreadStyle,
        cores: Option<CoresTaken>,
        entrance: &Entrance,
        explored: Option<Arc<Choices>>,
    ) -> Result<(), BuildError> {
        let mut crew = self.crew.lock();
        crew.cores = cores;
        if let Some(devices) = &self.devices {
            devices.connect(&self.shared.machine, &self.shared.idle);
        }
        let Unstarted { mut queues, jobs } = unstarted;
        crew.entrances = queues.iter().map(|_| Arc::new(entrance.clone())).collect();
        let entrances: Vec<_> = crew.entrances.iter().map(Arc::downgrade).collect();
        let mut entrances = entrances.into_iter();
        let guest = queues.pop();
        let mut units = self.shared.machine.units().iter().zip(queues);
        if hosts && let (Some((unit, queue)), Some(guest)) = (units.next(), guest) {
            if explored.is_none() {
                crew.pool = guest_pool(self, unit, &style.of(unit))?.map(Arc::new);
            }
            let mut host = |queue| {
                let (pool, entrance) = (crew.pool.as_ref(), entrances.next().expect("one entrance for each queue"));
                let mut host = Host::new(self, unit, queue, pool, style.stack_bytes, entrance);
                if explored.is_some() {
                    host.devices = (0..self.shared.machine.num_devices() as u16).map(DeviceId).collect();
                }
                host
            };
            Rc::new(host(queue)).enter();
            if style.bindings.is_some() {
                move_to(unit.hosting_core());
            }
            self.hosting[0].is_this_thread();
            self.hosting[0].is_nobody(); // absent until it waits
            let _ = self.seat.set(Mutex::new(host(guest)));
        }
        if let Some(choices) = explored {
            let engines = jobs.copies.into_iter().map(|(device, _, jobs)| (device, jobs)).collect();
            let _first = self.explored.set(Explored::new(choices, engines));
            return Ok(());
        }
        let Crew { units: threads, helpers, .. } = &mut *crew;
        for ((unit, queue), entrance) in units.zip(entrances) {
            threads.push(start_unit(self, unit.clone(), queue, style.of(unit), entrance)?);
        }
        for (device, direction, jobs) in jobs.copies {
            let (part, what) = (format!("copy{}{direction}", device.0), format!("the copies of {device}"));
            helpers.push(start_helper(self, &part, what, style, move |threads, devices| {
                while let Ok(job) = jobs.recv() {
                    let Some(event) = devices.serve(device, &job) else { return };
                    threads.react(|out| threads.shared.engine.on(event, out));
                    devices.copied();
                }
            })?);
        }
        if let Some(jobs) = jobs.locks {
            let serve = move |_: &Threads, devices: &Devices| devices.serve_locks(&jobs);
            helpers.push(start_helper(self, "lock", "page-locking".to_owned(), style, serve)?);
        }
        Ok(())
    }
}

/// Binds the calling thread to the cores of its unit, starting on core `first`. Threads that it starts inherit the
/// binding.
#[cfg(target_os = "linux")]
fn bind(first: usize, cores: &[usize]) {
    use rustix::thread::sched_setaffinity;
    let moved = sched_setaffinity(None, &set_of(&[first]));
    if let Err(error) = sched_setaffinity(None, &set_of(cores)).and(moved) {
        log!(debug, "cannot bind a thread to core {first} of {cores:?}: {error}");
    }
}

/// Binds the calling thread only if its unit has a single core: other systems can bind a thread to one core only, which
/// would be wrong for units with several cores.
#[cfg(not(target_os = "linux"))]
fn bind(first: usize, cores: &[usize]) {
    if cores.len() == 1 && !core_affinity::set_for_current(core_affinity::CoreId { id: first }) {
        log!(debug, "cannot bind a thread to core {first}");
    }
}

#[cfg(target_os = "linux")]
fn set_of(cores: &[usize]) -> rustix::thread::CpuSet {
    let mut set = rustix::thread::CpuSet::new();
    cores.iter().filter(|core| **core < rustix::thread::CpuSet::MAX_CPU).for_each(|core| set.set(*core));
    set
}

/// Moves the calling thread to a core without binding it there. Otherwise the system might run it on a core to which
/// another unit's thread is bound, and then take tens of milliseconds to move one of the two threads.
#[cfg(target_os = "linux")]
fn move_to(core: usize) {
    use rustix::thread::{sched_getaffinity, sched_setaffinity};
    let Ok(allowed) = sched_getaffinity(None) else { return };
    if core >= rustix::thread::CpuSet::MAX_CPU || !allowed.is_set(core) {
        return;
    }
    if sched_setaffinity(None, &set_of(&[core])).and_then(|()| sched_setaffinity(None, &allowed)).is_err() {
        log!(debug, "cannot move the thread to core {core}");
    }
}

#[cfg(not(target_os = "linux"))]
fn move_to(_: usize) {}

fn thread_error(what: &str, source: std::io::Error) -> BuildError {
    BuildError::Thread { what: what.to_owned(), source }
}

/// Builds the pool that rayon uses inside a unit's bodies. The pool's first thread starts by running the `life` stored
/// by then. If a user's thread hosts the unit, the bodies run on the pool's threads, which keep the unit of
/// `guest_of`.
fn inner_pool(
    (runtime, guest_of): (u64, Weak<Threads>),
    members: Members,
    unit: &ComputeUnit,
    style: &UnitStyle,
    life: &Life,
) -> rayon::ThreadPoolBuilder {
    let count = if unit.is_cpu() { unit.inner_cores() } else { 1 };
    let (id, life, style, name) = (unit.id, life.clone(), style.clone(), style.name.clone());
    let team: Arc<Team> = Arc::default();
    rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |n| thread_name(name.as_deref(), &format!("{}.{n}", id.0)))
        .stack_size(style.stack_bytes)
        .start_handler(move |n| {
            style.bind(n);
            on_own_thread();
            members.join();
            inside::enter(runtime);
            running::join(runtime, team.clone());
            kept::join_pool(guest_of.clone());
            let life = if n == 0 { life.lock().take() } else { None };
            life.into_iter().for_each(|life| life());
        })
        .panic_handler(|payload| {
            // A task was spawned into the pool and forgotten. Nobody can receive its panic, so the panic is only
            // logged, and it must not abort the process.
            let reason = FailureReason::from_panic(payload);
            log!(error, "{reason}");
        })
}

/// Starts a thread of a pool.
fn start_in_pool(thread: rayon::ThreadBuilder) -> std::io::Result<()> {
    let mut builder = Builder::new();
    if let Some(name) = thread.name() {
        builder = builder.name(name.to_owned());
    }
    if let Some(bytes) = thread.stack_size() {
        builder = builder.stack_size(bytes);
    }
    start(builder, || thread.run()).map(drop)
}

/// Returns the pool of a unit that a user's thread hosts. That thread does not join the pool, so its own use of rayon
/// does not change. A unit with a single core has no pool.
fn guest_pool(
    threads: &Arc<Threads>,
    unit: &ComputeUnit,
    style: &UnitStyle,
) -> Result<Option<rayon::ThreadPool>, BuildError> {
    if unit.is_cpu() && unit.inner_cores() == 1 {
        return Ok(None);
    }
    let (key, members) = ((threads.shared.id, threads.this.clone()), threads.hosting[0].members.clone());
    let pool = inner_pool(key, members, unit, style, &Life::default());
    let pool = pool.spawn_handler(start_in_pool).build();
    pool.map(Some).map_err(|error| thread_error(&unit.id.to_string(), std::io::Error::other(error)))
}

/// Function that a pool's first thread runs before it works for the pool.
type Life = Arc<Mutex<Option<Box<dyn FnOnce() + Send>>>>;

/// Runs `life` on this thread as the first thread of a rayon pool, so that bodies are already inside the pool. Any
/// work that they leave in the pool is done at the end.
///
/// rayon's `use_current_thread` would be simpler, but it never frees the memory it allocates for the thread: 7 KiB per
/// unit.
fn live_in_pool(
    (runtime, members): (u64, Members),
    unit: &ComputeUnit,
    style: &UnitStyle,
    life: impl FnOnce() + Send + 'static,
) {
    let (begin, mut first) = (Life::default(), None);
    let pool = inner_pool((runtime, Weak::new()), members, unit, style, &begin).spawn_handler(|thread| {
        if thread.index() == 0 {
            first = Some(thread);
            return Ok(());
        }
        start_in_pool(thread)
    });
    match (pool.build(), first) {
        (Ok(pool), Some(first)) => {
            *begin.lock() = Some(Box::new(move || {
                life();
                drop(pool); // ends the pool's threads, including this thread
            }));
            first.run();
        }
        (built, _) => {
            // Tasks also run without a pool. Rayon would then merely use the cores of other units as well.
            let why = built.err().map_or_else(String::new, |error| error.to_string());
            log!(warn, "cannot start {}: {why}; rayon inside it uses the global pool", unit.id);
            on_own_thread();
            inside::enter(runtime);
            life();
        }
    }
}

/// Starts the thread that hosts a unit and executes tasks until the runtime ends. If the thread panics, the runtime is
/// marked as broken.
fn start_unit(
    threads: &Arc<Threads>,
    unit: ComputeUnit,
    queue: OwnQueue,
    style: UnitStyle,
    entrance: Weak<Entrance>,
) -> Result<JoinHandle<()>, BuildError> {
    let (what, stack_bytes) = (unit.id.to_string(), style.stack_bytes);
    let name = thread_name(style.name.as_deref(), &what.replace(' ', ""));
    let life = {
        let (threads, what) = (threads.clone(), what.clone());
        move || {
            let (pool, pool_style) = (unit.clone(), style.clone());
            let key = (threads.shared.id, threads.hosting[unit.id.0 as usize].members.clone());
            let host = move || live(&threads, &what, || host_unit(&threads, &unit, queue, &style, entrance));
            live_in_pool(key, &pool, &pool_style, host);
        }
    };
    let thread = Builder::new().name(name).stack_size(stack_bytes);
    start(thread, life).map_err(|source| thread_error(&what, source))
}

fn host_unit(threads: &Threads, unit: &ComputeUnit, queue: OwnQueue, style: &UnitStyle, entrance: Weak<Entrance>) {
    style.bind(0);
    let runtime = threads.shared.id;
    let host = Rc::new(Host::new(threads, unit, queue, None, style.stack_bytes, entrance));
    host.clone().enter();
    threads.work(&host);
    Host::leave(runtime);
}

/// Runs a thread's `life`, and marks the runtime as broken if it panics.
fn live(threads: &Threads, what: &str, life: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(life)) {
        Host::leave(threads.shared.id);
        threads.shared.break_down(format!("the thread of {what} {}", FailureReason::from_panic(payload)));
    }
}

/// Starts a thread that serves jobs of devices until it is stopped.
fn start_helper(
    threads: &Arc<Threads>,
    part: &str,
    what: String,
    style: &ThreadStyle,
    serve: impl FnOnce(&Threads, &Devices) + Send + 'static,
) -> Result<JoinHandle<()>, BuildError> {
    let threads = threads.clone();
    let serve = move |threads: &Threads| {
        let Some(devices) = &threads.devices else { return };
        on_own_thread();
        inside::enter(threads.shared.id); // captured values of skipped bodies may be dropped here
        serve(threads, devices);
    };
    let life = {
        let what = what.clone();
        move || live(&threads, &what, || serve(&threads))
    };
    let name = thread_name(style.name.as_deref(), part);
    start(Builder::new().name(name), life).map_err(|source| thread_error(&what, source))
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use crate::Runtime;
    use crate::ids::DeviceId;
    use rustix::thread::sched_getaffinity;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    #[test]
    fn building_a_runtime_does_not_change_the_affinity_of_the_thread() {
        let before = sched_getaffinity(None).unwrap();
        for units in ["1:CPU:1", "2:CPU:1", "1:CPU:2"] {
            let rt = Runtime::builder().compute_units(units).use_current_thread(true).build().unwrap();
            assert_eq!(sched_getaffinity(None).unwrap(), before);
            rt.shutdown().unwrap();
            assert_eq!(sched_getaffinity(None).unwrap(), before);
        }
    }

    /// A device may call its waker at any time on one of its interface's threads, and such a call must not end a
    /// runtime.
    #[test]
    fn device_waker_does_not_keep_the_runtime_alive() {
        for _ in 0..20 {
            let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build().unwrap();
            let threads = rt.door.driver.real().map(Arc::downgrade).unwrap();
            let waker =
                threads.upgrade().unwrap().devices.as_ref().unwrap().queue(DeviceId(0)).waker().unwrap().clone();
            let done = AtomicBool::new(false);
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    while !done.load(Ordering::Relaxed) {
                        waker();
                    }
                });
                drop(rt);
                let left = threads.strong_count();
                done.store(true, Ordering::Relaxed);
                assert_eq!(left, 0);
            });
        }
    }
}
