//! Describing a task and submitting it.

use super::Runtime;
use super::core::Description;
use crate::Context;
use crate::depend::{AccessRecord, Kinds, MOST_ACCESSES, Side, running};
use crate::engine::Needs;
use crate::error::SubmitError;
use crate::ids::TaskId;
use crate::kernel::Launcher;
use crate::machine::UnitKind;
use crate::memory::{DeviceSlot, IntoOutcome, NoBody, Payload, Slot, With};
use crate::sched::Place;
use crate::sealed::INTERNAL;
use crate::task::{AccessTuple, IterationSpace, Recorded};
use arrayvec::ArrayVec;
use std::borrow::Cow;
use std::marker::PhantomData;
use std::panic::Location;

/// A task that is being described; nothing happens until [`submit`](TaskBuilder::submit).
///
/// Made by [`Runtime::task`].
#[must_use = "a task runs only once it is submitted"]
pub struct TaskBuilder<'rt, A, C = NoBody, E = NoBody, G = NoBody> {
    runtime: &'rt Runtime,
    name: Cow<'static, str>,
    accesses: A,
    cpu: C,
    emulated: E,
    gpu: G,
    host_only: bool,
    priority: i32,
    cost: Option<f64>,
    at: Option<(IterationSpace, usize)>,
}

impl<'rt, A: AccessTuple> TaskBuilder<'rt, A> {
    pub(super) fn new(runtime: &'rt Runtime, name: Cow<'static, str>, accesses: A) -> Self {
        Self {
            runtime,
            name,
            accesses,
            cpu: NoBody,
            emulated: NoBody,
            gpu: NoBody,
            host_only: false,
            priority: 0,
            cost: None,
            at: None,
        }
    }
}

impl<'rt, A: AccessTuple, E, G> TaskBuilder<'rt, A, NoBody, E, G> {
    /// The body for CPU units and emulated devices. It gets the unit's [`Context`] and the views of the accesses, and
    /// returns nothing or a `Result<(), E>` with any error.
    pub fn cpu<F, R>(self, body: F) -> TaskBuilder<'rt, A, With<F, R>, E, G>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as crate::memory::AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { runtime, name, accesses, cpu: NoBody, emulated, gpu, host_only, priority, cost, at } = self;
        let cpu = With(body, PhantomData);
        TaskBuilder { runtime, name, accesses, cpu, emulated, gpu, host_only, priority, cost, at }
    }

    /// As [`cpu`](Self::cpu), for CPU units only: the task never runs on an emulated device.
    pub fn host<F, R>(self, body: F) -> TaskBuilder<'rt, A, With<F, R>, E, G>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as crate::memory::AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        TaskBuilder { host_only: true, ..self.cpu(body) }
    }
}

impl<'rt, A: AccessTuple, C, G> TaskBuilder<'rt, A, C, NoBody, G> {
    /// A body for emulated devices, preferred there over the one for CPU units.
    pub fn emulated<F, R>(self, body: F) -> TaskBuilder<'rt, A, C, With<F, R>, G>
    where
        F: for<'c, 'a> FnOnce(&'c Context, <A::Stored as crate::memory::AccessList>::Views<'a>) -> R + Send + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { runtime, name, accesses, cpu, emulated: NoBody, gpu, host_only, priority, cost, at } = self;
        let emulated = With(body, PhantomData);
        TaskBuilder { runtime, name, accesses, cpu, emulated, gpu, host_only, priority, cost, at }
    }
}

impl<'rt, A: AccessTuple, C, E> TaskBuilder<'rt, A, C, E, NoBody> {
    /// The body for accelerators (CUDA, HIP, OpenCL): it gets a [`Launcher`], with which it enqueues kernels, and for
    /// every access a view of where the region lies in the device's memory. It runs on the unit's hosting thread and does
    /// not wait for what it enqueues. See [`Launcher`] for an example.
    pub fn gpu<F, R>(self, body: F) -> TaskBuilder<'rt, A, C, E, With<F, R>>
    where
        F: for<'l, 'd, 'a> FnOnce(&'l mut Launcher<'d>, <A::Stored as crate::memory::AccessList>::DeviceViews<'a>) -> R
            + Send
            + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { runtime, name, accesses, cpu, emulated, gpu: NoBody, host_only, priority, cost, at } = self;
        let gpu = With(body, PhantomData);
        TaskBuilder { runtime, name, accesses, cpu, emulated, gpu, host_only, priority, cost, at }
    }
}

impl<A, C, E, G> TaskBuilder<'_, A, C, E, G>
where
    A: AccessTuple,
    C: Slot<A::Stored>,
    E: Slot<A::Stored>,
    G: DeviceSlot<A::Stored>,
{
    /// Among ready tasks, larger priorities go first. A hint; the default is 0.
    pub fn priority(mut self, priority: i32) -> Self {
        self.priority = priority;
        self
    }

    /// How much work the task is, in any unit that is the same for all tasks. A hint for schedulers.
    pub fn cost(mut self, cost: f64) -> Self {
        self.cost = Some(cost);
        self
    }

    /// The task's index in an iteration space, in the instance that was begun last.
    pub fn at(mut self, space: &IterationSpace, index: usize) -> Self {
        self.at = Some((space.clone(), index));
        self
    }

    /// Submits the task: from here on it runs as soon as the tasks it depends on are done.
    ///
    /// # Inside a body
    /// A body can submit tasks, its *children*, through an `Arc` of the runtime that it captured. They come after whatever
    /// was submitted before them by anybody. Nobody waits for them but [`Runtime::wait`] and who uses what they write.
    ///
    /// What the body's task accesses is not for its children, nor for theirs, unless all only read it: tasks that were
    /// submitted meanwhile would see the parent's work without the children's. Such a child is refused with
    /// [`SubmitError::Nested`]; all other data are free.
    ///
    /// ```
    /// use std::sync::Arc;
    /// use thalweg::prelude::*;
    /// let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").build()?);
    /// let (x, y) = (rt.data(vec![1.0f64; 8]), rt.data(vec![0.0f64; 8]));
    /// let (inner, output, held) = (rt.clone(), y.clone(), x.clone());
    /// let parent = rt.task("parent", (x.inout(),)).cpu(move |_, (x,)| {
    ///     let largest = x.iter().copied().fold(0.0, f64::max);
    ///     inner.task("child", (output.output(),)).cpu(move |_, (y,)| y.fill(largest)).submit()?;
    ///     let refused = inner.task("child", (held.inout(),)).cpu(|_, _| ()).submit();
    ///     assert!(matches!(refused, Err(SubmitError::Nested { .. })));
    ///     Ok::<(), SubmitError>(())
    /// });
    /// parent.submit()?;
    /// rt.wait()?;
    /// assert_eq!(rt.take(y)?, [1.0; 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// To the body belong also its parts that rayon runs on the unit's cores, the destructors of what it captured, and the
    /// operation of its reduction. Threads that a body starts by itself do not: the runtime cannot know whose they are, so
    /// what they submit is taken for submitted outside. Tasks of two runtimes are never each other's children.
    ///
    /// # Errors
    /// If a region is out of bounds, belongs to another runtime or was taken; if two accesses overlap and one of them
    /// writes; if there is no body for any unit of the machine, or no memory large enough; if it is submitted inside a task that
    /// holds what it accesses. Nothing is changed then.
    #[track_caller]
    pub fn submit(self) -> Result<TaskId, SubmitError> {
        let location = Location::caller();
        let core = &*self.runtime.core;
        self.accesses.check(core.id).map_err(|refusal| refusal.of_task(&self.name))?;
        let mut records: ArrayVec<AccessRecord<'_>, MOST_ACCESSES> = ArrayVec::new();
        self.accesses.visit(&mut |Recorded(record)| records.push(record));
        check_disjoint(&self.name, &records)?;
        let portable = C::PRESENT && !self.host_only;
        let mut kinds = Kinds::of(C::PRESENT, E::PRESENT || portable, G::PRESENT);
        let simulation = core.simulation();
        if let Some(simulation) = simulation {
            kinds = simulation.kinds(&self.name, kinds, portable);
        }
        if !C::PRESENT || !core.on_short_way() {
            self.check_units(kinds, &records)?;
        }
        let ancestry = running::ancestry(core.id);
        let mut side = self.side()?;
        if !ancestry.is_empty() {
            ancestry.admit(&self.name, &records)?;
            side.get_or_insert_default().ancestry = ancestry;
        }
        if simulation.is_some() {
            side.get_or_insert_default().kinds = Some(kinds);
        }
        let payload = Payload::new(self.accesses.store(INTERNAL), self.cpu, self.emulated, self.gpu, self.host_only);
        let description = Description { name: self.name, location, priority: self.priority, internal: false, side };
        core.submit(description, payload, &records, |task| task.shared().id)
    }

    /// What policies may ask about the task; nothing on the short way, where none is asked.
    fn side(&self) -> Result<Option<Box<Side>>, SubmitError> {
        let place = match &self.at {
            Some((space, index)) if *index >= space.len() => {
                return Err(SubmitError::Index {
                    task: self.name.clone().into_owned(),
                    space: space.name().to_owned(),
                    index: *index,
                    len: space.len(),
                });
            }
            _ if self.runtime.core.on_short_way() => return Ok(None),
            Some((space, index)) => Some(Place {
                space: space.id(),
                index: *index,
                instance: space.instances().saturating_sub(1),
                weights: space.shared_weights(),
                neighbours: space.shared_neighbours(),
            }),
            None => None,
        };
        let has_side = self.cost.is_some() || place.is_some();
        Ok(has_side.then(|| Box::new(Side { cost: self.cost, place, ..Side::default() })))
    }

    /// Whether some unit has a body and enough memory.
    fn check_units(&self, kinds: Kinds, records: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
        if !C::PRESENT && !E::PRESENT && !G::PRESENT {
            return Err(SubmitError::NoBody { task: self.name.clone().into_owned() });
        }
        let core = &self.runtime.core;
        let needs = Needs::of(records);
        // Where there is no CPU unit, the hosting threads of devices stand in.
        let at_home = core.devices().is_some() && core.machine.num_cpu_units() == 0 && kinds.has(UnitKind::Cpu);
        let usable = |kind| kinds.has(kind) && (kind == UnitKind::Cpu || !needs.home_only);
        let largest = |kind: UnitKind| self.runtime.largest_by_kind[kind as usize];
        let Some(capacity_bytes) = UnitKind::ALL.into_iter().filter(|kind| usable(*kind)).filter_map(largest).max()
        else {
            if at_home {
                return Ok(());
            }
            return Err(SubmitError::NoUnit {
                task: self.name.clone().into_owned(),
                bodies: if needs.home_only { "CPU (it has a concurrent access)".to_owned() } else { kinds.describe() },
                units: self.runtime.configuration().to_owned(),
            });
        };
        if needs.bytes > capacity_bytes && !at_home {
            let task = self.name.clone().into_owned();
            return Err(SubmitError::WorkingSet { task, needed_bytes: needs.bytes, capacity_bytes });
        }
        Ok(())
    }
}

/// The bytes of the largest memory among the units of each kind; nothing of kinds that the machine lacks.
pub(super) type LargestByKind = [Option<u64>; UnitKind::ALL.len()];

impl Runtime {
    /// How many bytes each address space holds.
    pub(super) fn set_capacities(&mut self, capacities_bytes: Vec<u64>) {
        let machine = &self.core.machine;
        for unit in machine.units() {
            let capacity = machine.spaces_of(unit.id).map(|space| capacities_bytes[space.index()]).max();
            let largest = &mut self.largest_by_kind[unit.kind as usize];
            *largest = (*largest).max(Some(capacity.unwrap_or(0)));
        }
        self.capacities_bytes = capacities_bytes;
    }
}

/// Within one task, views of what is written must not overlap any other.
#[inline]
fn check_disjoint(task: &str, records: &[AccessRecord<'_>]) -> Result<(), SubmitError> {
    for (i, second) in records.iter().enumerate() {
        for first in &records[..i] {
            if std::ptr::eq(first.datum, second.datum) && first.conflicts_with(second) {
                return Err(overlap(task, first, second));
            }
        }
    }
    Ok(())
}

#[cold]
fn overlap(task: &str, first: &AccessRecord<'_>, second: &AccessRecord<'_>) -> SubmitError {
    let words = |record: &AccessRecord<'_>| format!("{} ({})", record.datum.describe(record.block), record.mode);
    SubmitError::OverlappingAccesses {
        task: task.to_owned(),
        data: first.datum.to_string(),
        first: words(first),
        second: words(second),
    }
}
