//! Reductions with private replicas, as tasks store them, and the combination of replicas with a region's content.

use super::access::{Access, Declared, Record, Replicated};
use super::buffer::DataCell;
use super::combine::{OnDevices, operation};
use super::replica::Replica;
use super::strides::strides_of;
use super::{Element, Reducer, Shape, Spans};
use crate::depend::{AccessRecord, Mode, Site};
use crate::kernel::{DeviceSite, DeviceViewMut};
use crate::region::{Block, MAX_DIMS};
use crate::sealed::{INTERNAL, Internal, Sealed};
use std::cell::{Cell, UnsafeCell};

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
        let replica = UnsafeCell::new(Replica::for_later(declared.cell().spares(), declared.block().volume()));
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
        S::of_slice(unsafe { self.begin() }, self.declared.spans())
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
        Some((bytemuck::cast_slice(replica.elements()), self.declared.block()))
    }

    unsafe fn absorb(&self, block: &Block, (other, others): (&[u8], Block)) {
        let other: &[T] = bytemuck::cast_slice(other);
        let Self { declared, reducer, replica, .. } = self;
        // SAFETY: the body has ended, and the lane of a part lets only one thread at a time absorb others
        // (`depend::reduction`), so this is the only reference to the replica.
        let replica = unsafe { &mut *replica.get() };
        let own = declared.block();
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
