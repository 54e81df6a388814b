//! The body of a task that is never run: a join's, or that of a task which a test finishes by hand.
//!
//! It declares accesses and kinds of unit and does nothing else; to run it is an error in the layer that does.

use super::{AccessRecord, Body, Env, Kinds};
use crate::error::BoxError;
use crate::kernel::{DeviceSite, Launcher};
use crate::region::Block;

/// A body without code. `A` visits its accesses.
pub(super) struct Bodiless<A> {
    accesses: A,
    kinds: Kinds,
}

impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send> Bodiless<A> {
    pub(super) fn new(kinds: Kinds, accesses: A) -> Self {
        Self { accesses, kinds }
    }
}

impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send> Body for Bodiless<A> {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        (self.accesses)(visit);
    }

    fn run(&self, _: &Env<'_>) -> Result<(), BoxError> {
        unreachable!("a task without a body is not run")
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("a task without a body is not enqueued")
    }

    fn discard(&self) {}

    fn private(&self, _: usize) -> Option<(*mut u8, usize)> {
        None
    }

    fn combine(&self, _: usize, _: &Block) {}

    fn replica(&self, _: usize) -> Option<(&[u8], Block)> {
        None
    }

    fn absorb(&self, _: usize, _: &Block, _: (&[u8], Block)) {}

    fn retire(&self, _: usize) {}

    fn kinds(&self) -> Kinds {
        self.kinds
    }
}
