//! The description of a loop, and the submission of its iterations as one batch.
//!
//! A loop means the same as its iterations submitted one after the other. If something has to be decided for each
//! iteration (placement, a simulation, ancestors), the iterations are indeed submitted individually, by this module. On
//! the fast path (`driver/threads/batch.rs`), many iterations share the name, the body, the checks and the locks.

use super::admission::overlapping;
use super::bodies::Bodies;
use super::door::Door;
use super::entrance::{EntranceOf, Kin};
use super::hints::{Demands, Hints};
use super::runtime::Runtime;
use super::submit::TaskBuilder;
use crate::Context;
use crate::depend::{AccessRecord, FEW_ACCESSES, Group, Kinds, Together, overlap, running};
use crate::driver::admission::Description;
use crate::error::{BoxError, Called, SubmitError};
use crate::ids::{DeviceId, Iteration};
use crate::memory::{
    AccessList, Common, IntoOutcome, Keep, Lease, NoBody, Owned, Payload, Repeated, Share, SharedBody, Slot,
};
use crate::region::Block;
use crate::sealed::INTERNAL;
use crate::sync::CallSite;
use crate::task::{Accesses, IterationSpace, LoopAccesses, UntypedAccess};
use arrayvec::ArrayVec;
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::mem::needs_drop;
use std::ptr;
use std::sync::Arc;

impl Runtime {
    /// Begins the description of a loop over the parts of partitions, or over a range of numbers. Each iteration is a
    /// task that accesses its own part of each partition. See [`LoopAccesses`] for the possible accesses, and
    /// [`LoopBuilder::submit`] for the tasks that are submitted.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (x, y) = (rt.data(vec![1.0; 1000]), rt.data(vec![2.0; 1000]));
    /// let tasks = rt
    ///     .for_each("axpy", (x.blocks(100).input(), y.blocks(100).inout()))
    ///     .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x))
    ///     .submit()?;
    /// assert_eq!(tasks, 10);
    /// assert_eq!(rt.take(y)?, [5.0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn for_each<A: LoopAccesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> LoopBuilder<'_, A> {
        LoopBuilder::new(EntranceOf::Front(&self.door), Kin::None, name.into(), accesses)
    }
}

/// Builder of a loop; nothing happens until [`submit`](LoopBuilder::submit) is called.
///
/// Made by [`Runtime::for_each`]. The loop's bodies are called once for each iteration, so they are `Fn`; they are
/// `Sync` because iterations run in parallel. The captures of the bodies are dropped when the last iteration has ended.
/// Bodies of a loop that was made by [`Scope::for_each`](crate::Scope::for_each) may borrow anything that outlives the
/// scope.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let field: Data<f64, Ix2> = rt.zeros([100, 100]);
/// let height = 2.5;
/// rt.for_each("ramp", (0.., field.rows(10).output()))
///     .cpu(move |_, (i, mut rows)| rows.fill(height * i as f64))
///     .priority(1)
///     .submit()?;
/// assert_eq!(rt.take(field)?[[99, 0]], 22.5);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a loop runs only once it is submitted"]
pub struct LoopBuilder<'rt, A: LoopAccesses, C = NoBody, K = Owned> {
    pub(super) keep: K,
    entrance: EntranceOf<'rt>,
    kin: Kin,
    pub(super) cpu: C,
    pub(super) rest: Rest<A>,
}

/// A body for CPU units that is shared by all iterations of a loop, or by all replays of a recorded task.
pub struct LoopBody<F, R>(pub(super) F, pub(super) PhantomData<fn() -> R>);

impl<F, R> fmt::Debug for LoopBody<F, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("LoopBody(..)")
    }
}

/// The user's estimate of each iteration's work.
type Cost = Box<dyn Fn(usize) -> f64>;

/// Everything that describes a loop except its body for CPU units.
pub(super) struct Rest<A: LoopAccesses> {
    pub(super) name: Cow<'static, str>,
    pub(super) accesses: A,
    /// Whether the body for CPU units is for CPU units only.
    pub(super) host_only: bool,
    pub(super) bodies: Bodies<A::Stored>,
    pub(super) priority: i32,
    /// The group that each iteration is a member of, with the ID of that group's runtime.
    pub(super) group: Option<(u64, Arc<Group>)>,
    /// The amounts that each iteration takes from limits of the whole runtime.
    pub(super) demands: Option<Box<Demands>>,
    cost: Option<Cost>,
    space: Option<IterationSpace>,
    /// The devices over which the loop is spread; empty if it is not spread.
    devices: Vec<DeviceId>,
}

impl<A: LoopAccesses, C, K> fmt::Debug for LoopBuilder<'_, A, C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Rest { name, priority, space, .. } = &self.rest;
        (f.debug_struct("LoopBuilder").field("name", name).field("priority", priority).field("space", space))
            .finish_non_exhaustive()
    }
}

impl<'rt, A: LoopAccesses> LoopBuilder<'rt, A> {
    pub(super) fn new(entrance: EntranceOf<'rt>, kin: Kin, name: Cow<'static, str>, accesses: A) -> Self {
        LoopBuilder { keep: Owned::NOTHING_BORROWED, entrance, kin, cpu: NoBody, rest: Rest::new(name, accesses) }
    }

    /// Returns the same loop with its bodies kept by `keep`.
    pub(super) fn kept_by<K>(self, keep: K) -> LoopBuilder<'rt, A, NoBody, K> {
        let Self { entrance, kin, rest, .. } = self;
        LoopBuilder { keep, entrance, kin, cpu: NoBody, rest }
    }
}

impl<'rt, 'b, A: LoopAccesses, K: Share<'b>> LoopBuilder<'rt, A, NoBody, K> {
    /// Sets the body for CPU units and emulated devices, as [`TaskBuilder::cpu`](crate::TaskBuilder::cpu) does.
    pub fn cpu<F, R>(self, body: F) -> LoopBuilder<'rt, A, LoopBody<F, R>, K>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'b,
        R: IntoOutcome + 'b,
    {
        let Self { keep, entrance, kin, rest, .. } = self;
        LoopBuilder { keep, entrance, kin, cpu: LoopBody(body, PhantomData), rest }
    }

    /// Like [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(self, body: F) -> LoopBuilder<'rt, A, LoopBody<F, R>, K>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'b,
        R: IntoOutcome + 'b,
    {
        let mut host = self.cpu(body);
        host.rest.host_only = true;
        host
    }
}

impl<'b, A: LoopAccesses, K: Keep<'b>> LoopBuilder<'_, A, NoBody, K> {
    /// Like [`submit`](LoopBuilder::submit) on a loop with a body for CPU units.
    ///
    /// # Errors
    /// The same.
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        let Self { entrance, kin, rest, .. } = self;
        let iterations = rest.check(&entrance).called_here()?;
        for index in 0..iterations {
            rest.finish(rest.iteration(&entrance, &kin, index), index).submit()?;
        }
        Ok(iterations)
    }
}

impl<A: LoopAccesses, C, K> LoopBuilder<'_, A, C, K> {
    pub(super) fn bodies(&mut self) -> &mut Bodies<A::Stored> {
        &mut self.rest.bodies
    }

    pub(super) fn sharing(&self) -> K
    where
        K: Copy,
    {
        self.keep
    }

    /// Sets the priority: ready tasks with larger priorities go first. The priority is only a hint; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.rest.priority = priority;
        self
    }

    /// Sets a function from an iteration's index to its amount of work, as a hint for schedulers. The cost can be in
    /// any unit that is the same for all tasks.
    pub fn cost(mut self, cost: impl Fn(usize) -> f64 + 'static) -> Self {
        self.rest.cost = Some(Box::new(cost));
        self
    }

    /// Says how many bytes each iteration will allocate, as [`TaskBuilder::allocates`](crate::TaskBuilder::allocates)
    /// does.
    pub fn allocates(mut self, bytes: u64) -> Self {
        self.rest.demands.get_or_insert_default().allocates = bytes;
        self
    }

    /// Makes iteration `i` index `i` of an iteration space, in the most recently begun instance.
    pub fn at(mut self, space: &IterationSpace) -> Self {
        (self.rest.space, self.rest.devices) = (Some(space.clone()), Vec::new());
        self
    }

    /// Spreads the iterations over these devices: iteration `i` runs on device `i` modulo their number
    /// ([`TaskBuilder::on_device`]).
    ///
    /// With one part for each device, the loop becomes a single operation on all devices. Each device works on its own
    /// part of the arrays, which stays in the device's memory. If the parts are grown by a halo, the halo is copied
    /// directly from the neighbours' memories. If there is no such device, as on a unit of cores, the scheduler places
    /// the iterations.
    ///
    /// The name is that of OpenMP's proposed `target spread` (Torres et al. 2022). If both `at` and `spread` are
    /// called, the last call wins.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:4").build()?;
    /// let devices = &rt.machine().unit(UnitId(1)).devices;
    /// let (mut x, mut y) = (rt.data(vec![1.0; 1000]), rt.zeros(1000));
    /// let size = 1000_usize.div_ceil(devices.len().max(1));
    /// for _ in 0..3 {
    ///     rt.for_each("smooth", (0.., x.blocks(size).grow(1).input(), y.blocks(size).output()))
    ///         .cpu(move |_, (part, x, y)| {
    ///             let before = usize::from(part > 0); // elements of x before the part
    ///             y.iter_mut().enumerate().for_each(|(i, y)| {
    ///                 let here = i + before;
    ///                 let next = (here + 1).min(x.len() - 1);
    ///                 *y = (x[here.saturating_sub(1)] + x[next]) / 2.0;
    ///             });
    ///         })
    ///         .spread(devices)
    ///         .submit()?;
    ///     std::mem::swap(&mut x, &mut y);
    /// }
    /// rt.wait()?;
    /// assert_eq!(x.slice(300..400).valid_in(), [devices[1].space()]);
    /// assert_eq!(rt.take(x)?, [1.0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spread(mut self, devices: &[DeviceId]) -> Self {
        (self.rest.space, self.rest.devices) = (None, devices.to_vec());
        self
    }
}

impl<A, F, R> LoopBuilder<'_, A, LoopBody<F, R>>
where
    A: LoopAccesses,
    F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    /// Submits a task for each iteration, in order, and returns the number of tasks. The effect is the same as calling
    /// [`TaskBuilder::submit`](crate::TaskBuilder::submit) for each iteration, but it costs less because names, bodies,
    /// checks and locks are shared.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, y) = (rt.data(vec![1; 100]).named("x"), rt.data(vec![2; 100]).named("y"));
    /// let refused = rt.for_each("add", (x.blocks(10).input(), y.blocks(20).inout())).cpu(|_, _| ()).submit();
    /// assert!(refused.unwrap_err().to_string().ends_with(
    ///     ": it would have 10 iterations by data `x` [0..100], and 5 by data `y` [0..100]; try parts of matching sizes"
    /// ));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Fails if partitions have different numbers of parts or there is no partition, and if a task is refused.
    /// Properties of all iterations (bounds, owners, overlaps, bodies, the iteration space) are checked before the
    /// first iteration is submitted. Some refusals may concern only a later iteration: a data object that another
    /// thread takes during the call, a memory that is too small for the iteration's parts, or a region that an ancestor
    /// holds. In these cases, the iterations before the refused one remain submitted.
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        let Self { entrance, kin, cpu: LoopBody(body, _), rest, .. } = self;
        // A body without captures can be leaked, because it takes no memory and has no destructor.
        if const { size_of::<F>() == 0 && !needs_drop::<F>() } {
            return rest.submit::<&'static F, R>(&entrance, &kin, Box::leak(Box::new(body)));
        }
        rest.submit::<Arc<F>, R>(&entrance, &kin, Arc::new(body))
    }
}

impl<'b, A, F, R> LoopBuilder<'_, A, LoopBody<F, R>, Lease<'b>>
where
    A: LoopAccesses,
    F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'b,
    R: IntoOutcome + 'b,
{
    /// Like [`submit`](LoopBuilder::submit) on a loop outside of a scope.
    ///
    /// # Errors
    /// As for that method. Also fails if the scope's group was cancelled.
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        let Self { keep, entrance, kin, cpu: LoopBody(body, _), rest } = self;
        let body =
            move |context: &Context, views: <A::Stored as AccessList>::Views<'_>| body(context, views).into_outcome();
        let Common(body) = keep.share_host::<A::Stored>(Common(Arc::new(body)));
        let body = move |context: &Context, views: <A::Stored as AccessList>::Views<'_>| body(context, views);
        rest.submit::<Arc<_>, Result<(), BoxError>>(&entrance, &kin, Arc::new(body))
    }
}

impl<A: LoopAccesses> Rest<A> {
    fn new(name: Cow<'static, str>, accesses: A) -> Self {
        let (bodies, demands, devices) = (Bodies::default(), None, Vec::new());
        let (host_only, priority, group, cost, space) = (false, 0, None, None, None);
        Self { name, accesses, host_only, bodies, priority, group, demands, cost, space, devices }
    }

    /// Checks the properties of all iterations at once, and returns the number of iterations.
    fn check(&self, door: &Door) -> Result<usize, SubmitError> {
        let Self { name, accesses, space, .. } = self;
        let iterations = count(name, accesses, door.id)?;
        if let Some(space) = space.as_ref().filter(|space| space.len() < iterations) {
            let (space, index, len) = (space.name().to_owned(), space.len(), space.len());
            return Err(SubmitError::Index { task: name.clone().into(), space, index, len });
        }
        for device in self.devices.iter().take(iterations) {
            super::device_checks::exists(door, name, *device)?;
        }
        self.check_overlaps(iterations)?;
        Ok(iterations)
    }

    /// Checks that the accesses of each iteration do not overlap. If the accesses of the first iteration are all to
    /// different data objects, the accesses of no iteration overlap.
    fn check_overlaps(&self, iterations: usize) -> Result<(), SubmitError> {
        let meet = |index: usize, meet: &dyn Fn(&[AccessRecord<'_>]) -> bool| {
            let (one, mut records) = (self.accesses.one(index), Vec::new());
            one.visit(&mut |UntypedAccess(record)| records.push(record));
            if !meet(&records) {
                return Ok(false);
            }
            overlap(&records).map_or(Ok(true), |(first, second)| Err(overlapping(&self.name, first, second)))
        };
        let share_data = |records: &[AccessRecord<'_>]| {
            let same = |(i, record): (usize, &AccessRecord<'_>)| {
                records[..i].iter().any(|other| ptr::eq(other.datum, record.datum))
            };
            records.iter().enumerate().any(same)
        };
        if iterations == 0 || !meet(0, &share_data)? {
            return Ok(());
        }
        (1..iterations).try_for_each(|index| meet(index, &|_| true).map(drop))
    }

    #[track_caller]
    fn submit<B, R>(&self, door: &EntranceOf<'_>, kin: &Kin, body: B) -> Result<usize, SubmitError>
    where
        B: SharedBody,
        B::Body: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        let iterations = self.check(door).called_here()?;
        let few = const { matches!(<A::Stored as AccessList>::COUNT, Some(..=FEW_ACCESSES)) };
        let alone = matches!(kin, Kin::None) && !running::is_inside(door.id);
        if let Some(threads) = door.driver.fast_path().filter(|_| few && alone && self.is_batched()) {
            let (name, location) = (self.name.clone(), CallSite::caller());
            let (priority, internal, side, child) = (self.priority, false, None, None);
            let description = Description { name, location, priority, internal, side, child };
            let submitted = threads.submit_together(0..iterations, &description, &InLoop(&self.accesses), |index| {
                let accesses = self.accesses.one(index).store(INTERNAL);
                let body = Repeated(body.clone(), PhantomData);
                Payload::new(accesses, body, Kinds::CPU).of_iteration(Iteration::new(index))
            });
            return submitted.called_at(location).map(|()| iterations);
        }
        for index in 0..iterations {
            let (task, body) = (self.iteration(door, kin, index), body.clone());
            let body =
                move |context: &Context, views: <A::Stored as AccessList>::Views<'_>| body.body()(context, views);
            let task = if self.host_only { task.host(body) } else { task.cpu(body) };
            self.finish(task, index).submit()?;
        }
        Ok(iterations)
    }

    /// Whether the fast path may submit iterations together.
    fn is_batched(&self) -> bool {
        self.group.is_none() && self.demands.is_none() && !self.accesses.are_entered_alone()
    }

    /// Begins the description of a single iteration.
    fn iteration<'l>(&'l self, door: &'l EntranceOf<'_>, kin: &Kin, index: usize) -> TaskBuilder<'l, A::One<'l>> {
        TaskBuilder::new(door.again(), kin.clone(), self.name.clone(), self.accesses.one(index))
    }

    /// Adds everything except the body for CPU units to an iteration.
    fn finish<'l, C: Slot<A::Stored>>(
        &self,
        mut task: TaskBuilder<'l, A::One<'l>, C>,
        index: usize,
    ) -> TaskBuilder<'l, A::One<'l>, C> {
        task.hints = self.hints(index);
        self.bodies.give(task)
    }

    pub(super) fn hints(&self, index: usize) -> Hints {
        Hints {
            call_site: None,
            priority: self.priority,
            cost: self.cost.as_ref().map(|cost| cost(index)),
            device: (!self.devices.is_empty()).then(|| self.devices[index % self.devices.len()]),
            across: None,
            at: self.space.as_ref().map(|space| (space.clone(), index, false)),
            iteration: Iteration::new(index),
            demands: self.demands.clone(),
            group: self.group.clone(),
        }
    }
}

/// Returns the number of iterations of a loop with these accesses, if all of its partitions agree.
pub(super) fn count(name: &str, accesses: &impl LoopAccesses, runtime: u64) -> Result<usize, SubmitError> {
    accesses.check(runtime).map_err(|refusal| refusal.of_task(name))?;
    let (mut known, mut refusal) = (None, None);
    accesses.lengths(&mut |len, describe| match &known {
        None => known = Some((len, describe())),
        Some((first_len, first)) if *first_len != len && refusal.is_none() => {
            let (first, second) = (first.clone(), describe());
            let (first_len, second_len) = (*first_len, len);
            refusal = Some(SubmitError::Lengths { task: name.into(), first, first_len, second, second_len });
        }
        Some(_) => {}
    });
    let Some((iterations, _)) = known else { return Err(SubmitError::NoLength { task: name.into() }) };
    refusal.map_or(Ok(iterations), Err)
}

/// Displays the accesses of a loop's iterations.
struct InLoop<'l, A>(&'l A);

impl<A: LoopAccesses> Together for InLoop<'_, A> {
    fn model<R>(&self, index: usize, then: impl FnOnce(&[AccessRecord<'_>]) -> R) -> R {
        let (one, mut records) = (self.0.one(index), ArrayVec::<_, FEW_ACCESSES>::new());
        one.visit(&mut |UntypedAccess(record)| records.push(record));
        then(&records)
    }

    #[inline]
    fn place(&self, index: usize, blocks: &mut [Block]) {
        self.0.place(index, &mut blocks.iter_mut());
    }
}
