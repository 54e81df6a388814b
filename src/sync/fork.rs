//! Fork-join of two calls: a thread makes the first and meanwhile offers the second to other threads.
//!
//! The second call is a *job* on the stack of the forking thread; an [`Offer`] is its address and the function that
//! runs it. Nothing is allocated, and unless another thread takes the offer, nothing is written but the offer itself.
//!
//! The [`Market`] decides where offers are kept and which threads take them. Safety does not depend on its correctness:
//! a market that loses an offer keeps [`fork`] waiting, with no other effect.
//!
//! Invariants:
//! 1. There is one offer per job. Its holder runs the job or, if the holder is [`fork`] itself, takes the call back:
//!    one of the two, once.
//! 2. [`fork`] does not return or unwind before the job has ended or its offer has been taken back.
//! 3. `outcome` belongs to the thread that runs the job until the stage is [`ENDED`], and to the forking thread from
//!    then on.
//! 4. `waiter` belongs to the forking thread until the stage is [`WAITED_FOR`], and then to the thread that runs the
//!    job.
//! 5. After it has set [`ENDED`], the thread that ran the job does not touch it again: the stack may be gone.

use super::atomic::{AtomicU32, Ordering, UnsafeCell};
use super::sleep::Parker;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

const OPEN: u32 = 0;
/// The forking thread wants to be woken at the end.
const WAITED_FOR: u32 = 1;
const ENDED: u32 = 2;

/// A place where a thread offers jobs. A job gets an `A` when it is run.
pub(crate) trait Market<A> {
    fn offer(&self, offer: Offer<A>);

    /// Takes back the latest of this thread's offers that no other thread has taken.
    fn take_back(&self) -> Option<Offer<A>>;

    /// Runs a job other than the one that was sought.
    fn run(&self, offer: Offer<A>);

    /// Does something else until the job has ended, or for a while.
    fn await_end(&self, end: &End);
}

/// A job that any thread may run, once.
pub(crate) struct Offer<A> {
    job: *const (),
    run: unsafe fn(*const (), &A),
    of: PhantomData<fn(&A)>,
}

// SAFETY: it moves a job's call and outcome between threads, and `fork` requires both to be `Send`.
unsafe impl<A> Send for Offer<A> {}

impl<A> Offer<A> {
    /// Runs the job. A panic of the call is passed to the forking thread.
    pub(crate) fn run(self, argument: &A) {
        // SAFETY: the job lives until it has been run (invariant 2), and this is its only run (invariant 1).
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

    /// Has this thread woken at the end; returns whether the end is still to come. Must be called by the forking
    /// thread, with the same parker each time.
    pub(crate) fn wakes(&self, parker: &Arc<Parker>) -> bool {
        match self.stage.load(Ordering::Acquire) {
            OPEN => {
                // SAFETY: the slot is the caller's (invariant 4).
                self.waiter.with_mut(|waiter| unsafe { *waiter = Some(parker.clone()) });
                self.stage.compare_exchange(OPEN, WAITED_FOR, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            stage => stage != ENDED,
        }
    }

    /// Marks the job as ended and wakes the forking thread if it waits.
    ///
    /// # Safety
    /// `end` belongs to a job that the caller has run and does not touch any more.
    unsafe fn reach(end: *const Self) {
        // SAFETY: the job stays until the stage is `ENDED`, which is written last; the waiter is this thread's if the
        // forking thread waits (invariant 4).
        unsafe {
            if (*end).stage.compare_exchange(OPEN, ENDED, Ordering::AcqRel, Ordering::Acquire).is_err() {
                let waiter = (*end).waiter.with_mut(|waiter| (*waiter).take());
                (*end).stage.store(ENDED, Ordering::Release);
                waiter.expect("a waiting thread has registered its parker").unpark();
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

    /// Runs the job and stores its outcome.
    ///
    /// # Safety
    /// `job` is the address of a job of this type, and the caller had its offer.
    unsafe fn run<A>(job: *const (), argument: &A)
    where
        C: FnOnce(&A, bool) -> R,
    {
        let job: *const Self = job.cast();
        // SAFETY: the job stays until its end is reached (invariant 2); its call and its outcome are this thread's
        // until then (invariants 1 and 3).
        unsafe {
            let call = (*job).call.with_mut(|call| (*call).take()).expect("a job is run once");
            let outcome = catch_unwind(AssertUnwindSafe(|| call(argument, true)));
            (*job).outcome.with_mut(|place| *place = Some(outcome));
            End::reach(&raw const (*job).end);
        }
    }
}

/// Makes both calls and returns their results. The second call gets a flag: true if it is run through its offer, as a
/// rule by another thread, and false if `fork` makes the call itself.
///
/// # Panics
/// If one of the calls panics, after both have ended; with the first call's panic if both do. If the first panics
/// before another thread has taken the second, the second is dropped without being called.
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
    /// Aborts if the stack unwinds past a job that other threads know.
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
        // SAFETY: the offer was taken back, so the job is this thread's alone (invariant 1).
        let second = job.call.with_mut(|call| unsafe { (*call).take() }).expect("no other thread has run the job");
        return match first {
            Ok(first) => (first, second(argument, false)),
            Err(panic) => resume_behind(panic, second),
        };
    }
    // SAFETY: the job has ended, so its outcome is this thread's (invariant 3).
    let second = job.outcome.with_mut(|outcome| unsafe { (*outcome).take() }).expect("the job has ended");
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

/// Drops `rest`, then continues with `panic`. The destructors of `rest` may panic themselves, so they must not run
/// while another panic unwinds.
#[cold]
fn resume_behind<T>(panic: Box<dyn std::any::Any + Send>, rest: T) -> ! {
    drop(rest);
    resume_unwind(panic)
}
