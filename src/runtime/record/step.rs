//! The steps of a recording: tasks that can be submitted any number of times.

use super::super::door::Door;
use super::super::for_each::LoopBody;
use super::super::hints::{Hints, Index};
use super::super::submit::TaskBuilder;
use super::explanation::Obstacle;
use super::task::About;
use crate::Context;
use crate::depend::{AccessRecord, Body, Freezer, Kinds, Lane, Meta, Mode, Own, Residence, Submitting};
use crate::error::{Called, SubmitError};
use crate::ids::{DeviceId, Iteration, TaskId};
use crate::memory::{AccessList, ForDevices, IntoOutcome, NoBody, Slot, Span, Staying};
use crate::region::Block;
use crate::runtime::entrance::{EntranceOf, Kin};
use crate::sealed::{INTERNAL, Internal, Sealed};
use crate::sync::CallSite;
use crate::task::{Accesses, IterationSpace, Kept, UntypedAccess};
use std::borrow::Cow;
use std::marker::PhantomData;
use std::sync::{Arc, OnceLock};

/// A region that a recorded task accesses.
pub(super) struct RecordedRegion {
    kept: Kept,
    block: Block,
    mode: Mode,
}

impl RecordedRegion {
    pub(super) fn kept(&self) -> Kept {
        self.kept.clone()
    }

    pub(super) fn record(&self) -> AccessRecord<'_> {
        AccessRecord { datum: &self.kept.cell.datum, block: &self.block, mode: self.mode }
    }
}

/// A step of a recording. Each replay executes the steps in the order in which they were recorded.
pub(super) trait Step: Send {
    /// Refuses a step that can no longer be submitted.
    fn check(&self) -> Result<(), SubmitError>;

    /// Returns the regions that the step accesses.
    fn regions(&self) -> &[RecordedRegion];

    /// Returns the task's name, if the step is a task.
    fn name(&self) -> &str;

    /// Submits the step as if it had not been recorded, with this parent. Calls `see` with the task.
    fn resubmit(&self, door: &Door, kin: Kin, see: &mut dyn FnMut(&mut Submitting)) -> Result<(), SubmitError>;

    /// Returns the same step for the iterations of a loop, with the present values of all parameters.
    fn for_loop(&self) -> Box<dyn Step>;

    /// Returns whether the step is a task.
    fn is_task(&self) -> bool;

    /// Returns the reason why the runtime cannot keep the task from replay to replay, if there is one.
    fn obstacle(&self) -> Option<Obstacle>;

    /// Returns the step as a part of a run that a device launches as a whole, or the reason why it cannot be in a run;
    /// `Err(None)` if the step is not a task.
    fn graphable(&self) -> Result<Graphable<'_>, Option<Obstacle>>;

    /// Returns the bodies of the step for one replay, one of which will be called.
    fn body(&self) -> Box<dyn Body>;

    /// Adds the step, with this ID, to a graph that is kept. The step must have no obstacle.
    fn freeze(&self, id: TaskId, graph: &mut Freezer);
}

/// A task that can be a part of a run that a device launches as a whole.
pub(super) struct Graphable<'a> {
    pub(super) name: &'a str,
    pub(super) location: CallSite,
    pub(super) regions: &'a [RecordedRegion],
    pub(super) kinds: Kinds,
    pub(super) priority: i32,
    pub(super) cost: Option<f64>,
    pub(super) index: Option<&'a Index>,
    pub(super) iteration: Iteration,
    /// The device that the task is assigned to, if any.
    pub(super) device: Option<DeviceId>,
}

/// A recorded task.
pub(super) struct RecordedTask<S: AccessList, B> {
    pub(super) name: Cow<'static, str>,
    pub(super) location: CallSite,
    pub(super) stored: S,
    pub(super) regions: Arc<[RecordedRegion]>,
    pub(super) body: B,
    pub(super) about: About<S>,
    /// How long each submission keeps the values of the accesses' parameters.
    pub(super) span: Span,
}

/// A body for CPU units that is called in each replay, or the absence of one.
pub(super) trait RecordedBody<S: AccessList>: Send + 'static {
    /// Adds this body to a task for one replay, for CPU units only if `host_only`.
    fn give<'t, 's>(
        &self,
        task: TaskBuilder<'t, Again<'s, S>>,
        host_only: bool,
    ) -> TaskBuilder<'t, Again<'s, S>, impl Slot<S>>;

    /// Returns a kept task with this body; `None` if there is no body.
    fn stay(&self, meta: Meta, accesses: S, iteration: Iteration) -> Option<Submitting>;

    /// Whether there is a body.
    const PRESENT: bool;

    /// Returns this body combined with a body for accelerators, for one replay.
    fn beside(&self, accesses: S, for_devices: Option<ForDevices<S>>) -> Box<dyn Body>;

    /// Returns the same body for another task.
    fn again(&self) -> Self;
}

impl<S: AccessList> RecordedBody<S> for NoBody {
    fn give<'t, 's>(
        &self,
        task: TaskBuilder<'t, Again<'s, S>>,
        _: bool,
    ) -> TaskBuilder<'t, Again<'s, S>, impl Slot<S>> {
        task
    }

    fn stay(&self, _: Meta, _: S, _: Iteration) -> Option<Submitting> {
        None
    }

    const PRESENT: bool = false;

    fn again(&self) -> Self {
        Self
    }

    fn beside(&self, accesses: S, for_devices: Option<ForDevices<S>>) -> Box<dyn Body> {
        type Nothing<S> = for<'c, 'a> fn(&'c Context, <S as AccessList>::Views<'a>);
        Box::new(Staying::<S, Nothing<S>, ()>::new(accesses, None, for_devices, Iteration::NONE))
    }
}

impl<S, F, R> RecordedBody<S> for LoopBody<Arc<F>, R>
where
    S: AccessList,
    F: for<'c, 'a> Fn(&'c Context, S::Views<'a>) -> R + Send + Sync + 'static,
    R: IntoOutcome + 'static,
{
    fn give<'t, 's>(
        &self,
        task: TaskBuilder<'t, Again<'s, S>>,
        host_only: bool,
    ) -> TaskBuilder<'t, Again<'s, S>, impl Slot<S>> {
        let body = self.0.clone();
        let body = move |context: &Context, views: S::Views<'_>| body(context, views);
        if host_only { task.host(body) } else { task.cpu(body) }
    }

    fn stay(&self, meta: Meta, accesses: S, iteration: Iteration) -> Option<Submitting> {
        let body = Staying::new(accesses, Some(self.0.clone()), None, iteration);
        Some(Submitting::new(|| meta, Own::default(), body, 1, |body| body as *mut (dyn Body + 'static)))
    }

    const PRESENT: bool = true;

    fn again(&self) -> Self {
        Self(self.0.clone(), PhantomData)
    }

    fn beside(&self, accesses: S, for_devices: Option<ForDevices<S>>) -> Box<dyn Body> {
        Box::new(Staying::new(accesses, Some(self.0.clone()), for_devices, Iteration::NONE))
    }
}

impl<S: AccessList, B: RecordedBody<S>> RecordedTask<S, B> {
    /// Returns the regions of these accesses.
    pub(super) fn regions_of(accesses: &impl Accesses<Stored = S>) -> Arc<[RecordedRegion]> {
        let mut kept = Vec::new();
        accesses.kept(&mut |data| kept.push(data));
        let (mut kept, mut regions) = (kept.into_iter(), Vec::new());
        accesses.visit(&mut |UntypedAccess(AccessRecord { block, mode, .. })| {
            let kept = kept.next().expect("each region has a data object");
            regions.push(RecordedRegion { kept, block: *block, mode });
        });
        regions.into()
    }

    /// Returns a builder that submits the task once more.
    fn task<'s>(&'s self, door: &'s Door, kin: Kin) -> TaskBuilder<'s, Again<'s, S>, impl Slot<S>> {
        let again = Again { stored: &self.stored, regions: &self.regions, span: self.span };
        let task = TaskBuilder::new(EntranceOf::Front(door), kin, self.name.clone(), again);
        let mut task = self.body.give(task, self.about.host_only);
        task.hints = self.about.hints.clone();
        self.about.bodies.give(task)
    }

    /// Refuses a task that could never be submitted.
    pub(super) fn check_all(&self, door: &Door) -> Result<(), SubmitError> {
        self.check()?;
        self.task(door, Kin::None).check()
    }
}

impl<S: AccessList, B: RecordedBody<S>> Step for RecordedTask<S, B> {
    fn check(&self) -> Result<(), SubmitError> {
        let taken = self.regions.iter().map(|region| region.record().datum).find(|datum| datum.is_taken());
        let refuse = |data: String| SubmitError::Taken { task: self.name.clone().into(), data };
        taken.map_or(Ok(()), |datum| Err(refuse(datum.to_string()).called_at(self.location)))
    }

    fn regions(&self) -> &[RecordedRegion] {
        &self.regions
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn resubmit(&self, door: &Door, kin: Kin, see: &mut dyn FnMut(&mut Submitting)) -> Result<(), SubmitError> {
        self.task(door, kin).submit_as(self.location, false, see)
    }

    fn for_loop(&self) -> Box<dyn Step> {
        let Self { name, location, stored, regions, body, about, span: _ } = self;
        let About { host_only, hints, bodies } = about;
        Box::new(Self {
            name: name.clone(),
            location: *location,
            stored: stored.again(INTERNAL, Span::Once),
            regions: regions.clone(),
            body: body.again(),
            about: About { host_only: *host_only, hints: hints.clone(), bodies: bodies.clone() },
            span: Span::Loop,
        })
    }

    fn is_task(&self) -> bool {
        true
    }

    fn obstacle(&self) -> Option<Obstacle> {
        if self.about.hints.group.is_some() {
            return Some(Obstacle::Member { task: self.name.clone().into_owned() });
        }
        let accumulates = |mode: Mode| matches!(mode, Mode::Reduction(operation) if operation.is_accumulated());
        let is_hard = |mode: Mode| mode.is_weak() || accumulates(mode);
        let mode = self.regions.iter().map(|region| region.mode).find(|mode| is_hard(*mode))?;
        Some(Obstacle::Access { task: self.name.clone().into_owned(), mode })
    }

    fn graphable(&self) -> Result<Graphable<'_>, Option<Obstacle>> {
        let Self { name, location, regions, about: About { host_only, hints, bodies }, .. } = self;
        let task = || name.clone().into_owned();
        if hints.group.is_some() {
            return Err(Some(Obstacle::Member { task: task() }));
        }
        if hints.across.is_some() {
            return Err(Some(Obstacle::Devices { task: task() }));
        }
        if !hints.uses().is_empty() {
            return Err(Some(Obstacle::Resources { task: task() }));
        }
        if bodies.gpu.is_none() || !bodies.own.is_empty() {
            return Err(Some(Obstacle::Kernels { task: task() }));
        }
        for record in regions.iter().map(RecordedRegion::record) {
            let is_plain = matches!(record.mode, Mode::In | Mode::Out | Mode::Inout) || record.is_reduced_in_place();
            if !is_plain || record.datum.residence == Residence::Home {
                return Err(Some(Obstacle::Access { task: task(), mode: record.mode }));
            }
        }
        let mut kinds = Kinds::ACCELERATED;
        if B::PRESENT {
            kinds = kinds.and(Kinds::CPU);
        }
        if bodies.emulated.is_some() || B::PRESENT && !host_only {
            kinds = kinds.and(Kinds::EMULATED);
        }
        let Hints { priority, cost, device, iteration, .. } = *hints;
        Ok(Graphable {
            name,
            location: *location,
            regions,
            kinds,
            priority,
            cost,
            index: hints.at.as_ref(),
            iteration,
            device,
        })
    }

    fn body(&self) -> Box<dyn Body> {
        self.body.beside(self.stored.again(INTERNAL, self.span), self.about.bodies.gpu.clone())
    }

    fn freeze(&self, id: TaskId, graph: &mut Freezer) {
        let hints = &self.about.hints;
        let meta = Meta {
            id,
            name: self.name.clone(),
            location: self.location,
            priority: hints.priority,
            internal: false,
            queues: self.regions.iter().any(|region| region.mode.queues()) || !hints.uses().is_empty(),
            join: false,
            lane: Lane::new(0),
            domain: OnceLock::new(),
        };
        let accesses = self.stored.again(INTERNAL, Span::Always);
        let mut task = self.body.stay(meta, accesses, hints.iteration).expect("a task for cores has a body for them");
        if let Some(demands) = hints.demands.as_ref().filter(|demands| !demands.uses.is_empty()) {
            let turns = &mut task.owned_mut().get_or_insert_default().turns;
            demands.add_resources(&self.name, turns).expect("they were checked when it was recorded");
        }
        graph.add(task, self.regions.iter().map(|region| (region.kept.clone(), region.block, region.mode)).collect());
    }
}

/// A step that begins a new instance of an iteration space.
impl Step for IterationSpace {
    fn check(&self) -> Result<(), SubmitError> {
        Ok(())
    }

    fn regions(&self) -> &[RecordedRegion] {
        &[]
    }

    fn name(&self) -> &str {
        ""
    }

    fn resubmit(&self, _: &Door, _: Kin, _: &mut dyn FnMut(&mut Submitting)) -> Result<(), SubmitError> {
        self.begin();
        Ok(())
    }

    fn for_loop(&self) -> Box<dyn Step> {
        Box::new(self.clone())
    }

    fn is_task(&self) -> bool {
        false
    }

    fn obstacle(&self) -> Option<Obstacle> {
        None
    }

    fn graphable(&self) -> Result<Graphable<'_>, Option<Obstacle>> {
        Err(None)
    }

    fn body(&self) -> Box<dyn Body> {
        unreachable!("a new instance is not a task")
    }

    fn freeze(&self, _: TaskId, _: &mut Freezer) {}
}

/// The accesses of a recorded task, for one more submission.
#[derive(Debug)]
pub(in super::super) struct Again<'s, S> {
    stored: &'s S,
    regions: &'s [RecordedRegion],
    span: Span,
}

impl std::fmt::Debug for RecordedRegion {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} of {:?} ({})", self.record().datum.describe(&self.block), self.kept, self.mode)
    }
}

impl<S> Sealed for Again<'_, S> {}

impl<S: AccessList> Accesses for Again<'_, S> {
    type Stored = S;

    const COUNT: Option<usize> = S::COUNT;

    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(()) // they were checked when the task was recorded
    }

    fn visit<'a>(&'a self, visit: &mut dyn FnMut(UntypedAccess<'a>)) {
        self.regions.iter().for_each(|region| visit(UntypedAccess(region.record())));
    }

    fn store(&self, right: Internal) -> S {
        self.stored.again(right, self.span)
    }

    fn kept(&self, visit: &mut dyn FnMut(Kept)) {
        self.regions.iter().for_each(|region| visit(region.kept.clone()));
    }
}
