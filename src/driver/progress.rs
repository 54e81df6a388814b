//! How far a program has come: what was submitted, what has finished, and whether all that was submitted before a certain
//! moment has.
//!
//! Counting must cost a task next to nothing, so nobody counts what is left. One word has the number of tasks submitted;
//! each host counts what it has finished in a cache line of its own, and whoever wants to know adds up. To wait for the
//! tasks submitted *so far* while others go on submitting, the program is cut into *epochs*: a waiting thread ends the
//! current one. The word of submissions says in which epoch a task is, so that one addition gives a task its number and its
//! epoch, and a finishing host counts it under that. There are [`LANES`] counters per host, which epochs use by turns.
//!
//! Nothing here waits or wakes.
//!
//! Invariants:
//! 1. A lane is used by one epoch that is not *drained* (all its tasks finished) at a time.
//! 2. Sums of a lane count all epochs that ever used it: where a sum must get to is known when its epoch ends.
//! 3. What is counted as submitted and then refused is counted as finished too.

use crate::ids::TaskId;
use crossbeam_utils::CachePadded;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many epochs can have unfinished tasks.
pub(crate) const LANES: usize = 4;
const LANE_SHIFT: u32 = 62;
/// The runtime is ending: only what belongs to its tasks is admitted.
const CLOSING: u64 = 1 << 61;
/// No more tasks are admitted.
const CLOSED: u64 = 1 << 60;
/// Whoever submits is to say so first to a replay (`super::replays`).
const REPLAYING: u64 = 1 << 59;
const NUMBER: u64 = REPLAYING - 1;

/// The counters of one runtime.
pub(crate) struct Progress {
    /// The lane of the current epoch in the two highest bits, then [`CLOSING`], [`CLOSED`] and [`REPLAYING`], then the number
    /// of tasks submitted.
    submitted: CachePadded<AtomicU64>,
    /// Of each unit's host, of a guest in the place of unit 0's, and of threads that are no unit's; but for the last, each
    /// has one writer at a time.
    finished: Box<[CachePadded<Finished>]>,
    epochs: Mutex<Epochs>,
}

#[derive(Default)]
struct Finished {
    lanes: [AtomicU64; LANES],
    /// Of these, how many were the runtime's own.
    internal: AtomicU64,
}

#[derive(Debug, Default)]
struct Epochs {
    /// The lane of the current one.
    lane: usize,
    /// How many tasks had been submitted when it began.
    began: u64,
    /// For each lane, how many tasks all epochs had that used it and have ended.
    entered: [u64; LANES],
}

/// A task that is counted as submitted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Admission {
    pub(crate) task: TaskId,
    pub(crate) lane: u8,
    /// Whether it is admitted, whatever it is, and nobody is to be told; if not, and it is refused, the caller counts it as
    /// finished.
    pub(crate) open: bool,
}

/// All tasks that had been submitted at some moment.
#[derive(Debug, Clone)]
pub(crate) struct SoFar {
    /// The first task that is not among them.
    pub(crate) boundary: TaskId,
    /// Where lanes' sums must get to.
    lanes: SmallVec<[(usize, u64); LANES]>,
}

/// How far a program has come, as one thread sees it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Tally {
    /// Tasks that this thread has finished.
    pub(crate) own: u64,
    /// What others have submitted and finished.
    pub(crate) others: u64,
}

impl SoFar {
    /// No task at all.
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

    /// The slot of threads that are no unit's.
    pub(crate) fn strangers(&self) -> usize {
        self.finished.len() - 1
    }

    /// Counts a task that is being submitted.
    #[inline]
    pub(crate) fn admit(&self) -> Admission {
        self.admit_many(1)
    }

    /// Counts tasks that are being submitted, numbered one after the other from what is returned.
    #[inline]
    pub(crate) fn admit_many(&self, tasks: u64) -> Admission {
        Self::admission(self.submitted.fetch_add(tasks, Ordering::Relaxed))
    }

    #[inline]
    fn admission(word: u64) -> Admission {
        let (task, lane) = (TaskId(word & NUMBER), (word >> LANE_SHIFT) as u8);
        Admission { task, lane, open: word & (CLOSING | CLOSED | REPLAYING) == 0 }
    }

    /// Counts the tasks of a replay, which has nobody to tell.
    pub(crate) fn admit_replay(&self, tasks: u64) -> Admission {
        let word = self.submitted.fetch_add(tasks, Ordering::Relaxed);
        Admission { open: word & (CLOSING | CLOSED) == 0, ..Self::admission(word) }
    }

    /// Numbers for tasks that are no submissions of their own: as if they had been submitted and had ended.
    pub(crate) fn skip(&self, tasks: u64) -> TaskId {
        let Admission { task, lane, .. } = self.admit_replay(tasks);
        self.finished[self.strangers()].lanes[usize::from(lane) % LANES].fetch_add(tasks, Ordering::AcqRel);
        self.finished[self.strangers()].internal.fetch_add(tasks, Ordering::AcqRel);
        task
    }

    /// From now on whoever submits is to say so first, or not any more.
    pub(crate) fn set_replaying(&self, replaying: bool) {
        match replaying {
            true => self.submitted.fetch_or(REPLAYING, Ordering::SeqCst),
            false => self.submitted.fetch_and(!REPLAYING, Ordering::SeqCst),
        };
    }

    /// Whether whoever submits is to say so first.
    pub(crate) fn is_replaying(&self) -> bool {
        self.submitted.load(Ordering::Acquire) & REPLAYING != 0
    }

    /// Whether only what belongs to tasks is admitted, or nothing.
    pub(crate) fn is_closing(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & (CLOSING | CLOSED) != 0
    }

    /// From now on only what belongs to tasks is admitted.
    pub(crate) fn begin_to_close(&self) {
        self.submitted.fetch_or(CLOSING, Ordering::SeqCst);
    }

    /// From now on nothing is admitted.
    pub(crate) fn close(&self) {
        self.submitted.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Whether nothing is admitted.
    pub(crate) fn is_closed(&self) -> bool {
        self.submitted.load(Ordering::Relaxed) & CLOSED != 0
    }

    /// Counts a finished task, in a host's slot or that of strangers.
    #[inline]
    pub(crate) fn finish(&self, slot: Option<usize>, lane: u8, internal: bool) {
        let count = |counter: &AtomicU64| match slot {
            // One writer: no need for a locked instruction.
            Some(_) => counter.store(counter.load(Ordering::Relaxed) + 1, Ordering::Release),
            None => drop(counter.fetch_add(1, Ordering::AcqRel)),
        };
        let finished = &self.finished[slot.unwrap_or(self.strangers())];
        if internal {
            count(&finished.internal);
        }
        count(&finished.lanes[usize::from(lane) % LANES]);
    }

    /// Tasks finished.
    pub(crate) fn finished(&self) -> u64 {
        self.finished.iter().map(|slot| slot.sum()).sum()
    }

    /// Tasks submitted and not yet finished.
    pub(crate) fn pending(&self) -> u64 {
        // Finished before submitted: if the two are equal now, nothing was pending at the first reading.
        let finished = self.finished();
        (self.submitted.load(Ordering::Acquire) & NUMBER) - finished
    }

    /// What the host of a slot, and everybody else, have done so far.
    pub(crate) fn tally(&self, slot: usize) -> Tally {
        let own = self.finished[slot].sum();
        let submitted = self.submitted.load(Ordering::Relaxed) & NUMBER;
        Tally { own, others: submitted + self.finished() - own }
    }

    /// For each slot, the user's tasks that were finished there.
    pub(crate) fn finished_by_slot(&self) -> Vec<u64> {
        let users = |slot: &Finished| slot.sum().saturating_sub(slot.internal.load(Ordering::Acquire));
        self.finished.iter().map(|slot| users(slot)).collect()
    }

    /// Ends the current epoch: all tasks submitted so far.
    ///
    /// # Errors
    /// If no lane is free for the next one: what has to finish first, which are tasks submitted so far too.
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

    /// How many of these tasks have not finished, at least.
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
    fn what_is_submitted_later_does_not_count() {
        let progress = Progress::new(1);
        let (first, lane) = admit(&progress);
        let so_far = progress.so_far().unwrap();
        assert_eq!((first, so_far.boundary), (TaskId(0), TaskId(1)));
        let (second, later) = admit(&progress);
        assert!(second == TaskId(1) && later != lane);
        assert_eq!(progress.left(&so_far), 1);
        progress.finish(Some(0), later, false);
        assert_eq!((progress.left(&so_far), progress.pending()), (1, 1), "it is another epoch's");
        progress.finish(None, lane, true);
        assert_eq!((progress.left(&so_far), progress.pending()), (0, 0));
        assert_eq!(progress.finished_by_slot(), [1, 0, 0]);
    }

    #[test]
    fn lanes_are_used_again_when_their_epoch_is_drained() {
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
    fn what_is_refused_is_not_pending() {
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
