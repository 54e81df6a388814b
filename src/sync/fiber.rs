//! Code on a stack of its own, which its thread can leave in the middle and come back to.
//!
//! A body that waits suspends itself, not its thread: what runs meanwhile may have to wait for something that needs the body
//! again, and must not lie on top of it. The switch is `corosensei`'s; here is who may switch where.
//!
//! What never happens here: a fiber moves to another thread (bodies may hold what is not `Send`), and nothing is queued.
//!
//! Invariants:
//! 1. [`CURRENT`] names the yielder of the fiber whose code this thread is running, or nobody's. [`Fiber::resume`] keeps it,
//!    whichever way the code leaves. A yielder lies in its fiber's first frame, so it is there as long as the code is.
//! 2. A fiber that is dropped in the middle of its code is leaked: unwinding it would run other people's code.

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

/// Memory for the stack of one fiber.
pub(crate) struct Stack {
    memory: DefaultStack,
    counted: Mapped,
}

impl Stack {
    /// A stack of so many bytes, of which memory is used only as far as it is reached.
    ///
    /// # Errors
    /// If the system gives no more addresses, or few would be left for others.
    pub(crate) fn new(bytes: usize) -> std::io::Result<Self> {
        let counted = Mapped::new()?;
        let memory = DefaultStack::new(bytes)?;
        match headroom() {
            0 => {}
            headroom => drop(DefaultStack::new(headroom)?), // only to see that the system would give them
        }
        Ok(Self { memory, counted })
    }
}

/// Code on a stack of its own.
pub(crate) struct Fiber {
    coroutine: ManuallyDrop<Coroutine<(), (), (), DefaultStack>>,
    /// Of the stack, which is leaked with the coroutine.
    counted: ManuallyDrop<Mapped>,
    /// Known from the start of its code on.
    yielder: Rc<Cell<*const Own>>,
}

impl Fiber {
    /// Code that begins when it is resumed for the first time.
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

    /// Runs the code from its beginning, or from where it has suspended itself, until it ends or suspends itself; returns
    /// whether it has ended. If it panics, so does this.
    pub(crate) fn resume(&mut self) -> bool {
        let _back = Back(CURRENT.replace(self.yielder.get()));
        matches!(self.coroutine.resume(()), CoroutineResult::Return(()))
    }

    /// The stack, of a fiber that has ended.
    pub(crate) fn into_stack(mut self) -> Option<Stack> {
        if !self.coroutine.done() {
            return None;
        }
        // SAFETY: the fiber is consumed, so its coroutine is taken once; its destructor leaves alone what has ended.
        let (coroutine, counted) =
            unsafe { (ManuallyDrop::take(&mut self.coroutine), ManuallyDrop::take(&mut self.counted)) };
        // SAFETY: as above; the rest of the fiber goes here.
        unsafe { std::ptr::drop_in_place(&raw mut self.yielder) };
        std::mem::forget(self);
        Some(Stack { memory: coroutine.into_stack(), counted })
    }
}

impl Drop for Fiber {
    fn drop(&mut self) {
        if self.coroutine.done() {
            // SAFETY: both are dropped once, here.
            unsafe {
                ManuallyDrop::drop(&mut self.coroutine);
                ManuallyDrop::drop(&mut self.counted);
            }
        }
    }
}

/// Restores who was running.
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

/// Leaves the fiber whose code this is: [`Fiber::resume`] returns, and the next one comes back here.
///
/// # Panics
/// If this is no fiber's code.
pub(crate) fn suspend() {
    let current = CURRENT.get();
    assert!(!current.is_null(), "only a fiber can be left");
    // SAFETY: it is the yielder of the fiber that runs this, and is there as long as its code is (invariant 1).
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
    fn fibers_are_left_and_come_back_in_any_order() {
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
        assert!(first.into_stack().is_some_and(|stack| Fiber::new(stack, || ()).resume()), "a stack is used again");
        assert!(second.into_stack().is_none(), "not one in the middle of its code");
    }

    #[test]
    fn a_panic_comes_out_where_the_fiber_was_resumed() {
        let mut panics = fiber(|| {
            suspend();
            panic!("out of here");
        });
        assert!(!panics.resume());
        assert!(catch_unwind(AssertUnwindSafe(|| panics.resume())).is_err());
        assert!(!is_on_fiber() && panics.into_stack().is_some());
    }

    #[test]
    fn a_fiber_in_a_fiber_returns_to_it() {
        let mut outer = fiber(|| {
            let mut inner = fiber(suspend);
            assert!(!inner.resume());
            suspend(); // the outer one, not the inner one
            assert!(inner.resume() && is_on_fiber());
        });
        assert!(!outer.resume() && outer.resume());
    }
}
