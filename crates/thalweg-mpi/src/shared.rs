//! State that the communication thread shares with the threads of this rank: commands, results, the log.

use crate::error::{Broken, Failure};
use crate::links::Traffic;
use crate::transport::{Incoming, Outgoing};
use crate::uniform::Log;
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use thalweg::ids::TaskId;

/// A clock.
pub(crate) type Nanoseconds = Box<dyn Fn() -> u64 + Send>;

/// The name and place of the task for which a message is received.
pub(crate) type Whose = (Cow<'static, str>, &'static Location<'static>);

/// A request to the communication thread.
pub(crate) enum Command {
    /// A region is ready to be sent, over a channel if the message repeats.
    Send { to: usize, number: u64, check: u64, item: Box<dyn Outgoing>, channel: Option<u32> },
    /// The region that was to be sent has no value.
    Poison { to: usize, number: u64, check: u64, failure: Failure },
    /// A region is ready to be filled, for a task with this name and place.
    Receive { from: usize, number: u64, check: u64, item: Box<dyn Incoming>, whose: Whose },
    /// The program has reached a collective call, after `index` submissions with this hash.
    Enter { collective: u64, index: u64, hash: u64, place: String },
    /// All tasks of this rank before a collective call have ended.
    Done { collective: u64, failures: Vec<Failure> },
    /// This rank ends before its program does.
    Break(Broken),
    /// This rank's runtime is built. With a file, the run is traced, and the offsets of the clock go into the file.
    Clock(Nanoseconds, Option<PathBuf>),
    /// The program has ended.
    Close,
}

#[derive(Default)]
struct Queue {
    commands: Vec<Command>,
    sleeping: bool,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Shared {
    queue: Mutex<Queue>,
    wake: Condvar,
    results: Mutex<HashMap<u64, Vec<Failure>>>,
    resulted: Condvar,
    broken: OnceLock<Broken>,
    pub(crate) log: Mutex<Log>,
    /// By rank, the messages that this rank has sent to it.
    pub(crate) sent: Mutex<Vec<Traffic>>,
    pub(crate) origins: Mutex<Origins>,
}

/// The submissions for which this rank's runtime has been given tasks by [`local`](crate::TaskBuilder::local), since
/// the last wait. Other tasks know their submission themselves.
#[derive(Default)]
pub(crate) struct Origins {
    /// This task and those before it have been waited for.
    last: Option<TaskId>,
    /// Tasks and the numbers of their submissions, both in ascending order.
    tasks: Vec<(TaskId, u64)>,
}

impl Origins {
    pub(crate) fn push(&mut self, task: TaskId, submission: u64) {
        self.tasks.push((task, submission));
    }

    /// Forgets the tasks, after all have ended.
    pub(crate) fn forget(&mut self) {
        self.last = self.tasks.last().map(|(last, _)| *last).or(self.last);
        self.tasks.clear();
    }

    /// Returns the number of a task's submission: 0 if the task has been waited for, the largest number if the task was
    /// submitted otherwise.
    pub(crate) fn of(&self, task: TaskId) -> u64 {
        match self.tasks.binary_search_by_key(&task, |(task, _)| *task) {
            _ if Some(task) <= self.last => 0,
            Ok(at) => self.tasks[at].1,
            Err(_) => u64::MAX,
        }
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Shared {
    pub(crate) fn push(&self, command: Command) {
        let mut queue = lock(&self.queue);
        queue.commands.push(command);
        if std::mem::take(&mut queue.sleeping) {
            self.wake.notify_one();
        }
    }

    pub(crate) fn take_commands(&self, commands: &mut Vec<Command>) {
        std::mem::swap(&mut lock(&self.queue).commands, commands);
    }

    /// Lets the communication thread sleep until there is a command, at most for this time.
    pub(crate) fn sleep(&self, time: Option<Duration>) {
        let mut queue = lock(&self.queue);
        if !queue.commands.is_empty() {
            return;
        }
        queue.sleeping = true;
        queue = match time {
            Some(time) => self.wake.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
        queue.sleeping = false;
    }

    pub(crate) fn broken(&self) -> Option<&Broken> {
        self.broken.get()
    }

    pub(crate) fn break_for(&self, broken: Broken) {
        _ = self.broken.set(broken);
        drop(lock(&self.results));
        self.resulted.notify_all();
    }

    pub(crate) fn set_result(&self, collective: u64, failures: Vec<Failure>) {
        lock(&self.results).insert(collective, failures);
        self.resulted.notify_all();
    }

    /// Waits for the failures of all ranks.
    pub(crate) fn result(&self, collective: u64) -> Result<Vec<Failure>, Broken> {
        let mut results = lock(&self.results);
        loop {
            if let Some(failures) = results.remove(&collective) {
                return Ok(failures);
            }
            if let Some(broken) = self.broken.get() {
                return Err(broken.clone());
            }
            results = self.resulted.wait(results).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Counts something sent to a rank.
    pub(crate) fn count(&self, to: usize, add: impl FnOnce(&mut Traffic)) {
        let mut sent = lock(&self.sent);
        if sent.len() <= to {
            sent.resize(to + 1, Traffic::default());
        }
        add(&mut sent[to]);
    }
}
