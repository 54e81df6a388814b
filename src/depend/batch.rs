//! Batched registration: enters several tasks that access parts of the same data objects while acquiring the locks only
//! once.
//!
//! For each task, the histories are queried and updated exactly as by [`register`](super::register::register); this
//! module adds no rules. The locks are held for at most [`MOST_TOGETHER`] tasks, so that other submitters get their
//! turn.

use super::history::History;
use super::recorder::Recorder;
use super::register::{FEW_ACCESSES, Leftover, Newcomer, address, taken};
use super::{AccessRecord, Submitting};
use crate::error::SubmitError;
use crate::region::Block;
use crate::sync::LockGuard;
use arrayvec::ArrayVec;

/// Maximum number of tasks entered per acquisition of the locks.
pub(crate) const MOST_TOGETHER: usize = 32;

/// Tasks that are entered together. Pass it by reference, because a copy would stall on the individual stores that
/// filled it.
pub(crate) type Batch = ArrayVec<Submitting, MOST_TOGETHER>;

/// The accesses of many tasks. All tasks access the same data objects in the same order with the same modes. Each task
/// has at most [`FEW_ACCESSES`], and none of them is weak.
pub(crate) trait Together {
    /// Calls `then` with the accesses of the task with this index. Runs user code before and after that call.
    fn model<R>(&self, index: usize, then: impl FnOnce(&[AccessRecord<'_>]) -> R) -> R;

    /// Updates `blocks`, which holds another task's regions, to the regions of the task with this index; regions that
    /// do not differ are left as they are.
    fn place(&self, index: usize, blocks: &mut [Block]);
}

/// Like [`register`](super::register::register), for several tasks, whose indices start at `first`. Each task accesses
/// the regions of `model` as adapted by `places`.
///
/// # Errors
/// Returns an error if a data object was taken in the meantime; in that case nothing was entered.
#[inline]
pub(crate) fn register_together(
    tasks: &mut Batch,
    first: usize,
    (model, places): (&[AccessRecord<'_>], &impl Together),
    recorder: Option<&Recorder>,
) -> Result<Option<Box<Leftover>>, SubmitError> {
    let mut order: ArrayVec<usize, FEW_ACCESSES> = (0..model.len()).collect();
    order.sort_by_key(|access| address(model, *access)); // the locking order that all threads use
    let mut guards: ArrayVec<LockGuard<'_, History>, FEW_ACCESSES> = ArrayVec::new();
    let mut guarded: ArrayVec<(usize, usize), FEW_ACCESSES> = ArrayVec::new();
    let mut previous = 0;
    for access in order {
        if address(model, access) != previous {
            previous = address(model, access);
            let history = model[access].datum.history.lock();
            if model[access].datum.is_taken() {
                return Err(taken(&tasks[0], model[access].datum));
            }
            guards.push(history);
        }
        guarded.push((access, guards.len() - 1));
    }
    let mut blocks: ArrayVec<Block, FEW_ACCESSES> = model.iter().map(|access| *access.block).collect();
    let mut leftover = None;
    for (index, task) in (first..).zip(tasks) {
        places.place(index, &mut blocks);
        let records: ArrayVec<AccessRecord<'_>, FEW_ACCESSES> =
            model.iter().zip(&blocks).map(|(access, block)| AccessRecord { block, ..*access }).collect();
        let mut newcomer = Newcomer::new(task, &records, recorder);
        for &(access, guard) in &guarded {
            newcomer.enter_next(access, &mut guards[guard]);
        }
        if let Some(left) = newcomer.settle() {
            leftover.get_or_insert_with(Box::<Leftover>::default).add(*left);
        }
    }
    Ok(leftover)
}
