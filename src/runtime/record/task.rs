//! Describing a task, or a loop, that is recorded.
//!
//! What can be said of it is what can be said of one that is submitted, but that its bodies are called once in each replay:
//! they are `Fn`.

use super::super::bodies::Bodies;
use super::super::for_each::LoopBody;
use super::super::submit::TaskBuilder;
use super::Recorder;
use super::step::{Again, RecordedBody, RecordedTask};
use crate::Context;
use crate::error::{Called, SubmitError};
use crate::ids::{DeviceId, Iteration};
use crate::memory::{AccessList, IntoOutcome, NoBody, Slot};
use crate::sealed::INTERNAL;
use crate::task::{Accesses, AnyParameter, IterationSpace, LoopAccesses};
use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::Arc;

/// A task that is being described for a recording; it is no part of it until it is
/// [submitted](TaskRecorder::submit) there. Made by [`Recorder::task`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.scalar(1);
/// let mut double = rt.record(|r| r.task("double", x.inout()).cpu(|_, x| x[0] *= 2).priority(1).submit())?;
/// (0..10).try_for_each(|_| double.replay())?;
/// assert_eq!(rt.take(x)?, [1024]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a task is recorded only once it is submitted"]
pub struct TaskRecorder<'r, A: Accesses, C = NoBody> {
    recorder: &'r Recorder<'r>,
    name: Cow<'static, str>,
    accesses: A,
    cpu: C,
    hints: Hints<A::Stored>,
}

/// A loop that is being described for a recording. Made by [`Recorder::for_each`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let x = rt.data(vec![1; 100]);
/// let mut step = rt.record(|r| {
///     let tasks = r.for_each("add", (0.., x.blocks(10).inout())).cpu(|_, (i, x)| x[0] += i).submit()?;
///     assert_eq!(tasks, 10);
///     Ok(())
/// })?;
/// step.replay()?;
/// assert_eq!(rt.take(x)?[90], 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a loop is recorded only once it is submitted"]
pub struct LoopRecorder<'r, A: LoopAccesses, C = NoBody> {
    recorder: &'r Recorder<'r>,
    name: Cow<'static, str>,
    accesses: A,
    cpu: C,
    hints: Hints<A::Stored>,
    cost: Option<Box<dyn Fn(usize) -> f64>>,
    /// Those over which it is spread.
    devices: Vec<DeviceId>,
}

/// All of a recorded task but its name, its accesses and its body for CPU units.
pub(super) struct Hints<S: AccessList> {
    pub(super) bodies: Bodies<S>,
    cost: Option<f64>,
    /// Where it stands in an iteration space.
    space: Option<Index>,
    /// Which iteration of a loop it is.
    pub(super) iteration: Iteration,
}

/// An index of an iteration space, and whether a task runs beside it.
pub(super) type Index = (IterationSpace, usize, bool);

impl<S: AccessList> Hints<S> {
    fn new() -> Self {
        Self { bodies: Bodies::default(), cost: None, space: None, iteration: Iteration::NONE }
    }

    pub(super) fn index(&self) -> Option<&Index> {
        self.space.as_ref()
    }

    pub(super) fn cost(&self) -> Option<f64> {
        self.cost
    }

    fn of_iteration(&self, index: usize, cost: Option<f64>) -> Self {
        let space = self.space.as_ref().map(|(space, _, beside)| (space.clone(), index, *beside));
        Self { bodies: self.bodies.clone(), cost, space, iteration: Iteration::new(index) }
    }

    /// Gives a task all that it has beside its body for CPU units.
    pub(super) fn give<'t, 's, C: Slot<S>>(
        &self,
        mut task: TaskBuilder<'t, Again<'s, S>, C>,
    ) -> TaskBuilder<'t, Again<'s, S>, C> {
        task = self.bodies.give(task);
        task.hints.iteration = self.iteration;
        if let Some(cost) = self.cost {
            task = task.cost(cost);
        }
        match &self.space {
            Some((space, index, true)) => task.beside(space, *index),
            Some((space, index, false)) => task.at(space, *index),
            None => task,
        }
    }
}

impl<'r, A: Accesses> TaskRecorder<'r, A> {
    pub(super) fn new(recorder: &'r Recorder<'r>, name: Cow<'static, str>, accesses: A) -> Self {
        Self { recorder, name, accesses, cpu: NoBody, hints: Hints::new() }
    }

    /// The body for CPU units and emulated devices, as [`TaskBuilder::cpu`](crate::TaskBuilder::cpu) takes it.
    pub fn cpu<F, R>(self, body: F) -> TaskRecorder<'r, A, LoopBody<Arc<F>, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { recorder, name, accesses, hints, .. } = self;
        TaskRecorder { recorder, name, accesses, cpu: LoopBody(Arc::new(body), PhantomData), hints }
    }

    /// As [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(mut self, body: F) -> TaskRecorder<'r, A, LoopBody<Arc<F>, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        self.hints.bodies.host_only = true;
        self.cpu(body)
    }
}

impl<A: Accesses, C> TaskRecorder<'_, A, C> {
    pub(in super::super) fn bodies(&mut self) -> &mut Bodies<A::Stored> {
        &mut self.hints.bodies
    }

    /// How much work the task is, in any unit that is the same for all tasks. A hint for schedulers.
    pub fn cost(mut self, cost: f64) -> Self {
        self.hints.cost = Some(cost);
        self
    }

    /// The task's index in an iteration space: in each replay, in the instance that was begun last
    /// ([`Recorder::begin`]).
    pub fn at(mut self, space: &IterationSpace, index: usize) -> Self {
        self.hints.space = Some((space.clone(), index, false));
        self
    }

    /// As [`TaskBuilder::beside`](crate::TaskBuilder::beside).
    pub fn beside(mut self, space: &IterationSpace, index: usize) -> Self {
        self.hints.space = Some((space.clone(), index, true));
        self
    }

    #[track_caller]
    fn record<B: RecordedBody<A::Stored>>(self, body: impl FnOnce(C) -> B) -> Result<(), SubmitError> {
        let Self { recorder, name, accesses, cpu, hints } = self;
        recorder.enter(name, Location::caller(), &accesses, body(cpu), hints).called_here()
    }
}

impl<A: Accesses> TaskRecorder<'_, A> {
    /// As [`submit`](TaskRecorder::submit) of a task with a body for CPU units.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn submit(self) -> Result<(), SubmitError> {
        self.record(|body| body)
    }
}

impl<A, F, R> TaskRecorder<'_, A, LoopBody<Arc<F>, R>>
where
    A: Accesses,
    F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    /// Records the task: it is submitted by each replay, behind what was recorded before it.
    ///
    /// # Errors
    /// As for [`TaskBuilder::submit`](crate::TaskBuilder::submit), and if it uses the result of a task
    /// ([`SubmitError::RecordedResult`]), which there is once only, or a parameter of another recording.
    #[track_caller]
    pub fn submit(self) -> Result<(), SubmitError> {
        self.record(|body| body)
    }
}

impl<'r, A: LoopAccesses> LoopRecorder<'r, A> {
    pub(super) fn new(recorder: &'r Recorder<'r>, name: Cow<'static, str>, accesses: A) -> Self {
        Self { recorder, name, accesses, cpu: NoBody, hints: Hints::new(), cost: None, devices: Vec::new() }
    }

    /// The body for CPU units and emulated devices, as [`LoopBuilder::cpu`](crate::LoopBuilder::cpu) takes it.
    pub fn cpu<F, R>(self, body: F) -> LoopRecorder<'r, A, LoopBody<Arc<F>, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        let Self { recorder, name, accesses, hints, cost, devices, .. } = self;
        LoopRecorder { recorder, name, accesses, cpu: LoopBody(Arc::new(body), PhantomData), hints, cost, devices }
    }

    /// As [`cpu`](Self::cpu), for CPU units only.
    pub fn host<F, R>(mut self, body: F) -> LoopRecorder<'r, A, LoopBody<Arc<F>, R>>
    where
        F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
        R: IntoOutcome + 'static,
    {
        self.hints.bodies.host_only = true;
        self.cpu(body)
    }
}

impl<A: LoopAccesses, C> LoopRecorder<'_, A, C> {
    pub(in super::super) fn bodies(&mut self) -> &mut Bodies<A::Stored> {
        &mut self.hints.bodies
    }

    /// How much work each iteration is, by its index, in any unit that is the same for all tasks. A hint for schedulers.
    pub fn cost(mut self, cost: impl Fn(usize) -> f64 + 'static) -> Self {
        self.cost = Some(Box::new(cost));
        self
    }

    /// The iterations are the indices of an iteration space: in each replay, in the instance that was begun last
    /// ([`Recorder::begin`]).
    pub fn at(mut self, space: &IterationSpace) -> Self {
        self.hints.space = Some((space.clone(), 0, false));
        self.devices.clear();
        self
    }

    /// Spreads the iterations over these devices, as [`LoopBuilder::spread`](crate::LoopBuilder::spread) does, in each replay.
    /// What is recorded for one device, and comes behind nothing on another, becomes a graph of that device. The last of `at`
    /// and `spread` holds.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:EMU:2").build()?;
    /// let (x, devices) = (rt.data(vec![1.0; 1000]), &rt.machine().units()[0].devices);
    /// let mut step = rt.record(|r| {
    ///     let double = r.for_each("double", x.blocks(500).inout());
    ///     double.cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2.0)).spread(devices).submit().map(drop)
    /// })?;
    /// (0..3).try_for_each(|_| step.replay())?;
    /// rt.wait()?;
    /// assert_eq!(rt.valid_in(&x.slice(500..)), [devices[1].space()]);
    /// assert_eq!(rt.take(x)?, [8.0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn spread(mut self, devices: &[DeviceId]) -> Self {
        (self.hints.space, self.devices) = (None, devices.to_vec());
        self
    }

    #[track_caller]
    fn record<B: RecordedBody<A::Stored>>(self, body: impl Fn(&C) -> B) -> Result<usize, SubmitError> {
        let Self { recorder, name, accesses, cpu, hints, cost, devices } = self;
        let iterations = super::super::for_each::count(&name, &accesses, recorder.door.id).called_here()?;
        let location = Location::caller();
        for index in 0..iterations {
            let mut hints = hints.of_iteration(index, cost.as_ref().map(|cost| cost(index)));
            if !devices.is_empty() {
                hints.bodies.device = Some(devices[index % devices.len()]);
            }
            recorder.enter(name.clone(), location, &accesses.one(index), body(&cpu), hints).called_here()?;
        }
        Ok(iterations)
    }
}

impl<A: LoopAccesses> LoopRecorder<'_, A> {
    /// As [`submit`](LoopRecorder::submit) of a loop with a body for CPU units.
    ///
    /// # Errors
    /// As there.
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        self.record(|NoBody| NoBody)
    }
}

impl<A, F, R> LoopRecorder<'_, A, LoopBody<Arc<F>, R>>
where
    A: LoopAccesses,
    F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    /// Records a task for each iteration, in their order, and returns how many.
    ///
    /// # Errors
    /// As for [`LoopBuilder::submit`](crate::LoopBuilder::submit), and for [`TaskRecorder::submit`].
    #[track_caller]
    pub fn submit(self) -> Result<usize, SubmitError> {
        self.record(|LoopBody(body, _)| LoopBody(body.clone(), PhantomData))
    }
}

impl Recorder<'_> {
    /// Adds a task.
    fn enter<A, B>(
        &self,
        name: Cow<'static, str>,
        location: &'static Location<'static>,
        accesses: &A,
        body: B,
        hints: Hints<A::Stored>,
    ) -> Result<(), SubmitError>
    where
        A: Accesses,
        B: RecordedBody<A::Stored>,
    {
        accesses.check(self.door.id).map_err(|refusal| refusal.of_task(&name))?;
        if A::HAS_RESULTS {
            return Err(SubmitError::RecordedResult { task: name.into() });
        }
        if A::HAS_OUTCOMES {
            return Err(SubmitError::RecordedOutcome { task: name.into() });
        }
        let mut foreign = None;
        accesses.parameters(&mut |AnyParameter(parameter)| {
            if parameter.recording() != self.id {
                foreign = Some(parameter.name().to_owned());
            }
        });
        if let Some(parameter) = foreign {
            let problem = format!("task `{name}` reads it, and it belongs to another recording");
            return Err(SubmitError::Parameter { parameter, problem });
        }
        let (regions, stored) = (RecordedTask::<_, B>::regions_of(accesses), accesses.store(INTERNAL));
        let task = RecordedTask { name, location, stored, regions, body, hints };
        task.check_all(self.door)?;
        self.steps.borrow_mut().push(Box::new(task));
        Ok(())
    }
}

impl<A: Accesses, C> fmt::Debug for TaskRecorder<'_, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskRecorder").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<A: LoopAccesses, C> fmt::Debug for LoopRecorder<'_, A, C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoopRecorder").field("name", &self.name).finish_non_exhaustive()
    }
}
