//! Queues of ready tasks that wait for a thread.
//!
//! On the fast path, each hosting thread has two deques, from which other threads steal, and there is one queue for
//! threads that host no unit. Tasks that became ready when another task ended, and tasks that bodies submit, are taken
//! newest first: their data is in the cache, and recursion proceeds depth first rather than breadth first. Tasks that
//! are submitted from outside any body and are ready at once run after those, in submission order, because that is the
//! order in which programs traverse memory. Tasks with a priority go through a heap that is checked first (last for
//! negative priorities). Placed tasks wait in their unit's inbox.

use super::forks::Forks;
use super::thief::Thief;
use crate::depend::{Meta, OwnedTask, running};
use crate::driver::progress::Tally;
use crate::engine::Launch;
use crate::machine::Machine;
use crate::sync::Sleep;
use crossbeam_deque::{Injector, Steal, Stealer, Worker};
use parking_lot::Mutex;
use std::cell::Cell;
use std::cmp::{Ordering as Order, Reverse};
use std::collections::{BinaryHeap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// All queues of ready tasks.
pub(super) struct ReadyQueues {
    /// Stealing ends of each host's deques: first the deque of submitted tasks, whose data is in no cache, then the
    /// deque of recent tasks.
    stealers: Vec<[Stealer<OwnedTask>; 2]>,
    injector: Injector<OwnedTask>,
    urgent: Heap,
    patient: Heap,
    inboxes: Vec<Inbox>,
}

/// A hosting thread's own ends of the queues.
pub(super) struct OwnQueue {
    /// Tasks that the thread takes newest first.
    recent: Worker<OwnedTask>,
    /// Tasks that the thread takes in submission order.
    submitted: Worker<OwnedTask>,
    /// Whether the last search for the longest-ready task began with the recent tasks.
    was_recent: Cell<bool>,
    /// Index of the thread's deques: the unit for a unit's host, or the index after all units for a guest.
    pub(super) slot: usize,
    /// Fork-join calls that bodies on this thread offer to other threads.
    pub(super) forks: Forks,
    /// Decides whether stealing pays off.
    thief: Thief,
}

#[derive(Default)]
struct Inbox {
    launches: Mutex<VecDeque<Box<Launch>>>,
    len: AtomicUsize,
}

#[derive(Default)]
struct Heap {
    tasks: Mutex<BinaryHeap<Prioritized>>,
    len: AtomicUsize,
}

struct Prioritized(OwnedTask);

impl Prioritized {
    fn key(&self) -> (i32, Reverse<u64>) {
        (self.0.shared().priority, Reverse(self.0.shared().id.0))
    }
}

impl PartialEq for Prioritized {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl Eq for Prioritized {}

impl PartialOrd for Prioritized {
    fn partial_cmp(&self, other: &Self) -> Option<Order> {
        Some(self.cmp(other))
    }
}

impl Ord for Prioritized {
    fn cmp(&self, other: &Self) -> Order {
        self.key().cmp(&other.key())
    }
}

impl Heap {
    fn push(&self, task: OwnedTask) {
        let mut tasks = self.tasks.lock();
        tasks.push(Prioritized(task));
        self.len.store(tasks.len(), Ordering::Release);
    }

    fn pop(&self) -> Option<OwnedTask> {
        if self.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut tasks = self.tasks.lock();
        let task = tasks.pop();
        self.len.store(tasks.len(), Ordering::Release);
        task.map(|prioritized| prioritized.0)
    }
}

impl ReadyQueues {
    /// Creates the queues of a machine. Also returns one owner's end for each unit's host, and a last end for a guest.
    /// `idle` contains the sleeping hosts.
    pub(super) fn new(machine: &Machine, idle: &Arc<Sleep>) -> (Self, Vec<OwnQueue>) {
        let forks = Forks::of_machine(machine, idle);
        let own = |(slot, forks)| {
            let (recent, submitted) = (Worker::new_lifo(), Worker::new_fifo());
            OwnQueue { recent, submitted, was_recent: Cell::default(), slot, forks, thief: Thief::default() }
        };
        let own: Vec<_> = forks.into_iter().enumerate().map(own).collect();
        let queues = Self {
            stealers: own.iter().map(|own| [own.submitted.stealer(), own.recent.stealer()]).collect(),
            injector: Injector::new(),
            urgent: Heap::default(),
            patient: Heap::default(),
            inboxes: machine.units().iter().map(|_| Inbox::default()).collect(),
        };
        (queues, own)
    }

    /// Adds a task that any CPU unit may run and that was ready at submission. The caller wakes a thread.
    #[inline(always)] // on the path of every task
    pub(super) fn push_submitted(&self, task: OwnedTask, own: Option<&OwnQueue>) {
        let Meta { priority, internal, .. } = *task.shared();
        match own {
            // An awaited task takes precedence over all other submitted tasks.
            Some(own) if priority == 0 && !internal && (task.owned().is_bare() || !is_awaited_here(&task)) => {
                own.submitted.push(task);
            }
            own => self.push(task, own),
        }
    }

    /// Adds a task that any CPU unit may run and that has become ready. The caller wakes a thread.
    #[inline(always)] // on the path of every task
    pub(super) fn push(&self, task: OwnedTask, own: Option<&OwnQueue>) {
        match (task.shared().priority, own) {
            (0, Some(own)) => own.recent.push(task),
            (0, None) => self.injector.push(task),
            (1.., _) => self.urgent.push(task),
            (..0, _) => self.patient.push(task),
        }
    }

    /// Adds a task for one unit. The caller wakes its thread.
    pub(super) fn push_launch(&self, launch: Box<Launch>) {
        let inbox = &self.inboxes[launch.unit.index()];
        let mut launches = inbox.launches.lock();
        launches.push_back(launch);
        inbox.len.store(launches.len(), Ordering::Release);
    }

    /// Puts back the launch that was taken last. No other thread needs to be woken for it.
    pub(super) fn put_launch_back(&self, launch: Box<Launch>) {
        let inbox = &self.inboxes[launch.unit.index()];
        let mut launches = inbox.launches.lock();
        launches.push_front(launch);
        inbox.len.store(launches.len(), Ordering::Release);
    }

    /// Takes a task placed on `unit`.
    #[inline]
    pub(super) fn pop_launch(&self, unit: usize) -> Option<Box<Launch>> {
        let inbox = &self.inboxes[unit];
        if inbox.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut launches = inbox.launches.lock();
        let launch = launches.pop_front();
        inbox.len.store(launches.len(), Ordering::Release);
        launch
    }

    /// Returns the number of tasks placed on `unit` that its thread has not begun yet.
    pub(super) fn launches(&self, unit: usize) -> usize {
        self.inboxes[unit].len.load(Ordering::Acquire)
    }

    /// Returns whether urgent tasks (with a positive priority) are waiting.
    #[inline]
    pub(super) fn has_urgent(&self) -> bool {
        self.urgent.len.load(Ordering::Relaxed) > 0
    }

    /// Takes a task that any CPU unit may run. Tries urgent tasks first, then the host's own tasks, then tasks of
    /// other threads, and finally tasks with a negative priority.
    #[inline(always)] // on the path of every task
    pub(super) fn pop(&self, own: &OwnQueue, tally: impl Fn() -> Tally) -> Option<OwnedTask> {
        if self.has_urgent()
            && let Some(task) = self.urgent.pop()
        {
            return Some(task);
        }
        match own.recent.pop().or_else(|| own.submitted.pop()) {
            None => self.pop_elsewhere(own, tally),
            task => task,
        }
    }

    #[inline(never)]
    fn pop_elsewhere(&self, own: &OwnQueue, tally: impl Fn() -> Tally) -> Option<OwnedTask> {
        insist(|| self.injector.steal_batch_and_pop(&own.recent))
            .or_else(|| self.steal(own, tally))
            .or_else(|| self.patient.pop())
    }

    /// Takes the newest of the host's own tasks that became ready or were submitted by its bodies, even if more urgent
    /// tasks are waiting elsewhere.
    #[inline]
    pub(super) fn pop_own(own: &OwnQueue) -> Option<OwnedTask> {
        own.recent.pop()
    }

    /// Takes the task that has been ready longest: first from threads without a unit, otherwise from the host's own
    /// tasks, alternating between submitted and recent tasks.
    pub(super) fn pop_oldest(&self, own: &OwnQueue) -> Option<OwnedTask> {
        let foreign = (!self.injector.is_empty()).then(|| insist(|| self.injector.steal())).flatten();
        foreign.or_else(|| {
            let [_, recent] = &self.stealers[own.slot];
            let recent = || insist(|| recent.steal());
            match own.was_recent.replace(!own.was_recent.get()) {
                true => own.submitted.pop().or_else(recent),
                false => recent().or_else(|| own.submitted.pop()),
            }
        })
    }

    fn steal(&self, own: &OwnQueue, tally: impl Fn() -> Tally) -> Option<OwnedTask> {
        if !own.thief.is_ready(&tally) {
            return None;
        }
        let n = self.stealers.len();
        let victims = (1..n).flat_map(|k| &self.stealers[(own.slot + k) % n]);
        let stolen =
            victims.map(|victim| insist(|| victim.steal_batch_and_pop(&own.recent))).find_map(|stolen| stolen)?;
        own.thief.stole(tally());
        Some(stolen)
    }

    /// Takes a `wanted` task that any CPU unit may run, from any queue. Other tasks that are in the way may change
    /// their positions; `moved` counts the tasks that were moved to queues that every thread checks.
    pub(super) fn find(
        &self,
        own: &OwnQueue,
        wanted: impl Fn(&OwnedTask) -> bool,
        moved: &mut usize,
    ) -> Option<OwnedTask> {
        // Tasks from the thread's own deques return to their positions; tasks of other threads go to the queues that
        // every thread checks.
        let mut passed = Vec::new();
        let take = |next: &mut dyn FnMut() -> Option<OwnedTask>, passed: &mut Vec<OwnedTask>| {
            while let Some(task) = next() {
                if wanted(&task) {
                    return Some(task);
                }
                passed.push(task);
            }
            None
        };
        let steal = |stealer: &Stealer<OwnedTask>| insist(|| stealer.steal());
        let mut found = take(&mut || own.recent.pop(), &mut passed);
        passed.drain(..).rev().for_each(|task| own.recent.push(task));
        if found.is_none() {
            found = take(&mut || own.submitted.pop(), &mut passed);
            while let Some(task) = own.submitted.pop() {
                passed.push(task);
            }
            passed.drain(..).for_each(|task| own.submitted.push(task));
        }
        let others = self.stealers.iter().enumerate().filter(|(slot, _)| *slot != own.slot);
        let mut others = others.flat_map(|(_, stealers)| stealers);
        if found.is_none() {
            found = take(&mut || self.urgent.pop(), &mut passed)
                .or_else(|| take(&mut || insist(|| self.injector.steal()), &mut passed))
                .or_else(|| others.find_map(|stealer| take(&mut || steal(stealer), &mut passed)))
                .or_else(|| take(&mut || self.patient.pop(), &mut passed));
            *moved = passed.len();
            passed.drain(..).for_each(|task| self.push(task, None));
        }
        found
    }

    /// Takes a `wanted` task placed in the inbox of `unit`.
    pub(super) fn find_launch(&self, unit: usize, wanted: impl Fn(&Launch) -> bool) -> Option<Box<Launch>> {
        let inbox = &self.inboxes[unit];
        if inbox.len.load(Ordering::Acquire) == 0 {
            return None;
        }
        let mut launches = inbox.launches.lock();
        let place = launches.iter().position(|launch| wanted(launch))?;
        let launch = launches.remove(place);
        inbox.len.store(launches.len(), Ordering::Release);
        launch
    }

    /// Calls `see` with each task in a lock-protected queue, while that lock is held. If only one unit may run the
    /// task, also passes that unit.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Option<usize>)) {
        for heap in [&self.urgent, &self.patient] {
            heap.tasks.lock().iter().for_each(|prioritized| see(&prioritized.0, None));
        }
        for (unit, inbox) in self.inboxes.iter().enumerate() {
            inbox.launches.lock().iter().for_each(|launch| see(&launch.task, Some(unit)));
        }
    }

    /// Takes up to `most` tasks out of the deques and out of the queue of threads that host no unit.
    pub(super) fn take_out(&self, most: usize) -> Vec<OwnedTask> {
        let injected = std::iter::from_fn(|| insist(|| self.injector.steal()));
        let mut taken: Vec<_> = injected.take(most).collect();
        for stealer in self.stealers.iter().flatten() {
            let stolen = std::iter::from_fn(|| insist(|| stealer.steal()));
            taken.extend(stolen.take(most - taken.len()));
        }
        taken
    }

    /// Takes all tasks that any CPU unit may run.
    pub(super) fn take_all(&self) -> Vec<OwnedTask> {
        let mut all = self.take_out(usize::MAX);
        all.extend([&self.urgent, &self.patient].into_iter().flat_map(|heap| std::iter::from_fn(|| heap.pop())));
        all
    }

    /// Returns whether a hosting thread of `unit` would find any work.
    pub(super) fn in_sight(&self, unit: usize) -> bool {
        self.inboxes[unit].len.load(Ordering::SeqCst) > 0
            || !self.injector.is_empty()
            || self.urgent.len.load(Ordering::SeqCst) > 0
            || self.patient.len.load(Ordering::SeqCst) > 0
            || self.stealers.iter().flatten().any(|stealer| !stealer.is_empty())
    }
}

/// Returns whether the body running on this thread has submitted this task and is likely to wait for it.
#[cold]
fn is_awaited_here(task: &OwnedTask) -> bool {
    task.owned().child.is_some() || task.body().group().is_some() && running::waits_in().is_some()
}

/// Retries a steal while it reports that another thread interfered.
fn insist<T>(steal: impl Fn() -> Steal<T>) -> Option<T> {
    loop {
        match steal() {
            Steal::Success(task) => return Some(task),
            Steal::Retry => {}
            Steal::Empty => return None,
        }
    }
}
