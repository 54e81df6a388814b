//! Body of a task that is never run: of a join, or of a task that a test finishes by hand.
//!
//! It declares accesses and kinds of unit and does nothing else. If such a task is run, its end lets other tasks
//! begin.

use super::{Body, Env, Kinds, Piece, Stop};
use crate::depend::AccessRecord;
use crate::error::BoxError;
use crate::kernel::{DeviceSite, Launcher};

/// A body without code. `A` visits its accesses; a join calls `C` at its end.
pub(in crate::depend) struct Bodiless<A, C = fn()> {
    accesses: A,
    kinds: Kinds,
    complete: C,
    pieces: Box<[Piece]>,
}

impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send> Bodiless<A> {
    pub(in crate::depend) fn new(kinds: Kinds, accesses: A) -> Self {
        Self { accesses, kinds, complete: || (), pieces: Box::default() }
    }

    /// Returns the same body for a join that is waited for at these pieces.
    pub(in crate::depend) fn at(self, pieces: impl Into<Box<[Piece]>>) -> Self {
        Self { pieces: pieces.into(), ..self }
    }

    /// Returns the same body for a join that calls `complete` when everything it waits for has ended.
    pub(in crate::depend) fn completing<C: Fn() + Send>(self, complete: C) -> Bodiless<A, C> {
        Bodiless { accesses: self.accesses, kinds: self.kinds, complete, pieces: self.pieces }
    }
}

impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send, C: Fn() + Send> Body for Bodiless<A, C> {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        (self.accesses)(visit);
    }

    fn run(&self, _: &Env<'_>) -> Result<(), Box<Stop>> {
        Ok(())
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("a task without a body is not enqueued")
    }

    fn discard(&self) {}

    fn stands_at(&self) -> &[Piece] {
        &self.pieces
    }

    fn complete(&self) {
        (self.complete)();
    }

    fn kinds(&self) -> Kinds {
        self.kinds
    }
}
