//! Two calls of one thread, the second of which it offers to others while it makes the first.
//!
//! The second call is a *job* on the stack of the thread that forks; an [`Offer`] is its address, with what to do there.
//! Nothing is allocated and, as long as nobody comes for it, nothing is written but the offer itself.
//!
//! Where offers lie and who takes them is the [`Market`]'s matter. Nothing here depends on its being right: a market that
//! loses an offer keeps [`fork`] waiting, and that is all.
//!
//! Invariants:
//! 1. There is one offer per job. Who has it runs it or, if it is [`fork`] itself, takes the call back: one of the two, once.
//! 2. [`fork`] does not come back, in whatever way, before the job has ended or its offer has come back.
//! 3. `outcome` belongs to who runs the job until the stage is [`ENDED`], and to who forked from then on.
//! 4. `waiter` belongs to who forked until the stage is [`WAITED_FOR`], and then to who runs the job.
//! 5. After it has set [`ENDED`], who runs the job does not touch it again: the stack may be gone.

use super::atomic::{AtomicU32, Ordering, UnsafeCell};
use super::sleep::Parker;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

const OPEN: u32 = 0;
/// Somebody wants to be woken at the end.
const WAITED_FOR: u32 = 1;
const ENDED: u32 = 2;

/// A thread's place to offer jobs, which are passed an `A` when they are run.
pub(crate) trait Market<A> {
    fn offer(&self, offer: Offer<A>);

    /// The last of this thread's offers for which nobody has come.
    fn take_back(&self) -> Option<Offer<A>>;

    /// Runs a job that is not the one that was sought.
    fn run(&self, offer: Offer<A>);

    /// Does something else until that is over, or for a while.
    fn await_end(&self, end: &End);
}

/// A job that anybody may run, once.
pub(crate) struct Offer<A> {
    job: *const (),
    run: unsafe fn(*const (), &A),
    of: PhantomData<fn(&A)>,
}

// SAFETY: a job's call and its outcome go from thread to thread by it, and `fork` asks that they may.
unsafe impl<A> Send for Offer<A> {}

impl<A> Offer<A> {
    /// Runs the job. A panic of the call is for who forked.
    pub(crate) fn run(self, argument: &A) {
        // SAFETY: the job is there as long as it has not been run (invariant 2), and this is its only run (invariant 1).
        unsafe { (self.run)(self.job, argument) }
    }
}

/// Whether a job has ended.
pub(crate) struct End {
    stage: AtomicU32,
    waiter: UnsafeCell<Option<Arc<Parker>>>,
}

impl End {
    #[inline]
    pub(crate) fn is_reached(&self) -> bool {
        self.stage.load(Ordering::Acquire) == ENDED
    }

    /// Has this thread woken at the end; whether that is still to come. To be called by who forked, each time by the same
    /// thread.
    pub(crate) fn wakes(&self, parker: &Arc<Parker>) -> bool {
        match self.stage.load(Ordering::Acquire) {
            OPEN => {
                // SAFETY: the place is the caller's (invariant 4).
                self.waiter.with_mut(|waiter| unsafe { *waiter = Some(parker.clone()) });
                self.stage.compare_exchange(OPEN, WAITED_FOR, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            stage => stage != ENDED,
        }
    }

    /// # Safety
    /// `end` is that of a job which the caller runs, and does not touch any more.
    unsafe fn reach(end: *const Self) {
        // SAFETY: the job stays until the stage is `ENDED`, which is written last; the waiter is this thread's if somebody
        // waits (invariant 4).
        unsafe {
            if (*end).stage.compare_exchange(OPEN, ENDED, Ordering::AcqRel, Ordering::Acquire).is_err() {
                let waiter = (*end).waiter.with_mut(|waiter| (*waiter).take());
                (*end).stage.store(ENDED, Ordering::Release);
                waiter.expect("who waits has said so before").unpark();
            }
        }
    }
}

struct Job<C, R> {
    call: UnsafeCell<Option<C>>,
    outcome: UnsafeCell<Option<thread::Result<R>>>,
    end: End,
}

impl<C, R> Job<C, R> {
    fn new(call: C) -> Self {
        let end = End { stage: AtomicU32::new(OPEN), waiter: UnsafeCell::new(None) };
        Self { call: UnsafeCell::new(Some(call)), outcome: UnsafeCell::new(None), end }
    }

    fn address(&self) -> *const () {
        std::ptr::from_ref(self).cast()
    }

    /// # Safety
    /// `job` is the address of a job of this type whose offer the caller had.
    unsafe fn run<A>(job: *const (), argument: &A)
    where
        C: FnOnce(&A, bool) -> R,
    {
        let job: *const Self = job.cast();
        // SAFETY: the job stays until its end is reached (invariant 2); its call and its outcome are this thread's until
        // then (invariants 1 and 3).
        unsafe {
            let call = (*job).call.with_mut(|call| (*call).take()).expect("a job is run once");
            let outcome = catch_unwind(AssertUnwindSafe(|| call(argument, true)));
            (*job).outcome.with_mut(|place| *place = Some(outcome));
            End::reach(&raw const (*job).end);
        }
    }
}

/// Makes both calls and returns what they return. The second learns whether somebody else makes it.
///
/// # Panics
/// If one of the calls does, after both have ended: with the first's panic if both do. If the first panics while nobody has
/// come for the second, that is dropped.
#[inline]
pub(crate) fn fork<A, F, S>(
    market: &impl Market<A>,
    argument: &A,
    first: impl FnOnce(&A) -> F,
    second: impl FnOnce(&A, bool) -> S + Send,
) -> (F, S)
where
    S: Send,
{
    /// What must not unwind past a job that others know.
    struct Unwound;
    impl Drop for Unwound {
        fn drop(&mut self) {
            std::process::abort();
        }
    }
    let job = Job::new(second);
    let stays = Unwound;
    market.offer(Offer { job: job.address(), run: run_of(&job), of: PhantomData });
    let first = catch_unwind(AssertUnwindSafe(|| first(argument)));
    let mut is_back = false;
    while !is_back && !job.end.is_reached() {
        match market.take_back() {
            Some(offer) if offer.job == job.address() => is_back = true,
            Some(other) => market.run(other),
            None => market.await_end(&job.end),
        }
    }
    std::mem::forget(stays);
    if is_back {
        // SAFETY: the offer is back, so the job is this thread's alone (invariant 1).
        let second = job.call.with_mut(|call| unsafe { (*call).take() }).expect("nobody has run it");
        return match first {
            Ok(first) => (first, second(argument, false)),
            Err(panic) => resume_behind(panic, second),
        };
    }
    // SAFETY: the job has ended, so its outcome is this thread's (invariant 3).
    let second = job.outcome.with_mut(|outcome| unsafe { (*outcome).take() }).expect("it has ended");
    match (first, second) {
        (Ok(first), Ok(second)) => (first, second),
        (Err(panic), second) => resume_behind(panic, second),
        (Ok(first), Err(panic)) => resume_behind(panic, first),
    }
}

#[inline]
fn run_of<A, C: FnOnce(&A, bool) -> R, R>(_: &Job<C, R>) -> unsafe fn(*const (), &A) {
    Job::<C, R>::run::<A>
}

/// Goes on with a panic when that is gone, whose destructors may panic in their turn: not while another one is under way.
#[cold]
fn resume_behind<T>(panic: Box<dyn std::any::Any + Send>, rest: T) -> ! {
    drop(rest);
    resume_unwind(panic)
}
