//! Bodies that a host runs on separate stacks because another body waits further down its own stack.
//!
//! A waiting body shares its stack with everything that runs on top of it, and it cannot continue before all of that
//! has ended. So only the body's descendants, for which it waits anyway, may run there. Any other task might itself
//! wait for something that comes after the body. Therefore such a task gets a [`Fiber`], which is suspended when the
//! task waits and resumed when it is woken.
//!
//! This module knows nothing about bodies and does not decide what runs.
//!
//! Invariants:
//! 1. A suspended fiber is at its index in the list; a running fiber is not in the list. Indices are reused.
//! 2. Waking a fiber puts its index on the list of woken fibers, possibly more than once. Therefore a resumed fiber
//!    itself checks whether it may continue.

use crate::depend::running::{self, Frames};
use crate::depend::{ExposedApart, ExposedTask};
use crate::driver::waiters;
use crate::sync::Parker;
use crate::sync::fiber::{Fiber, Stack};
use parking_lot::Mutex;
use std::cell::{Cell, RefCell};
use std::mem::ManuallyDrop;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Wake, Waker};

/// Maximum number of unused stacks that are kept for reuse.
const MOST_SPARE: usize = 16;

thread_local! {
    /// The fibers of this thread, for all hosts that the thread has. Fibers never leave their thread. The value has no
    /// destructor, so that a thread can still wait while it exits; [`free`] frees the lists.
    static FIBERS: ManuallyDrop<RefCell<Fibers>> =
        const { ManuallyDrop::new(RefCell::new(Fibers { left: Vec::new(), free: Vec::new() })) };
}

/// The fibers of one thread.
#[derive(Default)]
struct Fibers {
    left: Vec<Option<Left>>,
    free: Vec<usize>,
}

/// Frees the lists of a thread that is exiting. Fibers that are still suspended at that point are leaked.
pub(super) fn free() {
    drop(with_fibers(std::mem::take));
}

/// The fibers of one host.
pub(super) struct Aside {
    runtime: u64,
    /// Number of fibers that have begun and not ended.
    count: Cell<usize>,
    woken: Arc<Woken>,
    spare: RefCell<Vec<Stack>>,
    stack_bytes: usize,
    /// Index of the last fiber that was resumed without having been woken.
    last: Cell<usize>,
}

/// A suspended fiber.
struct Left {
    runtime: u64,
    fiber: Fiber,
    frames: Frames,
    exposed: ExposedApart,
    /// Number of nested isolated waits that the thread was in when the fiber began.
    isolation_level: usize,
    /// The host's state for the fiber's stack.
    own: Own,
    waker: Waker,
}

/// A host's state for the stack that is currently running. Each stack has its own copy.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Own {
    /// Lowest address down to which tasks may use the stack on top of each other.
    pub(super) floor: usize,
    /// The corresponding limit while there is no memory for further stacks.
    pub(super) last_floor: usize,
    /// Whether the stack can be suspended.
    pub(super) on_fiber: bool,
    /// Total time that bodies on the stack have waited, in nanoseconds.
    pub(super) waited_ns: u64,
}

/// The woken fibers of one host.
#[derive(Default)]
struct Woken {
    any: AtomicBool,
    places: Mutex<Vec<usize>>,
}

/// Wakes one fiber and the thread that owns it.
struct FiberWaker {
    place: usize,
    woken: Arc<Woken>,
    thread: Arc<Parker>,
}

/// Calls `code` with the fibers of this thread. `code` must not call user code.
fn with_fibers<R>(code: impl FnOnce(&mut Fibers) -> R) -> R {
    FIBERS.with(|fibers| code(&mut fibers.borrow_mut()))
}

impl Wake for FiberWaker {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.woken.places.lock().push(self.place);
        self.woken.any.store(true, Ordering::SeqCst);
        self.thread.unpark();
    }
}

impl Aside {
    /// Creates an empty set of fibers. Each fiber will have a stack of `stack_bytes` bytes.
    pub(super) fn new(runtime: u64, stack_bytes: usize) -> Self {
        Self {
            runtime,
            count: Cell::new(0),
            woken: Arc::default(),
            spare: RefCell::default(),
            stack_bytes,
            last: Cell::new(0),
        }
    }

    /// Returns whether any fiber has begun and not ended.
    #[inline]
    pub(super) fn has_any(&self) -> bool {
        self.count.get() > 0
    }

    /// Returns whether any fiber was woken.
    #[inline]
    pub(super) fn has_woken(&self) -> bool {
        self.has_any() && self.woken.any.load(Ordering::SeqCst)
    }

    /// Returns the size of each stack in bytes.
    pub(super) fn stack_bytes(&self) -> usize {
        self.stack_bytes
    }

    /// Returns a stack for one more fiber. This is a spare stack, or, if `is_asked`, a new one from the system,
    /// provided that the system has enough addresses.
    pub(super) fn stack(&self, is_asked: bool) -> Option<Stack> {
        let spare = self.spare.borrow_mut().pop();
        spare.or_else(|| if is_asked { Stack::new(self.stack_bytes).ok() } else { None })
    }

    /// Begins `code` on this stack. Returns when `code` has ended or is suspended. `own` is the host's state for the
    /// current stack, and `exposed` is the part of the state that other threads see. `isolation_level` is the number
    /// of isolated waits that the thread is in.
    pub(super) fn begin(
        &self,
        stack: Stack,
        isolation_level: usize,
        own: &Cell<Own>,
        exposed: &ExposedTask,
        code: impl FnOnce() + 'static,
    ) {
        let place = with_fibers(|fibers| {
            fibers.free.pop().unwrap_or_else(|| {
                fibers.left.push(None);
                fibers.left.len() - 1
            })
        });
        self.count.set(self.count.get() + 1);
        let waker = FiberWaker { place, woken: self.woken.clone(), thread: waiters::own_parker() };
        let left = Left {
            runtime: self.runtime,
            fiber: Fiber::new(stack, code),
            frames: Frames::default(),
            exposed: ExposedApart::default(),
            isolation_level,
            own: Own::default(),
            waker: Arc::new(waker).into(),
        };
        self.go_on(place, left, own, exposed);
    }

    /// Resumes the woken fibers, or `all` fibers, provided they began in the innermost isolated wait, whose level is
    /// `isolation_level`. Returns whether there were any such fibers.
    pub(super) fn resume_woken(
        &self,
        isolation_level: usize,
        own: &Cell<Own>,
        exposed: &ExposedTask,
        all: bool,
    ) -> bool {
        if all {
            let places = 0..with_fibers(|fibers| fibers.left.len());
            self.woken.places.lock().extend(places);
        }
        self.woken.any.store(false, Ordering::SeqCst);
        let places = std::mem::take(&mut *self.woken.places.lock());
        let (mut any, mut later) = (false, Vec::new());
        for place in places {
            let is_earlier = |left: &Left| left.isolation_level < isolation_level;
            let left = with_fibers(|fibers| {
                let left = fibers.left[place].take_if(|left| left.runtime == self.runtime && !is_earlier(left));
                later.extend(fibers.left[place].as_ref().filter(|left| is_earlier(left)).map(|_| place));
                left
            });
            if let Some(left) = left {
                any = true;
                self.go_on(place, left, own, exposed);
            }
        }
        if !later.is_empty() {
            self.woken.places.lock().append(&mut later);
            self.woken.any.store(true, Ordering::SeqCst);
        }
        any
    }

    /// Resumes the next fiber that began in the innermost isolated wait, whose level is `isolation_level`, even if the
    /// fiber was not woken. Returns whether there was such a fiber.
    pub(super) fn resume_next(&self, isolation_level: usize, own: &Cell<Own>, exposed: &ExposedTask) -> bool {
        let suits = |left: &mut Left| left.runtime == self.runtime && left.isolation_level >= isolation_level;
        let next = with_fibers(|fibers| {
            let count = fibers.left.len();
            let mut places = (1..=count).map(|n| (self.last.get() + n) % count);
            places.find_map(|place| Some((place, fibers.left[place].take_if(suits)?)))
        });
        let Some((place, left)) = next else { return false };
        self.last.set(place);
        self.go_on(place, left, own, exposed);
        true
    }

    /// Returns the woken fibers that began in the innermost isolated wait, whose level is `isolation_level`.
    pub(super) fn woken(&self, isolation_level: usize) -> Vec<usize> {
        if !self.has_woken() {
            return Vec::new();
        }
        let mut places = self.woken.places.lock().clone();
        places.sort_unstable();
        places.dedup();
        let suits = |left: &Left| left.runtime == self.runtime && left.isolation_level >= isolation_level;
        with_fibers(|fibers| places.retain(|place| fibers.left[*place].as_ref().is_some_and(suits)));
        places
    }

    /// Resumes one of the fibers that [`Self::woken`] has returned.
    pub(super) fn resume(&self, place: usize, own: &Cell<Own>, exposed: &ExposedTask) {
        self.woken.places.lock().retain(|woken| *woken != place);
        if let Some(left) = with_fibers(|fibers| fibers.left[place].take()) {
            self.go_on(place, left, own, exposed);
        }
    }

    fn go_on(&self, place: usize, mut left: Left, own: &Cell<Own>, exposed: &ExposedTask) {
        let below = own.replace(left.own);
        let Left { fiber, frames, exposed: shown, waker, .. } = &mut left;
        let resume = || exposed.apart(shown, || fiber.resume());
        let has_ended = waiters::waking(waker, || running::apart(frames, resume));
        left.own = own.replace(below);
        if has_ended {
            self.count.set(self.count.get() - 1);
            with_fibers(|fibers| fibers.free.push(place));
            let mut spare = self.spare.borrow_mut();
            if spare.len() < MOST_SPARE {
                spare.extend(left.fiber.into_stack());
            }
        } else {
            with_fibers(|fibers| fibers.left[place] = Some(left));
        }
    }
}
