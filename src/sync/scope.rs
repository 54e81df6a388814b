//! A stack of the values whose code a thread is currently running, borrowed so that code further up the call stack can
//! read them.
//!
//! The stack is kept in one `thread_local!`. Entering a value costs only a few stores. Nothing is counted, cloned or
//! allocated, because a value is lent only for the duration of the call.
//!
//! Invariant: every frame in the list is on one of its thread's stacks, in a call of [`Scope::enter`] that has not
//! returned, and the innermost frame comes first. `enter` maintains this by removing its frame no matter how the call
//! ends. Code on a separate stack ([`super::fiber`]) has a separate list, which is swapped in when the code is resumed
//! ([`Scope::apart`]).

use std::cell::{Cell, OnceCell};
use std::ptr;
use std::thread::LocalKey;

/// A stack of values lent to the code that this thread calls, each with a domain and a note.
pub(crate) struct Scope<T, N> {
    top: Cell<*const Frame<T, N>>,
}

struct Frame<T, N> {
    domain: u64,
    /// Whether the thread is running the value's own code, rather than other code on its behalf.
    open: bool,
    /// Null if the frame has no value.
    value: *const T,
    note: OnceCell<N>,
    below: *const Self,
}

impl<T: 'static, N: 'static> Scope<T, N> {
    /// Creates an empty stack.
    pub(crate) const fn new() -> Self {
        Self { top: Cell::new(ptr::null()) }
    }

    /// Calls `f` inside `value`. `open` is stored for code that inspects the frame.
    ///
    /// The code is not in a closure passed to the key, because the compiler would turn the closure into a separate
    /// function that every task would have to call.
    #[inline(always)]
    pub(crate) fn enter<R>(
        this: &'static LocalKey<Self>,
        (domain, open): (u64, bool),
        value: Option<&T>,
        f: impl FnOnce() -> R,
    ) -> R {
        let below = this.with(|scope| scope.top.get());
        let frame =
            Frame { domain, open, value: value.map_or(ptr::null(), ptr::from_ref), note: OnceCell::new(), below };
        let _leave = Leave { scope: this, below };
        this.with(|scope| scope.top.set(&raw const frame));
        f()
    }

    /// Calls `f` inside a frame that has a note instead of a value.
    pub(crate) fn enter_noted<R>(this: &'static LocalKey<Self>, domain: u64, note: N, f: impl FnOnce() -> R) -> R {
        let below = this.with(|scope| scope.top.get());
        let frame = Frame { domain, open: false, value: ptr::null(), note: OnceCell::from(note), below };
        let _leave = Leave { scope: this, below };
        this.with(|scope| scope.top.set(&raw const frame));
        f()
    }

    /// Whether the stack is empty.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.get().is_null()
    }

    /// Calls `look` with each frame, starting with the innermost one, until it returns `Some`, and returns that. `look`
    /// gets the frame's domain, value and note, and may write the note.
    #[inline]
    pub(crate) fn find<R>(&self, mut look: impl FnMut(u64, Option<&T>, &OnceCell<N>) -> Option<R>) -> Option<R> {
        let mut frame = self.top.get();
        while !frame.is_null() {
            // SAFETY: frames in the list are alive (invariant), and so is the value, because `enter` borrows it for as
            // long as the frame exists.
            let (this, value) = unsafe { (&*frame, (*frame).value.as_ref()) };
            if let Some(found) = look(this.domain, value, &this.note) {
                return Some(found);
            }
            frame = this.below;
        }
        None
    }

    /// Calls `f` with all values of this domain, innermost first.
    pub(crate) fn with_all<R>(&self, domain: u64, f: impl FnOnce(&[&T]) -> R) -> R {
        let (mut all, mut frame) = (Vec::new(), self.top.get());
        while !frame.is_null() {
            // SAFETY: frames in the list are alive (invariant), and so is the value. Both stay alive while `f` runs,
            // because `f` is further up the stack.
            let (this, value) = unsafe { (&*frame, (*frame).value.as_ref()) };
            all.extend(value.filter(|_| this.domain == domain));
            frame = this.below;
        }
        f(&all)
    }

    /// Returns the domain of the innermost frame, if that frame is open.
    #[inline]
    pub(crate) fn open(&self) -> Option<u64> {
        // SAFETY: frames in the list are alive (invariant).
        unsafe { self.top.get().as_ref() }.filter(|frame| frame.open).map(|frame| frame.domain)
    }

    /// Whether the innermost frame is open and belongs to this domain.
    #[inline]
    pub(crate) fn is_open(&self, domain: u64) -> bool {
        self.open() == Some(domain)
    }

    /// Calls `f`, which either resumes code that had `frames` when it was suspended, or starts new code, for which
    /// `frames` is empty.
    pub(crate) fn apart<R>(this: &'static LocalKey<Self>, frames: &mut Frames, f: impl FnOnce() -> R) -> R {
        struct Swap<'a, T: 'static, N: 'static>(&'static LocalKey<Scope<T, N>>, &'a mut Frames);
        impl<T, N> Swap<'_, T, N> {
            fn swap(&mut self) {
                let own = self.0.with(|scope| scope.top.replace(self.1.0.cast()));
                self.1.0 = own.cast();
            }
        }
        impl<T, N> Drop for Swap<'_, T, N> {
            fn drop(&mut self) {
                self.swap();
            }
        }
        let mut swap = Swap(this, frames);
        swap.swap();
        f()
    }
}

/// The frames of code on a separate stack while that code is suspended.
pub(crate) struct Frames(*const ());

impl Default for Frames {
    /// Returns an empty list, for code that has yet to begin.
    fn default() -> Self {
        Self(ptr::null())
    }
}

/// Removes a frame from the list when it is dropped.
struct Leave<T: 'static, N: 'static> {
    scope: &'static LocalKey<Scope<T, N>>,
    below: *const Frame<T, N>,
}

impl<T, N> Drop for Leave<T, N> {
    #[inline]
    fn drop(&mut self) {
        self.scope.with(|scope| scope.top.set(self.below));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    thread_local! {
        static SCOPE: Scope<u32, String> = const { Scope::new() };
    }

    fn domains() -> Vec<(u64, Option<u32>)> {
        let mut all = vec![];
        SCOPE.with(|scope| {
            scope.find(|domain, value, _| {
                all.push((domain, value.copied()));
                None::<()>
            })
        });
        all
    }

    #[test]
    fn frames_are_found_innermost_first_and_gone_when_their_call_ends() {
        Scope::enter(&SCOPE, (1, false), Some(&10), || {
            Scope::enter(&SCOPE, (2, false), None, || assert_eq!(domains(), [(2, None), (1, Some(10))]));
            let unwinds = || Scope::enter(&SCOPE, (3, false), Some(&30), || panic!("out of here"));
            assert!(catch_unwind(AssertUnwindSafe(unwinds)).is_err());
            assert_eq!(domains(), [(1, Some(10))]);
        });
        assert!(domains().is_empty());
    }

    #[test]
    fn note_lives_as_long_as_its_frame() {
        let note = || {
            let write =
                |value: Option<&u32>, note: &OnceCell<String>| note.get_or_init(|| format!("{value:?}")).clone();
            SCOPE.with(|scope| scope.find(|_, value, note| Some(write(value, note))))
        };
        Scope::enter(&SCOPE, (1, false), Some(&10), || {
            assert_eq!(Scope::enter(&SCOPE, (1, false), None, note), Some("None".to_owned()));
            assert_eq!((note(), note()), (Some("Some(10)".to_owned()), Some("Some(10)".to_owned())));
        });
        assert_eq!(note(), None);
    }
}
