//! Queues of ready tasks, one for each thread that runs tasks, from which all threads take, with threads that sleep
//! while all queues are empty: the protocol of `src/driver/threads/run.rs`.

use super::atomic::{AtomicUsize, Mutex, Ordering::Relaxed};
use super::owned::OwnedTask;
use super::sleep::{Parker, Sleep};
use super::task::Kind;
use std::collections::VecDeque;
use std::sync::Arc;

pub(super) struct Queues<K: Kind> {
    queues: Box<[Mutex<VecDeque<OwnedTask<K>>>]>,
    sleep: Sleep,
    /// The number of tasks that still have to run.
    left: AtomicUsize,
}

impl<K: Kind> Queues<K> {
    /// Creates queues for `threads` threads that run `tasks` tasks.
    pub(super) fn new(threads: usize, tasks: usize) -> Self {
        let queues = (0..threads).map(|_| Mutex::new(VecDeque::new())).collect();
        Self { queues, sleep: Sleep::new(), left: AtomicUsize::new(tasks) }
    }

    /// Adds a task to a thread's queue. [`wake`](Self::wake) must follow.
    pub(super) fn push(&self, thread: usize, task: OwnedTask<K>) {
        self.queues[thread].lock().unwrap().push_back(task);
    }

    /// Wakes threads for this many tasks.
    pub(super) fn wake(&self, tasks: usize) {
        if tasks > 0 {
            self.sleep.wake(tasks);
        }
    }

    /// Runs tasks as thread `own` until none is left.
    pub(super) fn work(&self, own: usize, mut run: impl FnMut(OwnedTask<K>)) {
        let parker = Arc::new(Parker::new());
        let is_over = || self.left.load(Relaxed) == 0;
        while !is_over() {
            match self.take(own) {
                Some(task) => run(task),
                None => self.sleep.sleep_unless(own, &parker, None, || is_over() || self.has_any()),
            }
        }
    }

    /// Notes that a task has run.
    pub(super) fn has_run(&self) {
        if self.left.fetch_sub(1, Relaxed) == 1 {
            self.sleep.wake_all();
        }
    }

    /// Takes the latest task of the own queue, or the first of another.
    fn take(&self, own: usize) -> Option<OwnedTask<K>> {
        let others = (1..self.queues.len()).map(|n| (own + n) % self.queues.len());
        let latest = self.queues[own].lock().unwrap().pop_back();
        latest.or_else(|| others.into_iter().find_map(|other| self.queues[other].lock().unwrap().pop_front()))
    }

    fn has_any(&self) -> bool {
        self.queues.iter().any(|queue| !queue.lock().unwrap().is_empty())
    }
}
