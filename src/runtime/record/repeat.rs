//! Loops: a recording whose replays are repeated until a number is small, or a given number of times.
//!
//! The caller submits the whole loop at once and does not wait for any iteration:
//!
//! - If the recording is frozen, the thread that ends an iteration begins the next one (`depend/replay`).
//! - If all tasks form one run on a device that can repeat graphs (CUDA), the run is one task, and the device repeats
//!   its launches. With a trace, the host repeats, so that each iteration is traced.
//! - Otherwise, a task with weak accesses to everything that the recording uses is submitted in its place. Its body
//!   submits an iteration as children. When they have ended, it is resumed and looks at the number. It occupies no
//!   thread in between.
//! - In a simulation, no body runs, so that the number is unknown. All iterations that are allowed are submitted.
//!
//! An iteration in which a task fails or is skipped is the last one. Everything that the recording writes is then
//! missing, because the iterations that did not happen would have written it.

use super::Recording;
use super::condition::{Above, Repeat};
use super::explanation::{Explanation, Obstacle};
use super::plan::{Piece, Plan, accesses_to};
use super::run::PlannedAccess;
use super::step::{RecordedRegion, Step};
use crate::depend::{
    AccessRecord, Body, Child, Detachment, Domain, Env, Kinds, Leaving, Mode, Side, Stop, Submitting, TaskRef, running,
};
use crate::driver::admission::Description;
use crate::error::{BoxError, Called, FailureReason, SubmitError, TaskFailure};
use crate::ids::DataId;
use crate::kernel::{DeviceSite, Launcher, Scalar};
use crate::region::Block;
use crate::runtime::admission::{Admission, Admitted};
use crate::runtime::door::Door;
use crate::runtime::entrance::Kin;
use crate::runtime::hints::Hints;
use crate::sync::{CallSite, Pooled};
use crate::task::{Data, Kept};
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::Cell;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Weak};

/// The name of the task that stands for a loop.
const NAME: &str = "loop";

impl Recording {
    /// Submits the tasks of the recording `times` times, as a loop that needs no further call: like
    /// [`repeat_until`](Self::repeat_until), without a condition.
    ///
    /// # Errors
    /// As for [`replay`](Self::replay). Also fails if a task accumulates ([`SubmitError::Repeat`]).
    #[track_caller]
    pub fn repeat(&mut self, times: usize) -> Result<(), SubmitError> {
        match times {
            0 => Ok(()),
            at_most => self.repeat_as(&Repeat { at_most, until: None }).called_here(),
        }
    }

    /// Submits the tasks of the recording in a loop that ends when `x` is at most `bound`, and after `at_most`
    /// iterations in any case. Like a submission, the call does not wait.
    ///
    /// `x` is a number that the recording computes, such as the residual of a solver. The runtime compares it after
    /// each iteration, so that the first iteration always takes place. A number that is not comparable with `bound`
    /// (NaN) ends the loop. All iterations get the values that parameters have now. To learn the number of iterations,
    /// let a recorded task count them in a data object.
    ///
    /// A task that fails, or that is skipped because its input is missing, ends the loop after its iteration. All
    /// regions that the recording writes are missing then. In a simulation, which has no values, `at_most` iterations
    /// take place.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
    /// let (root, error) = (rt.scalar(1.0f64), rt.scalar(0.0));
    /// let mut newton = rt.record(|r| {
    ///     r.task("step", (root.inout(), error.output()))
    ///         .cpu(|_, (root, error)| {
    ///             root[0] = 0.5 * (root[0] + 2.0 / root[0]);
    ///             error[0] = (root[0] * root[0] - 2.0).abs();
    ///         })
    ///         .submit()
    /// })?;
    /// newton.repeat_until(&error, 1e-9, 100)?;
    /// assert!((rt.read(&root)?[0] - 2.0f64.sqrt()).abs() < 1e-9);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`replay`](Self::replay). Also fails if `x` is not a single number that a recorded task writes, or if a
    /// task accumulates ([`SubmitError::Repeat`]).
    #[track_caller]
    pub fn repeat_until<T: Scalar + PartialOrd>(
        &mut self,
        x: &Data<T>,
        bound: T,
        at_most: usize,
    ) -> Result<(), SubmitError> {
        let door = self.door.upgrade().ok_or(SubmitError::ShutDown)?;
        let until = Above::new(x, bound, &door, self.steps.iter().flat_map(|step| step.regions())).called_here()?;
        match at_most {
            0 => Ok(()),
            at_most => self.repeat_as(&Repeat { at_most, until: Some(Arc::new(until)) }).called_here(),
        }
    }

    #[track_caller]
    fn repeat_as(&mut self, repeat: &Repeat) -> Result<(), SubmitError> {
        let door = self.door.upgrade().ok_or(SubmitError::ShutDown)?;
        door.shared().in_own_process()?;
        self.steps.iter().try_for_each(|step| check(&**step))?;
        self.explanation = match self.replay_frozen(&door, Some(repeat))? {
            None => Explanation::Frozen,
            Some(obstacle) => {
                self.check()?;
                if obstacle == Obstacle::Simulation {
                    (0..repeat.at_most).try_for_each(|_| self.resubmit(&door))?;
                } else if obstacle == Obstacle::Placement && self.submit_to_device(&door, repeat)? {
                    self.explanation = Explanation::Graphs { graphs: 1, tasks: self.len(), others: None };
                    return Ok(());
                } else if !self.is_empty() {
                    self.submit_loop(&door, repeat)?;
                }
                Explanation::Resubmitted(obstacle.to_string())
            }
        };
        Ok(())
    }

    /// Submits the loop as one task of a device that repeats the iterations by itself. Returns false, and does nothing,
    /// if no device can.
    fn submit_to_device(&mut self, door: &Door, repeat: &Repeat) -> Result<bool, SubmitError> {
        let shared = door.shared();
        let is_for_host = running::is_inside(door.id) || shared.engine.records_graph() || shared.tracer.is_some();
        if is_for_host || !door.driver.real().is_some_and(|threads| threads.devices_repeat()) {
            return Ok(false);
        }
        let Self { steps, plan, .. } = self;
        match &plan.get_or_insert_with(|| Plan::new(steps, door)).pieces[..] {
            [Piece::Run(run)] => run.submit_whole(steps, door, Some(repeat)),
            _ => Ok(false),
        }
    }

    /// Submits a task whose children are the iterations.
    #[track_caller]
    fn submit_loop(&mut self, door: &Arc<Door>, repeat: &Repeat) -> Result<(), SubmitError> {
        let accesses: Arc<[WeakAccess]> = union_of(&self.steps).into();
        let steps = self.steps.iter().map(|step| step.for_loop()).collect();
        let iterations = Iterations {
            steps,
            repeat: repeat.clone(),
            accesses: accesses.clone(),
            is_begun: false,
            detachment: Detachment::new(false),
            tasks: Vec::new(),
            continues: Arc::default(),
        };
        let (weak_door, iterations) = (Arc::downgrade(door), Cell::new(Some(iterations)));
        let body = LoopBody { accesses: accesses.clone(), door: weak_door, iterations };
        let records: Vec<_> = accesses.iter().map(WeakAccess::record).collect();
        let admission = Admission {
            door,
            name: NAME,
            records: &records,
            hints: &Hints::default(),
            bodies: Kinds::CPU,
            has_host_body: true,
            host_only: true,
            has_outcomes: false,
            awaited: false,
        };
        let Admitted { side, child, .. } = admission.admit(Kin::None, None)?;
        let (name, location) = (Cow::Borrowed(NAME), CallSite::caller());
        let description = Description { name, location, priority: 0, internal: false, side, child };
        door.driver.submit(description, body, &records, |_| ())
    }
}

/// Refuses a step that cannot be a part of an iteration.
fn check(step: &dyn Step) -> Result<(), SubmitError> {
    let accumulates = |mode: Mode| matches!(mode, Mode::Reduction(operation) if operation.is_accumulated());
    let Some(record) = step.regions().iter().map(RecordedRegion::record).find(|record| accumulates(record.mode)) else {
        return Ok(());
    };
    let (task, data) = (step.name(), record.datum);
    let problem = format!("task `{task}` accumulates into {data}, which iterations share; try `reduction`, or replays");
    Err(SubmitError::Repeat { problem })
}

/// A part of a data object that the children of a loop use.
struct WeakAccess {
    kept: Kept,
    block: Block,
    is_written: bool,
}

impl WeakAccess {
    fn record(&self) -> AccessRecord<'_> {
        let mode = if self.is_written { Mode::WeakInout } else { Mode::WeakIn };
        AccessRecord { datum: &self.kept.cell.datum, block: &self.block, mode }
    }

    /// Returns the access of a task that leaves the part missing.
    fn lost(&self) -> Option<AccessRecord<'_>> {
        self.is_written.then(|| AccessRecord { mode: Mode::Out, ..self.record() })
    }
}

/// Returns everything that the steps access. No parts overlap.
fn union_of(steps: &[Box<dyn Step>]) -> Vec<WeakAccess> {
    let (mut numbers, mut regions): (FxHashMap<DataId, usize>, Vec<Vec<&RecordedRegion>>) = Default::default();
    for region in steps.iter().flat_map(|step| step.regions()) {
        let number = *numbers.entry(region.record().datum.id).or_insert(regions.len());
        regions.resize_with(regions.len().max(number + 1), Vec::new);
        regions[number].push(region);
    }
    let as_used = |mode: Mode| if mode.writes() { Mode::Inout } else { Mode::In };
    let accesses = regions.iter().flat_map(|regions| accesses_to(regions, as_used));
    accesses
        .map(|PlannedAccess { kept, block, mode, .. }| WeakAccess { kept, block, is_written: mode.writes() })
        .collect()
}

/// The body of the task that stands for a loop.
struct LoopBody {
    accesses: Arc<[WeakAccess]>,
    door: Weak<Door>,
    iterations: Cell<Option<Iterations>>,
}

#[allow(unsafe_code)] // the contract of `Body`
// SAFETY: `accesses` reads the accesses, which are complete before the body is made and never change. There is neither
// a group nor a place at which the body stands.
unsafe impl Body for LoopBody {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.accesses.iter().for_each(|access| visit(access.record()));
    }

    /// Runs until an iteration is under way. The task is resumed when the last child has ended.
    fn run(&self, _: &Env<'_>) -> Result<(), Box<Stop>> {
        let mut iterations = self.iterations.take().expect("the iterations are there until they have ended");
        let detachment = iterations.detachment.clone();
        if std::mem::replace(&mut iterations.is_begun, true) {
            detachment.run();
        }
        let ran = match self.door.upgrade() {
            _ if detachment.is_cancelled() => Err(FailureReason::Cancelled),
            None => Err(FailureReason::Returned(SubmitError::ShutDown.into())),
            Some(door) => iterations.advance(&door).map_err(|error| FailureReason::Returned(error.into())),
        };
        let waits = matches!(ran, Ok(true));
        match ran {
            Ok(true) => self.iterations.set(Some(iterations)),
            Ok(false) => {}
            Err(reason) => detachment.fail(reason),
        }
        Err(Box::new(Stop::Detached(Leaving { detachment, waits })))
    }

    fn has_begun(&self) -> bool {
        let iterations = self.iterations.take();
        let is_begun = iterations.as_ref().is_some_and(|iterations| iterations.is_begun);
        self.iterations.set(iterations);
        is_begun
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("the body is for the host")
    }

    fn discard(&self) {
        drop(self.iterations.take());
    }

    fn kinds(&self) -> Kinds {
        Kinds::CPU
    }
}

/// The iterations of a loop, which are submitted one after the other as children.
struct Iterations {
    steps: Vec<Box<dyn Step>>,
    repeat: Repeat,
    accesses: Arc<[WeakAccess]>,
    is_begun: bool,
    detachment: Arc<Detachment>,
    /// The tasks of the iteration that is under way.
    tasks: Vec<TaskRef>,
    /// Whether another iteration follows, as the number says.
    continues: Arc<AtomicBool>,
}

impl Iterations {
    /// Submits the next iteration if none is under way. Returns whether the loop waits for children; otherwise it has
    /// ended.
    fn advance(&mut self, door: &Door) -> Result<bool, SubmitError> {
        let domain = running::domain_here(door.id).expect("the body of the loop runs here");
        loop {
            if !self.tasks.is_empty() {
                domain.set_waiter(self.detachment.waker());
                if domain.children() > 0 {
                    return Ok(true);
                }
                if let Some(cause) = self.tasks.iter().find_map(|task| task.poison()) {
                    return self.lose(door, domain, cause).map(|()| false);
                }
                self.tasks.clear();
                if self.repeat.until.is_some() && !self.continues.load(Ordering::Acquire) {
                    return Ok(false);
                }
            }
            if self.repeat.at_most == 0 {
                return Ok(false);
            }
            self.repeat.at_most -= 1;
            let Self { steps, repeat, tasks, continues, .. } = self;
            let mut see = |task: &mut Submitting| tasks.push(task.share());
            let parent = || Kin::Child(domain.clone());
            steps.iter().try_for_each(|step| step.resubmit(door, parent(), &mut see))?;
            if let Some(until) = &repeat.until {
                until.look(door, parent(), continues, &mut see)?;
            }
        }
    }

    /// Makes everything missing that the loop should have written.
    #[cold]
    fn lose(&self, door: &Door, parent: Arc<Domain>, cause: Arc<TaskFailure>) -> Result<(), SubmitError> {
        let records: Vec<_> = self.accesses.iter().filter_map(WeakAccess::lost).collect();
        let child = Child::of(parent);
        let side = Some(Pooled::new(Side { ancestry: running::ancestry(door.id), ..Side::default() }));
        let (name, location) = (Cow::Borrowed(NAME), CallSite::caller());
        let description = Description { name, location, priority: 0, internal: true, side, child };
        door.driver.submit(description, Lost(self.accesses.clone()), &records, |task| task.set_poison(cause))
    }
}

/// The body of a poisoned task, which leaves everything missing that a loop writes.
struct Lost(Arc<[WeakAccess]>);

#[allow(unsafe_code)] // the contract of `Body`
// SAFETY: the same argument as for `LoopBody`.
unsafe impl Body for Lost {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.0.iter().filter_map(WeakAccess::lost).for_each(visit);
    }

    fn run(&self, _: &Env<'_>) -> Result<(), Box<Stop>> {
        unreachable!("a poisoned task is skipped")
    }

    fn enqueue(&self, _: &mut Launcher<'_>, _: &[DeviceSite]) -> Result<(), BoxError> {
        unreachable!("a poisoned task is skipped")
    }

    fn discard(&self) {}

    fn kinds(&self) -> Kinds {
        Kinds::CPU
    }
}
