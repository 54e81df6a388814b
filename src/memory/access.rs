//! Typed declared accesses, which turn a region and a mode into the view that the body receives.

use super::buffer::DataCell;
use super::combine::{OnDevices, operation};
use super::outcome::Probe;
use super::replica::Replica;
use super::strides::strides_of;
use super::{AtomicElement, Element, Reducer, Shape, Shared, Spans};
use crate::depend::{AccessRecord, Accumulation, Mode, Site};
use crate::error::TaskFailure;
use crate::kernel::{DeviceSite, DeviceView, DeviceViewMut};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::{INTERNAL, Internal, Sealed};
use std::cell::{Cell, UnsafeCell};
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

/// Operations of an access on its private replica. Only reductions have one.
pub trait Replicated: Sealed {
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

        impl<T: Element, S: Shape> Replicated for $name<T, S> {}

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

/// `reduction`: an access with a private replica, which is combined with the region's content after the task has run.
#[derive(Debug)]
pub struct Reduce<T, S: Shape, R> {
    declared: Declared<T, S>,
    reducer: R,
    /// Contains the operation's ID as of registration, even if the user's `Reducer::id` later returns a different ID.
    mode: Mode,
    /// In a cell of its own, so that the other fields can be read while the body has a view of the replica.
    replica: UnsafeCell<Replica<T>>,
    target: Target,
}

/// The site of the region where the task runs; `None` if the region is in the host copy.
#[derive(Debug, Default)]
struct Target(Cell<Option<Site>>);

// SAFETY: a site is only an address, and only the owner of the task uses it, at the end of the body.
unsafe impl Send for Target {}

impl<T: Element, S: Shape, R: Reducer<T>> Reduce<T, S, R> {
    pub(crate) fn new(declared: Declared<T, S>, reducer: R) -> Self {
        let replica = UnsafeCell::new(Replica::for_later(declared.cell().spares(), declared.spans.block().volume()));
        Self { mode: Mode::Reduction(operation(&reducer)), declared, reducer, replica, target: Target::default() }
    }

    fn is_in_place(&self) -> bool {
        let Self { declared, mode, .. } = self;
        AccessRecord { datum: &declared.cell().datum, block: &declared.block(), mode: *mode }.is_reduced_in_place()
    }

    /// Begins a new replica. The user's `identity` runs first.
    ///
    /// # Safety
    /// Nothing else uses the access's replica while the reference lasts.
    #[allow(clippy::mut_from_ref)] // the safety contract excludes a second reference
    unsafe fn begin(&self) -> &mut [T] {
        let identity = self.reducer.identity();
        // SAFETY: a task's replica belongs to its owner alone until the body has ended, and the reference lasts no
        // longer than that.
        unsafe { &mut *self.replica.get() }.begin(identity)
    }

    /// Begins a new replica and returns its site and the spans of the region.
    ///
    /// # Safety
    /// As for `begin`, until the replica is combined.
    pub(super) unsafe fn begin_site(&self) -> (Site, &S::Spans) {
        // SAFETY: the caller upholds the same contract.
        site_of(unsafe { self.begin() }, self.declared.spans())
    }
}

#[cfg(feature = "dynamic")]
impl<T: Element, S: Shape, R: Reducer<T>> Reduce<T, S, R> {
    /// Begins a new replica for a body that finds the region at `site`, and returns the replica's site.
    ///
    /// # Safety
    /// As for [`Access::view`], until the replica is combined.
    pub(super) unsafe fn begin_for(&self, site: Option<Site>) -> Site {
        self.target.0.set(site);
        // SAFETY: the caller upholds the same contract.
        unsafe { self.begin_site() }.0
    }
}

/// Returns the site of a replica, together with `spans`.
pub(super) fn site_of<'a, T, D: Spans>(replica: &mut [T], spans: &'a D) -> (Site, &'a D) {
    let strides = strides_of(&spans.block().extents());
    (Site { first: replica.as_mut_ptr().cast(), strides }, spans)
}

impl<T, S: Shape, R> Sealed for Reduce<T, S, R> {}

impl<T: Element, S: Shape, R: Reducer<T>> Access for Reduce<T, S, R> {
    type View<'a> = S::ViewMut<'a, T>;
    type DeviceView<'a> = DeviceViewMut<'a, T>;

    unsafe fn view<'a>(&'a self, site: Option<Site>) -> Self::View<'a> {
        self.target.0.set(site);
        // SAFETY: the body runs once, so this is the only view.
        S::of_slice(unsafe { self.begin() }, &self.declared.spans)
    }

    fn device_view<'a>(&'a self, site: DeviceSite) -> Self::DeviceView<'a> {
        DeviceViewMut::new(site)
    }

    fn visit(&self, visit: &mut dyn FnMut(Record<'_>)) {
        self.declared.record(self.mode, visit);
    }

    fn again(&self, _: Internal) -> Self {
        Self { mode: self.mode, ..Self::new(self.declared.duplicate(), self.reducer.clone()) }
    }
}

impl<T: Element, S: Shape, R: Reducer<T>> Replicated for Reduce<T, S, R> {
    fn combination(&self) -> Option<OnDevices> {
        self.reducer.on_devices(INTERNAL).filter(|_| self.is_in_place())
    }

    unsafe fn keep(&self) {
        if !self.is_in_place() {
            return; // the lane of the reduction combines the replica later
        }
        let Self { declared, reducer, replica, .. } = self;
        // SAFETY: the body has ended, and no lane has a ticket of this access, so nothing else uses the replica.
        let replica = unsafe { &mut *replica.get() };
        if replica.elements().is_empty() {
            return; // a device has combined the contribution
        }
        let (own, site) = (declared.block(), declared.site(self.target.0.take()));
        let mine = strides_of(&own.extents());
        for_each_row(innermost(declared.cell(), &site.strides), &own, |first, len| {
            let at = |strides: &[usize; MAX_DIMS]| {
                (0..MAX_DIMS).map(|d| (first[d] - own.lo()[d]) * strides[d]).sum::<usize>()
            };
            let (to, from) = (at(&site.strides), at(&mine));
            // SAFETY: the slice is a row of the region where the task runs, whose innermost elements are adjacent in
            // host memory and in emulated devices. The members of the group follow each other, their predecessors have
            // ended, and their successors wait for this task to end, so nothing else touches the region now.
            let row = unsafe { std::slice::from_raw_parts_mut(site.first.cast::<T>().add(to), len) };
            combine_all(reducer, row, &replica.elements()[from..from + len]);
        });
        replica.retire();
    }

    unsafe fn private(&self) -> Option<(*mut u8, usize)> {
        // SAFETY: the task's owner calls this once, before the body is enqueued.
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(unsafe { self.begin() });
        Some((bytes.as_mut_ptr(), bytes.len()))
    }

    unsafe fn combine(&self, block: &Block) {
        let Self { declared, reducer, replica, .. } = self;
        // SAFETY: the body has ended, and the lane of a part lets only one thread at a time combine
        // (`depend::reduction`), so nothing else uses the replica.
        let replica = unsafe { &*replica.get() };
        if replica.elements().is_empty() {
            return; // the body did not run, as in simulations
        }
        // SAFETY: until the group is done, only this group's combining touches the region, and the lane of this part
        // lets only one thread at a time combine. So this thread has the block to itself.
        unsafe { combine_at_home(declared.cell(), &declared.block(), reducer, replica.elements(), block) };
    }

    unsafe fn replica(&self) -> Option<(&[u8], Block)> {
        // SAFETY: the body has ended, and its lane lets nothing else combine the replica while it is being read.
        let replica = unsafe { &*self.replica.get() };
        Some((bytemuck::cast_slice(replica.elements()), self.declared.spans.block()))
    }

    unsafe fn absorb(&self, block: &Block, (other, others): (&[u8], Block)) {
        let other: &[T] = bytemuck::cast_slice(other);
        let Self { declared, reducer, replica, .. } = self;
        // SAFETY: the body has ended, and the lane of a part lets only one thread at a time absorb others
        // (`depend::reduction`), so this is the only reference to the replica.
        let replica = unsafe { &mut *replica.get() };
        let own = declared.spans.block();
        let (mine, theirs) = (strides_of(&own.extents()), strides_of(&others.extents()));
        if other.is_empty() || replica.elements().is_empty() {
            return; // one of the two bodies did not run
        }
        for_each_row(innermost(declared.cell(), &declared.cell().strides()), block, |first, len| {
            let to: usize = (0..MAX_DIMS).map(|d| (first[d] - own.lo()[d]) * mine[d]).sum();
            let from: usize = (0..MAX_DIMS).map(|d| (first[d] - others.lo()[d]) * theirs[d]).sum();
            combine_all(reducer, &mut replica.elements_mut()[to..to + len], &other[from..from + len]);
        });
    }

    unsafe fn retire(&self) {
        // SAFETY: `depend::reduction` retires the replica after the last of the task's parts has been combined, so
        // nothing uses it any more.
        unsafe { &mut *self.replica.get() }.retire();
    }
}

/// Combines `contributions` to the block `own` into the content of `cell` within `block`, which is a part of `own`.
///
/// # Safety
/// Nothing else touches the block in the host copy during the call.
pub(super) unsafe fn combine_at_home<T: Element, R: Reducer<T>>(
    cell: &DataCell,
    own: &Block,
    reducer: &R,
    contributions: &[T],
    block: &Block,
) {
    let (home, mine) = (cell.strides(), strides_of(&own.extents()));
    for_each_row(innermost(cell, &home), block, |first, len| {
        let to: usize = (0..MAX_DIMS).map(|d| first[d] * home[d]).sum();
        let from: usize = (0..MAX_DIMS).map(|d| (first[d] - own.lo()[d]) * mine[d]).sum();
        // SAFETY: the slice is a row of the block, which is contiguous in the host copy, and by the safety contract
        // only the caller touches the block during the call.
        let row = unsafe { std::slice::from_raw_parts_mut(cell.base().cast::<T>().add(to), len) };
        combine_all(reducer, row, &contributions[from..from + len]);
    });
}

/// Returns the last dimension with more than one index if elements along it are adjacent, and the last dimension of all
/// otherwise. `strides` are those of the region; private replicas have no gaps.
fn innermost(cell: &DataCell, strides: &[usize; MAX_DIMS]) -> usize {
    let last = cell.datum.shape().iter().rposition(|extent| *extent != 1).unwrap_or(0);
    if strides[last] == 1 { last } else { MAX_DIMS - 1 }
}

/// Calls `row` with the first index and the length of each row of `block` along the dimension `innermost`.
fn for_each_row(innermost: usize, block: &Block, mut row: impl FnMut([usize; MAX_DIMS], usize)) {
    let outer = |d: usize| if d < innermost { block.range(d) } else { block.lo()[d]..block.lo()[d] + 1 };
    for (i, j, k) in outer(0).flat_map(|i| outer(1).flat_map(move |j| outer(2).map(move |k| (i, j, k)))) {
        row([i, j, k, block.lo()[3]], block.range(innermost).len());
    }
}

fn combine_all<T: Element>(reducer: &impl Reducer<T>, accumulators: &mut [T], contributions: &[T]) {
    for (accumulator, contribution) in accumulators.iter_mut().zip(contributions) {
        reducer.combine(accumulator, *contribution);
    }
}
