//! What a thread is in the middle of: a stack of borrowed values that code further up the call stack can look at.
//!
//! One `thread_local!` has it. Entering is a few stores: nothing is counted, cloned or allocated, because a value is
//! lent for exactly as long as the call takes.
//!
//! Invariant: every frame in the list lies on its thread's stack, in a call of [`Scope::enter`] that has not returned,
//! innermost first. `enter` keeps it: it takes its frame out again however the call ends.

use std::cell::{Cell, OnceCell};
use std::ptr;
use std::thread::LocalKey;

/// A stack of values lent to what this thread calls, each with a domain and a note.
pub(crate) struct Scope<T, N> {
    top: Cell<*const Frame<T, N>>,
}

struct Frame<T, N> {
    domain: u64,
    /// Null if there is nothing to see here.
    value: *const T,
    note: OnceCell<N>,
    below: *const Self,
}

impl<T: 'static, N: 'static> Scope<T, N> {
    /// The thread is in the middle of nothing.
    pub(crate) const fn new() -> Self {
        Self { top: Cell::new(ptr::null()) }
    }

    /// Calls `f` in the middle of `value`.
    ///
    /// Not in a closure given to the key: the compiler takes that for a function of its own, which every task would call.
    #[inline(always)]
    pub(crate) fn enter<R>(this: &'static LocalKey<Self>, domain: u64, value: Option<&T>, f: impl FnOnce() -> R) -> R {
        let below = this.with(|scope| scope.top.get());
        let frame = Frame { domain, value: value.map_or(ptr::null(), ptr::from_ref), note: OnceCell::new(), below };
        let _leave = Leave { scope: this, below };
        this.with(|scope| scope.top.set(&raw const frame));
        f()
    }

    /// Whether the thread is in the middle of nothing.
    #[inline]
    pub(crate) fn is_empty(&self) -> bool {
        self.top.get().is_null()
    }

    /// What `look` says of the innermost frame for which it says anything; it gets the domain, the value and the note,
    /// which is its to write.
    #[inline]
    pub(crate) fn find<R>(&self, mut look: impl FnMut(u64, Option<&T>, &OnceCell<N>) -> Option<R>) -> Option<R> {
        let mut frame = self.top.get();
        while !frame.is_null() {
            // SAFETY: frames in the list are alive (invariant), and so is the value, which `enter` borrows as long.
            let (this, value) = unsafe { (&*frame, (*frame).value.as_ref()) };
            if let Some(found) = look(this.domain, value, &this.note) {
                return Some(found);
            }
            frame = this.below;
        }
        None
    }
}

/// Takes a frame out of the list.
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
        Scope::enter(&SCOPE, 1, Some(&10), || {
            Scope::enter(&SCOPE, 2, None, || assert_eq!(domains(), [(2, None), (1, Some(10))]));
            let unwinds = || Scope::enter(&SCOPE, 3, Some(&30), || panic!("out of here"));
            assert!(catch_unwind(AssertUnwindSafe(unwinds)).is_err());
            assert_eq!(domains(), [(1, Some(10))]);
        });
        assert!(domains().is_empty());
    }

    #[test]
    fn a_note_stays_as_long_as_its_frame() {
        let note = || {
            let write =
                |value: Option<&u32>, note: &OnceCell<String>| note.get_or_init(|| format!("{value:?}")).clone();
            SCOPE.with(|scope| scope.find(|_, value, note| Some(write(value, note))))
        };
        Scope::enter(&SCOPE, 1, Some(&10), || {
            assert_eq!(Scope::enter(&SCOPE, 1, None, note), Some("None".to_owned()));
            assert_eq!((note(), note()), (Some("Some(10)".to_owned()), Some("Some(10)".to_owned())));
        });
        assert_eq!(note(), None);
    }
}
