//! Simulation of a program under a policy, with measured times, to predict how long the program would take.
//!
//! Units take tasks as in the engine: the unit with the fewest tasks first, and some tasks ahead. A task always takes
//! its time under the highest load seen on its unit kind ([`Load`]), even if fewer units are busy. Copies to a memory
//! are made one after the other, as are copies from that memory to the host. Memory never runs short. The model is
//! coarse, but the same for all candidates.

use super::load::Load;
use super::record::{Job, Program};
use crate::ids::{SpaceId, TaskId, UnitId};
use crate::sched::copies::Copies;
use crate::sched::kernels::Kernels;
use crate::sched::{Policy, ReadyTask, Sample, UnitView, View};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Returns how many tasks a unit may hold at once.
fn depth(unit: &UnitView, beside_devices: bool) -> usize {
    match unit.kind.is_device() {
        true => 3 * unit.spaces.len().max(1),
        false => 1 + usize::from(beside_devices),
    }
}

/// Returns the time of one instance in the steady part of the repetitions, or of the whole graph; `None` if the
/// policy stops giving out tasks.
pub(super) fn run(
    program: &Program,
    policy: &mut dyn Policy,
    units: &[UnitView],
    (kernels, load): (&Kernels, &Load),
    copies: &Copies,
) -> Option<f64> {
    let mut run = Run::new(program, units, (kernels, load), copies);
    run.tell_all(policy);
    let per_instance = program.jobs.len() / program.repetitions;
    // Instances need not end in order, because policies may run ahead with some indices.
    let (half, all) = (program.repetitions / 2, program.jobs.len());
    let (mut half_ns, mut ended) = (0.0, 0);
    run.dispatch(policy);
    while run.end_next(policy) {
        ended += 1;
        if ended == half * per_instance {
            half_ns = run.now;
        }
        run.dispatch(policy);
    }
    (ended == all).then(|| (run.now - half_ns) / (program.repetitions - half) as f64)
}

/// The memories in which a region is valid.
#[derive(Debug, Clone, Copy)]
struct Valid {
    /// Number of the task end that last changed this set.
    since: usize,
    spaces: [u64; 2],
}

impl Valid {
    fn only(since: usize, space: SpaceId) -> Self {
        let mut valid = Self { since, spaces: [0; 2] };
        valid.add(space);
        valid
    }

    fn add(&mut self, space: SpaceId) {
        let at = space.index() % 128;
        self.spaces[at / 64] |= 1 << (at % 64);
    }

    fn has(&self, space: SpaceId) -> bool {
        let at = space.index() % 128;
        self.spaces[at / 64] >> (at % 64) & 1 == 1
    }
}

struct Run<'a> {
    jobs: &'a [Job],
    units: Vec<UnitView>,
    depth: Vec<usize>,
    kernels: &'a Kernels,
    load: &'a Load,
    copies: &'a Copies,
    now: f64,
    free_at: Vec<f64>,
    /// For each memory, when the last copy to it and the last copy from it end.
    links_free_at: Vec<[f64; 2]>,
    /// Number of unfinished predecessors of each job, and (`next`) its successors.
    waits: Vec<u32>,
    next: Vec<Vec<u32>>,
    queued: usize,
    running: BinaryHeap<Reverse<(u64, u32, usize)>>,
    took: Vec<f64>,
    places: Places,
}

/// The memories in which data are valid, tracked by region and by data object.
struct Places {
    regions: Vec<Valid>,
    data: Vec<Valid>,
    ends: usize,
}

impl Places {
    fn missing(&self, job: &Job, space: SpaceId) -> u64 {
        let lacks = |used: &&super::record::Use| {
            let (region, whole) = (&self.regions[used.region as usize], &self.data[used.data as usize]);
            let latest = if whole.since > region.since { whole } else { region };
            // Copies made since then are recorded with the region.
            used.reads && !latest.has(space) && !(region.since >= whole.since && region.has(space))
        };
        job.uses.iter().filter(lacks).map(|used| used.bytes).sum()
    }

    /// Returns a memory that holds data which the host lacks.
    fn source(&self, job: &Job) -> Option<usize> {
        let latest = job.uses.iter().filter(|used| used.reads).map(|used| {
            let (region, whole) = (&self.regions[used.region as usize], &self.data[used.data as usize]);
            if whole.since > region.since { whole } else { region }
        });
        let mut away = latest.filter(|valid| !valid.has(SpaceId::HOST));
        away.find_map(|valid| (1..128).find(|space| valid.spaces[space / 64] >> (space % 64) & 1 == 1))
    }

    fn bring(&mut self, job: &Job, space: SpaceId) {
        for used in job.uses.iter().filter(|used| used.reads) {
            let whole = self.data[used.data as usize];
            let region = &mut self.regions[used.region as usize];
            if whole.since > region.since {
                *region = whole;
            }
            region.add(space);
        }
    }

    fn written(&mut self, job: &Job, space: SpaceId) {
        self.ends += 1;
        for used in job.uses.iter().filter(|used| used.writes) {
            let valid = Valid::only(self.ends, space);
            self.regions[used.region as usize] = valid;
            if used.is_whole {
                self.data[used.data as usize] = valid;
            }
        }
    }
}

impl<'a> Run<'a> {
    fn new(
        program: &'a Program,
        units: &[UnitView],
        (kernels, load): (&'a Kernels, &'a Load),
        copies: &'a Copies,
    ) -> Self {
        let units: Vec<UnitView> = units.iter().map(|unit| UnitView { in_flight: 0, ..unit.clone() }).collect();
        let beside_devices = units.iter().any(|unit| unit.kind.is_device());
        let mut next = vec![Vec::new(); program.jobs.len()];
        for (number, job) in program.jobs.iter().enumerate() {
            job.after.iter().for_each(|before| next[*before as usize].push(number as u32));
        }
        let at_home = Valid::only(0, SpaceId::HOST);
        let memories = units.iter().flat_map(|unit| &unit.spaces).map(|space| space.index() + 1).max().unwrap_or(1);
        Self {
            jobs: &program.jobs,
            depth: units.iter().map(|unit| depth(unit, beside_devices)).collect(),
            kernels,
            load,
            copies,
            now: 0.0,
            free_at: vec![0.0; units.len()],
            links_free_at: vec![[0.0; 2]; memories],
            waits: program.jobs.iter().map(|job| job.after.len() as u32).collect(),
            next,
            queued: 0,
            running: BinaryHeap::new(),
            took: vec![0.0; program.jobs.len()],
            places: Places { regions: vec![at_home; program.regions], data: vec![at_home; program.data], ends: 0 },
            units,
        }
    }

    /// Submits all tasks at once.
    fn tell_all(&mut self, policy: &mut dyn Policy) {
        if policy.looks_ahead() {
            for (number, job) in self.jobs.iter().enumerate() {
                let after: Vec<TaskId> = job.after.iter().map(|before| TaskId(u64::from(*before))).collect();
                let (id, position) = (TaskId(number as u64), job.position.as_ref());
                let &Job { ref name, bytes, cost, near, .. } = job;
                let task =
                    crate::sched::SubmittedTask { id, name, bytes, cost, position, near, regions: &[], after: &after };
                policy.submitted(&task);
            }
        }
        (0..self.jobs.len()).filter(|job| self.jobs[*job].after.is_empty()).for_each(|job| self.ready(job, policy));
    }

    fn ready(&mut self, number: usize, policy: &mut dyn Policy) {
        let job = &self.jobs[number];
        self.queued += 1;
        let task = ReadyTask {
            id: TaskId(number as u64),
            name: job.name.clone(),
            bytes: job.bytes,
            priority: job.priority,
            cost: job.cost,
            position: job.position.clone(),
            near: job.near,
            follows: !job.after.is_empty(),
            units: job.units.clone(),
        };
        let missing = |task: TaskId, space: SpaceId| self.places.missing(&self.jobs[task.0 as usize], space);
        policy.ready(task, &View { units: &self.units, missing_bytes: &missing });
    }

    /// Gives tasks to units with room; every unit gets its first task before any unit gets its second.
    fn dispatch(&mut self, policy: &mut dyn Policy) {
        let deepest = self.depth.iter().copied().max().unwrap_or(0);
        for tasks in 0..deepest {
            for unit in 0..self.units.len() {
                if self.queued == 0 {
                    return;
                }
                if self.units[unit].in_flight == tasks && tasks < self.depth[unit] {
                    let missing =
                        |task: TaskId, space: SpaceId| self.places.missing(&self.jobs[task.0 as usize], space);
                    let view = View { units: &self.units, missing_bytes: &missing };
                    if let Some(TaskId(job)) = policy.next(UnitId(unit as u16), &view) {
                        self.give(job as usize, unit, policy);
                    }
                }
            }
        }
    }

    fn give(&mut self, number: usize, unit: usize, policy: &mut dyn Policy) {
        let job = &self.jobs[number];
        let spaces = self.units[unit].spaces.iter().copied();
        let (missing, space) =
            spaces.map(|space| (self.places.missing(job, space), space)).min().unwrap_or((0, SpaceId::HOST));
        let mut arrived = self.now;
        if missing > 0 {
            let (memory, out) = match space.is_host() {
                true => (self.places.source(job).unwrap_or_default(), 1),
                false => (space.index(), 0),
            };
            if let Some(free_at) = self.links_free_at.get_mut(memory).map(|free_at| &mut free_at[out]) {
                *free_at = free_at.max(self.now) + self.copies.copy_ns(space, missing);
                arrived = *free_at;
            }
        }
        self.places.bring(job, space);
        policy.data_moved();
        let (kernel, work) = job.kernel;
        let ns = self.load.expected_ns(self.kernels, kernel, self.units[unit].kind, work);
        let end = arrived.max(self.free_at[unit]) + ns;
        self.free_at[unit] = end;
        self.took[number] = ns;
        self.queued -= 1;
        self.running.push(Reverse((end.to_bits(), number as u32, unit)));
        self.units[unit].in_flight += 1;
        policy.in_flight(UnitId(unit as u16), self.units[unit].in_flight);
    }

    /// Ends the next task; returns false if no task is running.
    fn end_next(&mut self, policy: &mut dyn Policy) -> bool {
        let Some(Reverse((end, number, unit))) = self.running.pop() else { return false };
        let (number, id) = (number as usize, UnitId(unit as u16));
        self.now = f64::from_bits(end);
        let job = &self.jobs[number];
        let space = self.units[unit].spaces.iter().copied().min_by_key(|space| self.places.missing(job, *space));
        self.places.written(job, space.unwrap_or(SpaceId::HOST));
        policy.data_moved();
        policy.finished(&Sample {
            task: TaskId(number as u64),
            name: job.name.clone(),
            bytes: job.bytes,
            unit: id,
            elapsed_ns: self.took[number] as u64,
            ended_ns: self.now as u64,
            energy_j: None,
            position: job.position.clone(),
        });
        self.units[unit].in_flight -= 1;
        policy.in_flight(id, self.units[unit].in_flight);
        for next in std::mem::take(&mut self.next[number]) {
            self.waits[next as usize] -= 1;
            if self.waits[next as usize] == 0 {
                self.ready(next as usize, policy);
            }
        }
        true
    }
}
