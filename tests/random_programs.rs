//! Random task programs against a sequential oracle.
//!
//! Tasks read two random boxes and update two more, in every access mode, on data of one to three dimensions. What a task
//! writes depends on what it read, so a wrong order changes the memory. Whatever the units, the scheduler, the memory of
//! the devices and the number of submitting threads: memory must end as if the tasks had run one after the other. The
//! edges of the graph are compared with all pairs of accesses: none may be missing, none may join what does not conflict.
//!
//! - *Several threads* submit, each to a part of every data object, or all to all of it. Then nobody knows the order before,
//!   but the bodies' own record of it must explain the memory, and agree with each thread's order of submission.
//! - *Failing tasks* poison what they should have written, and whoever reads that: element by element the end is right or
//!   poisoned, as the oracle says.
//! - *Handles* are dropped while tasks are pending.
//!
//! Half of the programs take the fast path: CPU units alone, under `stealing`.
//!
//! `THALWEG_CASES` sets the number of programs (1000).

use ndarray::{Array, Dimension, Ix2, Ix3};
use petgraph::graph::NodeIndex;
use proptest::prelude::*;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use thalweg::memory::{Reduction, Shape};
use thalweg::prelude::*;
use thalweg::{Builder, TaskGraph};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    Inout,
    Commutative,
    Concurrent,
    Add,
    Max,
}

/// A box of some data; empty boxes are part of the game.
#[derive(Debug, Clone, PartialEq)]
struct Part {
    data: usize,
    ranges: [Range<usize>; 3],
}

#[derive(Debug, Clone)]
struct Step {
    reads: [Part; 2],
    kind: Kind,
    target: Part,
    update: Part,
    /// The body returns an error when it has done all else.
    fails: bool,
}

#[derive(Debug, Clone)]
struct Program {
    dims: usize,
    extents: [usize; 3],
    data: usize,
    /// One list of steps per submitting thread.
    threads: Vec<Vec<Step>>,
    /// Whether all threads work on all of every data; else each keeps to its own slab.
    shared: bool,
    /// Whose handle is dropped when everything is submitted and nothing waited for.
    dropped: Option<usize>,
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
    spare_bytes: u64,
    /// Whether the graph is compared too; finished tasks are not forgotten then.
    record: bool,
}

/// Which step of which thread.
type Number = (usize, usize);

/// The order in which bodies began: of tasks that conflict, the order of their effects.
type Log = Arc<Mutex<Vec<Number>>>;

/// All memory, as the oracle has it.
struct Memory {
    values: Vec<Vec<u64>>,
    poisoned: Vec<Vec<bool>>,
    failures: usize,
}

impl Part {
    fn overlaps(&self, other: &Part) -> bool {
        let meet = |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start) < a.end.min(b.end);
        self.data == other.data && self.ranges.iter().zip(&other.ranges).all(meet)
    }

    fn volume(&self) -> usize {
        self.ranges.iter().map(Range::len).product()
    }

    /// The element numbers, in row-major order.
    fn elements(&self, extents: [usize; 3]) -> Vec<usize> {
        let [x, y, z] = self.ranges.clone();
        let row = |i: usize, j: usize| z.clone().map(move |k| (i * extents[1] + j) * extents[2] + k);
        x.flat_map(|i| y.clone().map(move |j| (i, j))).flat_map(|(i, j)| row(i, j)).collect()
    }

    fn empty(&self) -> Part {
        Part { data: self.data, ranges: std::array::from_fn(|d| self.ranges[d].start..self.ranges[d].start) }
    }
}

impl Step {
    /// All accesses: part, and what tells whether two of them may run side by side (`None`: reads).
    fn accesses(&self) -> [(&Part, Option<Kind>); 4] {
        let [a, b] = &self.reads;
        [(a, None), (b, None), (&self.target, Some(self.kind)), (&self.update, Some(Kind::Inout))]
    }

    fn working_set_bytes(&self) -> u64 {
        self.accesses().iter().map(|(part, _)| part.volume() as u64 * 8).sum()
    }
}

/// Whether the order of two accesses matters.
fn ordered(a: (&Part, Option<Kind>), b: (&Part, Option<Kind>)) -> bool {
    let together = match (a.1, b.1) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b && !matches!(a, Kind::Out | Kind::Inout),
        _ => false,
    };
    !together && a.0.overlaps(b.0)
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ b
}

fn hash<'a>(seed: u64, values: impl IntoIterator<Item = &'a u64>) -> u64 {
    values.into_iter().fold(seed, |h, v| mix(h, *v))
}

fn seed((thread, step): Number) -> u64 {
    mix(thread as u64 + 1, step as u64 + 1)
}

impl Memory {
    /// One task, one after the other: the oracle.
    fn apply(&mut self, step: &Step, seed: u64, extents: [usize; 3]) {
        let Self { values: memory, poisoned, failures } = self;
        let is_lost = |part: &Part| part.elements(extents).into_iter().any(|e| poisoned[part.data][e]);
        let reads = step.accesses().into_iter().filter(|(_, kind)| *kind != Some(Kind::Out));
        let skipped = reads.into_iter().any(|(part, _)| is_lost(part));
        *failures += usize::from(step.fails && !skipped);
        for part in [&step.target, &step.update] {
            let lost = skipped || step.fails;
            part.elements(extents).into_iter().for_each(|e| poisoned[part.data][e] = lost);
        }
        if skipped {
            return;
        }
        let values = |part: &Part| part.elements(extents).into_iter().map(|e| memory[part.data][e]).collect::<Vec<_>>();
        let [a, b] = &step.reads;
        let h = hash(hash(seed, &values(a)), &values(b));
        for (n, e) in step.target.elements(extents).into_iter().enumerate() {
            let x = &mut memory[step.target.data][e];
            *x = match step.kind {
                Kind::Out => mix(h, n as u64),
                Kind::Inout => mix(*x, h),
                Kind::Commutative | Kind::Concurrent | Kind::Add => x.wrapping_add(h),
                Kind::Max => (*x).max(h),
            };
        }
        for e in step.update.elements(extents) {
            let x = &mut memory[step.update.data][e];
            *x = mix(*x, h.rotate_left(7));
        }
    }
}

/// How to cut a region of a data with that many dimensions.
trait Cut: Shape {
    fn cut<'d>(data: &'d Data<u64, Self>, part: &Part) -> Region<'d, u64, Self>;
    fn register(rt: &Runtime, extents: [usize; 3], values: Vec<u64>) -> Data<u64, Self>;
    fn values(owned: Self::Owned<u64>) -> Vec<u64>;
}

impl Cut for Ix1 {
    fn cut<'d>(data: &'d Data<u64>, part: &Part) -> Region<'d, u64> {
        data.slice(part.ranges[2].clone())
    }

    fn register(rt: &Runtime, _: [usize; 3], values: Vec<u64>) -> Data<u64> {
        rt.data(values)
    }

    fn values(owned: Vec<u64>) -> Vec<u64> {
        owned
    }
}

fn array<D: Dimension>(shape: D, values: Vec<u64>) -> Array<u64, D> {
    Array::from_shape_vec(shape, values).unwrap()
}

impl Cut for Ix2 {
    fn cut<'d>(data: &'d Data<u64, Ix2>, part: &Part) -> Region<'d, u64, Ix2> {
        data.block((part.ranges[1].clone(), part.ranges[2].clone()))
    }

    fn register(rt: &Runtime, [_, y, z]: [usize; 3], values: Vec<u64>) -> Data<u64, Ix2> {
        rt.array(array(Ix2(y, z), values))
    }

    fn values(owned: Array<u64, Ix2>) -> Vec<u64> {
        owned.into_iter().collect()
    }
}

impl Cut for Ix3 {
    fn cut<'d>(data: &'d Data<u64, Ix3>, part: &Part) -> Region<'d, u64, Ix3> {
        data.block((part.ranges[0].clone(), part.ranges[1].clone(), part.ranges[2].clone()))
    }

    fn register(rt: &Runtime, [x, y, z]: [usize; 3], values: Vec<u64>) -> Data<u64, Ix3> {
        rt.array(array(Ix3(x, y, z), values))
    }

    fn values(owned: Array<u64, Ix3>) -> Vec<u64> {
        owned.into_iter().collect()
    }
}

/// Submits one step; the same text serves every number of dimensions, because slices and array views iterate alike.
macro_rules! submit {
    ($name:ident, $shape:ty) => {
        #[allow(unused_mut)] // array views must be mutable to be iterated so, slices must not
        fn $name(rt: &Runtime, data: &[Data<u64, $shape>], step: &Step, at: Number, add: &Reduction<u64>, log: &Log) {
            let (seed, fails, log) = (seed(at), step.fails, log.clone());
            let cut = |part: &Part| <$shape>::cut(&data[part.data], part);
            let ([a, b], update) =
                ([cut(&step.reads[0]).input(), cut(&step.reads[1]).input()], cut(&step.update).inout());
            let target = cut(&step.target);
            macro_rules! task {
                ($access:expr, $apply:expr) => {
                    rt.task("step", (a, b, $access, update))
                        .cpu(move |_, (a, b, target, mut update)| {
                            log.lock().unwrap().push(at);
                            let h = hash(hash(seed, a.iter()), b.iter());
                            $apply(target, h);
                            update.iter_mut().for_each(|x| *x = mix(*x, h.rotate_left(7)));
                            if fails { Err("as the program says") } else { Ok(()) }
                        })
                        .submit()
                };
            }
            type Mutable<'a> = <$shape as Shape>::ViewMut<'a, u64>;
            match step.kind {
                Kind::Out => task!(target.output(), |mut t: Mutable<'_>, h| {
                    t.iter_mut().enumerate().for_each(|(n, x)| *x = mix(h, n as u64))
                }),
                Kind::Inout => {
                    task!(target.inout(), |mut t: Mutable<'_>, h| t.iter_mut().for_each(|x| *x = mix(*x, h)))
                }
                Kind::Commutative => task!(target.commutative(), |mut t: Mutable<'_>, h| {
                    t.iter_mut().for_each(|x| *x = x.wrapping_add(h))
                }),
                Kind::Concurrent => task!(target.concurrent(), |t: thalweg::memory::Shared<'_, u64>, h: u64| {
                    (0..t.len()).for_each(|i| t.update(i, |x| x.wrapping_add(h)))
                }),
                Kind::Add => task!(target.reduction(add.clone()), |mut t: Mutable<'_>, h| {
                    t.iter_mut().for_each(|x| *x = x.wrapping_add(h))
                }),
                Kind::Max => task!(target.reduction(Max), |mut t: Mutable<'_>, h| {
                    t.iter_mut().for_each(|x| *x = (*x).max(h))
                }),
            }
            .unwrap();
        }
    };
}

submit!(submit_1d, Ix1);
submit!(submit_2d, Ix2);
submit!(submit_3d, Ix3);

fn builder(program: &Program) -> Builder {
    let steps = || program.threads.iter().flatten();
    let least = steps().map(Step::working_set_bytes).max().unwrap_or(0).max(8);
    let capacity = least + program.spare_bytes;
    Runtime::builder()
        .compute_units(program.units)
        .scheduler(program.scheduler)
        .submitter_hosts_unit(program.hosted)
        .detect_conflicts(true)
        .record_graph(program.record)
        .emulated_devices(move |_| EmulatedDevice::new().capacity_bytes(capacity))
}

/// Submits one step.
type Submit<S> = fn(&Runtime, &[Data<u64, S>], &Step, Number, &Reduction<u64>, &Log);

/// Runs the program and compares memory and graph with the oracle.
fn check<S: Cut>(program: &Program, submit: Submit<S>) {
    let len = program.extents.iter().product::<usize>();
    let values: Vec<Vec<u64>> =
        (0..program.data).map(|d| (0..len as u64).map(|e| mix(d as u64, e)).collect()).collect();
    let (rt, log) = (builder(program).build().unwrap(), Log::default());
    let add = Reduction::new("wrapping add", 0u64, |a: &mut u64, b| *a = a.wrapping_add(b));
    let mut data: Vec<_> =
        values.iter().map(|values| Some(S::register(&rt, program.extents, values.clone()))).collect();
    let handles: Vec<Data<u64, S>> = data.iter().flatten().cloned().collect();
    if let [steps] = program.threads.as_slice() {
        steps.iter().enumerate().for_each(|(n, step)| submit(&rt, &handles, step, (0, n), &add, &log));
    } else {
        std::thread::scope(|scope| {
            for (thread, steps) in program.threads.iter().enumerate() {
                let (rt, handles, add, log) = (&rt, &handles, &add, &log);
                scope.spawn(move || {
                    steps.iter().enumerate().for_each(|(n, step)| submit(rt, handles, step, (thread, n), add, log));
                });
            }
        });
    }
    drop(handles);
    if let Some(dropped) = program.dropped {
        data[dropped % program.data] = None;
    }
    let result = std::thread::scope(|scope| {
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let rt = &rt;
        // A program that hangs must fail, and say where it hangs.
        scope.spawn(move || {
            if watch.recv_timeout(std::time::Duration::from_secs(30)).is_err() {
                eprintln!("nothing moves: {rt:?}\n{program:?}");
                std::process::exit(1);
            }
        });
        let result = rt.wait();
        done.send(()).unwrap();
        result
    });
    if let Some(graph) = rt.graph() {
        check_graph(&graph, &program.threads[0]);
    }
    let poisoned = vec![vec![false; len]; program.data];
    let mut memory = Memory { values, poisoned, failures: 0 };
    let log = log.lock().unwrap();
    for at @ (thread, n) in order(program, &log) {
        memory.apply(&program.threads[thread][n], seed(at), program.extents);
    }
    match result {
        Ok(()) => assert_eq!(memory.failures, 0),
        Err(RunError::Failed(failures)) => assert_eq!(failures.iter().count(), memory.failures),
        Err(other) => panic!("{other}"),
    }
    for (number, data) in data.into_iter().enumerate() {
        let Some(data) = data else { continue };
        let (values, poisoned) = (&memory.values[number], &memory.poisoned[number]);
        if poisoned.contains(&true) {
            check_parts(&rt, &data, program.extents, values, poisoned);
            assert!(matches!(rt.take(data).map_err(RunError::from), Err(RunError::Poisoned(_))));
        } else {
            assert_eq!(&S::values(rt.take(data).unwrap()), values);
        }
    }
    assert_eq!(rt.conflicts(), Vec::<String>::new());
}

/// Every run of elements of a row that are all right, or all poisoned, can be read, or not.
fn check_parts<S: Cut>(rt: &Runtime, data: &Data<u64, S>, extents: [usize; 3], values: &[u64], poisoned: &[bool]) {
    for (i, j) in (0..extents[0]).flat_map(|i| (0..extents[1]).map(move |j| (i, j))) {
        let row = (i * extents[1] + j) * extents[2];
        let mut start = 0;
        for run in poisoned[row..row + extents[2]].chunk_by(|a, b| a == b) {
            let range = start..start + run.len();
            start = range.end;
            let part = Part { data: 0, ranges: [i..i + 1, j..j + 1, range.clone()] };
            match rt.read(S::cut(data, &part)) {
                Ok(found) => {
                    assert!(!run[0], "{part:?} should be poisoned");
                    assert_eq!(S::values(found), values[row..][range]);
                }
                Err(RunError::Poisoned(_)) => assert!(run[0], "{part:?} should be right"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

/// An order of all steps that the memory must agree with. Where threads share data it is the one in which bodies began,
/// which must itself agree with each thread's order of submission.
fn order(program: &Program, log: &[Number]) -> Vec<Number> {
    if !program.shared {
        let steps =
            |(thread, steps): (usize, &Vec<Step>)| (0..steps.len()).map(move |n| (thread, n)).collect::<Vec<_>>();
        return program.threads.iter().enumerate().flat_map(steps).collect();
    }
    let place: HashMap<Number, usize> = log.iter().copied().zip(0..).collect();
    assert_eq!(place.len(), program.threads.iter().map(Vec::len).sum::<usize>(), "every body ran once");
    for (thread, steps) in program.threads.iter().enumerate() {
        for (i, j) in (0..steps.len()).flat_map(|j| (0..j).map(move |i| (i, j))) {
            let conflict = steps[i].accesses().iter().any(|a| steps[j].accesses().iter().any(|b| ordered(*a, *b)));
            assert!(!conflict || place[&(thread, i)] < place[&(thread, j)], "{thread}: {j} came before {i}");
        }
    }
    log.to_vec()
}

/// None missing: conflicting tasks are joined by a path. None invented: every edge joins tasks that conflict, directly or
/// through one in between.
fn check_graph(graph: &TaskGraph, steps: &[Step]) {
    let graph = graph.petgraph();
    assert_eq!(graph.node_count(), steps.len());
    let conflict =
        |i: usize, j: usize| steps[i].accesses().iter().any(|a| steps[j].accesses().iter().any(|b| ordered(*a, *b)));
    let mut before = vec![vec![false; steps.len()]; steps.len()];
    for j in 0..steps.len() {
        for i in graph.neighbors_directed(NodeIndex::new(j), petgraph::Incoming).map(NodeIndex::index) {
            assert!(i < j, "an edge leads back: {i} -> {j}");
            let between = || (i + 1..j).any(|k| conflict(i, k) && conflict(k, j));
            assert!(conflict(i, j) || between(), "nothing implies the edge {i} -> {j}");
            before[j][i] = true;
            let (earlier, later) = before.split_at_mut(j);
            later[0].iter_mut().zip(&earlier[i]).for_each(|(reached, through)| *reached |= through);
        }
        for i in (0..j).filter(|&i| conflict(i, j)) {
            assert!(before[j][i], "{i} and {j} conflict, and no path joins them");
        }
    }
}

fn range(within: Range<usize>) -> impl Strategy<Value = Range<usize>> {
    let end = within.end;
    (within.clone(), within).prop_map(move |(a, b)| a.min(b)..(a.max(b) + 1).min(end))
}

/// A box inside `slab` (in the last dimension), empty now and then.
fn part(dims: usize, data: usize, extents: [usize; 3], slab: Range<usize>) -> impl Strategy<Value = Part> {
    let along = move |d: usize| match () {
        () if d == 2 => slab.clone(),
        () if d >= 3 - dims => 0..extents[d],
        () => 0..1,
    };
    (0..data, range(along(0)), range(along(1)), range(along(2)), 0..12).prop_map(|(data, x, y, z, lot)| {
        let part = Part { data, ranges: [x, y, z] };
        if lot == 0 { part.empty() } else { part }
    })
}

fn step(
    dims: usize,
    data: usize,
    extents: [usize; 3],
    slab: Range<usize>,
    cpu: bool,
    kinds: &'static [Kind],
    failing: bool,
) -> impl Strategy<Value = Step> {
    use Kind::*;
    let parts = || part(dims, data, extents, slab.clone());
    let kind = prop::sample::select(kinds);
    (parts(), parts(), parts(), parts(), kind, 0..12).prop_map(move |(a, b, target, update, mut kind, lot)| {
        // One task's accesses must not overlap where one of them writes; most tasks update one box only.
        let update = if lot > 3 || update.overlaps(&target) { update.empty() } else { update };
        let clear = |read: Part| {
            if read.overlaps(&target) || read.overlaps(&update) { read.empty() } else { read }
        };
        let (a, b) = (clear(a), clear(b));
        let full = |d: usize| target.ranges[d].len() == extents[d];
        let outer = (3 - dims..3).find(|&d| target.ranges[d].len() > 1).unwrap_or(2);
        let contiguous = (outer + 1..3).all(full);
        if kind == Concurrent && !(cpu && contiguous) {
            kind = Commutative;
        }
        Step { reads: [a, b], kind, target, update, fails: failing && lot == 1 }
    })
}

fn program() -> impl Strategy<Value = Program> {
    let units = ["2:CPU:1", "1:CPU:2", "3:CPU:1", "1:CPU:1,2:EMU:1", "2:CPU:1,1:EMU:2", "2:EMU:1"];
    let fast = (prop::sample::select(units[..3].to_vec()), Just("stealing"), any::<bool>());
    let any_machine =
        (prop::sample::select(units.to_vec()), prop::sample::select(thalweg::sched::NAMES), any::<bool>());
    let machine = prop_oneof![fast, any_machine];
    // Data of several dimensions remember otherwise who used them as long as nobody joins anybody.
    const KINDS: [Kind; 6] = [Kind::Out, Kind::Inout, Kind::Commutative, Kind::Concurrent, Kind::Add, Kind::Max];
    let kinds = prop::sample::select(vec![&KINDS[..], &KINDS[..2]]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0..3usize));
    (1..=3usize, 1..=3usize, 1..=3usize, machine, 0..4u64, kinds, flags).prop_flat_map(
        |(dims, data, threads, (units, scheduler, hosted), spare, kinds, (record, shared, failing, dropped))| {
            let extents = [[1, 1, 48], [1, 7, 12], [4, 5, 9]][dims - 1];
            let cpu = units.contains("CPU");
            let shared = shared && threads > 1;
            // What a failure does to other members of its group is told elsewhere; and where threads share data, bodies
            // that were skipped tell no order.
            let failing = failing && kinds.len() == 2 && !shared;
            let slab = move |t: usize| match shared {
                true => 0..extents[2],
                false => t * extents[2] / threads..(t + 1) * extents[2] / threads,
            };
            let steps = (0..threads)
                .map(|t| prop::collection::vec(step(dims, data, extents, slab(t), cpu, kinds, failing), 1..40))
                .collect::<Vec<_>>();
            steps.prop_map(move |steps| Program {
                dims,
                extents,
                data,
                threads: steps,
                shared,
                dropped,
                units,
                scheduler,
                hosted,
                spare_bytes: spare * spare * 256,
                record: record && threads == 1,
            })
        },
    )
}

fn cases() -> u32 {
    std::env::var("THALWEG_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(1000)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn memory_ends_as_if_the_tasks_had_run_one_after_the_other(program in program()) {
        match program.dims {
            1 => check::<Ix1>(&program, submit_1d),
            2 => check::<Ix2>(&program, submit_2d),
            _ => check::<Ix3>(&program, submit_3d),
        }
    }
}
