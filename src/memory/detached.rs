//! Detached bodies, whose task does not end when they return, but when everything that they have lent out has been
//! given back or their future is ready.
//!
//! A panic of the body or of its future is stored as the task's failure, because guards may still be outstanding. The
//! task fails when they have been given back.
//!
//! These bodies run only in host memory, because their task has only a body for CPU units, which no unit with a
//! different memory takes.

use super::lent::{Lend, Lender, Lending};
use super::payload::{BodyEnv, Stopped};
use super::{AccessList, IntoOutcome, Slot};
use crate::depend::{Context, Detachment, Leaving, Stop};
use crate::error::{BoxError, FailureReason};
use crate::sealed::Sealed;
use crate::sync::drop_quietly;
use std::cell::Cell;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;

/// A closure that lends its views out.
pub struct Detached<F, R>(pub(crate) F, pub(crate) PhantomData<fn() -> R>);

/// A closure that creates a future, or the future that it has created.
pub struct Async<F, U>(Stage<F, U>);

enum Stage<F, U> {
    Body(F),
    Begun(Pin<Box<U>>, Arc<Detachment>),
}

/// An internal task without a body, which ends when its region is given back.
pub(crate) struct LentOut(pub(crate) Arc<Detachment>);

impl Sealed for LentOut {}

impl<A: AccessList> Slot<A> for LentOut {
    const PRESENT: bool = true;

    fn call(self, _: &Context, _: A::Views<'_>) -> Result<(), BoxError> {
        unreachable!("a task that only lends its region out needs no view")
    }

    unsafe fn run(bodies: &Cell<Option<Self>>, _: &A, _: BodyEnv<'_>) -> Result<(), Stopped> {
        let Self(detachment) = bodies.take().expect("a body runs once");
        Err(leave(detachment, false))
    }

    fn lends(_: &Cell<Option<Self>>) -> bool {
        true
    }
}

impl<F, U> Async<F, U> {
    pub(crate) fn new(body: F) -> Self {
        Self(Stage::Body(body))
    }
}

impl<F, R> Sealed for Detached<F, R> {}
impl<F, U> Sealed for Async<F, U> {}

impl<F, R> fmt::Debug for Detached<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Detached(..)")
    }
}

impl<F, U> fmt::Debug for Async<F, U> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Async(..)")
    }
}

impl<A, F, R> Slot<A> for Detached<F, R>
where
    A: Lend,
    F: for<'c> FnOnce(&'c Lending<'c>, A::Lent) -> R + Send + 'static,
    R: IntoOutcome + 'static,
{
    const PRESENT: bool = true;

    fn call(self, _: &Context, _: A::Views<'_>) -> Result<(), BoxError> {
        unreachable!("a detached body is run by `run`, with its accesses")
    }

    unsafe fn run(bodies: &Cell<Option<Self>>, accesses: &A, BodyEnv(env): BodyEnv<'_>) -> Result<(), Stopped> {
        let Self(body, _) = bodies.take().expect("a body runs once");
        let detachment = Detachment::new(true);
        let lender = Lender(&detachment);
        let body = || {
            // SAFETY: the caller guarantees that the dependences are satisfied, and stay so until the task ends.
            let lent = unsafe { accesses.lend(lender) };
            body(&Lending::new(env.context, lender), lent).into_outcome()
        };
        settle(&detachment, catch_unwind(AssertUnwindSafe(body)));
        Err(leave(detachment, false))
    }

    fn lends(_: &Cell<Option<Self>>) -> bool {
        true
    }
}

impl<A, F, U> Slot<A> for Async<F, U>
where
    A: Lend,
    F: FnOnce(Context, A::Lent) -> U + Send + 'static,
    U: Future<Output: IntoOutcome> + Send + 'static,
{
    const PRESENT: bool = true;

    fn call(self, _: &Context, _: A::Views<'_>) -> Result<(), BoxError> {
        unreachable!("an asynchronous body is run by `run`, with its accesses")
    }

    unsafe fn run(bodies: &Cell<Option<Self>>, accesses: &A, BodyEnv(env): BodyEnv<'_>) -> Result<(), Stopped> {
        let Self(stage) = bodies.take().expect("a future is not polled after it is ready");
        let (mut future, detachment) = match stage {
            Stage::Begun(future, detachment) => {
                detachment.run();
                if detachment.is_cancelled() {
                    detachment.fail(FailureReason::Cancelled);
                    drop_quietly(|| drop(future));
                    return Err(leave(detachment, false));
                }
                (future, detachment)
            }
            Stage::Body(body) => {
                let detachment = Detachment::new(false);
                let begin = || {
                    // SAFETY: the caller guarantees that the dependences are satisfied, and stay so until the task
                    // ends.
                    let lent = unsafe { accesses.lend(Lender(&detachment)) };
                    Box::pin(body(env.context.clone(), lent))
                };
                match catch_unwind(AssertUnwindSafe(begin)) {
                    Ok(future) => (future, detachment),
                    Err(payload) => {
                        detachment.fail(FailureReason::from_panic(payload));
                        return Err(leave(detachment, false));
                    }
                }
            }
        };
        let waker = detachment.waker();
        let poll = || future.as_mut().poll(&mut std::task::Context::from_waker(&waker)).map(IntoOutcome::into_outcome);
        let ended = match catch_unwind(AssertUnwindSafe(poll)) {
            Ok(Poll::Pending) => {
                bodies.set(Some(Self(Stage::Begun(future, detachment.clone()))));
                return Err(leave(detachment, true));
            }
            Ok(Poll::Ready(outcome)) => Ok(outcome),
            Err(payload) => Err(payload),
        };
        settle(&detachment, ended);
        drop_quietly(|| drop(future));
        Err(leave(detachment, false))
    }

    fn has_begun(bodies: &Cell<Option<Self>>) -> bool {
        let body = bodies.take();
        let begun = matches!(&body, Some(Self(Stage::Begun(..))));
        bodies.set(body);
        begun
    }

    fn lends(_: &Cell<Option<Self>>) -> bool {
        true
    }
}

/// Records how a body has ended.
fn settle(detachment: &Detachment, ended: std::thread::Result<Result<(), BoxError>>) {
    match ended {
        Ok(Ok(())) => {}
        Ok(Err(error)) => detachment.fail(FailureReason::Returned(error)),
        Err(payload) => detachment.fail(FailureReason::from_panic(payload)),
    }
}

fn leave(detachment: Arc<Detachment>, waits: bool) -> Stopped {
    Stopped(Box::new(Stop::Detached(Leaving { detachment, waits })))
}
