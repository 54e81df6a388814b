//! Progress of a program: the number of tasks submitted and finished, and whether all tasks submitted before a given
//! moment have finished.
//!
//! Counting must cost next to nothing per task, so there is no counter of remaining tasks. One word contains the
//! number of submitted tasks. Each host counts the tasks it has finished in its own cache line, and a thread that
//! needs a total adds up these counters. To wait for the tasks submitted *so far* while other threads keep submitting,
//! the program is divided into *epochs*: a waiting thread ends the current epoch. The submission word also contains
//! the epoch, so a single addition gives a task both its ID and its epoch, and the host that finishes the task counts
//! it under that epoch. Each host has [`LANES`] counters, which the epochs use in rotation.
//!
//! This module neither waits nor wakes threads.
//!
//! Invariants:
//! 1. At any time, at most one epoch that is not *drained* uses a given lane. An epoch is drained when all its tasks
//!    have finished.
//! 2. A lane's sum counts the tasks of all epochs that ever used the lane. So the sum at which an epoch is drained is
//!    known when the epoch ends.
//! 3. A task that was counted as submitted and then refused is also counted as finished.

use crate::ids::TaskId;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum number of epochs with unfinished tasks.
pub(crate) const LANES: usize = 4;
const LANE_SHIFT: u32 = 62;
/// Flag: the runtime is shutting down, so only tasks submitted by its own tasks are admitted.
const CLOSING: u64 = 1 << 61;
/// Flag: no more tasks are admitted.
const CLOSED: u64 = 1 << 60;
/// Flag: a submitter has to notify a replay first (`super::replays`).
const REPLAYING: u64 = 1 << 59;
const NUMBER: u64 = REPLAYING - 1;

/// The progress counters of one runtime.
pub(crate) struct Progress {
    /// The lane of the current epoch in the two highest bits, followed by [`CLOSING`], [`CLOSED`] and [`REPLAYING`],
    /// and then the number of submitted tasks.
    submitted: CachePadded<AtomicU64>,
    /// One slot for each unit's host, one for a guest that stands in for unit 0's host, and one for threads that
    /// belong to no unit. Every slot except the last has only one writer at a time.
    finished: Box<[CachePadded<Finished>]>,
    epochs: Mutex<Epochs>,
}

#[derive(Default)]
struct Finished {
    lanes: [AtomicU64; LANES],
    /// Number of the finished tasks that were internal to the runtime.
    internal: AtomicU64,
}

#[derive(Debug, Default)]
struct Epochs {
    /// Lane of the current epoch.
    lane: usize,
    /// Number of tasks that had been submitted when the current epoch began.
    began: u64,
    /// For each lane, the number of tasks in all ended epochs that used the lane.
    entered: [u64; LANES],
}

/// Result of counting a task as submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) task: TaskId,
    pub(crate) lane: u8,
    /// Whether the task is admitted unconditionally and there is no replay to notify. If this is false and the task is
    /// refused, the caller must count the task as finished.
    pub(crate) open: bool,
}

/// The set of all tasks that had been submitted at some moment.
#[derive(Debug, Clone)]
pub(crate) struct SoFar {
    /// The first task that is not in the set.
    pub(crate) boundary: TaskId,
    /// Lanes with the sums that they reach when all tasks of the set have finished.
    lanes: SmallVec<[(usize, u64); LANES]>,
}

/// Snapshot of a program's progress from the point of view of one thread.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// Number of tasks that this thread has finished.
    pub(crate) own: u64,
    /// Number of submitted tasks plus the number of tasks that other threads have finished.
    pub(crate) others: u64,
}

impl SoFar {
    /// Returns the empty set of tasks.
    pub(crate) fn none() -> Self {
        Self { boundary: TaskId(0), lanes: SmallVec::new() }
    }
}

impl Progress {
    pub(crate) fn new(units: usize) -> Self {
        Self {
            submitted: CachePadded::default(),
            finished: (0..units + 2).map(|_| CachePadded::default()).collect(),
            epochs: Mutex::default(),
        }
    }

    /// Returns the slot of threads that belong to no unit.
    pub(crate) fn strangers(&self) -> usize {
        self.finished.len() - 1
    }

    /// Counts a task that is being submitted.
    #[inline]
    pub(crate) fn admit(&self) -> Admission {
        self.admit_many(1)
    }

    /// Counts tasks that are being submitted. Their IDs are consecutive, starting with the returned ID.
    #[inline]
    pub(crate) fn admit_many(&self, tasks: u64) -> Admission {
        Self::admission(self.submitted.fetch_add(tasks, Ordering::Relaxed))
    }

    #[inline]
    fn admission(word: u64) -> Admission {
        let (task, lane) = (TaskId(word & NUMBER), (word >> LANE_SHIFT) as u8);
        Admission { task, lane, open: word & (CLOSING | CLOSED | REPLAYING) == 0 }
    }

    /// Counts the tasks of a replay, which does not have to notify itself.
    pub(crate) fn admit_replay(&self, tasks: u64) -> Admission {
        let word = self.submitted.fetch_add(tasks, Ordering::Relaxed);
        Admission { open: word & (CLOSING | CLOSED) == 0, ..Self::admission(word) }
    }

    /// Reserves IDs for tasks that are not submitted separately. These tasks count as submitted and finished.
    pub(crate) fn skip(&self, tasks: u64) -> TaskId {
        let Admission { task, lane, .. } = self.admit_replay(tasks);
        self.finished[self.strangers()].lanes[usize::from(lane) % LANES].fetch_add(tasks, Ordering::AcqRel);
        self.finished[self.strangers()].internal.fetch_add(tasks, Ordering::AcqRel);
        task
    }

    /// Sets whether a submitter has to notify a replay first.
    pub(crate) fn set_replaying(&self, replaying: bool) {
        match replaying {
            true => self.submitted.fetch_or(REPLAYING, Ordering::SeqCst),
            false => self.submitted.fetch_and(!REPLAYING, Ordering::SeqCst),
        };
    }

    /// Returns whether a submitter has to notify a replay first.
    pub(crate) fn is_replaying(&self) -> bool {
        self.submitted.load(Ordering::Acquire) & REPLAYING != 0
    }

    /// Returns whether admission is closed, or restricted to tasks submitted by other tasks.
    pub(crate) fn is_closing(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & (CLOSING | CLOSED) != 0
    }

    /// From now on, admits only tasks submitted by the runtime's own tasks.
    pub(crate) fn begin_to_close(&self) {
        self.submitted.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// From now on, admits nothing.
    pub(crate) fn close(&self) {
        self.submitted.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Returns whether admission is closed.
    pub(crate) fn is_closed(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Counts a finished task, in a host's slot or in the slot of all other threads.
    #[inline]
    pub(crate) fn finish(&self, slot: Option<usize>, lane: u8, internal: bool) {
        let count = |counter: &AtomicU64| match slot {
            // The slot has only one writer, so no locked instruction is needed.
            Some(_) => counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release),
            None => drop(counter.fetch_add(1, Ordering::AcqRel)),
        };
        let finished = &self.finished[slot.unwrap_or(self.strangers())];
        if internal {
            count(&finished.internal);
        }
        count(&finished.lanes[usize::from(lane) % LANES]);
    }

    /// Returns the number of finished tasks.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.iter().map(|slot| slot.sum()).sum()
    }

    /// Returns the number of tasks that were submitted and have not finished.
    pub(crate) fn pending(&self) -> u64 {
        // Finished tasks are read before submitted tasks, so if the two numbers are equal, nothing was pending at the
        // first read.
        let finished = self.finished();
        (self.submitted.load(Ordering::Acquire) & NUMBER) - finished
    }

    /// Returns the number of finished user tasks, and the number of user tasks submitted so far. The second number
    /// also includes the few internal tasks that have not finished.
    pub(crate) fn of_users(&self) -> (u64, u64) {
        let (mut all, mut internal) = (0, 0);
        for slot in &self.finished {
            internal += slot.internal.load(Ordering::Acquire);
            all += slot.sum();
        }
        let submitted = self.submitted.load(Ordering::Acquire) & NUMBER;
        (all.saturating_sub(internal), submitted.saturating_sub(internal))
    }

    /// Returns what the host of a slot has done so far, and what all other threads have done.
    pub(crate) fn tally(&self, slot: usize) -> Tally {
        let own = self.finished[slot].sum();
        let submitted = self.submitted.load(Ordering::Relaxed) & NUMBER;
        Tally { own, others: submitted + self.finished() - own }
    }

    /// Returns, for each slot, the number of user tasks that were finished there.
    pub(crate) fn finished_by_slot(&self) -> Vec<u64> {
        let users = |slot: &Finished| slot.sum().saturating_sub(slot.internal.load(Ordering::Acquire));
        self.finished.iter().map(|slot| users(slot)).collect()
    }

    /// Ends the current epoch and returns the set of all tasks submitted so far.
    ///
    /// # Errors
    /// Fails if no lane is free for the next epoch. The error contains the tasks that have to finish first; all of
    /// them were submitted before this call.
    pub(crate) fn so_far(&self) -> Result<SoFar, SoFar> {
        let mut epochs = self.epochs.lock();
        let number = self.submitted.load(Ordering::Acquire) & NUMBER;
        let mut boundary = TaskId(epochs.began);
        if number > epochs.began {
            let next = (epochs.lane + 1) % LANES;
            let before = SoFar { boundary, lanes: SmallVec::from_slice(&[(next, epochs.entered[next])]) };
            if self.left(&before) > 0 {
                return Err(before);
            }
            let word = self.submitted.fetch_add(1 << LANE_SHIFT, Ordering::AcqRel);
            boundary = TaskId(word & NUMBER);
            let (lane, tasks) = (epochs.lane, boundary.0 - epochs.began);
            epochs.entered[lane] += tasks;
            (epochs.lane, epochs.began) = (next, boundary.0);
        }
        let ended = (0..LANES).filter(|lane| *lane != epochs.lane).map(|lane| (lane, epochs.entered[lane]));
        Ok(SoFar { boundary, lanes: ended.collect() })
    }

    /// Returns how many of these tasks had not finished when they were counted. Some of them may have finished since;
    /// 0 means that all have finished.
    pub(crate) fn left(&self, tasks: &SoFar) -> u64 {
        let of_lane = |&(lane, entered): &(usize, u64)| {
            let sum: u64 = self.finished.iter().map(|slot| slot.lanes[lane].load(Ordering::Acquire)).sum();
            entered.saturating_sub(sum)
        };
        tasks.lanes.iter().map(of_lane).sum()
    }
}

impl Finished {
    #[inline]
    fn sum(&self) -> u64 {
        self.lanes.iter().map(|lane| lane.load(Ordering::Acquire)).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn admit(progress: &Progress) -> (TaskId, u8) {
        let Admission { task, lane, open } = progress.admit();
        assert!(open);
        (task, lane)
    }

    #[test]
    fn later_submissions_do_not_count() {
        let progress = Progress::new(1);
        let (first, lane) = admit(&progress);
        let so_far = progress.so_far().unwrap();
        assert_eq!((first, so_far.boundary), (TaskId(0), TaskId(1)));
        let (second, later) = admit(&progress);
        assert!(second == TaskId(1) && later != lane);
        assert_eq!(progress.left(&so_far), 1);
        progress.finish(Some(0), later, false);
        assert_eq!((progress.left(&so_far), progress.pending()), (1, 1), "the task belongs to another epoch");
        progress.finish(None, lane, true);
        assert_eq!((progress.left(&so_far), progress.pending()), (0, 0));
        assert_eq!(progress.finished_by_slot(), [1, 0, 0]);
    }

    #[test]
    fn lane_is_reused_after_its_epoch_is_drained() {
        let progress = Progress::new(1);
        let mut unfinished = Vec::new();
        for _ in 1..LANES {
            unfinished.push(admit(&progress));
            progress.so_far().unwrap();
        }
        assert_eq!(progress.so_far().unwrap().boundary, TaskId(LANES as u64 - 1), "nothing new, so no new epoch");
        unfinished.push(admit(&progress));
        let oldest = progress.so_far().unwrap_err();
        assert_eq!(progress.left(&oldest), 1);
        for round in 0..100 {
            let (task, lane) = unfinished.remove(0);
            assert_eq!(task, TaskId(round));
            progress.finish(Some(0), lane, false);
            let so_far = progress.so_far().unwrap();
            assert_eq!(progress.left(&so_far), LANES as u64 - 1);
            unfinished.push(admit(&progress));
        }
    }

    #[test]
    fn refused_task_is_not_pending() {
        let progress = Progress::new(2);
        let (_, lane) = admit(&progress);
        progress.begin_to_close();
        let late = progress.admit();
        assert!(!late.open && !progress.is_closed());
        progress.finish(None, late.lane, false);
        progress.close();
        assert!(progress.is_closed());
        assert_eq!(progress.pending(), 1);
        progress.finish(Some(1), lane, false);
        assert_eq!(progress.pending(), 0);
        assert!(progress.so_far().is_ok_and(|so_far| progress.left(&so_far) == 0));
    }
}
