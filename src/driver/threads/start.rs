//! The threads of a runtime: one hosts each unit, one copies for each device; rayon's are inside the units.
//!
//! Each starts pinned and named, and ends by itself when the runtime does. What they do is not here: tasks are run by
//! [`Host`], copies served by [`super::devices`]. Nothing is joined here either; whoever starts a thread keeps its handle.

use super::devices::CopyJob;
use super::host::Host;
use crate::depend::{OwnedTask, Team, running};
use crate::driver::shared::Core;
use crate::engine::Command;
use crate::error::{BuildError, FailureReason};
use crate::ids::DeviceId;
use crate::machine::ComputeUnit;
use core_affinity::CoreId;
use crossbeam_deque::Worker;
use parking_lot::Mutex;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::Receiver;
use std::thread::JoinHandle;

fn pin(core: usize) {
    if !core_affinity::set_for_current(CoreId { id: core }) {
        tracing::debug!("core {core} can not be pinned to");
    }
}

/// Which thread executes for a unit, so that others can see whether it sleeps, or is elsewhere.
pub(crate) struct Hosting {
    /// Where the system says what the thread does, if it does.
    state: Mutex<Option<Arc<Path>>>,
    is_there: AtomicBool,
}

thread_local! {
    /// Where the system says what this thread does, if it does: `None` until asked for.
    static STATE: Option<Arc<Path>> = {
        let thread = std::fs::read_link("/proc/thread-self").ok();
        thread.map(|thread| Path::new("/proc").join(thread).join("stat").into())
    };
}

impl Hosting {
    /// The thread that is to execute is there, or it is not yet.
    pub(crate) fn new(is_there: bool) -> Self {
        Self { state: Mutex::default(), is_there: AtomicBool::new(is_there) }
    }

    /// It is the calling thread.
    pub(crate) fn is_this_thread(&self) {
        let state = STATE.try_with(Clone::clone).ok().flatten();
        *self.state.lock() = state;
        self.is_there.store(true, Ordering::Relaxed);
    }

    /// No thread executes for the unit until one says that it does.
    pub(crate) fn is_nobody(&self) {
        self.is_there.store(false, Ordering::Relaxed);
    }

    /// Whether a thread executes for the unit, or is going to by itself.
    pub(crate) fn is_there(&self) -> bool {
        self.is_there.load(Ordering::Relaxed)
    }

    /// Whether the thread sleeps, as far as the system says.
    pub(crate) fn is_asleep(&self) -> bool {
        let state = self.state.lock().clone();
        let text = state.and_then(|state| std::fs::read_to_string(state).ok());
        // The name, which may hold anything, ends with the last parenthesis; the state comes next.
        text.is_some_and(|text| text.rsplit(')').next().is_some_and(|rest| rest.trim_start().starts_with('S')))
    }
}

fn thread_error(what: &str, source: std::io::Error) -> BuildError {
    BuildError::Thread { what: what.to_owned(), source }
}

/// How threads are started.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ThreadStyle {
    /// Whether each is bound to its core.
    pub(crate) pin: bool,
    pub(crate) stack_bytes: usize,
}

/// The pool that rayon uses inside a unit's bodies.
///
/// A unit's own thread joins its pool, so that a body is already inside it. The thread of the user's that hosts a unit
/// does not: its own use of rayon stays as it is, and for a unit of one core there is no pool at all.
pub(crate) fn inner_pool(
    core: &Core,
    unit: &ComputeUnit,
    style: ThreadStyle,
    join: bool,
) -> Result<Option<rayon::ThreadPool>, BuildError> {
    if unit.is_cpu() && unit.inner_cores() == 1 && !join {
        return Ok(None);
    }
    let cores = if unit.is_cpu() { unit.cores.clone() } else { unit.cores[..1].to_vec() };
    let (runtime, id, count) = (core.id, unit.id, cores.len());
    let team: Arc<Team> = Arc::default();
    if join {
        running::join(runtime, team.clone());
    }
    let mut builder = rayon::ThreadPoolBuilder::new()
        .num_threads(count)
        .thread_name(move |n| format!("thalweg-{}.{n}", id.0))
        .stack_size(style.stack_bytes)
        .start_handler(move |n| {
            if style.pin {
                pin(cores[n]);
            }
            Host::enter_inside(runtime);
            running::join(runtime, team.clone());
        })
        .panic_handler(|payload| {
            // A task spawned into the pool and forgotten: nobody can be told but the log, and nothing may abort.
            tracing::error!("{}", crate::error::FailureReason::from_panic(payload));
        });
    if join {
        builder = builder.use_current_thread();
    }
    builder.build().map(Some).map_err(|error| thread_error(&format!("{id}"), std::io::Error::other(error)))
}

/// The thread that hosts a unit; it executes tasks until the runtime ends. If it dies, everybody is told.
pub(crate) fn start_unit(
    core: &Arc<Core>,
    unit: ComputeUnit,
    deque: Worker<OwnedTask>,
    style: ThreadStyle,
) -> Result<JoinHandle<()>, BuildError> {
    let what = unit.id.to_string();
    let life = {
        let (core, what) = (core.clone(), what.clone());
        move || live(&core, &what, || host_unit(&core, &unit, deque, style))
    };
    let name = format!("thalweg-{}", what.replace(' ', ""));
    let thread = std::thread::Builder::new().name(name).stack_size(style.stack_bytes);
    thread.spawn(life).map_err(|source| thread_error(&what, source))
}

fn host_unit(core: &Arc<Core>, unit: &ComputeUnit, deque: Worker<OwnedTask>, style: ThreadStyle) {
    if style.pin {
        pin(unit.hosting_core());
    }
    // In the pool or not, tasks run; without it rayon would only use the cores of others too.
    let pool = inner_pool(core, unit, style, true);
    if let Err(error) = &pool {
        tracing::warn!("{error}; rayon inside {} uses the global pool", unit.id);
    }
    let host = Host::new(core, unit.id.index(), unit.id.index(), deque, None);
    host.clone().enter();
    Host::enter_inside(core.id);
    host.work(core);
    Host::leave(core.id);
    drop(pool);
}

/// A thread's life, at the end of which everybody is told if it was not the natural one.
fn live(core: &Core, what: &str, life: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(life)) {
        Host::leave(core.id);
        core.break_down(format!("the thread of {what} {}", FailureReason::from_panic(payload)));
    }
}

/// The thread that performs a device's copies, one after the other, until their queue is closed.
pub(crate) fn start_copy_engine(
    core: &Arc<Core>,
    device: DeviceId,
    jobs: Receiver<CopyJob>,
) -> Result<JoinHandle<()>, BuildError> {
    let core = core.clone();
    let what = format!("the copies of {device}");
    let serve = move |core: &Core| {
        let Some(devices) = core.devices() else { return };
        Host::enter_inside(core.id); // what a skipped body captured may be dropped here
        let mut out: Vec<Command> = Vec::new();
        while let Ok(job) = jobs.recv() {
            let Some(happened) = devices.serve(device, &job) else { return };
            core.engine.on(happened, &mut out);
            core.carry_out(None, &mut out);
        }
    };
    let life = {
        let what = what.clone();
        move || live(&core, &what, || serve(&core))
    };
    let name = format!("thalweg-copy{}", device.0);
    std::thread::Builder::new().name(name).spawn(life).map_err(|source| thread_error(&what, source))
}

#[cfg(test)]
mod tests {
    use crate::Context;
    use crate::error::{RunError, SubmitError};
    use crate::runtime::{Builder, Runtime};
    use std::sync::atomic::Ordering;
    use std::sync::mpsc::channel;
    use std::time::Duration;

    fn is_broken<T: std::fmt::Debug>(result: Result<T, RunError>) {
        match result {
            Err(RunError::Refused(SubmitError::Broken { problem })) => assert!(problem.contains("doomed"), "{problem}"),
            other => panic!("the runtime is broken: {other:?}"),
        }
    }

    /// Runs on a thread of its own what hangs if nobody is told.
    fn watched(test: impl FnOnce() + Send + 'static) {
        let (done, ended) = channel();
        let thread = std::thread::spawn(move || {
            test();
            done.send(()).unwrap();
        });
        let ended = ended.recv_timeout(Duration::from_secs(60));
        assert!(ended.is_ok() || thread.is_finished(), "hangs");
        thread.join().unwrap();
    }

    fn builder(units: &str) -> Builder {
        Runtime::builder().compute_units(units).report_stalls_after(None)
    }

    #[test]
    fn whoever_waits_is_told_that_a_units_thread_has_died() {
        let machines = ["1:CPU:1", "1:CPU:2", "2:CPU:1", "1:CPU:1,1:EMU:1"].map(|units| (units, false));
        for (units, on_device) in machines.into_iter().chain([("1:CPU:1,1:EMU:1", true)]) {
            watched(move || {
                let rt = builder(units).build().unwrap();
                let x = rt.data(vec![0u64; 100]);
                let ((open, opened), (began, begins)) = (channel::<()>(), channel());
                let gate = move |at: &Context, _: (&mut [u64],)| {
                    began.send(at.unit().index()).unwrap();
                    _ = opened.recv();
                };
                let task = rt.task("gate", (x.inout(),));
                if on_device { task.emulated(gate).submit() } else { task.host(gate).submit() }.unwrap();
                // What is urgent goes through a queue: a thread looks whether it is to die before it takes it.
                rt.task("behind", (x.inout(),)).priority(1).cpu(|_, _| ()).submit().unwrap();
                let busy = begins.recv().unwrap();
                let doomed = (busy + 1) % rt.machine().num_units();
                std::thread::scope(|scope| {
                    let waits = [scope.spawn(|| rt.wait()), scope.spawn(|| rt.read(&x.all()).map(drop))];
                    while rt.core.waiters.len() < waits.len() {
                        std::thread::yield_now();
                    }
                    rt.core.doomed.store(doomed, Ordering::Relaxed);
                    // The gate stays closed while they are told, unless the only unit is at it: that one dies behind it.
                    let closed = (doomed != busy).then_some(open);
                    while !rt.core.is_broken() {
                        rt.core.idle.wake_all();
                        std::thread::yield_now();
                    }
                    waits.into_iter().for_each(|wait| is_broken(wait.join().unwrap()));
                    drop(closed);
                });
                is_broken(rt.wait());
                is_broken(rt.take(x).map_err(RunError::from));
                let refused = rt.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
                assert!(refused.to_string().contains("thread of unit"), "{refused}");
            });
        }
    }

    #[test]
    fn whoever_waits_is_told_that_a_hosting_thread_has_died() {
        watched(|| {
            let rt = builder("1:CPU:1").submitter_hosts_unit(true).build().unwrap();
            rt.task("never", ()).cpu(|_, ()| ()).submit().unwrap();
            rt.core.doomed.store(0, Ordering::Relaxed);
            let died = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| rt.wait()));
            died.unwrap_err();
            assert!(rt.core.is_broken());
            let refused = rt.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
            assert!(refused.to_string().contains("the execution of tasks"), "{refused}");
            std::thread::scope(|scope| assert!(scope.spawn(|| rt.wait()).join().unwrap().is_err()));
        });
    }
}
