//! Placement of ready tasks: choosing a unit and bringing the task's data there.
//!
//! It has three parts, each with its own responsibility and invariants; this module only sequences them:
//! - [`queue`]: the policy is in charge of a ready task until a unit with room gets the task, which then waits for
//!   memory.
//! - [`residency`]: a task's working set is reserved in the unit's memory in one step.
//! - [`flow`]: missing parts are copied from the nearest replica. After the last copy has completed, the task is
//!   launched ([`bring`]).
//!
//! When a task has finished, the regions it has written are valid only where it ran, and its replicas become
//! candidates for eviction.
//!
//! A device gets several tasks ahead of time, so that copies overlap with execution ([`units`]). A successor that uses
//! the same replica as an issued task is launched on the same stream, or after an event of the issued task.
//! Commutative tasks, and reductions that the host combines, release their successors only when they have ended,
//! because the host manages turns and combines contributions. A reduction that a device combines is an update whose
//! body runs before the update: only the combination comes after the issued tasks that use the region.
//!
//! If the machine has no CPU units, hosting threads run the tasks that only cores can run, or that fit on no device,
//! in host memory. They continue to do so after their devices are lost. Such a task gets the context of a core, and
//! `Statistics::tasks_on_hosts` counts these tasks.
//!
//! Invariants:
//! 1. A task is in exactly one of these stages: queued (in the policy's charge), waiting (for memory), arriving
//!    (waiting for copies), launched.
//! 2. A task that waits for memory holds no memory, so two tasks cannot starve each other.
//! 3. While a write-back of a task's region is under way, no copy to or from that region is planned, and the task is
//!    not launched. All other copies belong to tasks, and dependences order those tasks.
//! 4. A task in its device's queue is *issued*: its writes already count as valid on the device, and tasks that use
//!    the same replicas are launched after it. Until the issued task has finished, no copy is planned from the regions
//!    it writes or into the regions it uses.
//! 5. The copies that a task waits for end before the task is launched or released, even if one of the copies fails.
//!    So when a task has finished, none of its copies is under way.
//! 6. A task that overwrites a region makes the region valid only in the task's own replica, *before* the task runs. A
//!    task that updates a region does so only after it has run: until then, the old value remains available elsewhere.

mod bring;
mod disk;
mod flow;
mod loss;
mod multi_device;
mod needs;
mod outlook;
mod queue;
mod reasons;
mod residency;
mod shortage;
mod stages;
mod suits;
mod turns;
mod units;

pub(crate) use flow::Traffic;
pub(crate) use multi_device::{Across, bytes_in_each};
pub(crate) use needs::Needs;
pub(crate) use reasons::{CopyWait, MemoryWait, Whereabouts};
pub(crate) use shortage::Hope;

use super::command::{Command, Release, ReplicaRef};
use super::failures::FailureLog;
use super::scheduler::Scheduler;
use super::{CopyTime, Span};
use crate::coherence::{CopyId, ReplicaId};
use crate::depend::{Datum, OwnedTask, tracer_of};
use crate::error::TaskFailure;
use crate::ids::{DataId, DeviceId, SpaceId, TaskId, UnitId};
use crate::machine::Machine;
use crate::region::Block;
use crate::sched::{CopySample, Decision};
use crate::trace::{Stage, Tracer, Why};
use flow::Flow;
use needs::forgotten_by;
use queue::{End, Queue};
use residency::{DroppedReplica, Residency, Shortage};
use smallvec::SmallVec;
use stages::{Assigned, Placed, UnderWay};
use std::sync::Arc;

/// State of all tasks between ready and finished.
pub(crate) struct Placement {
    queue: Queue,
    residency: Residency,
    flow: Flow,
    tracer: Option<Arc<Tracer>>,
    /// For each space, the bytes in use that the trace has last, if there is a trace.
    traced_bytes: Vec<u64>,
}

impl Placement {
    pub(crate) fn new(machine: &Machine, capacities_bytes: &[u64], policy: Scheduler) -> Self {
        debug_assert_eq!(machine.num_spaces(), capacities_bytes.len(), "every space has a capacity");
        Self {
            queue: Queue::new(machine, policy),
            residency: Residency::new(capacities_bytes),
            flow: Flow::default(),
            tracer: None,
            traced_bytes: Vec::new(),
        }
    }

    /// Records placement in `tracer`, if there is a tracer.
    pub(crate) fn traced_by(mut self, tracer: Option<Arc<Tracer>>) -> Self {
        if tracer.is_some() {
            self.queue.scheduler_mut().collect_decisions();
            self.residency.collect_drops();
            self.traced_bytes = vec![0; self.residency.spaces().count()];
        }
        self.tracer = tracer;
        self
    }

    /// Returns the name of the policy.
    pub(crate) fn policy_name(&self) -> &'static str {
        self.queue.policy_name()
    }

    /// If tracing is on, records the decisions of distributions, the replicas that were dropped, and the bytes in use
    /// in devices' memories, as far as these have changed.
    fn trace_changes(&mut self) {
        let Some(tracer) = &self.tracer else { return };
        for Decision { space, instance, state, pivot } in self.queue.scheduler_mut().take_decisions() {
            tracer.decided(space, instance, state as u8, pivot);
        }
        for DroppedReplica { data, space, bytes, why } in self.residency.take_drops() {
            tracer.dropped(data, space, bytes, why);
        }
        let (spaces, disk) = (self.residency.spaces(), self.residency.disk());
        for (space, traced) in spaces.filter(|space| Some(*space) != disk).zip(&mut self.traced_bytes).skip(1) {
            let bytes = self.residency.bytes_in_use(space);
            if std::mem::replace(traced, bytes) != bytes {
                tracer.memory(space, bytes);
            }
        }
    }

    /// If tracing is on, records that a task has reached a stage.
    fn trace(&self, task: &OwnedTask, stage: Stage) {
        if let Some(tracer) = tracer_of(&self.tracer, task.shared()) {
            tracer.stage(task.shared().id, stage);
        }
    }

    /// If tracing is on, records that a unit was chosen for a task, possibly by the policy.
    fn trace_placed(&self, task: &OwnedTask, unit: usize, by_policy: bool) {
        if let Some(tracer) = tracer_of(&self.tracer, task.shared()) {
            let (id, unit) = (task.shared().id, UnitId(unit as u16));
            let estimate = by_policy.then(|| self.queue.scheduler().estimate(id, unit)).flatten();
            tracer.placed(id, unit, estimate.map(|of| (of.policy, [of.body_ns, of.end_ns])));
        }
    }

    /// If the machine has no CPU units, lets the hosting threads of devices run CPU tasks in host memory.
    pub(crate) fn with_hosts_at_home(mut self) -> Self {
        self.queue.let_hosts_work_at_home();
        self
    }

    /// Sets the power in watts that load adds to each unit (`None` if unknown), so that policies learn the energy of
    /// tasks.
    pub(crate) fn with_power(mut self, dynamic_w: Vec<Option<f64>>) -> Self {
        self.queue.know_power(dynamic_w);
        self
    }

    /// Sets the runtime's ID, and the log for contract violations by user-defined policies.
    pub(super) fn belongs_to(&mut self, runtime: u64, failures: &Arc<FailureLog>) {
        self.queue.scheduler_mut().belongs_to(runtime, failures);
    }

    /// Returns an ID for a new replica.
    pub(super) fn new_replica(&mut self) -> ReplicaId {
        self.residency.new_replica()
    }

    /// Notes that a new data object starts out in foreign memory, as the given replica in a device's space.
    pub(super) fn adopt(&mut self, datum: &Datum, replica: ReplicaId, space: SpaceId, out: &mut Vec<Command>) {
        self.residency.adopt(datum, replica, space);
        if let Some(cause) = self.residency.cause_of_device_loss(space) {
            let orders = self.residency.lose_replicas(datum.id, space, &cause, out);
            debug_assert!(orders.is_empty(), "a new data object has nothing to write back");
        }
    }

    /// Notes that devices use a new data object directly in its home memory, each device through the given replica.
    pub(super) fn alias(&mut self, datum: &Datum, aliases: &[(ReplicaId, SpaceId)], out: &mut Vec<Command>) {
        self.residency.alias(datum, aliases);
        for (_, space) in aliases {
            if let Some(cause) = self.residency.cause_of_device_loss(*space) {
                let orders = self.residency.lose_replicas(datum.id, *space, &cause, out);
                debug_assert!(orders.is_empty(), "data that are valid at home need no write-back");
            }
        }
    }

    /// Returns the replicas of a task that was launched and has not ended yet.
    pub(super) fn places_of(&self, task: TaskId) -> Option<Arc<[ReplicaRef]>> {
        self.flow.launched(task).map(|launched| launched.reserved.replicas.clone())
    }

    /// Passes a ready task to the policy or, if the task is bound to a space, directly to that space. `follows` tells
    /// whether the end of another task made the task ready; otherwise it was ready at submission.
    pub(super) fn ready(&mut self, task: OwnedTask, follows: bool, out: &mut Vec<Command>) {
        self.residency.register(&task);
        self.residency.expect_task(&task);
        if let Some(tracer) = &self.tracer {
            task.body().accesses(&mut |access| tracer.know(access.datum.id, access.datum));
            self.trace(&task, Stage::Ready);
        }
        if let Some(space) = task.owned().as_ref().and_then(|side| side.space) {
            match self.residency.cause_of_device_loss(space) {
                None => {
                    self.residency.expect_in(&task, space);
                    self.queue.wait_for_memory(Assigned { task, unit: None, space, across: None });
                }
                Some(cause) => {
                    task.set_poison(cause);
                    out.push(Command::Skip(task));
                }
            }
        } else if let Some(task) = self.poison_if_hopeless(task, out) {
            self.queue.enter(task, follows, &self.residency);
        }
        self.dispatch(out);
    }

    /// Handles a completed copy, with its duration if known.
    pub(super) fn copied(&mut self, copy: CopyId, time: Option<CopyTime>, out: &mut Vec<Command>) {
        let Some(ended) = self.flow.end_copy(copy) else { return };
        self.residency.arrived(ended.data, &ended.transfer);
        if let Some(tracer) = &self.tracer {
            let why = if ended.write_back.is_some() { Why::Evicted } else { Why::Needed };
            let since = |time: CopyTime| {
                let [since, waited] = [time.elapsed_ns, time.waited_ns].map(|ns| tracer.ticks(ns));
                let now = tracer.now();
                [now.saturating_sub(since), now.saturating_sub(since) + waited, now]
            };
            let stream = time.and_then(|time| time.stream);
            let time = time.map_or([tracer.now(); 3], |time| time.on_device.unwrap_or_else(|| since(time)));
            tracer.copied(
                ended.data,
                ended.between,
                ended.bytes,
                (time, stream),
                (ended.waiters.first().copied(), why),
            );
        }
        if let Some(CopyTime { elapsed_ns, waited_ns, .. }) = time {
            let UnderWay { between: (from, to), bytes, .. } = ended;
            self.queue.scheduler_mut().copied(&CopySample { from, to, bytes, elapsed_ns, waited_ns });
        }
        self.let_go_of_copy(ended, out);
    }

    /// Handles a failed copy. If a device is lost, the tasks that wait for the copy search for their data again;
    /// otherwise the tasks fail. If the copy was the write-back of an evicted replica, the data are lost.
    ///
    /// A task that fails in this way is released only after its other copies have ended. Otherwise those copies could
    /// overwrite what other tasks have written to the same memory.
    pub(super) fn copy_failed(
        &mut self,
        copy: CopyId,
        fail: &dyn Fn(Option<&OwnedTask>) -> Arc<TaskFailure>,
        lost_device: Option<DeviceId>,
        out: &mut Vec<Command>,
    ) {
        let Some(ended) = self.flow.end_copy(copy) else { return };
        if self.residency.disk() == Some(ended.between.1) {
            return self.spill_failed(ended, fail, out);
        }
        let cause = match lost_device {
            Some(device) => {
                let known = self.residency.cause_of_device_loss(device.space());
                known.unwrap_or_else(|| fail(self.flow.waiting_for(&ended).next()))
            }
            None if ended.write_back.is_some() => fail(None),
            None => {
                let failures: SmallVec<[_; 2]> = (self.flow.waiting_for(&ended))
                    .map(|task| {
                        let failure = fail(Some(task));
                        if !self.residency.spoil(task, ended.data, &ended.transfer.block, &failure) {
                            task.set_poison(failure.clone());
                        }
                        failure
                    })
                    .collect();
                failures.into_iter().next().unwrap_or_else(|| fail(None))
            }
        };
        self.residency.failed(ended.data, &ended.transfer, &cause);
        if let Some(device) = lost_device {
            self.device_lost(device.space(), &cause, out);
        }
        self.let_go_of_copy(ended, out);
    }

    /// Notes that a replica's memory was freed.
    pub(super) fn released(&mut self, release: &Release, out: &mut Vec<Command>) {
        self.residency.released(release);
        self.dispatch(out);
    }

    /// Notes that a task is in its device's queue, where it takes this share of the device. If it `releases` its
    /// successors, it is issued.
    pub(super) fn enqueued(&mut self, task: &OwnedTask, share: u32, releases: bool, out: &mut Vec<Command>) {
        let Some((launched, counts_no_more)) = self.flow.enqueue(task.shared().id, share, releases) else { return };
        if releases {
            self.residency.issued(task, &launched.reserved.replicas);
        }
        match (counts_no_more, launched.counted_for()) {
            (Some(unit), _) => self.queue.take_from(unit, None),
            (None, Some(unit)) => self.queue.queued_on(unit, share),
            (None, None) => {}
        }
        self.dispatch(out);
    }

    /// Gives a unit a ready task for which `wanted` returns true, if there is such a task.
    pub(super) fn claim(&mut self, unit: usize, wanted: &dyn Fn(&OwnedTask) -> bool, out: &mut Vec<Command>) {
        if let Some(task) = self.queue.take_past_policy(unit, wanted, &self.residency) {
            self.trace_placed(&task, unit, false);
            self.assign(task, unit);
            self.dispatch(out);
        }
    }

    /// Notes that a task's body waits, so its unit has room for one more task.
    pub(super) fn suspended(&mut self, task: TaskId, out: &mut Vec<Command>) {
        if let Some(unit) = self.flow.suspend(task, true) {
            self.queue.take_from(unit, None); // the body waits before the task is in a queue
            self.dispatch(out);
        }
    }

    /// Notes that a task's body continues, regardless of the tasks its unit has been given meanwhile.
    pub(super) fn resumed(&mut self, task: TaskId) {
        if let Some(unit) = self.flow.suspend(task, false) {
            self.queue.give_back_to(unit);
        }
    }

    /// Handles the end of a task. The task has run (during `span`), has failed, or was skipped before it `began`,
    /// possibly even before it was placed.
    ///
    /// If the task's device was lost meanwhile, `device_lost` is the failure that revealed the loss.
    pub(super) fn finished(
        &mut self,
        task: &OwnedTask,
        began: bool,
        span: Option<Span>,
        device_lost: Option<&Arc<TaskFailure>>,
        out: &mut Vec<Command>,
    ) {
        let id = task.shared().id;
        self.residency.expect_no_more(id);
        let space = self.flow.launched(id).map(|launched| launched.space);
        if let (Some(cause), Some(space)) = (device_lost, space) {
            self.device_lost(space, cause, out);
        }
        // A skipped take task has not taken the data object.
        let forgotten = forgotten_by(task).filter(|_| span.is_some());
        if let Some(launched) = self.flow.end(id) {
            if forgotten.is_none() {
                self.residency.ended(task, began, &launched);
            } // otherwise the data object no longer exists
            if let Some(unit) = launched.unit {
                let ran = |span| End::Ran { span, was_queued: launched.share.is_some() };
                self.queue.left(task, unit, &span.map_or(End::Failed, ran));
            }
            let waiters = self.let_go(launched, out);
            self.one_less(waiters, out);
        } else if self.queue.looks_ahead() {
            self.queue.scheduler_mut().skipped(id);
        }
        if let Some(data) = forgotten {
            self.residency.forget(data);
        }
        self.dispatch(out);
    }

    /// Gives tasks to units with room until no further task can be given.
    fn dispatch(&mut self, out: &mut Vec<Command>) {
        self.trace_changes();
        loop {
            let mut moved = self.serve_waiting(out);
            // Every unit gets its first task before any unit gets its second, so no unit idles while another unit has
            // tasks queued ahead.
            let mut last = None;
            if self.residency.take_moved() {
                self.queue.scheduler_mut().data_moved();
            }
            while let Some(next) = self.queue.next_with_room(last) {
                last = Some(next);
                let (_, unit) = next;
                moved |= self.queue.has_room_in_memory(unit, &self.residency) && self.give_next(unit, out);
            }
            if !moved && !self.queue.judge(&self.residency, || self.flow.is_empty()) {
                return self.trace_changes();
            }
        }
    }

    /// Plans the copies of waiting tasks whose memory is free by now. Returns whether there were any such tasks.
    fn serve_waiting(&mut self, out: &mut Vec<Command>) -> bool {
        let mut moved = false;
        for space in self.residency.spaces() {
            while let Some(assigned) = self.queue.next_waiting(space) {
                if assigned.across.is_some() && assigned.spaces().iter().any(|space| self.residency.is_lost(*space)) {
                    self.give_up_place(assigned, out);
                    moved = true;
                    continue;
                }
                match self.residency.reserve(&assigned) {
                    Ok(reserved) => {
                        self.trace(&assigned.task, Stage::Reserved);
                        self.bring(Placed { assigned, reserved }, out);
                        moved = true;
                    }
                    Err(Shortage::InUse) if self.all_wait_at_home(space) => {
                        match self.residency.reserve_beyond_limit(&assigned) {
                            Some(reserved) => {
                                self.trace(&assigned.task, Stage::Reserved);
                                self.bring(Placed { assigned, reserved }, out);
                                moved = true;
                            }
                            None => {
                                self.queue.wait_first(assigned);
                                break;
                            }
                        }
                    }
                    Err(shortage) => {
                        self.queue.wait_first(assigned);
                        if let Shortage::Evict(leaving) = shortage {
                            self.evict(&leaving, out);
                        }
                        break;
                    }
                }
            }
        }
        moved
    }

    /// Gives a unit the next task that the policy has for it. Returns false if there is no such task.
    fn give_next(&mut self, unit: usize, out: &mut Vec<Command>) -> bool {
        match self.queue.next_for(unit, &self.residency) {
            Some(task) => {
                self.assign_or_redirect(task, unit, out);
                true
            }
            None => self.residency.last_loss().is_some() && self.stand_in(unit, out),
        }
    }

    /// Returns the spaces that hold valid data for the whole region.
    pub(crate) fn valid_in(&self, data: DataId, block: &Block) -> Vec<SpaceId> {
        self.residency.valid_in(data, block)
    }

    /// Returns the traffic between each pair of spaces so far.
    pub(crate) fn traffic(&self) -> Vec<((SpaceId, SpaceId), Traffic)> {
        self.flow.traffic()
    }

    /// Returns, for each unit, the total time spent running tasks.
    pub(crate) fn busy_ns(&self) -> &[u64] {
        self.queue.busy_ns()
    }

    /// Returns the policy in charge.
    pub(crate) fn scheduler(&self) -> &Scheduler {
        self.queue.scheduler()
    }

    /// Returns the number of replicas evicted to make room.
    pub(crate) fn evictions(&self) -> u64 {
        self.residency.evictions()
    }

    /// Returns the number of launched tasks plus the number of copies under way.
    pub(crate) fn in_flight(&self) -> usize {
        self.flow.under_way()
    }

    /// Describes in words where every placed task is, to diagnose a stall.
    pub(crate) fn stall(&self) -> String {
        let mut lines = Vec::new();
        self.queue.describe(&mut lines);
        self.flow.describe(&mut lines);
        self.residency.describe(&mut lines);
        lines.sort();
        lines.join("; ")
    }
}
