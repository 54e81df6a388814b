//! Code on a separate stack, which its thread can leave in the middle and resume later.
//!
//! A body that waits suspends itself, not its thread. Code that the thread runs in the meantime may itself have to wait
//! for something that requires the body to continue, so this code must not run on top of the body. `corosensei`
//! switches between stacks; this module defines when and where a switch is allowed.
//!
//! A fiber never moves to another thread, because bodies may hold values that are not `Send`. Nothing is queued here.
//!
//! Invariants:
//! 1. [`CURRENT`] names the yielder of the fiber whose code this thread is running, or is null. [`Fiber::resume`]
//!    maintains it, no matter how the code leaves the fiber. A yielder is in its fiber's first frame, so it lives as
//!    long as the code.
//! 2. A fiber that is dropped in the middle of its code is leaked, because unwinding it would run user code.

use super::stacks::{Mapped, headroom};
use corosensei::stack::DefaultStack;
use corosensei::{Coroutine, CoroutineResult, Yielder};
use std::cell::Cell;
use std::mem::ManuallyDrop;
use std::ptr;
use std::rc::Rc;

type Own = Yielder<(), ()>;

thread_local! {
    static CURRENT: Cell<*const Own> = const { Cell::new(ptr::null()) };
}

/// The memory for one fiber's stack.
pub(crate) struct Stack {
    memory: DefaultStack,
    counted: Mapped,
}

impl Stack {
    /// Creates a stack of this size. Only the part that is actually used takes physical memory.
    ///
    /// # Errors
    /// Returns an error if the process already has the maximum number of stacks, if the system does not map the
    /// addresses, or if too few addresses would be left for other memory.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        let counted = Mapped::new()?;
        let memory = DefaultStack::new(bytes)?;
        match headroom() {
            0 => {}
            headroom => drop(DefaultStack::new(headroom)?), // only to check that the system would map them
        }
        Ok(Self { memory, counted })
    }
}

/// Code on a separate stack.
pub(crate) struct Fiber {
    coroutine: ManuallyDrop<Coroutine<(), (), (), DefaultStack>>,
    /// The stack's entry in the count of stacks, which is leaked along with the coroutine.
    counted: ManuallyDrop<Mapped>,
    /// Set when the code starts.
    yielder: Rc<Cell<*const Own>>,
}

impl Fiber {
    /// Creates a fiber whose code begins at the first [`resume`](Self::resume).
    pub(crate) fn new(Stack { memory, counted }: Stack, code: impl FnOnce() + 'static) -> Self {
        let yielder = Rc::new(Cell::new(ptr::null()));
        let own = yielder.clone();
        let coroutine = Coroutine::with_stack(memory, move |yielder: &Own, ()| {
            own.set(yielder);
            CURRENT.set(yielder);
            drop(own);
            code();
        });
        Self { coroutine: ManuallyDrop::new(coroutine), counted: ManuallyDrop::new(counted), yielder }
    }

    /// Runs the code from its beginning, or from the point where it suspended itself, until it ends or suspends itself
    /// again. Returns whether the code has ended. A panic of the code propagates to the caller.
    pub(crate) fn resume(&mut self) -> bool {
        let _back = Back(CURRENT.replace(self.yielder.get()));
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }

    /// Returns the stack, if the fiber has ended.
    pub(crate) fn into_stack(mut self) -> Option<Stack> {
        if !self.coroutine.done() {
            return None;
        }
        // SAFETY: the fiber is consumed, so its coroutine is taken once; `Drop` does not run, because `self` is
        // forgotten below.
        let (coroutine, counted) =
            unsafe { (ManuallyDrop::take(&mut self.coroutine), ManuallyDrop::take(&mut self.counted)) };
        // SAFETY: the fiber is consumed, so its remaining field is dropped exactly once, here.
        unsafe { std::ptr::drop_in_place(&raw mut self.yielder) };
        std::mem::forget(self);
        Some(Stack { memory: coroutine.into_stack(), counted })
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.coroutine.done() {
            // SAFETY: both fields are dropped exactly once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.coroutine);
                ManuallyDrop::drop(&mut self.counted);
            }
        }
    }
}

/// Restores the fiber that was running before.
struct Back(*const Own);

impl Drop for Back {
    fn drop(&mut self) {
        CURRENT.set(self.0);
    }
}

/// Whether this thread is running a fiber's code.
#[cfg(test)]
fn is_on_fiber() -> bool {
    !CURRENT.get().is_null()
}

/// Leaves the fiber that is running this code: [`Fiber::resume`] returns, and the next `resume` continues here.
///
/// # Panics
/// Panics if this code does not run in a fiber.
pub(crate) fn suspend() {
    let current = CURRENT.get();
    assert!(!current.is_null(), "only a fiber can be suspended");
    // SAFETY: this is the running fiber's yielder, which lives as long as the fiber's code (invariant 1).
    unsafe { (*current).suspend(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    const STACK_BYTES: usize = 64 << 10;

    fn fiber(code: impl FnOnce() + 'static) -> Fiber {
        Fiber::new(Stack::new(STACK_BYTES).unwrap(), code)
    }

    #[test]
    fn fibers_are_suspended_and_resumed_in_any_order() {
        let said = Rc::new(RefCell::new(vec![]));
        let mut fibers: Vec<_> = (0..3)
            .map(|n| {
                let said = said.clone();
                fiber(move || {
                    for step in 0..2 {
                        said.borrow_mut().push((n, step));
                        suspend();
                    }
                })
            })
            .collect();
        assert!(!is_on_fiber());
        let ended: Vec<_> = [0, 1, 2, 2, 0, 0, 1].map(|n: usize| fibers[n].resume()).to_vec();
        assert_eq!(ended, [false, false, false, false, false, true, false]);
        assert_eq!(*said.borrow(), [(0, 0), (1, 0), (2, 0), (2, 1), (0, 1), (1, 1)]);
        let [first, second, _] = <[_; 3]>::try_from(fibers).ok().unwrap();
        assert!(first.into_stack().is_some_and(|stack| Fiber::new(stack, || ()).resume()), "a stack is reused");
        assert!(second.into_stack().is_none(), "the stack of a suspended fiber is not reused");
    }

    #[test]
    fn panic_continues_in_the_caller_of_resume() {
        let mut panics = fiber(|| {
            suspend();
            panic!("out of here");
        });
        assert!(!panics.resume());
        assert!(catch_unwind(AssertUnwindSafe(|| panics.resume())).is_err());
        assert!(!is_on_fiber() && panics.into_stack().is_some());
    }

    #[test]
    fn inner_fiber_returns_to_the_outer_fiber() {
        let mut outer = fiber(|| {
            let mut inner = fiber(suspend);
            assert!(!inner.resume());
            suspend(); // the outer one, not the inner one
            assert!(inner.resume() && is_on_fiber());
        });
        assert!(!outer.resume() && outer.resume());
    }
}
