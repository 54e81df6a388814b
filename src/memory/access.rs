//! Typed declared accesses, which turn a region and a mode into the view that the body receives.

use super::buffer::DataCell;
use super::combine::OnDevices;
use super::outcome::Probe;
use super::strides::strides_of;
use super::{AtomicElement, Element, Shape, Shared, Spans};
use crate::depend::{AccessRecord, Accumulation, Mode, Site};
use crate::error::TaskFailure;
use crate::kernel::{DeviceSite, DeviceView, DeviceViewMut};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::{Internal, Sealed};
use std::marker::PhantomData;
use std::sync::Arc;

/// One declared access, stored in its task.
///
/// This module implements the trait for every mode. The trait is public only because the argument types of bodies
/// mention it.
///
/// ```
/// use thalweg::memory::Access;
/// use thalweg::task::{AccessSpec, Input};
/// /// The view that a body receives for an access with this specification.
/// type ViewOf<'a, A> = <<A as AccessSpec>::Stored as Access>::View<'a>;
/// let view: ViewOf<'_, Input<'_, f64>> = &[1.0, 2.0];
/// assert_eq!(view.len(), 2);
/// ```
pub trait Access: Replicated + Send + 'static {
    /// The view that the body receives.
    type View<'a>;
    /// The view that a body for accelerators receives.
    type DeviceView<'a>;

    /// Returns the view of the region.
    ///
    /// # Safety
    /// Rules 1–3 of the module hold for `'a`. `site`, if given, is the location of the region; otherwise the region is
    /// in the host copy. An access has only one view, and while the view lasts, no private replica is begun or
    /// combined.
    #[doc(hidden)]
    unsafe fn view<'a>(&'a self, site: Option<Site>) -> Self::View<'a>;

    /// Returns the view of the region at its location in a device's memory.
    #[doc(hidden)]
    fn device_view<'a>(&'a self, site: DeviceSite) -> Self::DeviceView<'a>;

    /// Passes the region and the mode to `visit`. Reads only what never changes, because other threads may call this
    /// while the body runs (`depend::Body`).
    #[doc(hidden)]
    fn visit(&self, visit: &mut dyn FnMut(Record<'_>));

    /// Returns the same access for another task.
    #[doc(hidden)]
    #[must_use]
    fn again(&self, right: Internal) -> Self;
}

/// The untyped side of an access: the location of its host copy, and the operations on its private replica, which only
/// reductions have.
pub trait Replicated: Sealed {
    /// Returns the location of the region in its host copy, if the access makes its view from a site and has the region
    /// to itself while the body runs, or shares it only with readers.
    #[doc(hidden)]
    fn home(&self) -> Option<Home> {
        None
    }

    /// Returns the operation by which a device combines the access's contribution, if one does.
    #[doc(hidden)]
    fn combination(&self) -> Option<OnDevices> {
        None
    }

    /// Allocates a new private replica and returns its address and size in bytes, if the access has one.
    ///
    /// # Safety
    /// No view of this access exists any more.
    #[doc(hidden)]
    unsafe fn private(&self) -> Option<(*mut u8, usize)> {
        None
    }

    /// Combines the private replica into the data object's host copy.
    ///
    /// # Safety
    /// As for `private`; in addition, it is this access's turn.
    #[doc(hidden)]
    unsafe fn combine(&self, _block: &Block) {}

    /// Returns the private replica, if there is one: its elements in row-major order, and its region.
    ///
    /// # Safety
    /// As for `private`.
    #[doc(hidden)]
    unsafe fn replica(&self) -> Option<(&[u8], Block)> {
        None
    }

    /// Combines another replica into the private one.
    ///
    /// # Safety
    /// As for `private`.
    #[doc(hidden)]
    unsafe fn absorb(&self, _block: &Block, _other: (&[u8], Block)) {}

    /// Releases the memory of the private replica.
    ///
    /// # Safety
    /// As for `private`.
    #[doc(hidden)]
    unsafe fn retire(&self) {}

    /// Adds the access to a group that accumulates, for a part of its region.
    ///
    /// # Safety
    /// The task is being submitted.
    #[doc(hidden)]
    unsafe fn enlist(&self, _group: Group) {}

    /// Sets the join that tells an `outcome` access whether there is a value. Called while the task is being submitted.
    #[doc(hidden)]
    fn ask(&self, _probe: Probe) {}

    /// Records why an `outcome` access finds no value.
    #[doc(hidden)]
    fn spoil(&self, _cause: &Arc<TaskFailure>) {}

    /// Returns whether [`Self::spoil`] was called.
    #[doc(hidden)]
    fn is_spoiled(&self) -> bool {
        false
    }

    /// Marks that the body has completed: other tasks may use the private replica if it is shared, and a replica that
    /// is combined in place is combined now.
    ///
    /// # Safety
    /// As for `private`.
    #[doc(hidden)]
    unsafe fn keep(&self) {}
}

/// A group that accumulates and the part of a region that belongs to it, wrapped like [`Record`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Group(pub(crate) Arc<Accumulation>, pub(crate) Block);

/// The location of a region in its host copy, wrapped like [`Record`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Home(pub(crate) Site);

/// An access as the dependence layer sees it, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Record<'a>(pub(crate) AccessRecord<'a>);

/// Marks a region whose rows follow each other without gaps in the host copy. The strides of such a region follow from
/// its extents, so a running task need not read the cell, which has probably left the caches since submission.
const DENSE: usize = 1;
const _: () = assert!(align_of::<DataCell>() > DENSE, "the address of a cell has a spare low bit");

/// A region of a data object, checked against its bounds.
#[derive(Debug)]
pub(crate) struct Declared<T, S: Shape> {
    /// The cell's address, with [`DENSE`] in its lowest bit.
    cell: *const DataCell,
    /// The address at which the region begins in the host copy. Stored here so that a running task need not read the
    /// cell, as with [`DENSE`].
    home: *mut u8,
    spans: S::Spans,
    element: PhantomData<fn() -> T>,
}

// SAFETY: the pointer points to a `Sync` cell that outlives the task (rule 3), so any thread may dereference it.
unsafe impl<T, S: Shape> Send for Declared<T, S> {}

impl<T: Element, S: Shape> Declared<T, S> {
    /// Returns a region within the bounds of `cell`, whose elements are of type `T` in `S` dimensions.
    pub(crate) fn new(cell: &DataCell, block: &Block) -> Self {
        debug_assert!(cell.datum.whole().contains(block) && cell.datum.element_bytes == size_of::<T>());
        let (home, dense) = match S::NDIM {
            Some(1) => (cell.base().wrapping_add(block.lo()[0] * size_of::<T>()), DENSE),
            _ if cell.strides() == strides_of(&block.extents()) => (cell.address(block), DENSE),
            _ => (cell.address(block), 0),
        };
        let cell = std::ptr::from_ref(cell).map_addr(|address| address | dense);
        Self { cell, home, spans: S::Spans::of_block(block), element: PhantomData }
    }

    /// Returns a copy of the declaration.
    pub(super) fn duplicate(&self) -> Self {
        Self { ..*self }
    }

    pub(super) fn block(&self) -> Block {
        self.spans.block()
    }

    pub(super) fn spans(&self) -> &S::Spans {
        &self.spans
    }

    pub(super) fn cell(&self) -> &DataCell {
        // SAFETY: the cell outlives the task that stores this access (rule 3).
        unsafe { &*self.cell.map_addr(|address| address & !DENSE) }
    }

    #[inline]
    pub(super) fn site(&self, given: Option<Site>) -> Site {
        given.unwrap_or_else(|| {
            let strides = match self.cell.addr() & DENSE {
                _ if S::NDIM == Some(1) => [1; MAX_DIMS],
                DENSE => strides_of(&self.spans.block().extents()),
                _ => self.cell().strides(),
            };
            Site { first: self.home, strides }
        })
    }

    #[inline]
    pub(super) fn record(&self, mode: Mode, visit: &mut dyn FnMut(Record<'_>)) {
        visit(Record(AccessRecord { datum: &self.cell().datum, block: &self.spans.block(), mode }));
    }
}

#[cfg(feature = "dynamic")]
impl Declared<u8, ndarray::Ix4> {
    /// Returns a region within the bounds of `cell`, whatever its elements are.
    pub(super) fn untyped(cell: &DataCell, block: &Block) -> Self {
        let dense = if cell.strides() == strides_of(&block.extents()) { DENSE } else { 0 };
        let home = cell.address(block);
        let cell = std::ptr::from_ref(cell).map_addr(|address| address | dense);
        Self { cell, home, spans: Spans::of_block(block), element: PhantomData }
    }
}

macro_rules! plain_access {
    ($($(#[$doc:meta])* $name:ident, $mode:expr, $view:ident, $method:ident, $device_view:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T, S: Shape>(pub(crate) Declared<T, S>);

        impl<T, S: Shape> Sealed for $name<T, S> {}

        impl<T: Element, S: Shape> Replicated for $name<T, S> {
            fn home(&self) -> Option<Home> {
                Some(Home(self.0.site(None)))
            }
        }

        impl<T: Element, S: Shape> Access for $name<T, S> {
            type View<'a> = S::$view<'a, T>;
            type DeviceView<'a> = $device_view<'a, T>;

            #[inline]
            unsafe fn view<'a>(&'a self, site: Option<Site>) -> Self::View<'a> {
                // SAFETY: the engine runs the body once its dependences are satisfied, so no conflicting task runs at
                // the same time (rule 2), and the site is the region's.
                unsafe { S::$method(self.0.site(site), &self.0.spans) }
            }

            fn device_view<'a>(&'a self, site: DeviceSite) -> Self::DeviceView<'a> {
                $device_view::new(site)
            }

            #[inline]
            fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
                self.0.record($mode, visit);
            }

            fn again(&self, _: Internal) -> Self {
                Self(self.0.duplicate())
            }
        }
    )*};
}

plain_access! {
    /// `in`: reads.
    In, Mode::In, View, view, DeviceView;
    /// `out`: overwrites.
    Out, Mode::Out, ViewMut, view_mut, DeviceViewMut;
    /// `inout`: reads and writes.
    Update, Mode::Inout, ViewMut, view_mut, DeviceViewMut;
    /// `commutative`: like `inout`, in any order, one task at a time.
    Commute, Mode::Commutative, ViewMut, view_mut, DeviceViewMut;
    /// Internal to the runtime: accepts the present content as good.
    Accept, Mode::Accept, View, view, DeviceView;
}

macro_rules! access_without_view {
    ($($(#[$doc:meta])* $name:ident, $mode:expr;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<T, S: Shape>(pub(crate) Declared<T, S>);

        impl<T, S: Shape> Sealed for $name<T, S> {}

        impl<T, S: Shape> Replicated for $name<T, S> {}

        impl<T: Element, S: Shape> Access for $name<T, S> {
            type View<'a> = ();
            type DeviceView<'a> = ();

            unsafe fn view(&self, _: Option<Site>) {}

            fn device_view(&self, _: DeviceSite) {}

            fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
                self.0.record($mode, visit);
            }

            fn again(&self, _: Internal) -> Self {
                Self(self.0.duplicate())
            }
        }
    )*};
}

access_without_view! {
    /// `after`: only orders the task, and gives no view.
    Follow, Mode::After;
    /// Weak `in`: the task's children read.
    WeakRead, Mode::WeakIn;
    /// Weak `inout`: the task's children read and write.
    WeakUpdate, Mode::WeakInout;
}

/// `concurrent`: atomic updates, concurrently with other tasks. The region is contiguous.
#[derive(Debug)]
pub struct Concur<T, S: Shape>(pub(crate) Declared<T, S>);

impl<T, S: Shape> Sealed for Concur<T, S> {}

impl<T, S: Shape> Replicated for Concur<T, S> {}

impl<T: AtomicElement, S: Shape> Access for Concur<T, S> {
    type View<'a> = Shared<'a, T>;
    type DeviceView<'a> = DeviceViewMut<'a, T>;

    unsafe fn view<'a>(&'a self, site: Option<Site>) -> Shared<'a, T> {
        let len = self.0.spans.block().volume();
        // SAFETY: the region is at the site while the body runs, and is contiguous because submission refuses regions
        // with gaps. All tasks of the group receive such views, so all of them access the elements atomically.
        unsafe { Shared::new(self.0.site(site).first.cast(), len) }
    }

    fn device_view<'a>(&'a self, site: DeviceSite) -> Self::DeviceView<'a> {
        DeviceViewMut::new(site)
    }

    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        self.0.record(Mode::Concurrent, visit);
    }

    fn again(&self, _: Internal) -> Self {
        Self(self.0.duplicate())
    }
}
