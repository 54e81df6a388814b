//! The body of a recorded task that stays: it is called in each replay, on the same accesses.

use super::access_list::Sites;
use super::{AccessList, IntoOutcome};
use crate::depend::{AccessRecord, Body, Context, Env, Kinds, Stop};
use crate::error::BoxError;
use crate::kernel::{DeviceSite, Launcher};
use crate::region::Block;
use std::marker::PhantomData;
use std::sync::Arc;

/// Accesses and body side by side; the body is for CPU units and has shared parts, as other replays have it too.
pub(crate) struct Staying<A, F, R> {
    accesses: A,
    body: Arc<F>,
    returned: PhantomData<fn() -> R>,
}

impl<A, F, R> Staying<A, F, R> {
    pub(crate) fn new(accesses: A, body: Arc<F>) -> Self {
        Self { accesses, body, returned: PhantomData }
    }
}

impl<A, F, R> Body for Staying<A, F, R>
where
    A: AccessList,
    F: for<'c, 'a> Fn(&'c Context, A::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.accesses.visit(&mut |record| visit(record.0));
    }

    #[inline]
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>> {
        // SAFETY: the engine runs a body when its dependences are satisfied and its regions lie where `env` says; it is its
        // owner's alone, and the views of the round before are gone.
        let views = unsafe { self.accesses.views(&mut Sites::new(env.sites)) };
        (self.body)(env.context, views).into_outcome().map_err(|error| Box::new(Stop::Failed(error)))?;
        // SAFETY: the body has ended.
        unsafe { self.accesses.keep() };
        Ok(())
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("tasks stay where there is no device")
    }

    fn discard(&self) {} // the next replay may run it

    fn private(&self, access: usize) -> Option<(*mut u8, usize)> {
        // SAFETY: the engine asks for it before it enqueues the body, and for no other reason.
        unsafe { self.accesses.at(access).private() }
    }

    fn combine(&self, access: usize, block: &Block) {
        // SAFETY: the engine combines what a body has left when that has ended, in its turn.
        unsafe { self.accesses.at(access).combine(block) }
    }

    fn replica(&self, access: usize) -> Option<(&[u8], Block)> {
        // SAFETY: the body has ended, and while a replica is looked at its lane has it combined by nobody else.
        unsafe { self.accesses.at(access).replica() }
    }

    fn absorb(&self, access: usize, block: &Block, other: (&[u8], Block)) {
        // SAFETY: the body has ended; the lane has one thread at a time, and the other replica is another task's.
        unsafe { self.accesses.at(access).absorb(block, other) }
    }

    fn retire(&self, access: usize) {
        // SAFETY: `depend::reduction` retires a replica behind the last of its combinings.
        unsafe { self.accesses.at(access).retire() }
    }

    fn kinds(&self) -> Kinds {
        Kinds::CPU
    }
}
