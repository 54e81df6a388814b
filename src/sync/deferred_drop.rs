//! Deferred drops: values that may own others of their kind are dropped one after another instead of recursively.
//!
//! A chain of such values can be arbitrarily long and may lead through types defined by the user. The destructor of
//! each value passes its contents to this module. The outermost call on a thread drops these contents, and then
//! everything that nested calls have added in the meantime.
//!
//! Invariant: a thread's list exists exactly while an outermost call runs on the thread, and is empty when that call
//! returns.

use super::task::drop_quietly;
use std::cell::RefCell;
use std::mem::ManuallyDrop;
use std::thread::LocalKey;

/// One thread's list of contents to drop. The list itself is never dropped, so destructors can use it while the thread
/// ends.
pub(crate) struct DeferredDrop<T>(RefCell<Option<ManuallyDrop<Vec<T>>>>);

impl<T: 'static> DeferredDrop<T> {
    /// Creates the initial state, in which no call is under way.
    pub(crate) const fn new() -> Self {
        Self(RefCell::new(None))
    }

    /// Drops `contents` now, or leaves them to the outermost call on this thread. A destructor's panic does not
    /// propagate out of this call.
    pub(crate) fn drop(this: &'static LocalKey<Self>, contents: T) {
        let outermost = this.with(|this| match &mut *this.0.borrow_mut() {
            Some(waiting) => {
                waiting.push(contents);
                None
            }
            list => {
                *list = Some(ManuallyDrop::default());
                Some(contents)
            }
        });
        let mut next = outermost;
        while let Some(contents) = next {
            drop_quietly(|| drop(contents));
            next = this.with(|this| {
                let mut list = this.0.borrow_mut();
                let next = list.as_mut().and_then(|waiting| waiting.pop());
                if next.is_none()
                    && let Some(waiting) = list.take()
                {
                    drop(ManuallyDrop::into_inner(waiting));
                }
                next
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    thread_local! {
        static LINKS: DeferredDrop<Option<Box<Link>>> = const { DeferredDrop::new() };
    }

    struct Link(Option<Box<Link>>, Arc<()>);

    impl Drop for Link {
        fn drop(&mut self) {
            DeferredDrop::drop(&LINKS, self.0.take());
            if Arc::strong_count(&self.1) == 500 {
                panic!("as a user's destructor may");
            }
        }
    }

    #[test]
    fn long_chain_is_dropped_on_a_short_stack() {
        let alive = Arc::new(());
        let chain = (0..100_000).fold(None, |chain, _| Some(Box::new(Link(chain, alive.clone()))));
        let thread = std::thread::Builder::new().stack_size(64 << 10);
        thread.spawn(move || drop(chain)).unwrap().join().unwrap();
        assert_eq!(Arc::strong_count(&alive), 1, "a panicking destructor does not stop the others");
    }
}
