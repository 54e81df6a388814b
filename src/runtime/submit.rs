//! The description and submission of a task.
//!
//! Submission is split into a generic and a non-generic part: `runtime/admission.rs` and `driver/admission.rs` contain
//! the code that does not depend on the task's types, so it is compiled only once. Bodies for devices are boxed
//! separately, and dropped immediately if the machine has no device.

use super::admission::{Admission, Admitted, Results};
use super::door::Door;
use super::entrance::{EntranceOf, Kin};
use super::handle::TaskHandle;
use super::hints::Hints;
use super::runtime::Runtime;
use crate::Context;
use crate::depend::{AccessRecord, Body, FEW_ACCESSES, Kinds, Submitting};
use crate::driver::admission::Description;
use crate::error::{Called, SubmitError};
use crate::ids::{DeviceId, Iteration, TaskId};
use crate::kernel::Launcher;
use crate::memory::{AccessList, Common, HostBody, IntoOutcome, Keep, NoBody, Owned, Payload, Several, Slot};
use crate::sealed::INTERNAL;
use crate::sync::CallSite;
use crate::task::{Accesses, IterationSpace, Predecessor, UntypedAccess};
use arrayvec::ArrayVec;
use std::borrow::Cow;
use std::cell::Cell;
use std::fmt;

impl Runtime {
    /// Begins the description of a task with these accesses, usually a tuple; see [`Accesses`]. Bodies can submit tasks
    /// too; [`TaskBuilder::submit`] states the rules for such submissions.
    pub fn task<A: Accesses>(&self, name: impl Into<Cow<'static, str>>, accesses: A) -> TaskBuilder<'_, A> {
        TaskBuilder::new(EntranceOf::Front(&self.door), Kin::None, name.into(), accesses)
    }
}

/// Builder of a task; nothing happens until [`submit`](TaskBuilder::submit) is called.
///
/// Made by [`Runtime::task`], [`TaskGroup::task`](crate::TaskGroup::task), [`Context::task`],
/// [`Scope::task`](crate::Scope::task) and [`Recorder::task`](crate::Recorder::task). Adding a body for devices does
/// not change the type, so a program may decide at run time:
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
/// let x = rt.data(vec![1.0; 100]);
/// for on_device in [false, true] {
///     let mut task = rt.task("double", (x.inout(),)).host(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0));
///     if on_device {
///         task = task.emulated(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0));
///     }
///     task.submit()?;
/// }
/// assert_eq!(rt.take(x)?, [4.0; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// The type parameter `C` is the body for CPU units, which is therefore stored next to the accesses without a separate
/// allocation. `K` says how long bodies last: [`Owned`] bodies borrow nothing, bodies of a scope borrow from outside
/// the scope, and bodies of a recording are called once in each replay.
#[must_use = "a task runs only once it is submitted"]
pub struct TaskBuilder<'rt, A: Accesses, C = NoBody, K = Owned> {
    pub(super) keep: K,
    pub(super) entrance: EntranceOf<'rt>,
    /// The task's relation to its parent, if the task has a parent.
    pub(super) kin: Kin,
    pub(super) name: Cow<'static, str>,
    pub(super) accesses: A,
    pub(super) cpu: C,
    /// The bodies for devices, kept only if the machine has devices, so that on other machines they cost nothing.
    pub(super) for_devices: Option<Box<Several<A::Stored>>>,
    /// The kinds of unit that the task has bodies for, whether those bodies are kept or not.
    pub(super) kinds: Kinds,
    pub(super) host_only: bool,
    pub(super) hints: Hints,
}

impl<A: Accesses, C, K> fmt::Debug for TaskBuilder<'_, A, C, K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskBuilder")
            .field("name", &self.name)
            .field("bodies", &self.kinds.describe())
            .field("hints", &self.hints)
            .finish_non_exhaustive()
    }
}

impl<'rt, A: Accesses> TaskBuilder<'rt, A> {
    pub(super) fn new(entrance: EntranceOf<'rt>, kin: Kin, name: Cow<'static, str>, accesses: A) -> Self {
        Self {
            keep: Owned::NOTHING_BORROWED,
            entrance,
            kin,
            name,
            accesses,
            cpu: NoBody,
            for_devices: None,
            kinds: Kinds::NONE,
            host_only: false,
            hints: Hints::default(),
        }
    }

    /// Returns the same task with its bodies kept by `keep`.
    pub(super) fn kept_by<K>(self, keep: K) -> TaskBuilder<'rt, A, NoBody, K> {
        let Self { entrance, kin, name, accesses, cpu, for_devices, kinds, host_only, hints, .. } = self;
        TaskBuilder { keep, entrance, kin, name, accesses, cpu, for_devices, kinds, host_only, hints }
    }
}

impl<'rt, 'b, A: Accesses, K: Keep<'b>> TaskBuilder<'rt, A, NoBody, K> {
    /// Sets the body for CPU units and emulated devices. The body gets the unit's [`Context`] and the views of the
    /// accesses, and returns `()` or a `Result<(), E>` with any error type.
    pub fn cpu<F, R>(self, body: F) -> TaskBuilder<'rt, A, K::Body<A::Stored, F, R>, K>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'b,
        R: IntoOutcome + 'b,
    {
        TaskBuilder { kinds: self.kinds.and(Kinds::CPU).and(Kinds::EMULATED), host_only: false, ..self.host(body) }
    }

    /// Like [`cpu`](Self::cpu), for CPU units only: the task never runs on an emulated device, unless it also has a
    /// body for emulated devices.
    pub fn host<F, R>(self, body: F) -> TaskBuilder<'rt, A, K::Body<A::Stored, F, R>, K>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'b,
        R: IntoOutcome + 'b,
    {
        let keep = self.keep;
        self.for_cores(|NoBody| keep.body(body))
    }
}

impl<'rt, A: Accesses, C, K> TaskBuilder<'rt, A, C, K> {
    /// Returns the same task with another body, for CPU units only.
    #[inline]
    pub(super) fn for_cores<D>(self, body: impl FnOnce(C) -> D) -> TaskBuilder<'rt, A, D, K> {
        let Self { keep, entrance, kin, name, accesses, cpu, for_devices, kinds, hints, .. } = self;
        let (cpu, kinds, host_only) = (body(cpu), kinds.and(Kinds::CPU), true);
        TaskBuilder { keep, entrance, kin, name, accesses, cpu, for_devices, kinds, host_only, hints }
    }

    /// Sets the priority: ready tasks with larger priorities go first. The priority is only a hint; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.hints.priority = priority;
        self
    }

    /// Sets the amount of work that the task does, as a hint for schedulers. The cost is a finite number, 0 or more, in
    /// any unit that is the same for all tasks.
    pub fn cost(mut self, cost: f64) -> Self {
        self.hints.cost = Some(cost);
        self
    }

    /// Declares how many bytes the task will allocate: in its body, as its result, and in its captures. While the
    /// pending tasks together allocate more than the byte window allows
    /// ([`max_pending_bytes`](crate::Builder::max_pending_bytes)), a submission of such a task waits. Without such a
    /// window, the number has no effect.
    pub fn allocates(mut self, bytes: u64) -> Self {
        self.hints.demands.get_or_insert_default().allocates = bytes;
        self
    }

    /// Sets where the program submits the task, for errors, reports and traces. The default is the call of `submit`.
    ///
    /// Language bindings use it to name lines of the calling program ([`CallSite::named`]).
    pub fn submitted_at(mut self, call_site: CallSite) -> Self {
        self.hints.call_site = Some(call_site);
        self
    }

    /// Sets the task's index in the most recently begun instance of an iteration space.
    pub fn at(mut self, space: &IterationSpace, index: usize) -> Self {
        (self.hints.at, self.hints.device) = (Some((space.clone(), index, false)), None);
        self
    }

    /// Runs the task where the data of an index reside: on the unit that ran the index last.
    ///
    /// The task does not influence the distribution of the indices, and its time is not counted for the index. This
    /// suits tasks that move data between indices, such as the exchange of faces between the zones of a mesh: such a
    /// task runs where the zone resides, and does not move the zone. As long as the index has never run, the task is
    /// placed like any other. Schedulers that do not use indices ignore the hint. If several of `at`, `near` and
    /// `on_device` are called, the last call wins.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").scheduler("static").build()?;
    /// let data: Vec<_> = (0..6).map(|_| rt.scalar(0)).collect();
    /// let zones = IterationSpace::new("zones", vec![1.0; 6]);
    /// for _ in 0..3 {
    ///     zones.begin();
    ///     for (zone, x) in data.iter().enumerate() {
    ///         rt.task("exchange", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).near(&zones, zone).submit()?;
    ///         rt.task("step", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).at(&zones, zone).submit()?;
    ///     }
    /// }
    /// assert_eq!(rt.take(data.into_iter().last().unwrap())?, [6]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn near(mut self, space: &IterationSpace, index: usize) -> Self {
        (self.hints.at, self.hints.device) = (Some((space.clone(), index, true)), None);
        self
    }

    /// Runs the task on this device, in the device's memory, whatever the scheduler would choose.
    ///
    /// It is meant for programs that distribute work themselves, as [`LoopBuilder::spread`](crate::LoopBuilder::spread)
    /// does. If the device is lost before the task has begun, the task is placed like any other. If several of `at`,
    /// `near` and `on_device` are called, the last call wins.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:2").build()?;
    /// let x = rt.data(vec![1; 8]);
    /// let second = rt.machine().unit(UnitId(1)).devices[1];
    /// let task = rt.task("there", (x.inout(),)).cpu(move |cx, (x,)| {
    ///     assert_eq!(cx.device(), Some(second));
    ///     x.fill(2);
    /// });
    /// task.on_device(second).submit()?;
    /// let refused = rt.task("there", (x.inout(),)).cpu(|_, _| ()).on_device(DeviceId(2)).submit();
    /// assert!(refused.unwrap_err().to_string().ends_with(
    ///     " to device 2: the machine's units, 1:CPU:1,1:EMU:2, have 2 devices; try one that `Machine::units` lists"
    /// ));
    /// assert_eq!(rt.take(x)?, [2; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_device(mut self, device: DeviceId) -> Self {
        (self.hints.at, self.hints.device, self.hints.across) = (None, Some(device), None);
        self
    }
}

impl<'b, A, C, K> TaskBuilder<'_, A, C, K>
where
    A: Accesses,
    C: Slot<A::Stored>,
    K: Keep<'b>,
{
    /// Sets a body for emulated devices, which prefer it to the body for CPU units. A second call replaces the body.
    pub fn emulated<F, R>(mut self, body: F) -> Self
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + 'b,
        R: IntoOutcome + 'b,
    {
        self.kinds = self.kinds.and(Kinds::EMULATED);
        if self.entrance.driver.runs_on_devices() {
            let body = self.keep.body::<A::Stored, F, R>(body);
            self.for_devices.get_or_insert_default().emulated = Some(Box::new(Cell::new(Some(body))));
        }
        self
    }

    /// Sets the body for accelerators (CUDA, HIP, OpenCL). The body gets a [`Launcher`], with which it enqueues
    /// kernels, and for every access a view of the region in the device's memory. It runs on the unit's hosting thread
    /// and does not wait for the work that it enqueues. A second call replaces the body. See [`Launcher`] for an
    /// example.
    pub fn gpu<F, R>(mut self, body: F) -> Self
    where
        F: for<'l, 'd, 'a> FnOnce(&'l mut Launcher<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R + Send + 'b,
        R: IntoOutcome + 'b,
    {
        self.kinds = self.kinds.and(Kinds::ACCELERATED);
        if self.entrance.driver.runs_on_devices() {
            let Common(body) = self.keep.device::<A::Stored, F, R>(body);
            self.for_devices.get_or_insert_default().gpu = Some(body);
        }
        self
    }

    /// Submits the task: it runs as soon as the tasks that it depends on are done.
    ///
    /// # Inside a body
    /// A body submits parts of its own task with [`Context::task`]. If it has captured an `Arc` of the runtime, it can
    /// also submit independent tasks through it. In submission order, independent tasks come after all tasks that any
    /// thread submitted before them. Only [`Runtime::wait`] and tasks that use the regions they write wait for them.
    ///
    /// An independent task must not access a region that the body's task or one of its ancestors accesses, unless all
    /// these accesses only read. Otherwise, tasks submitted in between could observe one task's writes but not the
    /// other's. A submission that breaks this rule is refused with [`SubmitError::Nested`]; all other data are allowed.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg::prelude::*;
    /// let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").build()?);
    /// let (x, y) = (rt.data(vec![1.0f64; 8]), rt.data(vec![0.0f64; 8]));
    /// let (inner, output, held) = (rt.clone(), y.clone(), x.clone());
    /// let parent = rt.task("parent", (x.inout(),)).cpu(move |_, (x,)| {
    ///     let largest = x.iter().copied().fold(0.0, f64::max);
    ///     inner.task("beside", (output.output(),)).cpu(move |_, (y,)| y.fill(largest)).submit()?;
    ///     let refused = inner.task("beside", (held.inout(),)).cpu(|_, _| ()).submit();
    ///     assert!(matches!(refused, Err(SubmitError::Nested { .. })));
    ///     Ok::<(), SubmitError>(())
    /// });
    /// parent.submit()?;
    /// rt.wait()?;
    /// assert_eq!(rt.take(y)?, [1.0; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// The parts of the body that rayon runs on the unit's cores, the destructors of the body's captures, and the
    /// operation of its reduction also count as the body. Threads that a body starts do not: the runtime cannot know
    /// which body they belong to, so their submissions count as made outside of any body. A task is never a child of a
    /// task of another runtime.
    ///
    /// # Errors
    /// Submission fails if a region is out of bounds, belongs to another runtime or was taken; if two accesses overlap
    /// and one of them writes; if no unit of the machine has a body, or no memory is large enough; or if the task is
    /// submitted inside a task that holds a region that it accesses. In all these cases nothing has changed.
    #[track_caller]
    #[inline]
    pub fn submit(self) -> Result<TaskId, SubmitError> {
        self.submit_as(CallSite::caller(), false, |task| task.shared().id)
    }

    /// Like [`submit`](Self::submit), and returns a handle that can be waited for ([`TaskHandle::wait`]).
    ///
    /// It is a separate method because a handle has a cost, which tasks without one do not pay: the handle shares the
    /// ownership of the task with the runtime, and on a device, the task's successors are launched only when the task
    /// has ended, instead of being enqueued after it.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![1.0; 8]);
    /// let task = rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit_handle()?;
    /// task.wait()?;
    /// assert!(task.is_finished());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`submit`](Self::submit).
    #[track_caller]
    pub fn submit_handle(self) -> Result<TaskHandle, SubmitError> {
        let door = self.entrance.downgrade();
        let task = self.submit_as(CallSite::caller(), true, Submitting::share)?;
        Ok(TaskHandle::new(task, door))
    }
}

impl<A, C, K> TaskBuilder<'_, A, C, K>
where
    A: Accesses,
    C: Slot<A::Stored>,
{
    /// Submits the task; `awaited` is whether the program waits for this task, and `watch` computes the value to
    /// return.
    #[inline]
    pub(super) fn submit_as<W>(
        self,
        location: CallSite,
        awaited: bool,
        watch: impl FnOnce(&mut Submitting) -> W,
    ) -> Result<W, SubmitError> {
        let location = self.hints.call_site.unwrap_or(location);
        self.enter(location, awaited, watch).called_at(location)
    }

    fn enter<W>(
        mut self,
        location: CallSite,
        awaited: bool,
        watch: impl FnOnce(&mut Submitting) -> W,
    ) -> Result<W, SubmitError> {
        let Door { driver, id: runtime, .. } = &*self.entrance;
        self.accesses.check(*runtime).map_err(|refusal| refusal.of_task(&self.name))?;
        let (mut few, many): (ArrayVec<_, FEW_ACCESSES>, Vec<_>);
        let records: &[AccessRecord<'_>] = if const { matches!(A::COUNT, Some(..=FEW_ACCESSES)) } {
            few = ArrayVec::new();
            self.accesses.visit(&mut |UntypedAccess(record)| few.push(record));
            &few
        } else {
            let mut all = Vec::new();
            self.accesses.visit(&mut |UntypedAccess(record)| all.push(record));
            many = all;
            &many
        };
        let results = |visit: &mut dyn FnMut(Predecessor<'_>)| self.accesses.predecessors(visit);
        let results: Option<Results<'_>> = if A::HAS_RESULTS { Some(&results) } else { None };
        let kin = std::mem::replace(&mut self.kin, Kin::None);
        let Admitted { kinds, side, child } = self.admission(records, awaited).admit(kin, results)?;
        let description =
            Description { name: self.name, location, priority: self.hints.priority, internal: false, side, child };
        let (accesses, iteration) = (self.accesses.store(INTERNAL), self.hints.iteration);
        let group = self.hints.group.map(|(_, group)| group);
        if group.is_some() || self.for_devices.is_some() {
            let body = Self::boxed(accesses, self.cpu, self.for_devices, kinds, iteration);
            return driver.submit_boxed(description, body, group, records, watch);
        }
        driver.submit(description, Payload::new(accesses, self.cpu, kinds).of_iteration(iteration), records, watch)
    }

    fn boxed(
        accesses: A::Stored,
        cpu: C,
        for_devices: Option<Box<Several<A::Stored>>>,
        kinds: Kinds,
        iteration: Iteration,
    ) -> Box<dyn Body> {
        let Some(mut bodies) = for_devices else {
            return Box::new(Payload::new(accesses, cpu, kinds).of_iteration(iteration));
        };
        bodies.cpu = C::PRESENT.then(|| Box::new(Cell::new(Some(cpu))) as Box<dyn HostBody<A::Stored>>);
        Box::new(Payload::new(accesses, bodies, kinds).of_iteration(iteration))
    }

    /// Refuses a task whose own properties would make [`Self::submit_as`] refuse it now. The task may still be refused
    /// later because of other tasks.
    pub(super) fn check(&self) -> Result<(), SubmitError> {
        let mut records = Vec::new();
        self.accesses.visit(&mut |UntypedAccess(record)| records.push(record));
        self.admission(&records, false).check()
    }

    fn admission<'t>(&'t self, records: &'t [AccessRecord<'t>], awaited: bool) -> Admission<'t> {
        let Self { entrance, name, kinds, host_only, hints, .. } = self;
        Admission {
            door: entrance,
            name,
            records,
            hints,
            bodies: *kinds,
            has_host_body: C::PRESENT,
            host_only: *host_only,
            has_outcomes: A::HAS_OUTCOMES,
            awaited,
        }
    }
}
