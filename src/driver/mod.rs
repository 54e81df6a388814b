//! Drivers: who carries out what the engine decides, on threads or on a virtual clock.
//!
//! The engine is told what happens ([`Event`]) and says what is to be done ([`Command`]). Between it and the world is a
//! [`Driver`], and there are two: [`threads`], a thread per compute unit and the devices that they lead, and
//! [`simulated`]. A driver never decides which task runs next or which bytes it needs. What both stand on lies beside
//! this file: [`shared`] has what all threads of a runtime share, and is a part of the driver; below it are the counters
//! ([`progress`]), who waits for what ([`waiters`]), for ever ([`deadlock`]), the [`window`] and the [`watch`]. The front door, `runtime/`, has one
//! driver or the other and asks it for no more than is said here.
//!
//! *No dynamic dispatch, and no command on the fast path.* A unit's thread has its driver by its type. Where any unit may
//! run any task, the engine hands over one ready task after the other, to a closure that puts it into the thread's deque:
//! from there through the body to its successors a task meets direct calls only (`threads/execute.rs`), most of them
//! inlined. The front door chooses between two types with one branch per submission. So the trait is what placed tasks
//! go by, one command at a time, and what submitting and waiting have in common.

pub(crate) mod admission;
pub(crate) mod conflict;
pub(crate) mod deadlock;
pub(crate) mod detached;
pub(crate) mod inside;
pub(crate) mod progress;
mod replays;
pub(crate) mod shared;
#[cfg(feature = "sim")]
pub(crate) mod simulated;
#[cfg(not(feature = "sim"))]
#[path = "simulated/absent.rs"]
pub(crate) mod simulated;
pub(crate) mod threads;
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

/// What carries commands out, and knows the time.
pub(crate) trait Driver {
    /// What all threads share.
    fn shared(&self) -> &Shared;

    /// The time since the runtime was built.
    fn now(&self) -> Duration;

    /// Hands a task to the engine and carries out what follows; from time to time, lets the submitter wait while more
    /// are pending than the window holds.
    ///
    /// # Errors
    /// If one of the task's data was taken since its accesses were checked.
    fn enter(&self, task: Submitting, accesses: &[AccessRecord<'_>]) -> Result<(), Refused>;

    /// Lets happen what a thread waits for: returns when nothing of it is `left`, or when waiting is in vain.
    #[track_caller]
    fn advance(&self, awaited: Awaited, left: impl Fn() -> u64);

    /// A data object has a home from now on.
    fn register(&self, cell: &DataCell);

    /// It has none any more: what was done to it for devices' sake is undone.
    fn unregister(&self, data: DataId);

    /// Gives a task to its unit. What becomes of it is an event, later.
    fn launch(&self, launch: Box<Launch>);

    /// Copies a box. What has become of that, unless it is an event later.
    fn copy(&self, order: &CopyOrder) -> Option<Event<'static>>;

    /// One of the runtime's own tasks goes on until what it lends out is given back; how it has ended, if it was already.
    fn leave(&self, task: OwnedTask, leaving: Leaving) -> Option<(OwnedTask, Outcome)> {
        drop((task, leaving));
        unreachable!("where there is no memory, none is lent out")
    }

    /// Gives a replica's memory back.
    fn release(&self, replica: ReplicaId);

    /// Ends the threads when nothing is pending any more; a second call changes nothing.
    fn stop(&self);

    /// Tells the engine something that appends commands to a vector, and carries these out.
    fn react<R>(&self, tell: impl FnOnce(&mut Vec<Command>) -> R) -> R {
        let mut out = COMMANDS.try_with(Cell::take).unwrap_or_default(); // a thread that ends has none any more
        let told = tell(&mut out);
        if !out.is_empty() {
            carry_out(self, &mut out);
        }
        let _ = COMMANDS.try_with(|commands| commands.set(out));
        told
    }
}

thread_local! {
    /// A vector to reuse; empty while somebody up the stack has it.
    static COMMANDS: Cell<Vec<Command>> = const { Cell::new(Vec::new()) };
}

/// Carries out commands, in their order, and behind them what follows from them at once.
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
