//! Recorded parts of programs that are replayed in any order between the other steps. A replay must have the same
//! effect as submitting its steps again, and a loop of replays the same as its iterations. All steps, recorded or not,
//! may have children.

use crate::children::{self, Child, LOOKS, Wrong};
use crate::oracle::Memory;
use crate::program::{self, Program};
use crate::steps::{ADD, AsTheProgramSays, Dimensions, End, Front, Kind, Part, Step, end, hash, mix, updated, using};
use crate::{builder, check_parts};
use ndarray::{Ix1, Ix2, Ix3};
use proptest::prelude::*;
use std::collections::HashMap;
use std::sync::mpsc::RecvTimeoutError;
use std::sync::{Arc, Weak};
use thalweg::Explanation;
use thalweg::memory::{Shape, Shared};
use thalweg::prelude::*;

/// The numbers that end loops are below this.
const NUMBERS: u64 = 4;

/// Number of recordings. The steps after the recorded ones are submitted one by one.
const RECORDINGS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Act {
    Replay(usize),
    /// Repeats a recording until its number is at most the bound, or a number of times at most.
    Repeat(usize, Option<u64>, usize),
    /// Submits the steps that are in no recording.
    Submit,
    Wait,
    Read,
}

#[derive(Debug, Clone)]
pub(crate) struct Replayed {
    program: Program,
    acts: Vec<Act>,
    /// What each step does with its child, by the step's seed.
    children: Vec<children::Act>,
    /// Whether each recording computes a number, which may end a loop.
    counts: bool,
}

impl Replayed {
    pub(crate) fn dims(&self) -> usize {
        self.program.dims
    }
}

pub(crate) fn program() -> impl Strategy<Value = Replayed> {
    let act = prop_oneof![
        6 => (0..RECORDINGS).prop_map(Act::Replay),
        2 => (0..RECORDINGS, prop::option::of(0..NUMBERS), 0..5usize).prop_map(|(n, bound, most)| Act::Repeat(n, bound, most)),
        1 => Just(Act::Submit),
        1 => Just(Act::Wait),
        1 => Just(Act::Read),
    ];
    let acts = prop::collection::vec((act, 1..4usize), 1..12);
    (program::program(), acts, children::acts(), any::<bool>()).prop_map(|(program, acts, children, counts)| {
        let acts = acts.into_iter().flat_map(|(act, times)| std::iter::repeat_n(act, times)).collect();
        Replayed { program: Program { record: program.record && program.data == 1, ..program }, acts, children, counts }
    })
}

/// The target of a step.
#[derive(Clone, Copy)]
pub(crate) enum To<'a> {
    Recording(&'a Recorder<'a>),
    Runtime(&'a Runtime),
}

/// Operations that recordings and steps with children need on data objects of a given number of dimensions.
pub(crate) trait Recordable: Dimensions {
    fn enter(to: To<'_>, data: &[Data<u64, Self>], step: &Step, child: &Child<Self>) -> Result<(), SubmitError>;

    /// Records a task that computes a number from a region.
    fn count(r: &Recorder<'_>, from: Region<'_, u64, Self>, to: &Data<u64>) -> Result<(), SubmitError>;
}

/// A macro for the same reason as `steps::submit`: the same code works for every shape.
macro_rules! record {
    ($shape:ty) => {
        impl Recordable for $shape {
            fn count(r: &Recorder<'_>, from: Region<'_, u64, Self>, to: &Data<u64>) -> Result<(), SubmitError> {
                r.task("count", (from.input(), to.output())).host(|_, (from, to)| to[0] = number(from.iter())).submit()
            }

            #[allow(unused_mut)] // array views must be mutable to be iterated, slices need not
            fn enter(
                to: To<'_>,
                data: &[Data<u64, Self>],
                step: &Step,
                child: &Child<Self>,
            ) -> Result<(), SubmitError> {
                let cut = |part: &Part| Self::cut(&data[part.data], part);
                let [a, b] = &step.reads;
                let (a, b, target, update) =
                    (cut(a).input(), cut(b).input(), cut(&step.target), cut(&step.update).inout());
                let (&Step { kind, end: ends, seed, .. }, child) = (step, child.clone());
                let metered = step.metered();
                let bear = |child: &Child<Self>, cx: &Context, seen: Vec<u64>| {
                    let (own, region) = (child.clone(), Self::cut(&child.data, &child.part).input());
                    let task = cx.task("child", region).cpu(move |_, x| {
                        for _ in 0..LOOKS {
                            std::thread::yield_now();
                            if std::hint::black_box(&x).iter().ne(&seen) {
                                own.tell("the region that a child reads has changed");
                                break;
                            }
                        }
                        match own.act {
                            children::Act::Reads => own.read(Self::cut(&own.data, &own.part)),
                            children::Act::Fails => return Err(AsTheProgramSays),
                            _ => {}
                        }
                        Ok(())
                    });
                    child.submitted(task.submit(), cx);
                };
                macro_rules! task {
                    ($access:expr, $change:expr) => {{
                        let accesses = (a, b, $access, update);
                        let metered_again = metered.clone();
                        macro_rules! body {
                            () => {
                                move |cx: &Context, (a, b, target, mut update)| {
                                    let _used = metered.as_ref().map(|(meter, amount)| meter.begin(*amount));
                                    let h = hash(hash(seed, a.iter()), b.iter());
                                    $change(target, h);
                                    if child.act != children::Act::None {
                                        bear(&child, cx, a.iter().copied().collect());
                                    }
                                    end(ends)?;
                                    update.iter_mut().for_each(|x| *x = updated(*x, h));
                                    Ok::<(), AsTheProgramSays>(())
                                }
                            };
                        }
                        match to {
                            To::Recording(r) => using(r.task("step", accesses).cpu(body!()), &metered_again).submit(),
                            To::Runtime(rt) => {
                                using(rt.task("step", accesses).cpu(body!()), &metered_again).submit().map(drop)
                            }
                        }
                    }};
                }
                access_target!($shape, kind, target, task)
            }
        }
    };
}

record!(Ix1);
record!(Ix2);
record!(Ix3);

/// Returns the part from which a recording of these steps computes its number, as its last task.
fn counted(steps: &[Step]) -> Option<&Part> {
    steps.last().map(|step| &step.target)
}

/// Returns the number that a recording computes from these elements.
fn number<'a>(elements: impl IntoIterator<Item = &'a u64>) -> u64 {
    hash(0, elements) % NUMBERS
}

/// Returns whether the first or the last access to some element is part of a group. `counts` says whether the steps are
/// followed by the computation of a number.
fn has_groups_outside(steps: &[Step], extents: [usize; 3], counts: bool) -> bool {
    let mut ends: HashMap<(usize, usize), [bool; 2]> = HashMap::new();
    for Step { reads: [a, b], kind, target, update, .. } in steps {
        let is_group = !matches!(kind, Kind::Out | Kind::Inout);
        for (part, is_group) in [(a, false), (b, false), (target, is_group), (update, false)] {
            for element in part.elements(extents) {
                ends.entry((part.data, element)).or_insert([is_group; 2])[1] = is_group;
            }
        }
    }
    if let Some(part) = counted(steps).filter(|_| counts) {
        part.elements(extents).into_iter().for_each(|element| ends.entry((part.data, element)).or_default()[1] = false);
    }
    ends.values().any(|ends| ends.contains(&true))
}

/// Returns whether these steps are replayed as a whole.
fn stays(program: &Program, steps: &[Step], counts: bool) -> bool {
    let is_hard = |step: &Step| step.kind == Kind::Accumulate;
    let stays = program.scheduler == "stealing" && !program.units.contains("EMU") && !program.record;
    stays && !steps.is_empty() && !steps.iter().any(is_hard) && !has_groups_outside(steps, program.extents, counts)
}

/// The submitter of a program's steps.
struct Steps<'p, S: Shape> {
    program: &'p Program,
    data: &'p [Data<u64, S>],
    children: &'p [children::Act],
    /// The number of each recording; empty if recordings compute none.
    numbers: Vec<Data<u64>>,
    rt: Weak<Runtime>,
    wrong: Wrong,
}

impl<S: Recordable> Steps<'_, S> {
    /// Returns the child of a step. `stays` says whether the step's part is replayed as a whole.
    fn child(&self, step: &Step, stays: bool) -> Child<S> {
        let part = step.reads[0].clone();
        let act = match self.children[step.seed as usize % self.children.len()] {
            _ if part.volume() == 0 => children::Act::None,
            // In other parts, the wait may either succeed or close a cycle.
            children::Act::Reads if !stays => children::Act::Leaves,
            act => act,
        };
        let (rt, wrong) = (self.rt.clone(), self.wrong.clone());
        Child { act, data: self.data[part.data].clone(), part, rt, wrong }
    }

    fn record(&self, rt: &Runtime, parts: &[&[Step]]) -> Vec<Recording> {
        let record = |(n, steps): (usize, &&[Step])| {
            let stays = stays(self.program, steps, !self.numbers.is_empty());
            rt.record(|r| {
                let enter = |step| S::enter(To::Recording(r), self.data, step, &self.child(step, stays));
                steps.iter().try_for_each(enter)?;
                let (Some(x), Some(part)) = (self.numbers.get(n), counted(steps)) else { return Ok(()) };
                S::count(r, S::cut(&self.data[part.data], part), x)
            })
            .unwrap()
        };
        parts[..RECORDINGS].iter().enumerate().map(record).collect()
    }

    fn submit(&self, rt: &Runtime, steps: &[Step]) {
        let handles: Vec<_> = self.data.iter().cloned().map(Some).collect();
        for step in steps {
            match self.child(step, false) {
                Child { act: children::Act::None, .. } => {
                    S::submit(Front::Outside(rt), &handles, step, || ()).unwrap();
                }
                child => S::enter(To::Runtime(rt), self.data, step, &child).unwrap(),
            }
        }
    }
}

impl Memory {
    /// Applies the iterations of a loop.
    fn repeat(&mut self, steps: &[Step], extents: [usize; 3], bound: Option<u64>, at_most: usize) {
        for _ in 0..at_most {
            let failed = steps.iter().filter(|step| !self.apply(step, extents)).count();
            let counted = counted(steps).filter(|_| bound.is_some());
            let elements =
                || counted.iter().flat_map(|part| part.elements(extents).into_iter().map(|e| (part.data, e)));
            if failed > 0 || elements().any(|(data, element)| self.poisoned[data][element]) {
                for part in steps.iter().flat_map(|step| [&step.target, &step.update]) {
                    part.elements(extents).into_iter().for_each(|element| self.poisoned[part.data][element] = true);
                }
                return;
            }
            let elements: Vec<_> = elements().map(|(data, element)| self.values[data][element]).collect();
            if bound.is_some_and(|bound| number(&elements) <= bound) {
                return;
            }
        }
    }
}

/// Calls `test`; if it hangs, prints the program and ends the process.
pub(crate) fn watched<R>(program: &(impl std::fmt::Debug + Sync), test: impl FnOnce() -> R) -> R {
    let (done, watch) = std::sync::mpsc::channel::<()>();
    std::thread::scope(|scope| {
        scope.spawn(move || {
            if let Err(RecvTimeoutError::Timeout) = watch.recv_timeout(std::time::Duration::from_secs(30)) {
                eprintln!("the program hangs: {program:?}");
                std::process::exit(1);
            }
        });
        let result = test();
        drop(done);
        result
    })
}

/// Runs the program, whose children do not fail, and compares memory and failures with the oracle.
pub(crate) fn check<S: Recordable>(replayed: &Replayed) {
    watched(replayed, || run_beside_oracle::<S>(replayed));
}

fn run_beside_oracle<S: Recordable>(Replayed { program, acts, children, counts }: &Replayed) {
    let len = program.extents.iter().product::<usize>();
    let values = initial(program);
    let rt = Arc::new(builder(program).build().unwrap());
    let program = &program.metered(&rt);
    let data: Vec<_> = values.iter().map(|values| S::register(&rt, program.extents, values.clone())).collect();
    let steps = &program.threads[0];
    let parts = parts_of(program);
    let good = |act: &children::Act| if *act == children::Act::Fails { children::Act::Leaves } else { *act };
    let (children, wrong): (Vec<_>, Wrong) = (children.iter().map(good).collect(), Wrong::default());
    let numbers = (0..RECORDINGS).filter(|_| *counts).map(|_| rt.scalar(0)).collect();
    let all =
        Steps { program, data: &data, children: &children, numbers, rt: Arc::downgrade(&rt), wrong: wrong.clone() };
    let mut recordings = all.record(&rt, &parts);
    let poisoned = vec![vec![false; len]; program.data];
    let (mut memory, mut failed) = (Memory { values, poisoned, failures: 0 }, 0);
    for act in acts {
        let done = match *act {
            Act::Replay(number) => {
                recordings[number].replay().unwrap();
                let explanation = recordings[number].explain();
                assert_eq!(
                    explanation == &Explanation::Frozen,
                    stays(program, parts[number], *counts),
                    "{explanation}"
                );
                parts[number]
            }
            Act::Repeat(number, ..) if parts[number].iter().any(|step| step.kind == Kind::Accumulate) => {
                assert!(matches!(recordings[number].repeat(1), Err(SubmitError::Repeat { .. })));
                &[]
            }
            Act::Repeat(number, bound, at_most) => {
                let bound = bound.filter(|_| *counts && !parts[number].is_empty());
                let repeated = match bound {
                    Some(bound) => recordings[number].repeat_until(&all.numbers[number], bound, at_most),
                    None => recordings[number].repeat(at_most),
                };
                repeated.unwrap();
                if at_most > 0 {
                    let explanation = recordings[number].explain();
                    let stays = stays(program, parts[number], *counts);
                    assert_eq!(explanation == &Explanation::Frozen, stays, "{explanation}");
                }
                memory.repeat(parts[number], program.extents, bound, at_most);
                &[]
            }
            Act::Submit => {
                all.submit(&rt, parts[RECORDINGS]);
                parts[RECORDINGS]
            }
            Act::Wait => {
                failed += failures(rt.wait());
                &[]
            }
            Act::Read => {
                let _perhaps_poisoned = rt.read(S::cut(&data[0], &steps[0].target));
                &[]
            }
        };
        done.iter().for_each(|step| _ = memory.apply(step, program.extents));
    }
    failed += failures(rt.wait());
    assert_eq!(failed, memory.failures);
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    drop(recordings);
    for (number, data) in data.into_iter().enumerate() {
        let (values, poisoned) = (&memory.values[number], &memory.poisoned[number]);
        if poisoned.contains(&true) {
            check_parts(&rt, &data, program.extents, values, poisoned);
        } else {
            assert_eq!(&S::values(rt.take(data).unwrap()), values);
        }
    }
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
}

/// Runs the program once by replays and once by submissions, with steps that fail in any access mode. Both must leave
/// the same values, and the same values must be missing.
pub(crate) fn check_by_hand<S: Recordable>(replayed: &Replayed) {
    let mut program = replayed.program.clone();
    for (number, step) in program.threads[0].iter_mut().enumerate().filter(|(number, _)| number % 4 == 1) {
        step.end = if number % 3 == 0 { End::Panics } else { End::Fails };
    }
    let replayed = &Replayed { program, ..replayed.clone() };
    let by_replays = watched(replayed, || outcome::<S>(replayed, true));
    let by_hand = watched(replayed, || outcome::<S>(replayed, false));
    assert_eq!(by_replays, by_hand);
}

/// Returns each element of each data object, or `None` if it cannot be read, and the number of failed tasks.
fn outcome<S: Recordable>(
    Replayed { program, acts, children, .. }: &Replayed,
    replays: bool,
) -> (Vec<Option<u64>>, usize) {
    let extents = program.extents;
    let rt = Arc::new(builder(program).build().unwrap());
    let program = &program.metered(&rt);
    let data: Vec<_> = initial(program).into_iter().map(|values| S::register(&rt, extents, values)).collect();
    let (mut failed, wrong) = (0, Wrong::default());
    let (numbers, rt_of_steps) = (Vec::new(), Arc::downgrade(&rt));
    let all = Steps { program, data: &data, children, numbers, rt: rt_of_steps, wrong: wrong.clone() };
    let parts = parts_of(program);
    let mut recordings = all.record(&rt, &parts);
    for act in acts {
        match *act {
            // A loop with failures is not the same as its replays.
            Act::Replay(number) | Act::Repeat(number, ..) if replays => recordings[number].replay().unwrap(),
            Act::Replay(number) | Act::Repeat(number, ..) => all.submit(&rt, parts[number]),
            Act::Submit => all.submit(&rt, parts[RECORDINGS]),
            Act::Wait => failed += failures(rt.wait()),
            Act::Read => _ = rt.read(S::cut(&data[0], &program.threads[0][0].target)),
        }
    }
    failed += failures(rt.wait());
    assert_eq!(*wrong.lock().unwrap(), Vec::<String>::new());
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
    let [x, y, z] = extents;
    let element = |number: usize, i: usize, j: usize, k: usize| {
        let part = Part { data: number, ranges: [i..i + 1, j..j + 1, k..k + 1] };
        rt.read(S::cut(&data[number], &part)).ok().map(|found| S::values(found)[0])
    };
    let places = (0..program.data * x * y * z).map(|n| (n / (x * y * z), n / (y * z) % x, n / z % y, n % z));
    (places.map(|(number, i, j, k)| element(number, i, j, k)).collect(), failed)
}

/// Returns the steps of each recording, followed by the steps that are not recorded.
fn parts_of(program: &Program) -> Vec<&[Step]> {
    let steps = &program.threads[0];
    let third = steps.len().div_ceil(RECORDINGS + 1);
    let mut parts: Vec<_> = steps.chunks(third).collect();
    parts.resize(RECORDINGS + 1, &[]);
    parts
}

/// Returns the initial contents of each data object.
fn initial(program: &Program) -> Vec<Vec<u64>> {
    let len = program.extents.iter().product::<usize>() as u64;
    (0..program.data).map(|d| (0..len).map(|e| mix(d as u64, e)).collect()).collect()
}

/// Returns the number of failed tasks.
fn failures(waited: Result<(), RunError>) -> usize {
    match waited {
        Ok(()) => 0,
        Err(RunError::Failed(failures)) => failures.len(),
        Err(other) => panic!("{other}"),
    }
}
