//! The conditions under which a recording is repeated.

use super::super::submit::TaskBuilder;
use super::step::RecordedRegion;
use crate::depend::{Body, Context, Kinds, Mode, Submitting};
use crate::driver::threads::Decide;
use crate::error::SubmitError;
use crate::ids::DataId;
use crate::kernel::{ElementType, Scalar};
use crate::memory::{Payload, With, number_between_rounds};
use crate::runtime::door::Door;
use crate::runtime::entrance::{EntranceOf, Kin};
use crate::sealed::INTERNAL;
use crate::sync::{CallSite, Idle};
use crate::task::{AccessSpec, Data, IterationSpace};
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// The number of iterations of a loop, and its condition.
#[derive(Clone)]
pub(super) struct Repeat {
    /// The maximum number of iterations, at least 1.
    pub(super) at_most: usize,
    /// If present, the loop ends when this number is small.
    pub(super) until: Option<Arc<dyn Condition>>,
}

/// A number in a data object, which decides after each iteration whether another one follows.
pub(super) trait Condition: Send + Sync {
    /// Returns whether the loop continues. The graph of the recording, which writes the number, must be the one that is
    /// idle, and all memory must be host memory.
    fn continues_between_rounds(&self, idle: &Idle<'_>) -> bool;

    /// Returns the data object with the number, the number's type, and the bound, whose bytes come first.
    fn number(&self) -> (DataId, ElementType, [u8; 8]);

    /// Returns the body of a task that stores whether the loop continues.
    fn body(&self, continues: &Arc<AtomicBool>) -> Box<dyn Body>;

    /// Submits a task that stores whether the loop continues. Calls `see` with the task.
    fn look(
        &self,
        door: &Door,
        kin: Kin,
        continues: &Arc<AtomicBool>,
        see: &mut dyn FnMut(&mut Submitting),
    ) -> Result<(), SubmitError>;
}

impl Repeat {
    /// Returns a closure that decides after each round of the recording's graph whether another round follows. If so,
    /// the closure begins new instances of these iteration spaces.
    pub(super) fn decide(&self, spaces: &[IterationSpace]) -> Decide {
        let (mut left, until, spaces) = (self.at_most - 1, self.until.clone(), spaces.to_vec());
        Box::new(move |idle| {
            let continues = left > 0 && until.as_ref().is_none_or(|until| until.continues_between_rounds(idle));
            if continues {
                left -= 1;
                spaces.iter().for_each(|space| _ = space.begin());
            }
            continues
        })
    }
}

/// Ends a loop when a number is not above a bound.
pub(super) struct Above<T> {
    x: Data<T>,
    bound: T,
}

impl<T: Scalar + PartialOrd> Above<T> {
    /// Makes the condition of a loop of tasks with these regions.
    ///
    /// # Errors
    /// Fails if `x` is not a single number that one of the tasks writes.
    pub(super) fn new<'r>(
        x: &Data<T>,
        bound: T,
        door: &Door,
        mut regions: impl Iterator<Item = &'r RecordedRegion>,
    ) -> Result<Self, SubmitError> {
        let datum = &x.cell.datum;
        let is_written = |region: &RecordedRegion| {
            let record = region.record();
            record.datum.id == datum.id && record.mode.writes() && record.mode != Mode::WeakInout
        };
        let problem = match () {
            () if x.cell.runtime != door.id => "is registered with another runtime; try a number of this one",
            () if x.len() != 1 => "does not have one element; try a data object with one, as `rt.scalar` makes",
            () if !regions.any(is_written) => {
                "is written by no recorded task; try a number that the recording computes"
            }
            () => return Ok(Self { x: x.clone(), bound }),
        };
        Err(SubmitError::Repeat { problem: format!("{datum} {problem}") })
    }
}

impl<T: Scalar + PartialOrd> Condition for Above<T> {
    fn continues_between_rounds(&self, idle: &Idle<'_>) -> bool {
        number_between_rounds::<T>(&self.x.cell, idle) > self.bound
    }

    fn number(&self) -> (DataId, ElementType, [u8; 8]) {
        let (mut bytes, bound) = ([0; 8], bytemuck::bytes_of(&self.bound));
        bytes[..bound.len()].copy_from_slice(bound);
        (self.x.cell.datum.id, T::TYPE, bytes)
    }

    fn body(&self, continues: &Arc<AtomicBool>) -> Box<dyn Body> {
        let (continues, bound) = (continues.clone(), self.bound);
        let look = move |_: &Context, (x,): (&[T],)| continues.store(x[0] > bound, Ordering::Release);
        Box::new(Payload::new((self.x.input().store(INTERNAL),), With(look, PhantomData), Kinds::CPU))
    }

    fn look(
        &self,
        door: &Door,
        kin: Kin,
        continues: &Arc<AtomicBool>,
        see: &mut dyn FnMut(&mut Submitting),
    ) -> Result<(), SubmitError> {
        let (continues, bound) = (continues.clone(), self.bound);
        TaskBuilder::new(EntranceOf::Front(door), kin, "until".into(), self.x.input())
            .host(move |_, x| continues.store(x[0] > bound, Ordering::Release))
            .submit_as(CallSite::caller(), false, see)
    }
}
