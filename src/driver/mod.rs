//! Drivers: they carry out the engine's decisions, on threads or on a virtual clock.
//!
//! The engine is notified of events ([`Event`]) and returns what has to be done ([`Command`]). A [`Driver`] connects
//! it to the outside world. There are two: [`threads`], with a thread per compute unit and the devices that these
//! threads lead, and [`simulated`]. A driver never decides which task runs next or which bytes it needs. Their common
//! parts are in this folder: [`shared`] contains the state that all threads of a runtime share, and is a part of the
//! driver; it uses the counters ([`progress`]), the list of waiting threads ([`waiters`]), the deadlock detection
//! ([`deadlock`]), the [`window`], the [`watch`] and the [`reasons`] for waiting. The public interface, `runtime/`,
//! holds one driver or the other and uses only the functions declared here.
//!
//! The shared state scales because a task touches little of it: the word of submissions costs one addition per task,
//! only idle threads and the threads that wake them take the lock of the list of sleepers, and sums over units are
//! amortized over many tasks. Placement is under one lock.
//!
//! *No dynamic dispatch, and no command on the fast path.* A unit's thread knows the concrete type of its driver. If
//! any unit may run any task, the engine passes one ready task after the other to a closure that pushes it into the
//! thread's deque. From there, through the body to its successors, a task meets only direct calls
//! (`threads/execute.rs`), most of them inlined. The public interface chooses between two types with one branch per
//! submission. So the trait serves placed tasks, one command at a time, and the common parts of submitting and waiting.

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

use crate::coherence::ReplicaId;
use crate::depend::{AccessRecord, Leaving, OwnedTask, Submitting};
use crate::engine::{Command, CopyOrder, Event, Launch, Outcome, Refused};
use crate::ids::DataId;
use crate::memory::DataCell;
use shared::Shared;
use std::cell::Cell;
use std::time::Duration;
use waiters::Awaited;

/// Carries commands out, and knows the time.
pub(crate) trait Driver {
    /// Returns the state that all threads share.
    fn shared(&self) -> &Shared;

    /// Returns the time since the runtime was built.
    fn now(&self) -> Duration;

    /// Passes a task to the engine and carries out the resulting commands. From time to time, makes the submitter wait
    /// while more tasks are pending than the window holds.
    ///
    /// # Errors
    /// If one of the task's data objects was taken since its accesses were checked.
    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), Refused>;

    /// Makes progress until nothing of what the thread waits for is `left`, or until waiting is in vain.
    #[track_caller]
    fn advance(&self, awaited: Awaited, left: impl Fn() -> u64);

    /// Notes that a data object has a home from now on.
    fn register(&self, cell: &DataCell);

    /// Notes that it has none any more, and undoes everything that was done to it for devices.
    fn unregister(&self, data: DataId);

    /// Gives a task to its unit. Its end is reported by an event later.
    fn launch(&self, launch: Box<Launch>);

    /// Copies a box. Returns the resulting event, unless that is reported later.
    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>>;

    /// Keeps one of the runtime's own tasks alive until the region it exports is given back. Returns the task and its
    /// outcome if that has already happened.
    fn leave(&self, task: OwnedTask, leaving: Leaving) -> Option<(OwnedTask, Outcome)> {
        drop((task, leaving));
        unreachable!("a driver without memory exports none")
    }

    /// Frees a replica's memory.
    fn release(&self, replica: ReplicaId);

    /// Ends the threads once nothing is pending any more; a second call has no effect.
    fn stop(&self);

    /// Calls `tell`, which notifies the engine and appends commands to a vector, and carries these commands out.
    fn react<R>(&self, tell: impl FnOnce(&mut Vec<Command>) -> R) -> R {
        let mut out = COMMANDS.try_with(Cell::take).unwrap_or_default(); // a thread that is ending has none any more
        let told = tell(&mut out);
        if !out.is_empty() {
            carry_out(self, &mut out);
        }
        let _ = COMMANDS.try_with(|commands| commands.set(out));
        told
    }
}

thread_local! {
    /// A vector to reuse; empty while a caller up the stack has taken it.
    static COMMANDS: Cell<Vec<Command>> = const { Cell::new(Vec::new()) };
}

/// Carries out commands, in their order, and then the commands that follow from them immediately.
fn carry_out(driver: &(impl Driver + ?Sized), out: &mut Vec<Command>) {
    let shared = driver.shared();
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
                    driver.release(released.replica);
                    shared.engine.on(Event::Released(released.space, released.bytes), out);
                }
                Command::Unregister { data } => driver.unregister(data),
            }
        }
        std::mem::swap(&mut batch, out);
    }
}
