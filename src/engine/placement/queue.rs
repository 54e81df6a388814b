//! Queue of ready tasks: in the policy's charge until a unit with room gets them, then first come, first served for
//! the unit's memory.
//!
//! The policy chooses the unit; this module informs and queries the policy. It reserves no memory, and it looks up
//! data locations without ever changing them.
//!
//! Each task of a loop that is *spread* over devices is intended for one device. The policy sees that the task suits
//! only that device's unit, and this module chooses the memory. If the device is lost, the task is placed like any
//! other task.
//!
//! Invariants:
//! 1. The policy is in charge of exactly the tasks in `queued`. It still believes itself in charge of those in
//!    `past_policy`.
//! 2. The policy always knows how many tasks every unit has.
//! 3. A task in `waiting` fits into the space that it waits for.

use super::multi_device::Across;
use super::needs::{Needs, near, parts_of, position_of};
use super::residency::Residency;
use super::stages::Assigned;
use super::suits::Suited;
use super::turns::Turns;
use super::units::{Room, Units};
use crate::depend::{Kinds, OwnedTask};
use crate::engine::Span;
use crate::engine::scheduler::{Breach, Scheduler};
use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::Machine;
use crate::sched::{ReadyTask, Sample, View};
use crate::sync::CallSite;
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::cell::Cell;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of tasks in one space. It also limits the tasks launched after other tasks, which do not count as
/// given ahead.
const MOST_IN_SPACE: usize = 256;

/// How a task left its unit.
pub(super) enum End {
    /// The task has run, possibly in its device's queue.
    Ran { span: Span, was_queued: bool },
    /// The task did not run to its end.
    Failed,
}

/// State of the ready tasks; see the module documentation.
pub(super) struct Queue {
    policy: Scheduler,
    pub(super) units: Units,
    pub(super) queued: FxHashMap<TaskId, OwnedTask>,
    turns: Turns,
    /// Tasks that bypassed the policy and that the policy has not named yet, each with its end if it has already
    /// ended. The policy learns of an end only after it has named the task, as for any other task.
    past_policy: FxHashMap<TaskId, Option<(Sample, bool)>>,
    /// Tasks that wait for memory, per space; the last one may be the disk, for which no task waits.
    waiting: Vec<VecDeque<Assigned>>,
    /// Cached results of `suited_for`. The key consists of the task's kinds, whether it must run in host memory, and
    /// the memory of its device if that matters.
    pub(super) suited: FxHashMap<(Kinds, bool, Option<SpaceId>), Suited>,
    /// Whether any device memory was lost.
    has_gone: bool,
    /// Whether hosting threads of devices stand in for missing CPU units.
    pub(super) hosts_at_home: bool,
    /// The power in watts that load adds to each unit; `None` if unknown.
    dynamic_w: Vec<Option<f64>>,
}

impl Queue {
    pub(super) fn new(machine: &Machine, policy: Scheduler) -> Self {
        Self {
            policy,
            units: Units::new(machine),
            queued: FxHashMap::default(),
            turns: Turns::default(),
            past_policy: FxHashMap::default(),
            waiting: (0..=machine.num_spaces()).map(|_| VecDeque::new()).collect(),
            suited: FxHashMap::default(),
            has_gone: false,
            hosts_at_home: false,
            dynamic_w: vec![None; machine.num_units()],
        }
    }

    /// Sets the power that load adds to each unit, so that policies learn the energy of tasks.
    pub(super) fn know_power(&mut self, dynamic_w: Vec<Option<f64>>) {
        self.dynamic_w = dynamic_w;
    }

    /// If the machine has no CPU units, lets the hosting threads of devices run CPU tasks.
    pub(super) fn let_hosts_work_at_home(&mut self) {
        self.hosts_at_home = self.units.iter().all(|unit| unit.kind.is_device());
    }

    /// Passes a ready task to the policy.
    pub(super) fn enter(&mut self, task: OwnedTask, follows: bool, residency: &Residency) {
        let ready = self.describe_to_policy(&task, residency);
        let ready = ReadyTask { follows: self.turns.enter(ready.id, follows), ..ready };
        let id = ready.id;
        self.queued.insert(id, task);
        let Self { policy, units, queued, .. } = self;
        // Many units share the host's memory, so the properties of this task are computed only once per space.
        let known: SmallVec<[Cell<Option<u64>>; 4]> = residency.spaces().map(|_| Cell::new(None)).collect();
        let missing = |task, space: SpaceId| {
            let compute = || missing_bytes(queued, residency, task, space);
            let Some(cell) = known.get(space.index()).filter(|_| task == id) else { return compute() };
            let bytes = cell.get().unwrap_or_else(compute);
            cell.set(Some(bytes));
            bytes
        };
        policy.ready(ready, &View { units, missing_bytes: &missing });
    }

    fn describe_to_policy(&mut self, task: &OwnedTask, residency: &Residency) -> ReadyTask {
        let needs = Needs::of_task(task);
        ReadyTask {
            id: task.shared().id,
            name: task.shared().name.clone(),
            bytes: needs.bytes,
            priority: task.shared().priority,
            cost: task.owned().as_ref().and_then(|side| side.cost),
            position: position_of(task),
            near: near(task),
            follows: false,
            units: self.suited_for(task, &needs, residency).units,
        }
    }

    /// Returns the first unit after `last` that has room and for which there may be a task.
    pub(super) fn next_with_room(&self, last: Option<Room>) -> Option<Room> {
        if self.queued.is_empty() {
            return None;
        }
        // If nothing is running, the policy is queried for all units, because it may be holding tasks back. The same
        // applies if a unit is lost, because other units run its tasks.
        let wanted = if self.units.are_idle() || self.has_gone { None } else { self.policy.wanted() };
        self.units.next_with_room(last, wanted.as_ref())
    }

    /// Returns whether any of a unit's memories can accept another task. A hosting thread whose devices are lost works
    /// in host memory.
    pub(super) fn has_room_in_memory(&self, unit: usize, residency: &Residency) -> bool {
        let room = |space: &SpaceId| space.is_host() || residency.tenants(*space) < MOST_IN_SPACE;
        self.units[unit].spaces.iter().any(room) || self.hosts_at_home && self.is_gone(unit)
    }

    /// Returns the next task that the policy has for a unit.
    pub(super) fn next_for(&mut self, unit: usize, residency: &Residency) -> Option<OwnedTask> {
        let id = self.units[unit].id;
        loop {
            let Self { policy, units, queued, .. } = self;
            let missing = |task, space| missing_bytes(queued, residency, task, space);
            let next = policy.next(id, &View { units, missing_bytes: &missing })?;
            match self.past_policy.remove(&next) {
                None => return self.take_named(next, unit, residency),
                Some(end) => end.into_iter().for_each(|(sample, failed)| self.tell_end(&sample, failed)),
            }
        }
    }

    /// Takes the first ready task that is `wanted` and that a unit can run, regardless of the policy's plans.
    pub(super) fn take_past_policy(
        &mut self,
        unit: usize,
        wanted: &dyn Fn(&OwnedTask) -> bool,
        residency: &Residency,
    ) -> Option<OwnedTask> {
        let mut found: Vec<TaskId> = self.queued.iter().filter(|(_, task)| wanted(task)).map(|(id, _)| *id).collect();
        found.sort_unstable();
        for id in found {
            let task = self.queued.remove(&id)?;
            if self.suits(&task, unit, residency) {
                self.turns.leave(id);
                self.past_policy.insert(id, None);
                return Some(task);
            }
            self.queued.insert(id, task);
        }
        None
    }

    /// Removes a task from the policy's charge after the policy has named it for a unit, provided that unit may have
    /// the task.
    fn take_named(&mut self, id: TaskId, unit: usize, residency: &Residency) -> Option<OwnedTask> {
        let unit_id = self.units[unit].id;
        let Some(task) = self.queued.remove(&id) else {
            let problem = format!("it gave {unit_id} {id}, which is not in its charge");
            self.policy.breaks(Breach { task: None, problem, remedy: "giving each ready task once" });
            return None;
        };
        // A task intended for a lost device is redirected later, so it need not suit the unit.
        if !self.policy.is_own() || residency.last_loss().is_some() || self.suits(&task, unit, residency) {
            self.turns.leave(id);
            return Some(task);
        }
        let problem = format!("it gave {unit_id} {}, which cannot run there", described(&task));
        let remedy = "tasks for which `ReadyTask::runs_on` is true";
        self.policy.breaks(Breach { task: Some(concerned(&task)), problem, remedy });
        self.queued.insert(id, task);
        None
    }

    /// Dismisses the policy if it has broken its contract. Returns whether the policy was replaced; if so, the new
    /// policy has to be queried.
    ///
    /// Must be called when no task can be given. If nothing is under way either, no event will cause the policy to be
    /// queried again, so tasks that the policy still holds back would wait forever.
    pub(super) fn judge(&mut self, residency: &Residency, nothing_under_way: impl Fn() -> bool) -> bool {
        let is_withheld = || !self.queued.is_empty() && self.waiting.iter().all(VecDeque::is_empty);
        if is_withheld()
            && nothing_under_way()
            && let Some(task) = self.queued.values().min_by_key(|task| task.shared().id)
        {
            let problem = format!("it holds back {}, though no unit has anything to do", described(task));
            let remedy = "giving some unit a task whenever `View::is_idle`";
            self.policy.breaks(Breach { task: Some(concerned(task)), problem, remedy });
        }
        if !self.policy.dismiss(self.units.len()) {
            return false;
        }
        // The replacement policy `stealing` takes charge of all tasks that wait for a unit.
        self.past_policy.clear();
        (0..self.units.len()).for_each(|unit| self.tell(unit));
        let mut tasks: Vec<_> = self.queued.drain().collect();
        self.turns = Turns::default();
        tasks.sort_unstable_by_key(|(id, _)| *id);
        tasks.into_iter().for_each(|(_, task)| self.enter(task, false, residency));
        true
    }

    /// Returns whether the policy wants to be notified of tasks at submission.
    pub(super) fn looks_ahead(&self) -> bool {
        self.policy.looks_ahead()
    }

    /// Returns the name of the policy in charge.
    pub(super) fn policy_name(&self) -> &'static str {
        self.policy.name()
    }

    /// Returns the policy in charge.
    pub(super) fn scheduler(&self) -> &Scheduler {
        &self.policy
    }

    /// Returns the policy in charge, to notify it.
    pub(super) fn scheduler_mut(&mut self) -> &mut Scheduler {
        &mut self.policy
    }

    /// Returns a task that the policy intends for a lost unit.
    pub(super) fn next_for_the_gone(&mut self, residency: &Residency) -> Option<OwnedTask> {
        let gone: Vec<usize> = (0..self.units.len()).filter(|unit| self.is_gone(*unit)).collect();
        gone.into_iter().find_map(|unit| self.next_for(unit, residency))
    }

    /// Returns whether a unit has no usable memory left.
    fn is_gone(&self, unit: usize) -> bool {
        self.units[unit].spaces.is_empty()
    }

    /// Assigns a task to a unit. The caller lets the task wait for memory next.
    pub(super) fn assign(&mut self, task: OwnedTask, unit: usize, residency: &Residency) -> Assigned {
        let at_home = self.hosts_at_home && self.suited(&task, residency).at_home;
        let across = parts_of(&task).filter(|_| !at_home).and_then(|ends| Across::new(ends, &self.units[unit].spaces));
        let space = match &across {
            Some(across) => across.devices[0].space(),
            None if at_home => SpaceId::HOST,
            None if parts_of(&task).is_some() => self.units[unit].spaces[0],
            None => self.choose_space(&task, unit, residency),
        };
        self.units.give(unit);
        self.tell(unit);
        let (unit, across) = (Some(self.units[unit].id), across.map(Arc::new));
        Assigned { task, unit, space, across }
    }

    /// Appends a task to the tasks that wait for memory in the same space.
    pub(super) fn wait_for_memory(&mut self, assigned: Assigned) {
        self.waiting[assigned.space.index()].push_back(assigned);
    }

    /// Takes the first task that waits for memory in a space.
    pub(super) fn next_waiting(&mut self, space: SpaceId) -> Option<Assigned> {
        self.waiting[space.index()].pop_front()
    }

    /// Puts a task back at the front of its queue, because there was not enough memory for it.
    pub(super) fn wait_first(&mut self, assigned: Assigned) {
        self.waiting[assigned.space.index()].push_front(assigned);
    }

    /// Notes that a task of a unit is in its device's queue, and takes this share of the device.
    pub(super) fn queued_on(&mut self, unit: UnitId, share: u32) {
        self.units.queued(unit.index(), share);
    }

    /// Notes that a unit has one task fewer. If the task was counted in its device's queue, `queued` is its share.
    pub(super) fn take_from(&mut self, unit: UnitId, queued: Option<u32>) {
        self.units.take(unit.index(), queued);
        self.tell(unit.index());
    }

    /// Notes that a unit has got back a task that it had before.
    pub(super) fn give_back_to(&mut self, unit: UnitId) {
        self.units.give(unit.index());
        self.tell(unit.index());
    }

    fn tell(&mut self, unit: usize) {
        self.policy.in_flight(self.units[unit].id, self.units[unit].in_flight);
    }

    /// Notes that a task has left its unit, and lets the policy learn from the result.
    pub(super) fn left(&mut self, task: &OwnedTask, unit: UnitId, end: &End) {
        let sample = |Span { elapsed_ns, ended_ns }| Sample {
            task: task.shared().id,
            name: task.shared().name.clone(),
            bytes: Needs::of_task(task).bytes,
            unit,
            elapsed_ns,
            ended_ns,
            energy_j: self.dynamic_w[unit.index()].map(|watts| watts * elapsed_ns as f64 / 1e9),
            position: position_of(task),
        };
        let (sample, failed) = match *end {
            End::Ran { span, was_queued } => {
                self.units.ran(unit.index(), span.elapsed_ns, was_queued);
                (sample(span), false)
            }
            End::Failed => (sample(Span::default()), true),
        };
        match self.past_policy.get_mut(&sample.task) {
            Some(end) => *end = Some((sample, failed)),
            None => self.tell_end(&sample, failed),
        }
    }

    fn tell_end(&mut self, sample: &Sample, failed: bool) {
        if failed { self.policy.failed(sample) } else { self.policy.finished(sample) }
    }

    /// Notes that a memory is lost. Returns the tasks that waited for it.
    pub(super) fn lose(&mut self, space: SpaceId) -> VecDeque<Assigned> {
        self.units.lose(space);
        self.has_gone = true;
        self.suited.clear();
        std::mem::take(&mut self.waiting[space.index()])
    }

    /// Returns, for each unit, the total time spent running tasks.
    pub(super) fn busy_ns(&self) -> &[u64] {
        self.units.busy_ns()
    }

    /// Returns the tasks in the policy's charge.
    pub(super) fn queued(&self) -> impl Iterator<Item = &OwnedTask> {
        self.queued.values()
    }

    /// Returns the tasks that wait for memory.
    pub(super) fn waiting(&self) -> impl Iterator<Item = &Assigned> {
        self.waiting.iter().flatten()
    }

    /// Returns a task that waits for memory, and the number of tasks ahead of it.
    pub(super) fn waiting_as(&self, task: TaskId) -> Option<(usize, &Assigned)> {
        let of_space = |waiting: &'_ VecDeque<Assigned>| waiting.iter().position(|a| a.task.shared().id == task);
        self.waiting.iter().find_map(|waiting| of_space(waiting).map(|before| (before, &waiting[before])))
    }

    /// Appends a textual description of the waiting tasks.
    pub(super) fn describe(&self, lines: &mut Vec<String>) {
        let waiting = |a: &Assigned| format!("{} waits for memory of {}", a.task.shared().id, a.space);
        lines.extend(self.waiting.iter().flatten().map(waiting));
        lines.extend(self.queued.keys().map(|task| format!("{task} waits for a unit")));
    }
}

fn missing_bytes(queued: &FxHashMap<TaskId, OwnedTask>, residency: &Residency, task: TaskId, space: SpaceId) -> u64 {
    queued.get(&task).map_or(0, |task| residency.bytes_missing(task, space))
}

fn described(task: &OwnedTask) -> String {
    let meta = task.shared();
    format!("{} `{}` (submitted at {})", meta.id, meta.name, meta.location)
}

fn concerned(task: &OwnedTask) -> (TaskId, String, CallSite) {
    let meta = task.shared();
    (meta.id, meta.name.clone().into_owned(), meta.location)
}
