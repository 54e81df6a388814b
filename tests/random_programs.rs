//! Random task programs against a sequential oracle.
//!
//! Tasks read two random boxes and update two more, in every access mode, on data of one to three dimensions. What a task
//! writes depends on what it read, so a wrong order changes the memory. Whatever the units, the scheduler, the memory of
//! the devices and the number of submitting threads: memory must end as if the tasks had run one after the other. The
//! edges of the graph are compared with all pairs of accesses: none may be missing, none may join what does not conflict.
//!
//! `THALWEG_CASES` sets the number of programs (1000).

use ndarray::{Array, Dimension, Ix2, Ix3};
use petgraph::graph::NodeIndex;
use proptest::prelude::*;
use std::ops::Range;
use thalweg::memory::{Reduction, Shape};
use thalweg::prelude::*;
use thalweg::{Builder, TaskGraph};

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    InOut,
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
}

#[derive(Debug, Clone)]
struct Program {
    dims: usize,
    extents: [usize; 3],
    data: usize,
    /// One list of steps per submitting thread; each keeps to its own slab of every data.
    threads: Vec<Vec<Step>>,
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
    spare_bytes: u64,
    /// Whether the graph is compared too; finished tasks are not forgotten then.
    record: bool,
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
        [(a, None), (b, None), (&self.target, Some(self.kind)), (&self.update, Some(Kind::InOut))]
    }

    fn working_set_bytes(&self) -> u64 {
        self.accesses().iter().map(|(part, _)| part.volume() as u64 * 8).sum()
    }
}

/// Whether the order of two accesses matters.
fn ordered(a: (&Part, Option<Kind>), b: (&Part, Option<Kind>)) -> bool {
    let together = match (a.1, b.1) {
        (None, None) => true,
        (Some(a), Some(b)) => a == b && !matches!(a, Kind::Out | Kind::InOut),
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

fn seed(thread: usize, step: usize) -> u64 {
    mix(thread as u64 + 1, step as u64 + 1)
}

/// One task, one after the other: the oracle.
fn apply(step: &Step, seed: u64, extents: [usize; 3], memory: &mut [Vec<u64>]) {
    let values = |part: &Part| part.elements(extents).into_iter().map(|e| memory[part.data][e]).collect::<Vec<_>>();
    let [a, b] = &step.reads;
    let h = hash(hash(seed, &values(a)), &values(b));
    for (n, e) in step.target.elements(extents).into_iter().enumerate() {
        let x = &mut memory[step.target.data][e];
        *x = match step.kind {
            Kind::Out => mix(h, n as u64),
            Kind::InOut => mix(*x, h),
            Kind::Commutative | Kind::Concurrent | Kind::Add => x.wrapping_add(h),
            Kind::Max => (*x).max(h),
        };
    }
    for e in step.update.elements(extents) {
        let x = &mut memory[step.update.data][e];
        *x = mix(*x, h.rotate_left(7));
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
        fn $name(rt: &Runtime, data: &[Data<u64, $shape>], step: &Step, seed: u64, add: &Reduction<u64>) {
            let cut = |part: &Part| <$shape>::cut(&data[part.data], part);
            let ([a, b], update) =
                ([cut(&step.reads[0]).input(), cut(&step.reads[1]).input()], cut(&step.update).inout());
            let target = cut(&step.target);
            macro_rules! task {
                ($access:expr, $apply:expr) => {
                    rt.task("step", (a, b, $access, update))
                        .cpu(move |_, (a, b, target, mut update)| {
                            let h = hash(hash(seed, a.iter()), b.iter());
                            $apply(target, h);
                            update.iter_mut().for_each(|x| *x = mix(*x, h.rotate_left(7)));
                        })
                        .submit()
                };
            }
            type Mutable<'a> = <$shape as Shape>::ViewMut<'a, u64>;
            match step.kind {
                Kind::Out => task!(target.output(), |mut t: Mutable<'_>, h| {
                    t.iter_mut().enumerate().for_each(|(n, x)| *x = mix(h, n as u64))
                }),
                Kind::InOut => {
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
type Submit<S> = fn(&Runtime, &[Data<u64, S>], &Step, u64, &Reduction<u64>);

/// Runs the program and compares memory and graph with the oracle.
fn check<S: Cut>(program: &Program, submit: Submit<S>) {
    let len = program.extents.iter().product::<usize>();
    let mut memory: Vec<Vec<u64>> =
        (0..program.data).map(|d| (0..len as u64).map(|e| mix(d as u64, e)).collect()).collect();
    let rt = builder(program).build().unwrap();
    let add = Reduction::new("wrapping add", 0u64, |a: &mut u64, b| *a = a.wrapping_add(b));
    let data: Vec<_> = memory.iter().map(|values| S::register(&rt, program.extents, values.clone())).collect();
    if let [steps] = program.threads.as_slice() {
        steps.iter().enumerate().for_each(|(n, step)| submit(&rt, &data, step, seed(0, n), &add));
    } else {
        std::thread::scope(|scope| {
            for (thread, steps) in program.threads.iter().enumerate() {
                let (rt, data, add) = (&rt, &data, &add);
                scope.spawn(move || {
                    steps.iter().enumerate().for_each(|(n, step)| submit(rt, data, step, seed(thread, n), add));
                });
            }
        });
    }
    std::thread::scope(|scope| {
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let rt = &rt;
        // A program that hangs must fail, and say where it hangs.
        scope.spawn(move || {
            if watch.recv_timeout(std::time::Duration::from_secs(30)).is_err() {
                eprintln!("nothing moves: {rt:?}\n{program:?}");
                std::process::exit(1);
            }
        });
        rt.wait().unwrap();
        done.send(()).unwrap();
    });
    if let Some(graph) = rt.graph() {
        check_graph(&graph, &program.threads[0]);
    }
    for (thread, steps) in program.threads.iter().enumerate() {
        for (n, step) in steps.iter().enumerate() {
            apply(step, seed(thread, n), program.extents, &mut memory);
        }
    }
    for (data, expected) in data.into_iter().zip(memory) {
        assert_eq!(S::values(rt.take(data).unwrap()), expected);
    }
    assert_eq!(rt.conflicts(), Vec::<String>::new());
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
) -> impl Strategy<Value = Step> {
    use Kind::*;
    let parts = || part(dims, data, extents, slab.clone());
    let kind = prop::sample::select(kinds);
    (parts(), parts(), parts(), parts(), kind, 0..3).prop_map(move |(a, b, target, update, mut kind, lot)| {
        // One task's accesses must not overlap where one of them writes; most tasks update one box only.
        let update = if lot > 0 || update.overlaps(&target) { update.empty() } else { update };
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
        Step { reads: [a, b], kind, target, update }
    })
}

fn program() -> impl Strategy<Value = Program> {
    let units = ["2:CPU:1", "1:CPU:2", "3:CPU:1", "1:CPU:1,2:EMU:1", "2:CPU:1,1:EMU:2", "2:EMU:1"];
    let machine = (prop::sample::select(units.to_vec()), prop::sample::select(thalweg::sched::NAMES), any::<bool>());
    // Data of several dimensions remember otherwise who used them as long as nobody joins anybody.
    const KINDS: [Kind; 6] = [Kind::Out, Kind::InOut, Kind::Commutative, Kind::Concurrent, Kind::Add, Kind::Max];
    let kinds = prop::sample::select(vec![&KINDS[..], &KINDS[..2]]);
    (1..=3usize, 1..=3usize, 1..=3usize, machine, 0..4u64, kinds, any::<bool>()).prop_flat_map(
        |(dims, data, threads, (units, scheduler, hosted), spare, kinds, record)| {
            let extents = [[1, 1, 48], [1, 7, 12], [4, 5, 9]][dims - 1];
            let cpu = units.contains("CPU");
            let slab = move |t: usize| t * extents[2] / threads..(t + 1) * extents[2] / threads;
            let steps = (0..threads)
                .map(|t| prop::collection::vec(step(dims, data, extents, slab(t), cpu, kinds), 1..40))
                .collect::<Vec<_>>();
            steps.prop_map(move |steps| Program {
                dims,
                extents,
                data,
                threads: steps,
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
