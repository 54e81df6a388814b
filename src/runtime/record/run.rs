//! Runs of recorded tasks, which are submitted as a single task, and whose launches become a graph of their device.
//!
//! The bodies are called in each replay, because a replay means the same as submitting its tasks once more. Their
//! launches are recorded and compared with the device's graph of the previous replay (`device/gpu/graph.rs`).
//! Placement, copies, eviction and loss work as for any task.
//!
//! Although a run represents several tasks, each task fails individually (`depend/node/parts.rs`). A run as a whole
//! does not inherit poison. Instead, it knows the writers of each part of its inputs ([`Sources`],
//! `depend/sources.rs`), calls the bodies whose inputs are good, one after the other in submission order, and drops the
//! other bodies. If a body fails, only its own task fails: none of its launches is issued, and the parts that it should
//! have written are bad from then on. The parts that are bad at the end are lost in the directory, together with their
//! cause, like parts that a device has lost: a task that reads them is poisoned, until they are overwritten or
//! accepted.
//!
//! A run touches only its own tasks of the recording, and changes no launch.

use super::super::hints::Index;
use super::condition::Repeat;
use super::explanation::Obstacle;
use super::losses::Bad;
use super::step::Step;
use crate::depend::{AccessRecord, Body, Env, Kinds, Mode, Parts, Residence, Side, Sources, Stop, Submitting};
use crate::device::Contribution;
use crate::driver::admission::Description;
use crate::error::{BoxError, DeviceError, FailureReason, SubmitError, TaskFailure};
use crate::ids::{DataId, DeviceId, Iteration, TaskId};
use crate::kernel::{DeviceSite, Graphs, Launcher, Until};
use crate::region::{Block, MAX_DIMS};
use crate::runtime::door::Door;
use crate::runtime::entrance::Kin;
use crate::sched::Near;
use crate::sync::CallSite;
use crate::sync::Pooled;
use crate::task::Kept;
use parking_lot::Mutex;
use std::borrow::Cow;
use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

/// Devices allocate memory in pieces of at least this size, which matters if a run has many small regions.
const GRANULE_BYTES: u64 = 512;

/// Recorded tasks that are submitted as a single task.
pub(super) struct Run {
    name: String,
    members: Vec<Member>,
    accesses: Vec<PlannedAccess>,
    orders: Vec<Order>,
    hints: RunHints,
    graphs: Mutex<Graphs>,
    /// Whether a device lacked memory for the whole run, despite its stated capacity.
    is_too_large: AtomicBool,
}

/// The properties of a run that schedulers see.
pub(super) struct RunHints {
    pub(super) kinds: Kinds,
    pub(super) priority: i32,
    /// The sum of the costs of the run's tasks; `None` unless each task has a cost.
    pub(super) cost: Option<f64>,
    /// The index of the run's tasks; `None` unless all tasks have the same index.
    pub(super) index: Option<Index>,
    /// The device that the tasks are assigned to, if any.
    pub(super) device: Option<DeviceId>,
}

/// A task of a run.
pub(super) struct Member {
    /// The index of the task's step in the recording.
    pub(super) step: usize,
    pub(super) name: String,
    pub(super) location: CallSite,
    pub(super) iteration: Iteration,
    pub(super) regions: Vec<MemberRegion>,
}

pub(super) struct MemberRegion {
    pub(super) data: DataId,
    /// The index of an access of the run whose hull contains this region.
    pub(super) access: usize,
    pub(super) block: Block,
    pub(super) mode: Mode,
    /// Whether the member adds to a contribution, which the device combines with the region.
    pub(super) is_reduced: bool,
}

/// The parts of the run's graph that the parts of a member run after.
pub(super) struct Order {
    pub(super) body: Box<[u32]>,
    /// For a member with reductions, the predecessors of their combination.
    pub(super) combination: Option<Box<[u32]>>,
}

/// An access of a run.
pub(super) struct PlannedAccess {
    pub(super) kept: Kept,
    pub(super) block: Block,
    pub(super) mode: Mode,
    /// The box around the access that is in one piece of memory.
    pub(super) hull: Block,
}

/// The memory that a run needs.
pub(super) struct Bytes {
    pub(super) total: u64,
    /// The size of the largest piece.
    pub(super) largest: u64,
}

impl PlannedAccess {
    fn record(&self) -> AccessRecord<'_> {
        AccessRecord { datum: &self.kept.cell.datum, block: &self.block, mode: self.mode }
    }
}

impl Run {
    pub(super) fn new(members: Vec<Member>, accesses: Vec<PlannedAccess>, orders: Vec<Order>, hints: RunHints) -> Self {
        let name = format!("{} and {} more", members[0].name, members.len() - 1);
        let (graphs, is_too_large) = (Mutex::default(), AtomicBool::new(false));
        Self { name, members, accesses, orders, hints, graphs, is_too_large }
    }

    /// Returns the reason why the run was not submitted as a single task.
    pub(super) fn obstacle(&self) -> Obstacle {
        let task = self.members[0].name.clone();
        match self.is_too_large.load(Ordering::Relaxed) {
            true => Obstacle::Memory { task },
            false => Obstacle::Predecessors { task },
        }
    }

    /// Returns the number of tasks in the run.
    pub(super) fn len(&self) -> usize {
        self.members.len()
    }

    /// Returns the amount of memory that the run needs.
    pub(super) fn bytes(&self) -> Bytes {
        let mut bytes = Bytes { total: 0, largest: 0 };
        let mut seen = Vec::new();
        for PlannedAccess { kept, hull, .. } in &self.accesses {
            let datum = &kept.cell.datum;
            if datum.residence == Residence::Anywhere && !seen.contains(&(datum.id, *hull)) {
                seen.push((datum.id, *hull));
                let more = ((hull.volume() * datum.element_bytes) as u64).next_multiple_of(GRANULE_BYTES);
                (bytes.total, bytes.largest) = (bytes.total + more, bytes.largest.max(more));
            }
        }
        bytes
    }

    /// Submits the run, and returns whether it was submitted as a single task.
    pub(super) fn submit(self: &Arc<Self>, steps: &[Box<dyn Step>], door: &Door) -> Result<bool, SubmitError> {
        let is_whole = self.submit_whole(steps, door, None)?;
        if !is_whole {
            let mut members = self.members.iter().map(|member| &steps[member.step]);
            members.try_for_each(|step| step.resubmit(door, Kin::None, &mut |_| ()))?;
        }
        Ok(is_whole)
    }

    /// Submits the run as a single task or, with `repeat`, as a loop that its device repeats by itself. Returns false
    /// if that is not possible, in which case nothing is submitted.
    pub(super) fn submit_whole(
        self: &Arc<Self>,
        steps: &[Box<dyn Step>],
        door: &Door,
        repeat: Option<&Repeat>,
    ) -> Result<bool, SubmitError> {
        if self.is_too_large.load(Ordering::Relaxed) {
            return Ok(false);
        }
        let steps = || self.members.iter().map(|member| &*steps[member.step]);
        let repeated = repeat.map(|repeat| (repeat.clone(), steps().map(|step| step.for_loop()).collect()));
        let sources = Arc::<Sources>::default();
        let bodies = Cell::new(Some(steps().map(|step| step.body()).collect()));
        let (bad, failures, number) = (Mutex::default(), Mutex::default(), Arc::<OnceLock<TaskId>>::default());
        let body = RunBody {
            run: self.clone(),
            bodies,
            repeated,
            failure: Cell::default(),
            sources: sources.clone(),
            bad,
            failures,
            number: number.clone(),
        };
        let RunHints { priority, cost, index, device, .. } = &self.hints;
        let at = |of_beside: bool| index.as_ref().filter(|(.., near)| *near == of_beside);
        let side = Side {
            cost: *cost,
            position: at(false).map(|(space, index, _)| space.place(*index)),
            near: at(true).map(|(space, index, _)| Near { space: space.id(), index: *index }),
            device: *device,
            sources: Some(sources.clone()),
            ..Side::default()
        };
        let description = Description {
            name: Cow::Owned(self.name.clone()),
            location: self.members[0].location,
            priority: *priority,
            internal: false,
            side: Some(Pooled::new(side)),
            child: None,
        };
        let record = |access: &'_ PlannedAccess| Sources::without_value(access.mode);
        let records: Vec<_> = self.accesses.iter().map(|a| AccessRecord { mode: record(a), ..a.record() }).collect();
        let numbered = |task: &mut Submitting| _ = number.set(task.shared().id);
        match door.driver.submit(description, body, &records, numbered) {
            Err(_) if sources.are_unknown() => Ok(false),
            submitted => submitted.map(|()| true),
        }
    }
}

/// The body of a run, for one replay.
struct RunBody {
    run: Arc<Run>,
    bodies: Cell<Option<Vec<Box<dyn Body>>>>,
    /// For a loop, its end, and the members' steps, from which the host makes the bodies of further iterations.
    repeated: Option<(Repeat, Vec<Box<dyn Step>>)>,
    /// The failure of a member, or the reason why one was skipped.
    failure: Cell<Option<Arc<TaskFailure>>>,
    sources: Arc<Sources>,
    bad: Mutex<Vec<Bad>>,
    failures: Mutex<Vec<Arc<TaskFailure>>>,
    number: Arc<OnceLock<TaskId>>,
}

impl RunBody {
    /// Calls the bodies whose inputs are good, one after the other. Stops when a device is lost.
    fn call_all(
        &self,
        mut call: impl FnMut(usize, Option<Box<dyn Body>>) -> Result<(), FailureReason>,
    ) -> Result<(), BoxError> {
        let mut bad = std::mem::take(&mut *self.bad.lock());
        bad.extend(self.sources.poisoned().into_iter().map(|(data, block, cause)| Bad {
            data,
            block,
            cause,
            group: None,
        }));
        let bodies = self.bodies.take().expect("a body runs once");
        for (number, (body, member)) in bodies.into_iter().zip(&self.run.members).enumerate() {
            if !bad.is_empty() {
                member.close_groups(&mut bad);
            }
            let cause = match member.cause_of_loss(&bad) {
                Some(cause) => {
                    cause.count_skipped();
                    _ = call(number, None);
                    Some(cause)
                }
                None => match call(number, Some(body)) {
                    Ok(()) => None,
                    Err(FailureReason::Device(error)) if error.is_loss() => return Err(error.into()),
                    Err(reason) => Some(self.note(member, reason)),
                },
            };
            // As long as nothing is bad, there is nothing to search for.
            match cause {
                Some(cause) => {
                    member.spoil(&mut bad, &cause);
                    self.failure.set(Some(cause));
                }
                None if !bad.is_empty() => member.mend(&mut bad),
                None => {}
            }
        }
        *self.bad.lock() = bad;
        Ok(())
    }

    /// If a task of a loop has failed or was skipped, the loop ends, and everything that it writes is missing. Returns
    /// whether this is so.
    fn is_spoiled(&self) -> bool {
        let Some(cause) = self.failure.take() else { return false };
        let mut bad = self.bad.lock();
        self.run.members.iter().for_each(|member| member.spoil(&mut bad, &cause));
        true
    }

    /// Returns the end of a loop, for its device.
    fn until(&self, repeat: &Repeat, sites: &[DeviceSite]) -> Until {
        let number = repeat.until.as_ref().map(|until| {
            let (data, element, bound) = until.number();
            let access = self.run.accesses.iter().position(|access| access.kept.cell.datum.id == data);
            (sites[access.expect("a member writes the number")], element, bound)
        });
        Until { at_most: repeat.at_most as u64, number }
    }

    /// Records that a task of the run has failed.
    fn note(&self, Member { name, location, iteration, .. }: &Member, reason: FailureReason) -> Arc<TaskFailure> {
        let number = *self.number.get().expect("a run has its number before its body runs");
        let failure = Arc::new(TaskFailure::new(number, name, *location, reason).in_iteration(*iteration));
        self.failures.lock().push(failure.clone());
        failure
    }
}

impl Member {
    /// Returns the reductions whose contributions the device combines, as indices of regions.
    pub(super) fn reductions(&self) -> impl Iterator<Item = usize> {
        (0..self.regions.len()).filter(|region| self.regions[*region].is_reduced)
    }

    /// Returns the member's regions on a device, computed from the regions of the run.
    fn sites(&self, run: &Run, of_run: &[DeviceSite]) -> Vec<DeviceSite> {
        let site = |region: &MemberRegion| {
            let (around, site) = (&run.accesses[region.access], of_run[region.access]);
            let element_bytes = around.kept.cell.datum.element_bytes as isize;
            let steps = |d: usize| region.block.lo()[d] as isize - around.block.lo()[d] as isize;
            let offset: isize = (0..MAX_DIMS).map(|d| steps(d) * site.strides[d] as isize).sum();
            let offset_bytes = site.offset_bytes.wrapping_add_signed(offset * element_bytes);
            DeviceSite { offset_bytes, extents: region.block.extents(), ..site }
        };
        self.regions.iter().map(site).collect()
    }
}

/// Calls the body of a member, and returns its contributions to reductions.
fn call_member(
    body: &dyn Body,
    launcher: &mut Launcher<'_>,
    member: &Member,
    mut sites: Vec<DeviceSite>,
) -> Result<Vec<Contribution>, FailureReason> {
    let mut contributions = Vec::new();
    for access in member.reductions() {
        let combination = body.combination(access).expect("a device combines by its own operations");
        let begun = Contribution::begin(launcher.device(), combination, &mut sites[access]);
        contributions.push(begun.map_err(FailureReason::Device)?);
    }
    body.enqueue(launcher, &sites).map_err(reason)?;
    Ok(contributions)
}

/// Calls a body and, if it fails, returns the reason. A panic counts as a failure.
fn guarded<R>(call: impl FnOnce() -> Result<R, FailureReason>) -> Result<R, FailureReason> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|payload| Err(FailureReason::from_panic(payload)))
}

fn reason(error: BoxError) -> FailureReason {
    match error.downcast::<DeviceError>() {
        Ok(error) => FailureReason::Device(*error),
        Err(error) => FailureReason::from_returned(error),
    }
}

#[allow(unsafe_code)] // the contract of `Body`
// SAFETY: `accesses` reads the accesses of the run, which is planned before it is shared and never changes. There is
// neither a group nor a place at which the body stands.
unsafe impl Body for RunBody {
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>)) {
        self.run.accesses.iter().for_each(|access| visit(access.record()));
    }

    /// Runs the bodies in host memory, which happens on a machine without CPU units or if the run's device is gone.
    fn run(&self, env: &Env<'_>) -> Result<(), Box<Stop>> {
        let call = |_, body: Option<Box<dyn Body>>| match body {
            None => Ok(()),
            Some(body) => guarded(|| match body.run(env).map_err(|stop| *stop) {
                Ok(()) => Ok(()),
                Err(Stop::Failed(error)) => Err(FailureReason::from_returned(error)),
                Err(Stop::Detached(_)) => unreachable!("recorded bodies end when they return"),
            }),
        };
        let Some((repeat, steps)) = &self.repeated else {
            return self.call_all(call).map_err(|error| Box::new(Stop::Failed(error)));
        };
        for _ in 0..repeat.at_most {
            self.bodies.set(Some(self.bodies.take().unwrap_or_else(|| steps.iter().map(|step| step.body()).collect())));
            self.call_all(call).map_err(|error| Box::new(Stop::Failed(error)))?;
            if self.is_spoiled() {
                break;
            }
            if let Some(until) = &repeat.until {
                let continues = Arc::<AtomicBool>::default();
                until.body(&continues).run(env)?;
                if !continues.load(Ordering::Acquire) {
                    break;
                }
            }
        }
        Ok(())
    }

    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError> {
        launcher.device().begin_graph();
        let run = &self.run;
        self.call_all(|number, body| {
            let Order { body: after, combination } = &run.orders[number];
            launcher.device().begin_part(after);
            let called = match body {
                Some(body) => guarded(|| {
                    let member = &run.members[number];
                    call_member(&*body, launcher, member, member.sites(run, sites))
                }),
                None => Err(FailureReason::Cancelled),
            };
            // The part exists in any case, because later members refer to parts by their numbers.
            combination.iter().for_each(|after| launcher.device().continue_part(after));
            let called = called.and_then(|contributions| {
                let combine = |one: Contribution| one.combine(launcher.device());
                contributions.into_iter().try_for_each(combine).map_err(FailureReason::Device)
            });
            if called.is_err() {
                launcher.device().drop_part();
            }
            called
        })?;
        if let Some((repeat, _)) = &self.repeated
            && !self.is_spoiled()
        {
            return Ok(launcher.device().launch_loop(&self.until(repeat, sites))?);
        }
        Ok(launcher.device().launch_graph(&mut run.graphs.lock())?)
    }

    fn discard(&self) {
        drop(self.bodies.take());
    }

    fn parts(&self) -> Option<&dyn Parts> {
        Some(self)
    }

    fn failed(&self, failure: &Arc<TaskFailure>) {
        if matches!(failure.reason(), FailureReason::Device(DeviceError::OutOfMemory { .. })) {
            self.run.is_too_large.store(true, Ordering::Relaxed);
        }
    }

    fn kinds(&self) -> Kinds {
        self.run.hints.kinds
    }
}

impl Parts for RunBody {
    fn hull(&self, access: usize) -> Block {
        self.run.accesses[access].hull
    }

    fn is_lost(&self, data: DataId, block: &Block, cause: &Arc<TaskFailure>) {
        self.bad.lock().push(Bad { data, block: *block, cause: cause.clone(), group: None });
    }

    fn missing(&self, visit: &mut dyn FnMut(DataId, &Block, &Arc<TaskFailure>)) {
        let bad = self.bad.lock();
        // A bad part that the run was not meant to write stays as it was.
        for access in self.run.accesses.iter().filter(|access| access.mode.writes()) {
            for Bad { data, block, cause, .. } in bad.iter().filter(|bad| bad.data == access.kept.cell.datum.id) {
                if let Some(missing) = block.intersection(&access.block) {
                    visit(*data, &missing, cause);
                }
            }
        }
    }

    fn failures(&self) -> Vec<Arc<TaskFailure>> {
        std::mem::take(&mut *self.failures.lock())
    }
}
