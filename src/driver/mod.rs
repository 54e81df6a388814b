//! Drivers, which carry out the engine's decisions on threads or on a virtual clock.
//!
//! The engine receives events ([`Event`]) and returns commands ([`Command`]). A [`Driver`] connects the engine to the
//! outside world. There are two drivers: [`threads`], with one thread per compute unit and the devices that these
//! threads manage, and [`simulated`]. A driver never decides which task runs next or which bytes it needs. The common
//! parts of both drivers are in this folder: [`shared`] contains the state that all threads of a runtime share, and is
//! a part of the driver. It uses the counters ([`progress`]), the list of waiting threads ([`waiters`]), deadlock
//! detection ([`deadlock`]), the [`window`], the [`watch`] and the [`reasons`] for waiting. The public interface,
//! `runtime/`, holds one of the two drivers and uses only the functions declared here.
//!
//! The shared state scales because each task touches little of it: the submission word costs one addition per task,
//! only idle threads and the threads that wake them lock the list of sleepers, and sums over units are amortized over
//! many tasks. Placement is protected by a single lock.
//!
//! *No dynamic dispatch, and no commands on the fast path.* A unit's thread knows the concrete type of its driver. If
//! any unit may run any task, the engine passes ready tasks one at a time to a closure that pushes them into the
//! thread's deque. From there, through its body and on to its successors, a task meets only direct calls
//! (`threads/execute.rs`), most of them inlined. The public interface selects one of the two driver types with one
//! branch per submission. So the trait only serves placed tasks, one command at a time, and the common parts of
//! submitting and waiting.

pub(crate) mod admission;
pub(crate) mod conflict;
pub(crate) mod deadlock;
pub(crate) mod detached;
pub(crate) mod inside;
pub(crate) mod progress;
pub(crate) mod reasons;
mod replays;
pub(crate) mod shared;
mod sightings;
#[cfg(feature = "sim")]
pub(crate) mod simulated;
#[cfg(not(feature = "sim"))]
#[path = "simulated/absent.rs"]
pub(crate) mod simulated;
pub(crate) mod threads;
mod traced;
pub(crate) mod waiters;
pub(crate) mod watch;
pub(crate) mod window;

use crate::depend::{AccessRecord, Leaving, OwnedTask, Submitting};
use crate::device::Visit;
use crate::engine::{Command, CopyOrder, Event, Launch, Outcome, Refused, Release};
use crate::ids::DataId;
use crate::memory::DataCell;
use shared::Shared;
use std::cell::Cell;
use std::time::Duration;
use waiters::Awaited;

/// Carries out commands and provides the time.
pub(crate) trait Driver {
    /// Returns the state that all threads share.
    fn shared(&self) -> &Shared;

    /// Returns the time elapsed since the runtime was built.
    fn now(&self) -> Duration;

    /// Passes a task to the engine and carries out the resulting commands. From time to time, makes the submitter wait
    /// while more tasks are pending than the window allows.
    ///
    /// # Errors
    /// Fails if one of the task's data objects was taken after the task's accesses were checked.
    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), Refused>;

    /// Makes progress until `left` returns 0 for the thread's condition, or until the wait can never end.
    #[track_caller]
    fn advance(&self, awaited: Awaited, left: impl Fn() -> u64);

    /// Notes that a data object now has a home.
    fn register(&self, cell: &DataCell);

    /// Notes that a data object no longer has a home, and undoes everything that was done to the home for devices.
    fn unregister(&self, data: DataId);

    /// Gives a task to its unit. A later event reports the end of the task.
    fn launch(&self, launch: Box<Launch>);

    /// Copies a box. Returns the resulting event, unless the event is reported later.
    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>>;

    /// Keeps one of the runtime's internal tasks alive until the region that it exports is returned. If the region has
    /// already been returned, returns the task and its outcome.
    fn leave(&self, task: OwnedTask, leaving: Leaving) -> Option<(OwnedTask, Outcome)> {
        drop((task, leaving));
        unreachable!("a driver without memory exports none")
    }

    /// Frees a replica's memory.
    fn release(&self, release: &Release);

    /// Ends the threads once nothing is pending any more. A second call has no effect.
    fn stop(&self);

    /// Calls `tell`, which notifies the engine and appends commands to a vector. Then carries out these commands.
    fn react<R>(&self, tell: impl FnOnce(&mut Vec<Command>) -> R) -> R {
        let mut out = COMMANDS.try_with(Cell::take).unwrap_or_default(); // an exiting thread no longer has a vector
        let told = tell(&mut out);
        if !out.is_empty() {
            carry_out(self, &mut out);
        }
        let _ = COMMANDS.try_with(|commands| commands.set(out));
        told
    }
}

thread_local! {
    /// Vector for reuse. It is empty while a caller further up the stack is using it.
    static COMMANDS: Cell<Vec<Command>> = const { Cell::new(Vec::new()) };
}

/// Carries out commands in order, followed by the commands that immediately result from them.
fn carry_out(driver: &(impl Driver + ?Sized), out: &mut Vec<Command>) {
    let shared = driver.shared();
    let _visit = Visit::begin();
    let mut batch = std::mem::take(out);
    while !batch.is_empty() {
        for command in batch.drain(..) {
            match command {
                Command::Run(task) => {
                    let leaves = shared.run_at_home(task, out);
                    if let Some((task, outcome)) = leaves.and_then(|(task, leaving)| driver.leave(task, leaving)) {
                        shared.end(task, outcome, None, out);
                    }
                }
                Command::Skip(task) => shared.skip(task, out),
                Command::Launch(launch) => driver.launch(launch),
                Command::Copy(order) => {
                    if let Some(event) = driver.copy(&order) {
                        shared.engine.on(event, out);
                    }
                }
                Command::Release(released) => {
                    driver.release(&released);
                    shared.engine.on(Event::Released(*released), out);
                }
                Command::Unregister { data } => driver.unregister(data),
            }
        }
        std::mem::swap(&mut batch, out);
    }
}
