//! Entering one task's accesses into the histories of its data.

use super::fragment::Fragment;
use super::graph::Recorder;
use super::reduction::Ticket;
use super::{AccessRecord, Datum, Mode, Submitting, TaskRef};
use crate::error::SubmitError;
use crate::region::RegionMap;
use crate::sync::Flow;
use parking_lot::MutexGuard;
use smallvec::SmallVec;

/// More parts than this under one written region are made one.
const UNITE_BEYOND: usize = 6;

/// How many predecessors are remembered to leave out repeated edges.
const REMEMBER: usize = 8;

type Guard<'a> = MutexGuard<'a, RegionMap<Fragment>>;

/// Finds the predecessors of `task`, which declares `accesses`, and makes it wait for those that have not finished.
///
/// All locks are held until the last access is entered (invariant 1 of [`super`]).
///
/// # Errors
/// If a data was taken meanwhile; nothing was entered then. This is where it is decided who comes before a take and who
/// after: a task that gives a data's memory up marks it under the same lock.
#[inline]
pub(crate) fn register(
    task: &mut Submitting,
    accesses: &[AccessRecord<'_>],
    recorder: Option<&Recorder>,
) -> Result<(), SubmitError> {
    let mut newcomer = Newcomer { task, seen: SmallVec::new(), tickets: Vec::new(), recorder };
    match accesses {
        [] => {}
        [one] => {
            let mut fragments = one.datum.fragments.lock();
            newcomer.admit(one.datum)?;
            newcomer.enter(0, one, &mut fragments);
        }
        several => {
            let mut order: SmallVec<[usize; 12]> = (0..several.len()).collect();
            order.sort_unstable_by_key(|&i| std::ptr::from_ref(several[i].datum).addr());
            let mut guards: SmallVec<[Guard<'_>; 12]> = SmallVec::new();
            let mut guard_of: SmallVec<[usize; 12]> = SmallVec::from_elem(0, several.len());
            for (k, &i) in order.iter().enumerate() {
                if k == 0 || !std::ptr::eq(several[i].datum, several[order[k - 1]].datum) {
                    guards.push(several[i].datum.fragments.lock());
                }
                guard_of[i] = guards.len() - 1;
                newcomer.admit(several[i].datum)?;
            }
            for (i, access) in several.iter().enumerate() {
                newcomer.enter(i, access, &mut guards[guard_of[i]]);
            }
        }
    }
    let mut tickets = std::mem::take(&mut newcomer.tickets);
    tickets.reverse(); // they are used from the end, and turns of one lane must be taken in their order
    if !tickets.is_empty() {
        newcomer.task.owned_mut().get_or_insert_default().tickets = tickets;
    }
    Ok(())
}

/// The task that is being entered.
pub(super) struct Newcomer<'a> {
    task: &'a mut Submitting,
    seen: SmallVec<[(usize, Flow); REMEMBER]>,
    tickets: Vec<Ticket>,
    recorder: Option<&'a Recorder>,
}

impl Newcomer<'_> {
    /// Refuses data that is taken, and takes it if that is what the newcomer is for. Its history is locked.
    #[inline]
    fn admit(&mut self, datum: &Datum) -> Result<(), SubmitError> {
        if datum.is_taken() {
            return Err(SubmitError::Taken { data: datum.to_string() });
        }
        if self.task.owned_mut().as_ref().is_some_and(|side| side.forget == Some(datum.id)) {
            datum.set_taken(true);
        }
        Ok(())
    }

    #[inline]
    fn enter(&mut self, index: usize, access: &AccessRecord<'_>, fragments: &mut Guard<'_>) {
        let mut parts = 0;
        fragments.visit(&access.block, |part, fragment| {
            parts += 1;
            if let Some(ticket) = fragment.enter(index, part, access.mode, self) {
                self.tickets.push(ticket);
            }
        });
        if matches!(access.mode, Mode::Out | Mode::InOut) {
            fragments.unite_beyond(&access.block, parts, UNITE_BEYOND);
        }
    }

    /// The newcomer waits for `predecessor`, unless that has finished or is the newcomer itself.
    #[inline]
    pub(super) fn wait_for(&mut self, predecessor: &TaskRef, flow: Flow) {
        let address = predecessor.address();
        if address == self.task.address() {
            return;
        }
        let known = |(seen, carried): &(usize, Flow)| *seen == address && (*carried == flow || *carried == Flow::Value);
        if self.seen.iter().any(known) {
            return;
        }
        if self.seen.len() < REMEMBER {
            self.seen.push((address, flow));
        }
        if let Some(recorder) = self.recorder {
            recorder.edge(predecessor.shared().id, self.task.shared().id, flow);
        }
        if self.task.wait_for(predecessor, flow).is_err()
            && flow == Flow::Value
            && let Some(cause) = predecessor.poison()
        {
            self.task.set_poison(cause);
        }
    }

    /// Whether finished tasks must be kept: the recorded graph shows them too.
    pub(super) fn keeps_finished(&self) -> bool {
        self.recorder.is_some()
    }

    /// A reference to leave behind.
    #[inline]
    pub(super) fn share(&self) -> TaskRef {
        self.task.share()
    }
}
