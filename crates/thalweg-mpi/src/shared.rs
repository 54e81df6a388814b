//! State that the link shares with the threads of this rank: commands, results, the log; and the turns of the threads
//! that advance the link ([`crate::link`]).

use crate::error::{Broken, Failure};
use crate::links::Traffic;
use crate::transport::{Incoming, Outgoing};
use crate::uniform::Log;
use std::borrow::Cow;
use std::collections::HashMap;
use std::panic::Location;
use std::path::PathBuf;
use std::sync::{Condvar, Mutex, MutexGuard, OnceLock, PoisonError, TryLockError};
use std::time::Duration;
use thalweg::ids::TaskId;

/// A clock.
pub(crate) type Nanoseconds = Box<dyn Fn() -> u64 + Send>;

/// The name and place of the task for which a message is received.
pub(crate) type Whose = (Cow<'static, str>, &'static Location<'static>);

/// A request to the link.
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

impl Command {
    /// Returns whether the command may copy too much for a unit's thread.
    fn takes_long(&mut self) -> bool {
        match self {
            Self::Receive { item, .. } => item.bytes().len() > LARGEST_ON_UNIT,
            _ => false,
        }
    }
}

/// The largest region, in bytes, that a unit's thread begins to receive itself: an MPI may copy it in that call.
const LARGEST_ON_UNIT: usize = 64 << 10;

/// The result of a step of the link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Step {
    /// There was something to do.
    Moved,
    /// Something is on its way.
    Waits,
    /// Nothing is on its way.
    Rests,
    /// All ranks have ended.
    Over,
}

/// The link, for the threads that advance it.
pub(crate) trait Advance: Send {
    /// Carries out the commands and, if it `looks`, handles the messages that have arrived.
    fn step(&mut self, looks: bool) -> Step;
    /// Ends the link, in the thread that opened it.
    fn close(self: Box<Self>);
}

#[derive(Default)]
struct Queue {
    commands: Vec<Command>,
    /// Whether the communication thread sleeps until it is woken.
    rests: bool,
    /// Whether it has to look.
    wanted: bool,
}

/// See the module documentation.
#[derive(Default)]
pub(crate) struct Shared {
    link: Mutex<Option<Box<dyn Advance>>>,
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
    /// Gives the link a command, and carries it out if no other thread is at the link.
    pub(crate) fn push(&self, mut command: Command) {
        let takes_long = command.takes_long();
        lock(&self.queue).commands.push(command);
        match takes_long {
            true => self.wake.notify_one(),
            false => _ = self.advance(false),
        }
    }

    pub(crate) fn take_commands(&self, commands: &mut Vec<Command>) {
        std::mem::swap(&mut lock(&self.queue).commands, commands);
    }

    /// Opens the link, which then carries out the commands given so far.
    pub(crate) fn set_link(&self, link: Box<dyn Advance>) {
        *lock(&self.link) = Some(link);
    }

    /// Ends the link, in the thread that opened it.
    pub(crate) fn close_link(&self) {
        let link = lock(&self.link).take();
        link.into_iter().for_each(Advance::close);
    }

    /// Advances the link after other threads have.
    pub(crate) fn advance_in_turn(&self) -> Step {
        lock(&self.queue).wanted = false;
        lock(&self.link).as_mut().map_or(Step::Rests, |link| link.step(true))
    }

    /// Advances the link unless another thread does. Returns whether something is on its way.
    ///
    /// A thread that leaves the link looks for further commands, so no command is left over.
    pub(crate) fn advance(&self, looks: bool) -> bool {
        while let Some(step) = self.try_step(looks) {
            let is_waiting = step != Step::Rests;
            let mut queue = lock(&self.queue);
            if is_waiting && !std::mem::replace(&mut queue.wanted, true) && queue.rests {
                self.wake.notify_one();
            }
            if queue.commands.is_empty() {
                return is_waiting;
            }
        }
        false
    }

    /// Takes a step of the link; `None` if another thread is at it, or if it is not open.
    fn try_step(&self, looks: bool) -> Option<Step> {
        let mut link = match self.link.try_lock() {
            Ok(link) => link,
            Err(TryLockError::Poisoned(link)) => link.into_inner(),
            Err(TryLockError::WouldBlock) => return None,
        };
        link.as_mut().map(|link| link.step(looks))
    }

    /// Lets the communication thread sleep until it is wanted, for at most this time.
    pub(crate) fn sleep(&self, time: Option<Duration>) {
        let mut queue = lock(&self.queue);
        if !queue.commands.is_empty() || time.is_none() && queue.wanted {
            return;
        }
        queue.rests = time.is_none();
        queue = match time {
            Some(time) => self.wake.wait_timeout(queue, time).unwrap_or_else(PoisonError::into_inner).0,
            None => self.wake.wait(queue).unwrap_or_else(PoisonError::into_inner),
        };
        queue.rests = false;
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
