//! What a thread is in the middle of: a stack of borrowed values that code further up the call stack can look at.
//!
//! Made for one `thread_local!`. Entering is a few stores: nothing is counted, cloned or allocated, because a value is
//! lent for exactly as long as the call takes.
//!
//! Invariant: every frame in the list lies on its thread's stack, in a call of [`Scope::enter`] that has not returned,
//! innermost first. `enter` keeps it: it takes its frame out again however the call ends.

use std::cell::{Cell, OnceCell};
use std::ptr;

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

impl<T, N> Scope<T, N> {
    /// The thread is in the middle of nothing.
    pub(crate) const fn new() -> Self {
        Self { top: Cell::new(ptr::null()) }
    }

    /// Calls `f` in the middle of `value`.
    #[inline]
    pub(crate) fn enter<R>(&self, domain: u64, value: Option<&T>, f: impl FnOnce() -> R) -> R {
        let below = self.top.get();
        let frame = Frame { domain, value: value.map_or(ptr::null(), ptr::from_ref), note: OnceCell::new(), below };
        let _leave = Leave { scope: self, below };
        self.top.set(&raw const frame);
        f()
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
struct Leave<'a, T, N> {
    scope: &'a Scope<T, N>,
    below: *const Frame<T, N>,
}

impl<T, N> Drop for Leave<'_, T, N> {
    #[inline]
    fn drop(&mut self) {
        self.scope.top.set(self.below);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn domains(scope: &Scope<u32, ()>) -> Vec<(u64, Option<u32>)> {
        let mut all = vec![];
        scope.find(|domain, value, _| {
            all.push((domain, value.copied()));
            None::<()>
        });
        all
    }

    #[test]
    fn frames_are_found_innermost_first_and_gone_when_their_call_ends() {
        let scope = Scope::new();
        scope.enter(1, Some(&10), || {
            scope.enter(2, None, || assert_eq!(domains(&scope), [(2, None), (1, Some(10))]));
            let unwound = catch_unwind(AssertUnwindSafe(|| scope.enter(3, Some(&30), || panic!("out of here"))));
            assert!(unwound.is_err());
            assert_eq!(domains(&scope), [(1, Some(10))]);
        });
        assert!(domains(&scope).is_empty());
    }

    #[test]
    fn a_note_stays_as_long_as_its_frame() {
        let scope: Scope<u32, String> = Scope::new();
        let note = || scope.find(|_, value, note| Some(note.get_or_init(|| format!("{value:?}")).clone()));
        scope.enter(1, Some(&10), || {
            assert_eq!(scope.enter(1, None, note), Some("None".to_owned()));
            assert_eq!((note(), note()), (Some("Some(10)".to_owned()), Some("Some(10)".to_owned())));
        });
        assert_eq!(note(), None);
    }
}
