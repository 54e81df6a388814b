//! The context that a user's thread has made current, which the runtime's calls of CUDA and HIP must not change.
//!
//! Calls of an interface bind a device to the calling thread. On the runtime's own threads the binding stays. On any
//! other thread, calls are part of a [`Visit`]: the first one saves the user's binding, and the end of the outermost
//! visit restores it. Code that makes many calls begins a visit around them, so that they save and restore once.

use std::cell::{Cell, RefCell};
use std::marker::PhantomData;

/// A user's binding in one interface.
struct Saved {
    interface: &'static str,
    context: usize,
    restore: fn(usize),
}

thread_local! {
    static IS_OWN: Cell<bool> = const { Cell::new(false) };
    /// The number of visits that have begun and not ended.
    static DEPTH: Cell<usize> = const { Cell::new(0) };
    static SAVED: RefCell<Vec<Saved>> = const { RefCell::new(Vec::new()) };
}

/// Notes that the calling thread belongs to the runtime, so its binding need not be restored.
pub(crate) fn on_own_thread() {
    IS_OWN.set(true);
}

/// A time in which the calling thread may be bound to devices; see the module documentation.
pub(crate) struct Visit(PhantomData<*const ()>);

impl Visit {
    pub(crate) fn begin() -> Self {
        let _ = DEPTH.try_with(|depth| depth.set(depth.get() + 1)); // an exiting thread needs no binding
        Self(PhantomData)
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        let is_outermost = DEPTH.try_with(|depth| {
            depth.set(depth.get() - 1);
            depth.get() == 0
        });
        if is_outermost == Ok(true) {
            let saved = SAVED.try_with(RefCell::take).unwrap_or_default();
            saved.into_iter().for_each(|Saved { context, restore, .. }| restore(context));
        }
    }
}

/// A visit that begins in a value's destructor, and ends when the value's other fields have been dropped.
#[derive(Default)]
pub(super) struct LastVisit {
    has_begun: bool,
}

impl LastVisit {
    pub(super) fn begin(&mut self) {
        self.has_begun = true;
        std::mem::forget(Visit::begin());
    }
}

impl Drop for LastVisit {
    fn drop(&mut self) {
        if self.has_begun {
            drop(Visit(PhantomData)); // the one that `begin` has forgotten, on the same thread
        }
    }
}

/// Saves the user's binding, which `current` returns, before the first change of it in a visit.
pub(super) fn save(interface: &'static str, current: impl FnOnce() -> Option<usize>, restore: fn(usize)) {
    if IS_OWN.try_with(Cell::get).unwrap_or(true) || DEPTH.try_with(Cell::get).unwrap_or(0) == 0 {
        return;
    }
    let _ = SAVED.try_with(|saved| {
        let mut saved = saved.borrow_mut();
        if !saved.iter().any(|saved| saved.interface == interface) {
            saved.extend(current().map(|context| Saved { interface, context, restore }));
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local! {
        static CURRENT: Cell<usize> = const { Cell::new(7) };
        static ASKED: Cell<usize> = const { Cell::new(0) };
    }

    fn bind(context: usize) {
        let current = || {
            ASKED.set(ASKED.get() + 1);
            Some(CURRENT.get())
        };
        save("test", current, |context| CURRENT.set(context));
        CURRENT.set(context);
    }

    #[test]
    fn outermost_visit_restores_the_first_binding() {
        {
            let _outer = Visit::begin();
            for device in 1..4 {
                let _inner = Visit::begin();
                bind(device);
            }
            assert_eq!((CURRENT.get(), ASKED.get()), (3, 1));
        }
        assert_eq!(CURRENT.get(), 7);
        drop(Visit::begin());
        assert_eq!((CURRENT.get(), ASKED.get()), (7, 1));
    }

    #[test]
    fn own_threads_stay_bound() {
        on_own_thread();
        let visit = Visit::begin();
        bind(1);
        drop(visit);
        assert_eq!((CURRENT.get(), ASKED.get()), (1, 0));
    }
}
