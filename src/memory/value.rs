//! Accesses to values and tokens, which are stored in their tasks and turn a mode into the reference that the body
//! receives.
//!
//! A value is accessed as a whole: there are no regions, no shapes and no replicas, so an access consists of two
//! addresses. Rules 2 and 3 of the parent module, applied to the value instead of the data object's memory, make the
//! access's reference sound. Rule 4 does not apply, because the owner has moved the value into the runtime.

use super::access::Record;
use super::{Access, DataCell, Replicated};
use crate::depend::{AccessRecord, Mode, Site};
use crate::kernel::DeviceSite;
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use std::convert::Infallible;
use std::marker::PhantomData;

/// The mode in which a task accesses a value: the mode for dependences, and the type that the body receives.
///
/// ```
/// use thalweg::memory::{Reads, Updates, ValueMode};
/// /// The view that a body receives for a value that it updates.
/// type View<'a, T> = <Updates as ValueMode>::View<'a, T>;
/// let mut words = vec!["one"];
/// let view: View<'_, Vec<&str>> = &mut words;
/// view.push("two");
/// ```
pub trait ValueMode: Sealed + Send + Sync + 'static {
    /// The view that the body receives.
    type View<'a, T: 'a>;
    /// The view that a body for accelerators receives: an uninhabited type, or `()` for modes that give no view.
    type DeviceView;
    #[doc(hidden)]
    const MODE: Mode;

    /// # Safety
    /// Rules 2 and 3 of the parent module hold for the value at this address and `'a`.
    #[doc(hidden)]
    unsafe fn view<'a, T: 'a>(at: *mut T) -> Self::View<'a, T>;

    #[doc(hidden)]
    fn device_view() -> Self::DeviceView;
}

macro_rules! modes {
    ($($(#[$doc:meta])* $name:ident, $mode:expr, [$($view:tt)*], |$at:ident| $make:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Sealed for $name {}

        impl ValueMode for $name {
            type View<'a, T: 'a> = $($view)*;
            type DeviceView = Infallible;

            const MODE: Mode = $mode;

            #[inline]
            unsafe fn view<'a, T: 'a>($at: *mut T) -> Self::View<'a, T> {
                // SAFETY: the value lives while the body runs (rule 3), and tasks that could write it, or observe a
                // write, do not run at the same time (rule 2). This mode gives the same guarantees as the same mode of
                // a region.
                unsafe { $make }
            }

            fn device_view() -> Infallible {
                unreachable!("tasks with values run on CPU units")
            }
        }
    )*};
}

modes! {
    /// `in`: gives `&T`.
    Reads, Mode::In, [&'a T], |at| &*at;
    /// `out`: gives `&mut T`; the previous content does not matter.
    Overwrites, Mode::Out, [&'a mut T], |at| &mut *at;
    /// `inout`: gives `&mut T`.
    Updates, Mode::Inout, [&'a mut T], |at| &mut *at;
    /// `commutative`: gives `&mut T`, in any order, to one task at a time.
    Commutes, Mode::Commutative, [&'a mut T], |at| &mut *at;
    /// `concurrent`: gives `&T`, to several tasks at once.
    Shares, Mode::Concurrent, [&'a T], |at| &*at;
}

macro_rules! modes_without_view {
    ($($(#[$doc:meta])* $name:ident, $mode:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug, Clone, Copy)]
        pub struct $name;

        impl Sealed for $name {}

        impl ValueMode for $name {
            type View<'a, T: 'a> = ();
            type DeviceView = ();

            const MODE: Mode = $mode;

            #[inline]
            unsafe fn view<'a, T: 'a>(_: *mut T) {}

            fn device_view() {}
        }
    )*};
}

modes_without_view! {
    /// `after`: gives `()`.
    Follows, Mode::After;
    /// Internal to the runtime: accepts the present content as good.
    Accepts, Mode::Accept;
    /// Weak `in`: gives `()`; the task's children read the value.
    WeaklyReads, Mode::WeakIn;
    /// Weak `inout`: gives `()`; the task's children use the value in any mode.
    WeaklyUpdates, Mode::WeakInout;
}

/// An access to a value, stored in its task.
#[derive(Debug)]
pub struct OfValue<T, M> {
    cell: *const DataCell,
    /// The address of the value, stored here so that a running task need not read the cell.
    value: *mut T,
    mode: PhantomData<fn() -> M>,
}

// SAFETY: the pointers point to a `Sync` cell that outlives the task (rule 3), and to the cell's content, which is
// `Send` and `Sync`, so any thread may use them.
unsafe impl<T: Send + Sync, M> Send for OfValue<T, M> {}

impl<T, M> OfValue<T, M> {
    /// Makes an access to the value in `cell`, whose type is `T`.
    #[inline]
    pub(crate) fn new(cell: &DataCell) -> Self {
        Self { cell, value: cell.base().cast(), mode: PhantomData }
    }

    /// Returns the address of the value.
    pub(super) fn address(&self) -> *mut T {
        self.value
    }
}

impl<T, M> Sealed for OfValue<T, M> {}

impl<T, M> Replicated for OfValue<T, M> {}

impl<T: Send + Sync + 'static, M: ValueMode> Access for OfValue<T, M> {
    type View<'a> = M::View<'a, T>;
    type DeviceView<'a> = M::DeviceView;

    #[inline]
    unsafe fn view<'a>(&'a self, _: Option<Site>) -> Self::View<'a> {
        // SAFETY: the engine runs the body once its dependences are satisfied, so no conflicting task runs at the same
        // time (rule 2), and the task that gives up the value comes later (rule 3).
        unsafe { M::view(self.value) }
    }

    fn device_view(&self, _: DeviceSite) -> M::DeviceView {
        M::device_view()
    }

    #[inline]
    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        // SAFETY: the cell outlives the task that stores this access (rule 3).
        let cell = unsafe { &*self.cell };
        visit(Record(AccessRecord { datum: &cell.datum, block: &Block::ONE, mode: M::MODE }));
    }

    fn again(&self, _: Internal) -> Self {
        Self { ..*self }
    }
}

/// An access to an entire data object without a view, stored in its task. It is either an access to a token or an
/// access of an internal task.
#[derive(Debug)]
pub struct Unseen<M>(*const DataCell, PhantomData<fn() -> M>);

// SAFETY: the pointer points to a `Sync` cell that outlives the task (rule 3), so any thread may dereference it.
unsafe impl<M> Send for Unseen<M> {}

impl<M> Unseen<M> {
    #[inline]
    pub(crate) fn new(cell: &DataCell) -> Self {
        Self(cell, PhantomData)
    }
}

impl<M> Sealed for Unseen<M> {}

impl<M> Replicated for Unseen<M> {}

impl<M: ValueMode> Access for Unseen<M> {
    type View<'a> = ();
    type DeviceView<'a> = ();

    #[inline]
    unsafe fn view(&self, _: Option<Site>) {}

    fn device_view(&self, _: DeviceSite) {}

    #[inline]
    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        // SAFETY: the cell outlives the task that stores this access (rule 3).
        let datum = unsafe { &(*self.0).datum };
        visit(Record(AccessRecord { datum, block: &datum.whole(), mode: M::MODE }));
    }

    fn again(&self, _: Internal) -> Self {
        Self(self.0, PhantomData)
    }
}
