//! The recorded part of the program, which the simulation runs.
//!
//! For a program with time steps, the record holds one instance of its iteration space, with everything submitted after
//! the previous instance and up to the instance's last task. The simulation repeats this instance, and the tasks of an
//! index follow each other. For any other program, the record holds the graph of the latest tasks: either the tasks
//! submitted since the program last had no unfinished task, or the tasks of the interval before that, whichever is
//! larger.

use crate::ids::{DataId, TaskId};
use crate::region::Block;
use crate::sched::kernels::{KernelId, Kernels};
use crate::sched::{Model, Near, Position, ReadyTask, RegionUse, SubmittedTask};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;
use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

/// Maximum number of tasks remembered.
const MOST: usize = 8192;
/// Maximum number of tasks simulated, including all repetitions.
const SIMULATED: usize = 16_384;
/// Minimum and maximum number of repetitions of an instance.
const REPETITIONS: (usize, usize) = (4, 24);

/// The latest tasks, in submission order.
#[derive(Debug, Default)]
pub(super) struct Record {
    tasks: VecDeque<Recorded>,
    /// Sequence number of the first task in `tasks`.
    first: usize,
    at: FxHashMap<TaskId, usize>,
    /// Number of tasks that have not ended.
    open: usize,
    /// Sequence numbers of the last two tasks that were submitted when no other task was unfinished.
    begins: [usize; 2],
    kernels: Kernels,
}

#[derive(Debug)]
struct Recorded {
    id: TaskId,
    name: Cow<'static, str>,
    bytes: u64,
    cost: Option<f64>,
    kernel: (KernelId, f64),
    position: Option<Position>,
    near: Option<Near>,
    /// Sequence numbers of the predecessors, some of which may have been discarded.
    after: SmallVec<[usize; 4]>,
    regions: SmallVec<[RegionUse; 4]>,
    /// Known, like `units`, once the task is ready.
    priority: i32,
    units: Option<Arc<[bool]>>,
    ended: bool,
}

/// The program to simulate.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) jobs: Vec<Job>,
    /// Number of repetitions of the instance; 1 if the program is a graph.
    pub(super) repetitions: usize,
    pub(super) regions: usize,
    pub(super) data: usize,
}

/// A task to simulate.
#[derive(Debug, Clone)]
pub(super) struct Job {
    pub(super) name: Cow<'static, str>,
    pub(super) bytes: u64,
    pub(super) cost: Option<f64>,
    pub(super) priority: i32,
    pub(super) kernel: (KernelId, f64),
    pub(super) units: Arc<[bool]>,
    pub(super) position: Option<Position>,
    pub(super) near: Option<Near>,
    pub(super) after: SmallVec<[u32; 4]>,
    pub(super) uses: SmallVec<[Use; 4]>,
}

/// A [`RegionUse`] with small indices instead of IDs.
#[derive(Debug, Clone, Copy)]
pub(super) struct Use {
    pub(super) region: u32,
    pub(super) data: u32,
    pub(super) is_whole: bool,
    pub(super) bytes: u64,
    pub(super) reads: bool,
    pub(super) writes: bool,
}

impl Record {
    /// Returns the known times of kernels.
    pub(super) fn kernels(&mut self) -> &mut Kernels {
        &mut self.kernels
    }

    /// Records a submitted task.
    pub(super) fn submitted(&mut self, task: &SubmittedTask<'_>, model: &Model) {
        if self.tasks.len() == MOST
            && let Some(oldest) = self.tasks.pop_front()
        {
            self.at.remove(&oldest.id);
            self.first += 1;
            self.open -= usize::from(!oldest.ended);
        }
        let number = self.first + self.tasks.len();
        if self.open == 0 {
            self.begins = [self.begins[1], number];
        }
        self.open += 1;
        self.at.insert(task.id, number);
        self.tasks.push_back(Recorded {
            id: task.id,
            name: task.name.clone(),
            bytes: task.bytes,
            cost: task.cost,
            kernel: self.kernels.of(task.name, task.bytes, task.cost, model),
            position: task.position.cloned(),
            near: task.near,
            after: task.after.iter().filter_map(|before| self.at.get(before).copied()).collect(),
            regions: task.regions.iter().copied().collect(),
            priority: 0,
            units: None,
            ended: false,
        });
    }

    fn get_mut(&mut self, id: TaskId) -> Option<&mut Recorded> {
        let at = *self.at.get(&id)?;
        self.tasks.get_mut(at - self.first)
    }

    /// Records that a task is ready.
    pub(super) fn ready(&mut self, task: &ReadyTask) {
        if let Some(recorded) = self.get_mut(task.id) {
            (recorded.priority, recorded.units) = (task.priority, Some(task.units.clone()));
        }
    }

    /// Returns whether all tasks have ended.
    pub(super) fn is_at_rest(&self) -> bool {
        self.open == 0
    }

    /// Notes that a task has ended; returns its kernel and its amount of work.
    pub(super) fn ended(&mut self, id: TaskId) -> Option<(KernelId, f64)> {
        let recorded = self.get_mut(id)?;
        let (kernel, was_open) = (recorded.kernel, !std::mem::replace(&mut recorded.ended, true));
        self.open -= usize::from(was_open);
        Some(kernel)
    }

    /// Reports all unfinished tasks to another policy.
    pub(super) fn tell(&self, mut submitted: impl FnMut(&SubmittedTask<'_>)) {
        for task in self.tasks.iter().filter(|task| !task.ended) {
            let before = task.after.iter().filter_map(|at| self.tasks.get(at.checked_sub(self.first)?));
            let after: SmallVec<[TaskId; 4]> = before.filter(|before| !before.ended).map(|before| before.id).collect();
            let Recorded { id, ref name, bytes, cost, .. } = *task;
            let (position, regions) = (task.position.as_ref(), &task.regions[..]);
            submitted(&SubmittedTask { id, name, bytes, cost, position, near: task.near, regions, after: &after });
        }
    }

    /// Returns the program to simulate, or `None` if no task has been ready.
    pub(super) fn program(&self) -> Option<Program> {
        // Assumes that all tasks of one name run on the same units.
        let mut units_of: FxHashMap<&str, &Arc<[bool]>> = FxHashMap::default();
        self.tasks.iter().for_each(|task| {
            task.units.iter().for_each(|units| _ = units_of.insert(&task.name, units));
        });
        let (tasks, instance) = match self.last_instance() {
            Some(range) => (range, true),
            None => (self.last_graph(), false),
        };
        let mut numbers = Numbers::default();
        let mut program = Program { repetitions: 1, ..Program::default() };
        let mut number_of: FxHashMap<usize, u32> = FxHashMap::default();
        for at in tasks {
            let task = &self.tasks[at];
            let Some(units) = task.units.as_ref().or_else(|| units_of.get(&*task.name).copied()) else { continue };
            number_of.insert(self.first + at, program.jobs.len() as u32);
            program.jobs.push(Job {
                name: task.name.clone(),
                bytes: task.bytes,
                cost: task.cost,
                priority: task.priority,
                kernel: task.kernel,
                units: units.clone(),
                position: task.position.clone().map(|position| Position { instance: 0, ..position }),
                near: task.near,
                after: task.after.iter().filter_map(|before| number_of.get(before).copied()).collect(),
                uses: task.regions.iter().map(|region| numbers.of(region)).collect(),
            });
        }
        (program.regions, program.data) = (numbers.regions.len(), numbers.data.len());
        if instance {
            program.repeat();
        }
        (!program.jobs.is_empty()).then_some(program)
    }

    /// Returns the range of tasks of the latest graph.
    fn last_graph(&self) -> std::ops::Range<usize> {
        let [before, latest] = self.begins.map(|number| number.saturating_sub(self.first));
        let end = self.tasks.len();
        if end - latest >= latest - before { latest..end } else { before..latest }
    }

    /// Returns the range of tasks of the last complete instance. An instance is complete once another one has followed.
    fn last_instance(&self) -> Option<std::ops::Range<usize>> {
        let places = self.tasks.iter().enumerate().filter_map(|(at, task)| Some((at, task.position.as_ref()?)));
        let (space, latest) = places
            .clone()
            .map(|(_, position)| (position.space, position.instance))
            .max_by_key(|(_, instance)| *instance)?;
        let of = |instance: u64| {
            let places = places.clone();
            places
                .filter(move |(_, position)| position.space == space && position.instance == instance)
                .map(|(at, _)| at)
        };
        let before = latest.checked_sub(2).and_then(|instance| of(instance).next_back())?;
        let last = of(latest - 1).next_back()?;
        (before < last).then_some(before + 1..last + 1)
    }
}

impl Program {
    /// Returns the number of tasks per instance; 0 for a graph, because a graph does not recur.
    pub(super) fn per_instance(&self) -> usize {
        if self.repetitions > 1 { self.jobs.len() / self.repetitions } else { 0 }
    }

    /// Returns the time of every index of the program's only iteration space on each unit kind in one instance, given
    /// the time of one task. Returns `None` if there are several iteration spaces, or none.
    pub(super) fn index_ns<const N: usize>(&self, takes_ns: impl Fn(&Job) -> [f64; N]) -> Option<Vec<[f64; N]>> {
        let placed =
            |job: &Job| job.position.as_ref().map(|position| (position.space, position.index, position.weights.len()));
        let mut once =
            self.jobs.iter().take(self.per_instance()).filter_map(|job| Some((job, placed(job)?))).peekable();
        let &(_, (only, _, len)) = once.peek()?;
        let mut sums = vec![[0.0; N]; len];
        for (job, (space, index, _)) in once {
            if space != only {
                return None;
            }
            sums[index].iter_mut().zip(takes_ns(job)).for_each(|(sum, ns)| *sum += ns);
        }
        Some(sums)
    }

    /// Repeats an instance. Each task of an index follows the previous task of that index, and readers follow the last
    /// writer.
    fn repeat(&mut self) {
        let once = self.jobs.len();
        self.repetitions = (SIMULATED / once.max(1)).clamp(REPETITIONS.0, REPETITIONS.1);
        let index =
            |job: &Job| job.position.as_ref().map(|position| position.index).or(job.near.map(|near| near.index));
        let mut latest: FxHashMap<usize, u32> = FxHashMap::default();
        let model = std::mem::take(&mut self.jobs);
        let (mut region_written, mut data_written) = (vec![None; self.regions], vec![None; self.data]);
        for repetition in 0..self.repetitions {
            let first = (repetition * once) as u32;
            for job in &model {
                let mut job = job.clone();
                job.after.iter_mut().for_each(|before| *before += first);
                if let Some(position) = &mut job.position {
                    position.instance = repetition as u64;
                }
                if let Some(index) = index(&job)
                    && let Some(before) = latest.insert(index, self.jobs.len() as u32)
                    && !job.after.contains(&before)
                {
                    job.after.push(before);
                }
                let written = |used: &Use| region_written[used.region as usize].max(data_written[used.data as usize]);
                for before in job.uses.iter().filter(|used| used.reads).filter_map(written) {
                    if before < first && !job.after.contains(&before) {
                        job.after.push(before);
                    }
                }
                for used in job.uses.iter().filter(|used| used.writes) {
                    region_written[used.region as usize] = Some(self.jobs.len() as u32);
                    if used.is_whole {
                        data_written[used.data as usize] = Some(self.jobs.len() as u32);
                    }
                }
                self.jobs.push(job);
            }
        }
    }
}

/// Assigns small consecutive numbers to regions and data objects.
#[derive(Default)]
struct Numbers {
    regions: FxHashMap<(DataId, Block), u32>,
    data: FxHashMap<DataId, u32>,
}

impl Numbers {
    fn of(&mut self, used: &RegionUse) -> Use {
        let RegionUse { data, block, is_whole, bytes, reads, writes } = *used;
        let next = self.regions.len() as u32;
        let region = *self.regions.entry((data, block)).or_insert(next);
        let next = self.data.len() as u32;
        let data = *self.data.entry(data).or_insert(next);
        Use { region, data, is_whole, bytes, reads, writes }
    }
}
