//! A borrowed predicate that code on another stack of the same thread can call.
//!
//! A fiber outlives the call that resumed it, so its code cannot borrow from that call. Instead, the fiber's code can
//! share a [`Borrowed`] with the caller. The predicate is present only while the caller lends it, and at any other time
//! its value is false.
//!
//! Invariant: the stored pointer is valid whenever it is not `None`. [`Borrowed::lend`] stores it, and removes it
//! before the borrow ends, whether its code returns or unwinds. A `Borrowed` is not `Sync`, so only the lending thread
//! reads it.

use std::cell::Cell;
use std::ptr::NonNull;

type Predicate<'a> = dyn Fn() -> bool + 'a;

/// A predicate that is lent by another call.
#[derive(Default)]
pub(crate) struct Borrowed(Cell<Option<NonNull<Predicate<'static>>>>);

impl Borrowed {
    /// Calls `code`, during which the predicate can be called. The predicate must not suspend a fiber.
    pub(crate) fn lend<R>(&self, predicate: &Predicate<'_>, code: impl FnOnce() -> R) -> R {
        struct Back<'a>(&'a Borrowed, Option<NonNull<Predicate<'static>>>);
        impl Drop for Back<'_> {
            fn drop(&mut self) {
                self.0.0.set(self.1);
            }
        }
        // SAFETY: only the lifetime is changed, and `Back` removes the pointer before the borrow ends (invariant).
        let predicate =
            unsafe { std::mem::transmute::<NonNull<Predicate<'_>>, NonNull<Predicate<'static>>>(predicate.into()) };
        let _back = Back(self, self.0.replace(Some(predicate)));
        code()
    }

    /// Returns the predicate's value, or false if no predicate is lent.
    pub(crate) fn holds(&self) -> bool {
        // SAFETY: the pointer is valid (invariant). The predicate does not suspend a fiber, so the call ends before
        // `lend` returns.
        self.0.get().is_some_and(|predicate| unsafe { predicate.as_ref()() })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn borrowed_predicate_is_false_outside_of_the_loan() {
        let borrowed = Borrowed::default();
        let answer = Cell::new(true);
        assert!(!borrowed.holds());
        borrowed.lend(&|| answer.get(), || {
            assert!(borrowed.holds());
            answer.set(false);
            assert!(!borrowed.holds());
            borrowed.lend(&|| true, || assert!(borrowed.holds()));
            assert!(!borrowed.holds(), "the outer predicate is back");
        });
        let unwinds = || borrowed.lend(&|| true, || panic!("on purpose"));
        assert!(catch_unwind(AssertUnwindSafe(unwinds)).is_err() && !borrowed.holds());
    }
}
