//! Accumulating accesses: a private replica that the tasks of a group share, one at a time.
//!
//! [`Accumulation`] decides the initial content of a replica, and which task may use the replica at which time; this
//! module contains the elements.

use super::access::{Access, Declared, Group, Record, Replicated};
use super::combine::operation;
use super::reduce::{combine_at_home, site_of};
use super::replica::Replica;
use super::{Element, Reducer, Shape};
use crate::depend::{AccessRecord, Accumulated, Accumulation, Mode, Site};
use crate::kernel::{DeviceSite, DeviceViewMut};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use smallvec::SmallVec;
use std::any::Any;
use std::cell::UnsafeCell;
use std::sync::Arc;

/// `accumulate`: adds to what other tasks of the group have left in a private replica.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let histogram = rt.data(vec![0u32; 4]);
/// for n in 0..100 {
///     rt.task("count", (histogram.accumulate(Sum),)).cpu(move |_, (counts,)| counts[n % 4] += 1).submit()?;
/// }
/// assert_eq!(rt.take(histogram)?, [25; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Accumulate<T: Element, S: Shape, R> {
    declared: Declared<T, S>,
    reducer: R,
    /// Contains the operation's ID as of registration, even if the user's `Reducer::id` later returns a different ID.
    mode: Mode,
    /// The groups that the region belongs to, part by part. Filled at submission, and read by the owner.
    groups: UnsafeCell<SmallVec<[Group; 1]>>,
    /// Memory for a new replica, in case the group has no free replica.
    spare: UnsafeCell<Option<Replica<T>>>,
    /// The replica in use.
    replica: UnsafeCell<Option<Arc<Partial<T, S, R>>>>,
}

/// A replica that several tasks add to.
#[derive(Debug)]
struct Partial<T: Element, S: Shape, R> {
    region: Declared<T, S>,
    block: Block,
    reducer: R,
    mode: Mode,
    /// The parts, each with the number of the group that it belongs to. The replica serves tasks that belong to the
    /// same groups.
    parts: SmallVec<[(u64, Block); 1]>,
    elements: UnsafeCell<Replica<T>>,
}

// SAFETY: at any time, only the one task that uses the replica accesses the elements (invariant 1 of
// `depend::accumulation`). Later, the threads that combine parts of the replica only read them. No other field changes.
unsafe impl<T: Element, S: Shape, R: Reducer<T>> Sync for Partial<T, S, R> {}

impl<T: Element, S: Shape, R: Reducer<T>> Accumulate<T, S, R> {
    pub(crate) fn new(declared: Declared<T, S>, reducer: R) -> Self {
        let spare = UnsafeCell::new(Some(Replica::for_later(declared.cell().spares(), declared.block().volume())));
        let mode = Mode::Reduction(operation(&reducer).accumulated());
        Self { declared, reducer, mode, groups: UnsafeCell::default(), spare, replica: UnsafeCell::default() }
    }

    /// Returns the elements of a replica that this task may use from now on.
    ///
    /// # Safety
    /// Nothing else uses the access's cells while the reference lasts.
    #[allow(clippy::mut_from_ref)] // the safety contract excludes a second reference
    unsafe fn begin(&self) -> &mut [T] {
        // SAFETY: the access's cells belong to the task's owner, which calls this only once, when the body begins.
        let (groups, spare, replica) =
            unsafe { (&*self.groups.get(), &mut *self.spare.get(), &mut *self.replica.get()) };
        let parts: SmallVec<[(u64, Block); 1]> =
            groups.iter().map(|Group(group, part)| (group.number(), *part)).collect();
        let block = self.declared.block();
        let fitting = |shared: &Arc<dyn Accumulated>| {
            let fits =
                |partial: &Partial<T, S, R>| partial.block == block && numbers(&partial.parts).eq(numbers(&parts));
            let any: &dyn Any = &**shared;
            any.downcast_ref().is_some_and(fits).then(|| shared.clone())
        };
        let known = groups.first().and_then(|Group(first, _)| first.borrow(fitting));
        let known = known.and_then(|known| (known as Arc<dyn Any + Send + Sync>).downcast().ok());
        let partial: Arc<Partial<T, S, R>> = known.unwrap_or_else(|| {
            let mut memory =
                spare.take().unwrap_or_else(|| Replica::for_later(self.declared.cell().spares(), block.volume()));
            memory.begin(self.reducer.identity());
            let (region, reducer) = (self.declared.duplicate(), self.reducer.clone());
            let elements = UnsafeCell::new(memory);
            let new = Arc::new(Partial { region, block, reducer, mode: self.mode, parts, elements });
            let mut each: SmallVec<[&Accumulation; 1]> = groups.iter().map(|Group(group, _)| &**group).collect();
            each.sort_unstable_by_key(|group| group.number());
            each.dedup_by_key(|group| group.number());
            each.into_iter().for_each(|group| group.add(new.clone()));
            new
        });
        // SAFETY: the replica belongs to this task until it is given back, and the access keeps it alive.
        unsafe { &mut *replica.insert(partial).elements.get() }.elements_mut()
    }

    /// Returns the site of a replica that this task may use from now on, and the spans of the region.
    ///
    /// # Safety
    /// As for `begin`, until the replica is given back.
    pub(super) unsafe fn begin_site(&self) -> (Site, &S::Spans) {
        // SAFETY: the caller upholds the same contract.
        site_of(unsafe { self.begin() }, self.declared.spans())
    }
}

impl<T: Element, S: Shape, R> Sealed for Accumulate<T, S, R> {}

impl<T: Element, S: Shape, R: Reducer<T>> Access for Accumulate<T, S, R> {
    type View<'a> = S::ViewMut<'a, T>;
    type DeviceView<'a> = DeviceViewMut<'a, T>;

    unsafe fn view<'a>(&'a self, _: Option<Site>) -> Self::View<'a> {
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

impl<T: Element, S: Shape, R: Reducer<T>> Replicated for Accumulate<T, S, R> {
    unsafe fn private(&self) -> Option<(*mut u8, usize)> {
        // SAFETY: the task's owner calls this once, before the body is enqueued.
        let bytes: &mut [u8] = bytemuck::cast_slice_mut(unsafe { self.begin() });
        Some((bytes.as_mut_ptr(), bytes.len()))
    }

    unsafe fn enlist(&self, group: Group) {
        // SAFETY: the task is still being submitted, so nothing else has access to its body yet.
        unsafe { &mut *self.groups.get() }.push(group);
    }

    unsafe fn keep(&self) {
        // SAFETY: the body has ended and the owner calls this, so nothing else uses the access's cells.
        let (groups, replica) = unsafe { (&*self.groups.get(), &mut *self.replica.get()) };
        if let (Some(Group(first, _)), Some(partial)) = (groups.first(), replica.take()) {
            first.give_back(Arc::as_ptr(&partial).cast());
        }
    }
}

impl<T: Element, S: Shape, R: Reducer<T>> Accumulated for Partial<T, S, R> {
    fn visit(&self, part: &Block, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        visit(AccessRecord { datum: &self.region.cell().datum, block: part, mode: self.mode });
    }

    fn combine(&self, group: &Accumulation, part: &Block) {
        let own = self.parts.iter().filter(|(number, _)| *number == group.number());
        for part in own.filter_map(|(_, own)| own.intersection(part)) {
            // SAFETY: all tasks that added to these elements have run, and no task adds to them any more, because the
            // group is closed for this part (invariant 1 of `depend::accumulation`).
            let elements = unsafe { &*self.elements.get() }.elements();
            // SAFETY: the part belongs to the group, so nothing else touches it before the join that combines it has
            // ended.
            unsafe { combine_at_home(self.region.cell(), &self.block, &self.reducer, elements, &part) };
        }
    }
}

/// Returns the group numbers of `parts` in order, without consecutive repetitions.
fn numbers(parts: &[(u64, Block)]) -> impl Iterator<Item = u64> {
    let repeated = |at: usize| at > 0 && parts[at - 1].0 == parts[at].0;
    (0..parts.len()).filter(move |at| !repeated(*at)).map(|at| parts[at].0)
}

impl<T: Element, S: Shape, R> Drop for Partial<T, S, R> {
    fn drop(&mut self) {
        self.elements.get_mut().retire();
    }
}
