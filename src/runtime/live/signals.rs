//! Answers to SIGUSR1, which state on standard error what the tasks of each runtime are doing and waiting for.
//!
//! The signal handler, which belongs to the crate `signal-hook`, only sets a flag. A single thread per process checks
//! the flag and writes the answers. It also looks at the running tasks now and then, so that an answer can state how
//! long they have been running.
//!
//! The thread ends with the last runtime that answers. After that, the signal is ignored: it does not end the process,
//! as it would if there had never been such a runtime.
//!
//! Nothing in this module is called by a task or runs in the signal handler.

use crate::driver::reasons::explain_all;
use crate::runtime::door::Door;
use crate::sync::{Birth, share, start};
use parking_lot::Mutex;
use signal_hook::consts::SIGUSR1;
use signal_hook::iterator::Signals;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Weak};
use std::thread::Builder;
use std::time::Duration;

/// How often the thread looks for a signal.
const EVERY: Duration = Duration::from_millis(100);
/// The number of such checks after which the thread looks at the running tasks.
const UNTIL_SIGHT: u32 = 5;

static ANSWERING: Mutex<Answering> = Mutex::new(Answering { runtimes: Vec::new(), thread: None });

/// The runtimes that answer.
struct Answering {
    runtimes: Vec<Weak<Door>>,
    /// The process in which the thread runs, because a child of `fork` does not have the thread.
    thread: Option<Birth>,
}

/// Lets a runtime answer signals.
///
/// # Errors
/// Fails if the signal cannot be caught or the system cannot start a thread.
pub(in crate::runtime) fn answer(door: &Door) -> io::Result<()> {
    let (_unforked, mut answering) = (share(), ANSWERING.lock());
    if answering.thread.is_none_or(|thread| !thread.is_here()) {
        answering.runtimes.clear();
        let signals = Signals::new([SIGUSR1])?;
        start(Builder::new().name("thalweg-signals".to_owned()), move || watch(signals))?;
        answering.thread = Some(Birth::here());
    }
    answering.runtimes.push(door.downgrade());
    Ok(())
}

/// The main function of the thread.
fn watch(mut signals: Signals) {
    let mut until_sight = 0;
    while let Some(runtimes) = answering() {
        let answer = signals.pending().count() > 0;
        let sight = until_sight == 0;
        until_sight = if sight { UNTIL_SIGHT } else { until_sight } - 1;
        for door in runtimes.iter().filter(|_| answer || sight) {
            // A bug in the runtime must not end this thread, because the thread helps to find the bug.
            let look = AssertUnwindSafe(|| if answer { tell(door) } else { drop(door.shared().sight()) });
            drop(catch_unwind(look));
        }
        drop(runtimes); // a runtime that ends meanwhile is freed here
        std::thread::sleep(EVERY);
    }
}

/// Returns the runtimes that answer; `None` if all of them have ended.
fn answering() -> Option<Vec<Arc<Door>>> {
    let (_unforked, mut answering) = (share(), ANSWERING.lock());
    answering.runtimes.retain(|door| door.strong_count() > 0);
    let runtimes: Vec<_> = answering.runtimes.iter().filter_map(Weak::upgrade).collect();
    if runtimes.is_empty() {
        answering.thread = None;
        return None;
    }
    Some(runtimes)
}

/// Writes what the tasks of a runtime are doing and waiting for.
fn tell(door: &Door) {
    let shared = door.shared();
    let number = if shared.name().is_none() { format!("runtime {}: ", shared.id) } else { String::new() };
    crate::log::write(format_args!("thalweg: {number}{}", explain_all(shared, door.driver.queues())));
}
