//! A contract checker for policies, intended for use in the tests of policy authors.
//!
//! A small driver stands in for the engine, without a runtime: it reports ready tasks, asks units with room, and
//! reports ended tasks. Its programs are time steps of a mesh with hazards: some tasks cannot run on some units, some
//! fail, and tasks end in any order. Programs are drawn from consecutive seeds, small ones first, so every violation is
//! reproducible.

use super::{Near, Neighbour, Policy, Position, ReadyTask, Sample, UnitView, View};
use crate::error::FailureReason;
use crate::explore::Draw;
use crate::ids::{SpaceId, TaskId, UnitId};
use crate::machine::UnitKind;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;

/// Number of programs run by a check.
const PROGRAMS: u64 = 300;

/// A contract violation found by [`check`]. Its `Display` text is a full sentence.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Violation {
    /// The policy's name.
    pub policy: &'static str,
    /// Description of the violation, which names the task and the unit.
    pub problem: String,
    /// The machine and the program on which it occurred.
    pub program: String,
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { policy, problem, program } = self;
        write!(f, "policy `{policy}` breaks its contract: {problem}; {program}")
    }
}

impl std::error::Error for Violation {}

/// Checks that a policy keeps its [contract](Policy#contract); call it in your own tests. `make` creates a policy for a
/// machine with the given number of units.
///
/// Runs random programs on random machines of CPU units and devices; every call runs the same programs. The check
/// verifies that
/// - each ready task is given out exactly once, and to a unit that can run it;
/// - a task is given out whenever all units are idle, so that every program ends;
/// - the policy does not panic, whatever events it receives;
/// - the policy makes the same decisions if it gets the same input.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{Policy, Priority, ReadyTask, View, check};
/// check(|_| Priority::new())?;
///
/// /// Gives out ready tasks, except those with an odd number.
/// #[derive(Default)]
/// struct Forgets(Vec<ReadyTask>);
/// impl Policy for Forgets {
///     fn name(&self) -> &'static str {
///         "forgets"
///     }
///     fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
///         self.0.push(task);
///     }
///     fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
///         let even = self.0.iter().position(|task| task.id.0 % 2 == 0 && task.runs_on(unit))?;
///         Some(self.0.remove(even).id)
///     }
/// }
/// let violation = check(|_| Forgets::default()).unwrap_err();
/// assert!(violation.problem.contains("though no unit has anything to do"), "{violation}");
/// # Ok::<(), thalweg::sched::Violation>(())
/// ```
///
/// # Errors
/// Returns the first violation of the contract.
pub fn check<P: Policy>(mut make: impl FnMut(usize) -> P) -> Result<(), Violation> {
    (0..PROGRAMS).try_for_each(|number| check_program(number, &mut |units| make(units)))
}

/// Checks one program.
pub(super) fn check_program<P: Policy>(number: u64, make: &mut dyn FnMut(usize) -> P) -> Result<(), Violation> {
    let program = Program::draw(number);
    let decided = [(); 2].map(|()| program.decisions(&mut make(program.kinds.len())));
    let [first, second] = decided;
    let (first, second) = (first?, second?);
    match first.iter().zip(&second).position(|(one, other)| one != other) {
        None if first.len() == second.len() => Ok(()),
        at => {
            let at = at.unwrap_or(first.len().min(second.len()));
            let say = |decided: Option<&(TaskId, UnitId)>| {
                decided.map_or_else(|| "nothing".to_owned(), |(task, unit)| format!("{task} to {unit}"))
            };
            let problem = format!(
                "it got the same input twice, and gave first {} and then {}; try deciding without clocks, randomness and \
                 the iteration order of hash maps",
                say(first.get(at)),
                say(second.get(at))
            );
            let policy = make(program.kinds.len()).name();
            Err(Violation { policy, problem, program: program.to_string() })
        }
    }
}

/// A program: steps of a mesh in which every index has `stages` tasks. Each task follows the previous task of its
/// index; the first one also follows the last tasks of the index's neighbours in the previous step.
struct Program {
    number: u64,
    indices: usize,
    instances: u64,
    stages: usize,
    /// The units on which a task can run, by index and stage; never empty.
    on: Vec<Vec<bool>>,
    kinds: Vec<UnitKind>,
    depth: Vec<usize>,
    ns: Vec<u64>,
    order: Vec<usize>,
    fails: Option<u64>,
    /// Whether the first-stage task of every index is only near the index, rather than one of its tasks.
    begins_beside: bool,
}

impl Program {
    fn draw(number: u64) -> Self {
        let mut draw = Draw::new(number);
        let size = 1 + (number / 25).min(8) as usize;
        let (indices, instances, stages) = (1 + draw.below(size), 1 + draw.below(6) as u64, 1 + draw.below(3));
        let (cpus, devices) = match (draw.below(4), draw.below(3)) {
            (0, 0) => (1, 0),
            mix => mix,
        };
        let units = cpus + devices;
        let runs_on = |draw: &mut Draw| {
            let on: Vec<bool> = (0..units).map(|_| draw.below(5) > 0).collect();
            if on.contains(&true) { on } else { vec![true; units] }
        };
        Self {
            number,
            indices,
            instances,
            stages,
            on: (0..indices * stages).map(|_| runs_on(&mut draw)).collect(),
            kinds: [vec![UnitKind::Cpu; cpus], vec![UnitKind::Emulated; devices]].concat(),
            depth: (0..units).map(|_| 1 + draw.below(3)).collect(),
            ns: (0..16).map(|_| 1 + draw.below(10_000) as u64).collect(),
            order: (0..16).map(|_| draw.below(50)).collect(),
            fails: (draw.below(5) == 0).then(|| draw.below(40) as u64),
            begins_beside: draw.below(3) == 0,
        }
    }

    /// Runs the program as the engine would and returns the policy's decisions.
    fn decisions(&self, policy: &mut dyn Policy) -> Result<Vec<(TaskId, UnitId)>, Violation> {
        let name = policy.name();
        let ran = catch_unwind(AssertUnwindSafe(|| self.run(policy)));
        let ran = ran.unwrap_or_else(|payload| Err(format!("it {}", FailureReason::from_panic(payload))));
        ran.map_err(|problem| Violation { policy: name, problem, program: self.to_string() })
    }

    fn run(&self, policy: &mut dyn Policy) -> Result<Vec<(TaskId, UnitId)>, String> {
        let Self { indices, instances, stages, .. } = *self;
        let per_instance = indices * stages;
        let weights: Arc<[f64]> = (0..indices).map(|index| 1.0 + index as f64).collect();
        let neighbours: Arc<[Vec<Neighbour>]> =
            (0..indices).map(|index| vec![((index + 1) % indices).into()]).collect();
        let unit = |(id, kind): (usize, &UnitKind)| {
            let space = if *kind == UnitKind::Cpu { SpaceId::HOST } else { SpaceId(id as u16 + 1) };
            UnitView { id: UnitId(id as u16), kind: *kind, spaces: vec![space], in_flight: 0 }
        };
        let mut units: Vec<UnitView> = self.kinds.iter().enumerate().map(unit).collect();
        let number = |instance: u64, index: usize, stage: usize| {
            instance * per_instance as u64 + (index * stages + stage) as u64
        };
        let position = |task: u64| {
            let index = task as usize % per_instance / stages;
            let (weights, neighbours) = (weights.clone(), Some(neighbours.clone()));
            Position { space: 0, index, instance: task / per_instance as u64, weights, neighbours }
        };
        let is_near = |task: u64| self.begins_beside && (task as usize).is_multiple_of(stages);
        let stands = |task: u64| (!is_near(task)).then(|| position(task));
        let near = |task: u64| is_near(task).then(|| Near { space: 0, index: position(task).index });
        let missing = |task: TaskId, space: SpaceId| if space.is_host() { 0 } else { task.0 % 7 };
        let total = instances * per_instance as u64;
        let (mut done, mut told) = (BTreeSet::new(), BTreeSet::new());
        let mut flying: BTreeMap<u64, UnitId> = BTreeMap::new();
        let mut decided = Vec::new();
        let mut ended_ns = 0;
        while (done.len() as u64) < total {
            let is_ready = |task: u64, done: &BTreeSet<u64>| {
                let Position { index, instance, .. } = position(task);
                match (task as usize % stages, instance) {
                    (0, 0) => true,
                    (0, _) => [index + indices - 1, index, index + 1]
                        .iter()
                        .all(|other| done.contains(&number(instance - 1, other % indices, stages - 1))),
                    _ => done.contains(&(task - 1)),
                }
            };
            for task in (0..total).filter(|task| !told.contains(task)).collect::<Vec<_>>() {
                if is_ready(task, &done) {
                    told.insert(task);
                    let on = &self.on[task as usize % per_instance];
                    let mut ready = ReadyTask::new(TaskId(task), "t", on.as_slice());
                    (ready.position, ready.near, ready.bytes) = (stands(task), near(task), task % 5 * 1000);
                    policy.ready(ready, &View::new(&units, &missing));
                }
            }
            loop {
                let before = flying.len();
                for unit in 0..units.len() {
                    while units[unit].in_flight < self.depth[unit] {
                        let id = UnitId(unit as u16);
                        let Some(task) = policy.next(id, &View::new(&units, &missing)) else { break };
                        let TaskId(given) = task;
                        if !told.contains(&given) {
                            return Err(format!("it gave {id} {task}, which is not ready"));
                        }
                        if done.contains(&given) || flying.contains_key(&given) {
                            return Err(format!("it gave {id} {task}, which it had given out before"));
                        }
                        if !self.on[given as usize % per_instance][unit] {
                            return Err(format!("it gave {id} {task}, which does not run there"));
                        }
                        flying.insert(given, id);
                        decided.push((task, id));
                        units[unit].in_flight += 1;
                        policy.in_flight(id, units[unit].in_flight);
                    }
                }
                if flying.len() == before {
                    break;
                }
            }
            let turn = done.len();
            let Some((&task, &unit)) = flying.iter().nth(self.order[turn % self.order.len()] % flying.len().max(1))
            else {
                let held = told.iter().find(|task| !done.contains(*task)).copied().unwrap_or_default();
                return Err(format!("it holds back {}, though no unit has anything to do", TaskId(held)));
            };
            flying.remove(&task);
            units[unit.index()].in_flight -= 1;
            let (elapsed_ns, fails) = (self.ns[turn % self.ns.len()], self.fails == Some(task));
            let elapsed_ns = if fails { 0 } else { elapsed_ns };
            ended_ns += elapsed_ns;
            let position = stands(task);
            let sample = Sample {
                task: TaskId(task),
                name: "t".into(),
                bytes: 0,
                unit,
                elapsed_ns,
                ended_ns,
                energy_j: None,
                position,
            };
            if fails {
                policy.failed(&sample)
            } else {
                policy.finished(&sample)
            }
            policy.in_flight(unit, units[unit.index()].in_flight);
            done.insert(task);
        }
        Ok(decided)
    }
}

impl fmt::Display for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let count = |kind| self.kinds.iter().filter(|other| **other == kind).count();
        let (cpus, devices) = (count(UnitKind::Cpu), count(UnitKind::Emulated));
        let Self { number, indices, instances, stages, .. } = self;
        write!(
            f,
            "on {cpus} CPU units and {devices} devices, in program {number} of {instances} instances of {indices} indices \
             with {stages} tasks each"
        )
    }
}
