//! Body of a task that does nothing: a join, the starter of a replay, or a task that a test finishes by hand.
//!
//! The body only declares accesses and kinds of unit. If such a task is run at all, its only effect is that other tasks
//! can begin when it ends.

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

impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send + Sync> Bodiless<A> {
    pub(in crate::depend) fn new(kinds: Kinds, accesses: A) -> Self {
        Self { accesses, kinds, complete: || (), pieces: Box::default() }
    }

    /// Returns the same body for a join that tasks wait for at these pieces.
    pub(in crate::depend) fn at(self, pieces: impl Into<Box<[Piece]>>) -> Self {
        Self { pieces: pieces.into(), ..self }
    }

    /// Returns the same body for a join that calls `complete` when everything it waits for has ended.
    pub(in crate::depend) fn completing<C: Fn() + Send>(self, complete: C) -> Bodiless<A, C> {
        Bodiless { accesses: self.accesses, kinds: self.kinds, complete, pieces: self.pieces }
    }
}

#[allow(unsafe_code)] // the contract of `Body`
// SAFETY: `accesses` calls a `Sync` closure, `stands_at` returns a plain array, and no method changes either. There is
// no group.
unsafe impl<A: Fn(&mut dyn FnMut(AccessRecord<'_>)) + Send + Sync, C: Fn() + Send> Body for Bodiless<A, C> {
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
