//! The progress of a program: the number of tasks submitted and finished, and whether all tasks submitted before a
//! given moment have finished.
//!
//! Counting must cost a task next to nothing, so there is no counter of remaining tasks. One word contains the number
//! of tasks submitted; each host counts the tasks it has finished in its own cache line, and a thread that needs a
//! total adds these up. To wait for the tasks submitted *so far* while other threads continue to submit, the program is
//! divided into *epochs*: a waiting thread ends the current one. The word of submissions also contains the epoch, so
//! one addition gives a task its number and its epoch, and the host that finishes the task counts it under that epoch.
//! There are [`LANES`] counters per host, which epochs use in turn.
//!
//! Nothing here waits or wakes.
//!
//! Invariants:
//! 1. At any time a lane is used by at most one epoch that is not *drained*; an epoch is drained when all its tasks
//!    have finished.
//! 2. The sum of a lane counts all epochs that ever used it: the sum that means an epoch is drained is known when the
//!    epoch ends.
//! 3. A task that is counted as submitted and then refused is counted as finished too.

use crate::ids::TaskId;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// The maximum number of epochs with unfinished tasks.
pub(crate) const LANES: usize = 4;
const LANE_SHIFT: u32 = 62;
/// The runtime is ending: only tasks that belong to its tasks are admitted.
const CLOSING: u64 = 1 << 61;
/// No more tasks are admitted.
const CLOSED: u64 = 1 << 60;
/// A submitter has to notify a replay first (`super::replays`).
const REPLAYING: u64 = 1 << 59;
const NUMBER: u64 = REPLAYING - 1;

/// The counters of one runtime.
pub(crate) struct Progress {
    /// The lane of the current epoch in the two highest bits, then [`CLOSING`], [`CLOSED`] and [`REPLAYING`], then the
    /// number of tasks submitted.
    submitted: CachePadded<AtomicU64>,
    /// One slot for each unit's host, one for a guest that replaces unit 0's host, and one for threads that belong to
    /// no unit. All but the last have one writer at a time.
    finished: Box<[CachePadded<Finished>]>,
    epochs: Mutex<Epochs>,
}

#[derive(Default)]
struct Finished {
    lanes: [AtomicU64; LANES],
    /// The number of these tasks that were the runtime's own.
    internal: AtomicU64,
}

#[derive(Debug, Default)]
struct Epochs {
    /// The lane of the current epoch.
    lane: usize,
    /// The number of tasks that had been submitted when it began.
    began: u64,
    /// For each lane, the number of tasks of all ended epochs that used it.
    entered: [u64; LANES],
}

/// A task that is counted as submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) task: TaskId,
    pub(crate) lane: u8,
    /// Whether the task is admitted unconditionally, with no replay to notify. If not, and the task is refused, the
    /// caller counts it as finished.
    pub(crate) open: bool,
}

/// All tasks that had been submitted at some moment.
#[derive(Debug, Clone)]
pub(crate) struct SoFar {
    /// The first task that is not among them.
    pub(crate) boundary: TaskId,
    /// The values that the lanes' sums must reach.
    lanes: SmallVec<[(usize, u64); LANES]>,
}

/// The progress of a program, as one thread sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// The number of tasks that this thread has finished.
    pub(crate) own: u64,
    /// The number of tasks that were submitted, plus the number that other threads have finished.
    pub(crate) others: u64,
}

impl SoFar {
    /// No tasks at all.
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

    /// The slot of threads that belong to no unit.
    pub(crate) fn strangers(&self) -> usize {
        self.finished.len() - 1
    }

    /// Counts a task that is being submitted.
    #[inline]
    pub(crate) fn admit(&self) -> Admission {
        self.admit_many(1)
    }

    /// Counts tasks that are being submitted, numbered consecutively from the returned one.
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

    /// Reserves numbers for tasks that are not submitted separately: they count as submitted and finished.
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

    /// Whether a submitter has to notify a replay first.
    pub(crate) fn is_replaying(&self) -> bool {
        self.submitted.load(Ordering::Acquire) & REPLAYING != 0
    }

    /// Whether admission is restricted to tasks that belong to others, or closed.
    pub(crate) fn is_closing(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & (CLOSING | CLOSED) != 0
    }

    /// From now on, admits only tasks that belong to tasks of the runtime.
    pub(crate) fn begin_to_close(&self) {
        self.submitted.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// From now on, admits nothing.
    pub(crate) fn close(&self) {
        self.submitted.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Whether nothing is admitted.
    pub(crate) fn is_closed(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Counts a finished task, in a host's slot or in that of other threads.
    #[inline]
    pub(crate) fn finish(&self, slot: Option<usize>, lane: u8, internal: bool) {
        let count = |counter: &AtomicU64| match slot {
            // There is one writer, so no locked instruction is needed.
            Some(_) => counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release),
            None => drop(counter.fetch_add(1, Ordering::AcqRel)),
        };
        let finished = &self.finished[slot.unwrap_or(self.strangers())];
        if internal {
            count(&finished.internal);
        }
        count(&finished.lanes[usize::from(lane) % LANES]);
    }

    /// The number of tasks finished.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.iter().map(|slot| slot.sum()).sum()
    }

    /// The number of tasks submitted and not yet finished.
    pub(crate) fn pending(&self) -> u64 {
        // Finished tasks are read before submitted ones: if both are equal now, nothing was pending at the first read.
        let finished = self.finished();
        (self.submitted.load(Ordering::Acquire) & NUMBER) - finished
    }

    /// Returns the numbers of the user's tasks that have finished, and that were submitted so far. The second number
    /// includes the few tasks of the runtime's own that have not finished.
    pub(crate) fn of_users(&self) -> (u64, u64) {
        let (mut all, mut internal) = (0, 0);
        for slot in &self.finished {
            internal += slot.internal.load(Ordering::Acquire);
            all += slot.sum();
        }
        let submitted = self.submitted.load(Ordering::Acquire) & NUMBER;
        (all.saturating_sub(internal), submitted.saturating_sub(internal))
    }

    /// Returns what the host of a slot, and all other threads, have done so far.
    pub(crate) fn tally(&self, slot: usize) -> Tally {
        let own = self.finished[slot].sum();
        let submitted = self.submitted.load(Ordering::Relaxed) & NUMBER;
        Tally { own, others: submitted + self.finished() - own }
    }

    /// For each slot, the number of the user's tasks that were finished there.
    pub(crate) fn finished_by_slot(&self) -> Vec<u64> {
        let users = |slot: &Finished| slot.sum().saturating_sub(slot.internal.load(Ordering::Acquire));
        self.finished.iter().map(|slot| users(slot)).collect()
    }

    /// Ends the current epoch, and returns all tasks submitted so far.
    ///
    /// # Errors
    /// If no lane is free for the next epoch. The error contains the tasks that have to finish first, which were also
    /// submitted so far.
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

    /// Returns the number of these tasks that had not finished when they were counted. Some may have finished since; 0
    /// means that all have finished.
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
