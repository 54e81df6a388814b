//! Fork-join of two calls: a thread makes the first call while it offers the second to other threads.
//!
//! The second call is a *job* on the stack of the forking thread; an [`Offer`] is its address and the function that
//! runs it. Nothing is allocated, and unless another thread takes the offer, nothing but the offer itself is written.
//!
//! The [`Market`] decides where offers are kept and which threads take them. Safety does not depend on its correctness:
//! a market that loses an offer keeps [`fork`] waiting, with no other effect.
//!
//! Invariants:
//! 1. There is one offer per job. Exactly one of two things happens, and only once: the offer's holder runs the job,
//!    or, if the holder is [`fork`] itself, it takes the call back.
//! 2. [`fork`] does not return or unwind before the job has ended or its offer has been taken back.
//! 3. `outcome` belongs to the thread that runs the job until the stage is [`ENDED`], and to the forking thread from
//!    then on.
//! 4. `waiter` belongs to the forking thread until the stage is [`WAITED_FOR`], and then to the thread that runs the
//!    job.
//! 5. After the thread that ran the job has set [`ENDED`], it does not touch the job again, because the forking
//!    thread's stack frame may be gone.

use super::atomic::{AtomicU32, Ordering, UnsafeCell};
use super::sleep::Parker;
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::thread;

const OPEN: u32 = 0;
/// The forking thread waits and wants to be woken when the job ends.
const WAITED_FOR: u32 = 1;
const ENDED: u32 = 2;

/// A place where threads offer jobs. A job receives an `A` when it is run.
pub(crate) trait Market<A> {
    fn offer(&self, offer: Offer<A>);

    /// Takes back this thread's latest offer that no other thread has taken.
    fn take_back(&self) -> Option<Offer<A>>;

    /// Runs an offer that was taken back but belongs to another job than the caller's.
    fn run(&self, offer: Offer<A>);

    /// Does other work until the job has ended, or at least for a while.
    fn await_end(&self, end: &End);
}

/// A job that any thread may run, once.
pub(crate) struct Offer<A> {
    job: *const (),
    run: unsafe fn(*const (), &A),
    of: PhantomData<fn(&A)>,
}

// SAFETY: an offer moves a job's call and outcome between threads, and `fork` requires both to be `Send`.
unsafe impl<A> Send for Offer<A> {}

impl<A> Offer<A> {
    /// Runs the job. A panic of the call is passed to the forking thread.
    pub(crate) fn run(self, argument: &A) {
        // SAFETY: the job stays alive until it has been run (invariant 2), and this is the only time that it is run
        // (invariant 1).
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

    /// Requests that this thread be woken when the job ends. Returns false if the job has already ended. Must be called
    /// by the forking thread, with the same parker each time.
    pub(crate) fn wakes(&self, parker: &Arc<Parker>) -> bool {
        match self.stage.load(Ordering::Acquire) {
            OPEN => {
                // SAFETY: the slot belongs to the forking thread at this stage, and that is the caller (invariant 4).
                self.waiter.with_mut(|waiter| unsafe { *waiter = Some(parker.clone()) });
                self.stage.compare_exchange(OPEN, WAITED_FOR, Ordering::AcqRel, Ordering::Acquire).is_ok()
            }
            stage => stage != ENDED,
        }
    }

    /// Marks the job as ended and wakes the forking thread if it waits.
    ///
    /// # Safety
    /// `end` belongs to a job that the caller has run and does not touch afterwards.
    unsafe fn reach(end: *const Self) {
        // SAFETY: the job stays alive until the stage is `ENDED`, which is written last. If the forking thread waits,
        // the waiter belongs to this thread (invariant 4).
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
    /// `job` is the address of a job of this type, and the caller held the job's offer.
    unsafe fn run<A>(job: *const (), argument: &A)
    where
        C: FnOnce(&A, bool) -> R,
    {
        let job: *const Self = job.cast();
        // SAFETY: the job stays alive until its end is reached (invariant 2). Until then, its call and its outcome
        // belong to this thread (invariants 1 and 3).
        unsafe {
            let call = (*job).call.with_mut(|call| (*call).take()).expect("a job is run once");
            let outcome = catch_unwind(AssertUnwindSafe(|| call(argument, true)));
            (*job).outcome.with_mut(|place| *place = Some(outcome));
            End::reach(&raw const (*job).end);
        }
    }
}

/// Makes both calls and returns their results. The second call gets a flag that is true if the call is run through its
/// offer, usually by another thread, and false if `fork` makes the call itself.
///
/// # Panics
/// Panics if one of the calls panics, but only after both have ended. If both panic, the first call's panic is
/// propagated. If the first call panics before another thread has taken the second, the second is dropped without being
/// called.
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
    /// Aborts if the stack unwinds past a job to which other threads still have access.
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
        // SAFETY: the offer was taken back, so the job belongs to this thread alone (invariant 1).
        let second = job.call.with_mut(|call| unsafe { (*call).take() }).expect("no other thread has run the job");
        return match first {
            Ok(first) => (first, second(argument, false)),
            Err(panic) => resume_behind(panic, second),
        };
    }
    // SAFETY: the job has ended, so its outcome belongs to this thread (invariant 3).
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

/// Drops `rest`, then continues with `panic`. The destructors of `rest` may panic too, so they must not run during
/// another panic's unwinding.
#[cold]
fn resume_behind<T>(panic: Box<dyn std::any::Any + Send>, rest: T) -> ! {
    drop(rest);
    resume_unwind(panic)
}
