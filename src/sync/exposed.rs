//! The tasks that a thread is working on, visible to other threads at almost no cost to the thread itself.
//!
//! A thread that runs a task shows the task here, and hides it before the task may end. If a body waits, tasks that run
//! on top of that body are also shown on top of it. Other threads look only when something has gone wrong, which is
//! rare and not time-critical. Therefore one word per slot serves both sides: it has the address of the innermost
//! frame, and a mark that a look sets. Hiding is one swap of this word, and needs the lock only if it finds the mark.
//!
//! A slot shows a [`Frame`] on the stack that runs the task, and each frame links to the frame below it. A separate
//! stack ([`super::fiber`]) can be left in the middle; its frames are then kept in a list, under the lock that a look
//! holds.
//!
//! Invariants:
//! 1. While a look is under way, a task that it has seen does not end, so its body is not dropped and its block is not
//!    freed. The task's thread waits for the lock in `hide`. Proof: a look holds the lock, and marks the word unless
//!    it is marked or null. If the thread's swap comes after the mark in the word's order of changes, the swap finds
//!    the mark, and the thread waits for the lock. If the swap comes before, the look does not see the frame. A mark
//!    that stays after its look costs one visit to the free lock (`tests/loom`).
//! 2. Every frame that is shown or is reachable from a shown frame belongs to a call of [`Exposed::during`] that has
//!    not returned. The same holds for every frame in the list. Links between frames change only under the lock, or
//!    before a frame is shown.
//! 3. A marked word is replaced only by its thread, which then waits for the lock, or under the lock. So no frame below
//!    the innermost one is hidden during a look either.

use super::atomic::{AtomicPtr, Mutex, Ordering};
use super::call_site::CallSite;
use super::owned::OwnedTask;
use super::task::{Kind, Task};
use rustc_hash::FxHashMap;
use std::cell::Cell;
use std::ptr::{self, NonNull};

/// The tasks that one thread is working on.
pub(crate) struct Exposed<K: Kind> {
    /// The innermost frame, with the [`MARK`] if a look has seen it.
    shown: AtomicPtr<Frame<K>>,
    /// The innermost frame if its body waits, and otherwise null.
    waiting: AtomicPtr<Frame<K>>,
    /// Held during a look.
    left: Mutex<FxHashMap<usize, Left<K>>>,
}

/// The bit of a frame's address that a look sets. Addresses of frames are multiples of the size of a pointer.
const MARK: usize = 1;

fn is_marked<K: Kind>(shown: *mut Frame<K>) -> bool {
    shown.addr() & MARK != 0
}

fn unmarked<K: Kind>(shown: *mut Frame<K>) -> *mut Frame<K> {
    shown.map_addr(|address| address & !MARK)
}

/// A task whose body has begun.
struct Frame<K: Kind> {
    task: *const Task<K>,
    /// The call site at which the body waits; null while the body runs.
    waits_at: AtomicPtr<u8>,
    below: Cell<*mut Frame<K>>,
}

/// The innermost frame of a stack, or null.
struct Left<K: Kind>(*mut Frame<K>);

// SAFETY: other threads only read the frames of a stack that was left, and these frames are alive (invariant 2).
unsafe impl<K: Kind> Send for Left<K> {}

/// The frames of a separate stack while its thread has left it.
pub(crate) struct Apart<K: Kind>(Left<K>);

impl<K: Kind> Default for Apart<K> {
    fn default() -> Self {
        Self(Left(ptr::null_mut()))
    }
}

impl<K: Kind> Default for Exposed<K> {
    fn default() -> Self {
        let [shown, waiting] = [(); 2].map(|()| AtomicPtr::new(ptr::null_mut()));
        Self { shown, waiting, left: Mutex::new(FxHashMap::default()) }
    }
}

impl<K: Kind> Exposed<K> {
    /// Calls `run` with the task's body. Other threads can see the task during the call. Only one thread at a time may
    /// call this.
    #[inline(always)] // on the path of every task
    pub(crate) fn during<R>(&self, task: &OwnedTask<K>, run: impl FnOnce(&K::Body) -> R) -> R {
        let below = Cell::new(self.innermost());
        let frame = Frame { task: ptr::from_ref::<Task<K>>(task), waits_at: AtomicPtr::new(ptr::null_mut()), below };
        self.show(&frame);
        let _hidden_at_last = Shown { exposed: self, frame: &frame };
        run(task.body())
    }

    /// Returns the innermost frame, or null.
    #[inline]
    fn innermost(&self) -> *mut Frame<K> {
        unmarked(self.shown.load(Ordering::Relaxed))
    }

    /// Records the call site at which this task's body waits, or that the body runs again. Must be called by the thread
    /// that runs the task. Has no effect unless the task is the innermost one.
    pub(crate) fn waits(&self, task: &OwnedTask<K>, at: Option<CallSite>) {
        let shown = self.innermost();
        // SAFETY: the frame is alive (invariant 2), and only this thread can remove it.
        let frame = unsafe { shown.as_ref() };
        if let Some(frame) = frame.filter(|frame| ptr::eq(frame.task, ptr::from_ref::<Task<K>>(task))) {
            let at = at.map_or(ptr::null_mut(), |at| at.0.as_ptr());
            frame.waits_at.store(at, Ordering::Release);
            self.note_wait(if at.is_null() { frame.below.get() } else { shown });
        }
    }

    /// Updates `waiting` for this frame, which is or is about to become the innermost frame.
    fn note_wait(&self, frame: *mut Frame<K>) {
        // SAFETY: the frame is alive (invariant 2), and only this thread can remove it.
        let waits = unsafe { frame.as_ref() }.is_some_and(|frame| !frame.waits_at.load(Ordering::Relaxed).is_null());
        self.waiting.store(if waits { frame } else { ptr::null_mut() }, Ordering::Relaxed);
    }

    /// Whether the thread seems to be running a body at about this moment. Reads only two words and does not prevent
    /// any task from ending.
    pub(crate) fn seems_busy(&self) -> bool {
        let shown = self.innermost();
        !shown.is_null() && shown != self.waiting.load(Ordering::Relaxed)
    }

    /// Calls `code`, which resumes a separate stack that was left with these frames, or starts on the stack without
    /// frames. Must be called by the thread that runs the tasks.
    pub(crate) fn apart<R>(&self, frames: &mut Apart<K>, code: impl FnOnce() -> R) -> R {
        let base = self.innermost();
        self.put_on(base, std::mem::take(frames));
        let result = code();
        *frames = self.take_off(base);
        result
    }

    fn put_on(&self, base: *mut Frame<K>, Apart(Left(top)): Apart<K>) {
        if top.is_null() {
            return;
        }
        let mut left = self.left.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: the frames are alive (invariant 2). Other threads only read them, and only under the lock, which is
        // held here.
        unsafe { Self::link(top, ptr::null_mut(), base) };
        self.shown.store(top, Ordering::Release);
        left.remove(&top.addr());
    }

    fn take_off(&self, base: *mut Frame<K>) -> Apart<K> {
        let top = self.innermost();
        if top == base {
            return Apart::default();
        }
        let mut left = self.left.lock().unwrap_or_else(|e| e.into_inner());
        // SAFETY: the frames are alive (invariant 2), and no look takes place while the lock is held here.
        unsafe { Self::link(top, base, ptr::null_mut()) };
        self.shown.store(base, Ordering::Release);
        self.note_wait(base);
        left.insert(top.addr(), Left(top));
        Apart(Left(top))
    }

    /// Relinks the frame that is above `before` to be above `after` instead.
    ///
    /// # Safety
    /// The frames from `top` down are alive, one of them is directly above `before`, and no look takes place.
    unsafe fn link(top: *mut Frame<K>, before: *mut Frame<K>, after: *mut Frame<K>) {
        let mut frame = top;
        // SAFETY: the caller guarantees that some frame is directly above `before`, and that all frames down to it are
        // alive.
        unsafe {
            while (*frame).below.get() != before {
                frame = (*frame).below.get();
            }
            (*frame).below.set(after);
        }
    }

    /// Whether the current stack shows a task.
    pub(crate) fn is_shown(&self) -> bool {
        !self.shown.load(Ordering::Relaxed).is_null()
    }

    /// Calls `see` with each task that is shown, its body, the call site at which the body waits (if it waits), and
    /// whether the task is the topmost one of its stack. The tasks of a stack are visited from top to bottom. During
    /// the look, the thread may have to wait before it can hide these tasks.
    ///
    /// # Safety
    /// `see` reads only those parts of the body that do not change while the body runs.
    pub(crate) unsafe fn look(&self, mut see: impl FnMut(&Task<K>, &K::Body, Option<CallSite>, bool)) {
        let left = self.left.lock().unwrap_or_else(|e| e.into_inner());
        for top in std::iter::once(self.mark()).chain(left.values().map(|left| left.0)) {
            let mut next = top;
            // SAFETY: a frame that is seen here stays alive until the lock is released (invariants 1 and 2).
            while let Some(frame) = unsafe { next.as_ref() } {
                // SAFETY: the frame's task and body stay alive as well, and the task's thread has only shared
                // references to the body in the meantime. The caller guarantees that `see` reads only what may be read.
                let (task, body, waits_at) = unsafe {
                    let task = &*frame.task;
                    (
                        task,
                        task.body_address().as_ref(),
                        NonNull::new(frame.waits_at.load(Ordering::Acquire)).map(CallSite),
                    )
                };
                see(task, body, waits_at, next == top);
                next = frame.below.get();
            }
        }
    }

    /// Marks the innermost frame and returns it. The caller holds the lock.
    fn mark(&self) -> *mut Frame<K> {
        let mut shown = self.shown.load(Ordering::Acquire);
        while !shown.is_null() && !is_marked(shown) {
            let marked = shown.map_addr(|address| address | MARK);
            match self.shown.compare_exchange(shown, marked, Ordering::Acquire, Ordering::Acquire) {
                Ok(_) => break,
                Err(now) => shown = now,
            }
        }
        unmarked(shown)
    }

    /// Calls `see` with each task that is shown, like [`Self::look`].
    pub(crate) fn tasks(&self, mut see: impl FnMut(&Task<K>)) {
        // SAFETY: `see` gets no body, so nothing of the bodies is read.
        unsafe { self.look(|task, _, _, _| see(task)) }
    }

    #[inline]
    fn show(&self, frame: &Frame<K>) {
        let new = ptr::from_ref(frame).cast_mut();
        if frame.below.get().is_null() {
            self.shown.store(new, Ordering::Release); // null has no mark that could be lost
        } else {
            self.replace(new);
        }
    }

    #[inline]
    fn hide(&self, frame: &Frame<K>) {
        self.replace(frame.below.get());
    }

    /// Shows another frame as the innermost one. If a look may have seen the one before, waits until the look is over.
    #[inline]
    fn replace(&self, frame: *mut Frame<K>) {
        if is_marked(self.shown.swap(frame, Ordering::Release)) {
            self.wait();
        }
    }

    /// Waits for looks. The lock orders everything that a look has read before all that the thread does next.
    #[cold]
    fn wait(&self) {
        drop(self.left.lock().unwrap_or_else(|e| e.into_inner()));
    }
}

/// Hides the task when its body returns or panics.
struct Shown<'a, K: Kind> {
    exposed: &'a Exposed<K>,
    frame: &'a Frame<K>,
}

impl<K: Kind> Drop for Shown<'_, K> {
    #[inline]
    fn drop(&mut self) {
        self.exposed.hide(self.frame);
    }
}
