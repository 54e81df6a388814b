//! Random programs on small emulated devices that fail, against a sequential oracle.
//!
//! Devices have too little memory, of different size; now and then a copy fails, a device is lost, a body fails or panics,
//! a handle is dropped. Regions overlap partly, or are empty. Whatever happens:
//!
//! - what can be read is what the tasks would have written one after the other;
//! - what a failed body should have written can not be read, and neither can what was computed from it;
//! - what no reported failure can have reached can be read;
//! - nothing hangs.
//!
//! `THALWEG_CASES` sets the number of programs (3000), `THALWEG_SEED` the first one's seed. A program that fails says its
//! seed; with `THALWEG_CASES=1` it is run alone.

mod common;

use common::watched;
use ndarray::{Array, Dimension, Ix2, Ix3};
use std::collections::HashMap;
use std::io::Write as _;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, LazyLock};
use std::time::Duration;
use thalweg::error::{FailureReason, TaskFailure};
use thalweg::ids::TaskId;
use thalweg::memory::{Reduction, Shape, Shared};
use thalweg::prelude::*;

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    Inout,
    Commutative,
    Concurrent,
    Add,
    Max,
}

/// Which units have a body for a task.
#[derive(Debug, Clone, Copy, PartialEq)]
enum Bodies {
    All,
    Cores,
    Devices,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Returns,
    Fails,
    Panics,
}

/// A box of some data, perhaps empty.
#[derive(Debug, Clone)]
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
    bodies: Bodies,
    end: End,
    seed: u64,
}

#[derive(Debug, Clone)]
enum Act {
    Task(Step),
    Prefetch(Part, u16),
    Read(Part),
    Wait,
    Drop(usize),
}

#[derive(Debug)]
struct Program {
    dims: usize,
    extents: [usize; 3],
    data: usize,
    acts: Vec<Act>,
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
    devices: Vec<EmulatedDevice>,
}

/// A small generator of numbers: programs are many and short.
struct Lot(u64);

impl Lot {
    /// Below `n`.
    fn below(&mut self, n: usize) -> usize {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((mixed ^ mixed >> 31) % n as u64) as usize
    }

    /// Once in `n` times.
    fn once_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choice: &[T]) -> T {
        choice[self.below(choice.len())]
    }

    fn range(&mut self, extent: usize) -> Range<usize> {
        let (a, b) = (self.below(extent), self.below(extent));
        a.min(b)..a.max(b) + 1
    }
}

impl Part {
    fn overlaps(&self, other: &Part) -> bool {
        let meet = |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start) < a.end.min(b.end);
        self.data == other.data && self.ranges.iter().zip(&other.ranges).all(meet)
    }

    /// The element numbers, in row-major order.
    fn elements(&self, extents: [usize; 3]) -> Vec<usize> {
        let [x, y, z] = self.ranges.clone();
        let row = |i: usize, j: usize| z.clone().map(move |k| (i * extents[1] + j) * extents[2] + k);
        x.flat_map(|i| y.clone().map(move |j| (i, j))).flat_map(|(i, j)| row(i, j)).collect()
    }

    fn empty(self) -> Part {
        Part { ranges: self.ranges.map(|range| range.start..range.start), ..self }
    }
}

impl Program {
    fn new(seed: u64) -> Self {
        let lot = &mut Lot(seed);
        let dims = 1 + lot.below(3);
        let extents = [[1, 1, 32], [1, 6, 7], [3, 4, 5]][dims - 1];
        let data = 1 + lot.below(3);
        let units = lot.of(&["1:EMU:1", "2:EMU:1", "1:EMU:2", "1:CPU:1,1:EMU:1", "1:CPU:1,2:EMU:1", "1:CPU:1,1:EMU:2"]);
        let num_devices =
            if units.ends_with("1:EMU:1") && !units.starts_with('2') && !units.contains(",2") { 1 } else { 2 };
        let faulty = !lot.once_in(8);
        let devices = (0..num_devices).map(|_| {
            let mut device = EmulatedDevice::new().capacity_bytes(8 * (8 + lot.below(120) as u64));
            if faulty && lot.once_in(2) {
                device = device.failing_copy(lot.below(24) as u64);
            }
            if faulty && lot.once_in(5) {
                device = device.lost_after_tasks(lot.below(6) as u64);
            }
            // Each copy made by the copy engine, while other things happen.
            if lot.once_in(3) { device.copy_delay(Duration::from_nanos(1), f64::INFINITY) } else { device }
        });
        let devices: Vec<_> = devices.collect();
        let mut program = Self {
            dims,
            extents,
            data,
            acts: Vec::new(),
            units,
            scheduler: lot.of(&["stealing", "dynamic", "eft", "priority", "static"]),
            hosted: lot.once_in(2),
            devices,
        };
        let mut alive: Vec<usize> = (0..data).collect();
        for _ in 0..5 + lot.below(11) {
            let act = match lot.below(24) {
                0 if alive.len() > 1 => Act::Drop(alive.swap_remove(lot.below(alive.len()))),
                1 => Act::Read(program.part(lot, &alive)),
                2 => Act::Prefetch(program.part(lot, &alive), 1 + lot.below(num_devices) as u16),
                3 if lot.once_in(2) => Act::Wait,
                _ => Act::Task(program.step(lot, &alive)),
            };
            program.acts.push(act);
        }
        program
    }

    fn part(&self, lot: &mut Lot, alive: &[usize]) -> Part {
        let data = lot.of(alive);
        let part = match lot.below(14) {
            0..2 => Part { data, ranges: self.extents.map(|extent| 0..extent) },
            _ => Part { data, ranges: self.extents.map(|extent| lot.range(extent)) },
        };
        if lot.once_in(14) { part.empty() } else { part }
    }

    fn step(&self, lot: &mut Lot, alive: &[usize]) -> Step {
        let (target, update) = (self.part(lot, alive), self.part(lot, alive));
        // One task's accesses must not overlap where one of them writes.
        let update = if lot.once_in(2) || update.overlaps(&target) { update.empty() } else { update };
        let mut read = || {
            let read = self.part(lot, alive);
            if read.overlaps(&target) || read.overlaps(&update) { read.empty() } else { read }
        };
        let reads = [read(), read()];
        let mut kind = lot.of(&[
            Kind::Out,
            Kind::Out,
            Kind::Inout,
            Kind::Inout,
            Kind::Inout,
            Kind::Commutative,
            Kind::Concurrent,
            Kind::Add,
            Kind::Max,
        ]);
        if kind == Kind::Concurrent && self.dims > 1 {
            kind = Kind::Commutative; // what has gaps in memory is refused
        }
        let bodies = match lot.below(8) {
            0 => Bodies::Cores,
            1 if kind != Kind::Concurrent => Bodies::Devices,
            _ => Bodies::All,
        };
        let end = match lot.below(24) {
            0 => End::Fails,
            1 => End::Panics,
            _ => End::Returns,
        };
        Step { reads, kind, target, update, bodies, end, seed: lot.below(1 << 30) as u64 }
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ b
}

fn hash<'a>(seed: u64, values: impl IntoIterator<Item = &'a u64>) -> u64 {
    values.into_iter().fold(seed, |h, v| mix(h, *v))
}

/// What every element is, if its value was not lost, and `None` where it must have been.
struct Oracle {
    extents: [usize; 3],
    memory: Vec<Vec<Option<u64>>>,
    /// What the reported failures can have reached.
    reached: Vec<Vec<bool>>,
}

impl Oracle {
    fn values(&self, part: &Part) -> Option<Vec<u64>> {
        part.elements(self.extents).into_iter().map(|e| self.memory[part.data][e]).collect()
    }

    fn any_reached(&self, part: &Part) -> bool {
        part.elements(self.extents).into_iter().any(|e| self.reached[part.data][e])
    }

    /// One task, one after the other.
    fn apply(&mut self, step: &Step) {
        let Step { reads: [a, b], kind, target, update, .. } = step;
        // Who joins a group runs even if another one of the group has failed.
        let target_is_there = *kind != Kind::Inout || self.values(target).is_some();
        let runs = step.end == End::Returns && target_is_there && self.values(update).is_some();
        let h = self.values(a).zip(self.values(b)).map(|(a, b)| hash(hash(step.seed, &a), &b)).filter(|_| runs);
        for (n, e) in target.elements(self.extents).into_iter().enumerate() {
            let x = &mut self.memory[target.data][e];
            *x = h.zip(if *kind == Kind::Out { Some(0) } else { *x }).map(|(h, x)| match kind {
                Kind::Out => mix(h, n as u64),
                Kind::Inout => mix(x, h),
                Kind::Commutative | Kind::Concurrent | Kind::Add => x.wrapping_add(h),
                Kind::Max => x.max(h),
            });
        }
        for e in update.elements(self.extents) {
            let x = &mut self.memory[update.data][e];
            *x = h.zip(*x).map(|(h, x)| mix(x, h.rotate_left(7)));
        }
    }

    /// Where failures go through one task, that has failed itself or not.
    fn reach(&mut self, step: &Step, failed: bool) {
        let Step { reads: [a, b], kind, target, update, .. } = step;
        let value_of_target = *kind != Kind::Out && self.any_reached(target);
        let hit = failed || value_of_target || [a, b, update].into_iter().any(|part| self.any_reached(part));
        for part in [target, update] {
            part.elements(self.extents).into_iter().for_each(|e| self.reached[part.data][e] = hit);
        }
    }

    /// What was read is right.
    fn check(&self, part: &Part, got: &[u64]) {
        for (e, got) in part.elements(self.extents).into_iter().zip(got) {
            match self.memory[part.data][e] {
                Some(expected) => assert_eq!(*got, expected, "element {e} of {part:?} is wrong"),
                None => panic!("element {e} of {part:?} was lost, and can be read: {got}"),
            }
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

#[derive(Debug, thiserror::Error)]
#[error("as the program says")]
struct AsTheProgramSays;

/// Ends a body that has written some of what it should.
fn end(end: End) -> Result<(), AsTheProgramSays> {
    match end {
        End::Returns => Ok(()),
        End::Fails => Err(AsTheProgramSays),
        // Without a word on the screen.
        End::Panics => resume_unwind(Box::new("as the program says")),
    }
}

static ADD: LazyLock<Reduction<u64>> =
    LazyLock::new(|| Reduction::new("wrapping add", 0, |a: &mut u64, b| *a = a.wrapping_add(b)));

/// Submits one step; the same text serves every number of dimensions, because slices and array views iterate alike.
macro_rules! submit {
    ($name:ident, $shape:ty) => {
        #[allow(unused_mut)] // array views must be mutable to be iterated so, slices must not
        fn $name(rt: &Runtime, data: &[Option<Data<u64, $shape>>], step: &Step) -> Result<TaskId, SubmitError> {
            fn cut<'d>(data: &'d [Option<Data<u64, $shape>>], part: &Part) -> Region<'d, u64, $shape> {
                <$shape>::cut(data[part.data].as_ref().expect("only data that are there are used"), part)
            }
            let ([a, b], update) =
                (step.reads.each_ref().map(|read| cut(data, read).input()), cut(data, &step.update).inout());
            let target = cut(data, &step.target);
            let (seed, ends, bodies) = (step.seed, step.end, step.bodies);
            macro_rules! task {
                ($access:expr, $apply:expr) => {{
                    let task = rt.task("step", (a, b, $access, update));
                    macro_rules! body {
                        () => {
                            move |_, (a, b, target, mut update)| {
                                let h = hash(hash(seed, a.iter()), b.iter());
                                $apply(target, h);
                                end(ends)?;
                                update.iter_mut().for_each(|x| *x = mix(*x, h.rotate_left(7)));
                                Ok::<(), AsTheProgramSays>(())
                            }
                        };
                    }
                    match bodies {
                        Bodies::All => task.cpu(body!()).submit(),
                        Bodies::Cores => task.host(body!()).submit(),
                        Bodies::Devices => task.emulated(body!()).submit(),
                    }
                }};
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
                Kind::Concurrent => task!(target.concurrent(), |t: Shared<'_, u64>, h: u64| {
                    (0..t.len()).for_each(|i| t.update(i, |x| x.wrapping_add(h)))
                }),
                Kind::Add => task!(target.reduction(ADD.clone()), |mut t: Mutable<'_>, h| {
                    t.iter_mut().for_each(|x| *x = x.wrapping_add(h))
                }),
                Kind::Max => task!(target.reduction(Max), |mut t: Mutable<'_>, h| {
                    t.iter_mut().for_each(|x| *x = (*x).max(h))
                }),
            }
        }
    };
}

submit!(submit_1d, Ix1);
submit!(submit_2d, Ix2);
submit!(submit_3d, Ix3);

/// Submits one step.
type Submit<S> = fn(&Runtime, &[Option<Data<u64, S>>], &Step) -> Result<TaskId, SubmitError>;

/// Runs a program and compares what can be read with the oracle.
fn run<S: Cut>(program: &Program, submit: Submit<S>) {
    let &Program { extents, ref devices, .. } = program;
    let values = |d: usize| (0..extents.iter().product::<usize>() as u64).map(move |e| mix(d as u64, e));
    let start: Vec<Vec<u64>> = (0..program.data).map(|d| values(d).collect()).collect();
    let mut oracle = Oracle {
        extents,
        memory: start.iter().map(|values| values.iter().copied().map(Some).collect()).collect(),
        reached: start.iter().map(|values| vec![false; values.len()]).collect(),
    };
    let described = devices.clone();
    let rt = Runtime::builder()
        .compute_units(program.units)
        .scheduler(program.scheduler)
        .submitter_hosts_unit(program.hosted)
        .detect_conflicts(true)
        .emulated_devices(move |n| described[n].clone())
        .build()
        .unwrap();
    let mut data: Vec<_> = start.into_iter().map(|values| Some(S::register(&rt, extents, values))).collect();
    let mut steps: Vec<(&Step, TaskId)> = Vec::new();
    let mut failures: Vec<Arc<TaskFailure>> = Vec::new();
    let mut wait = |rt: &Runtime| match rt.wait() {
        Ok(()) => {}
        Err(RunError::Failed(reported)) => failures.extend(reported.iter().cloned()),
        Err(other) => panic!("{other}"),
    };
    fn read<S: Cut>(rt: &Runtime, data: &[Option<Data<u64, S>>], part: &Part) -> Option<Vec<u64>> {
        match rt.read(S::cut(data[part.data].as_ref().expect("it is read while it is there"), part)) {
            Ok(values) => Some(S::values(values)),
            Err(RunError::Poisoned(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }
    for act in &program.acts {
        match act {
            Act::Task(step) => match submit(&rt, &data, step) {
                Ok(id) => {
                    oracle.apply(step);
                    steps.push((step, id));
                }
                // Only what no core may run can be too large.
                Err(SubmitError::WorkingSet { .. }) if step.bodies == Bodies::Devices => {}
                Err(other) => panic!("{other}"),
            },
            Act::Prefetch(part, space) => {
                let cell = data[part.data].as_ref().expect("it is there");
                match rt.prefetch(S::cut(cell, part), SpaceId(*space)) {
                    Ok(()) | Err(SubmitError::WorkingSet { .. }) => {}
                    Err(other) => panic!("{other}"),
                }
            }
            Act::Read(part) => {
                if let Some(got) = read(&rt, &data, part) {
                    oracle.check(part, &got);
                }
            }
            Act::Wait => wait(&rt),
            Act::Drop(which) => data[*which] = None,
        }
    }
    wait(&rt);
    // A copy to make room, or all that a device held: nobody says which elements that were.
    let vague = |failure: &TaskFailure| {
        let lost = matches!(failure.reason(), FailureReason::Device(error) if error.is_loss());
        lost || failure.name() == "a copy to make room"
    };
    let roots: HashMap<TaskId, &Arc<TaskFailure>> = failures.iter().map(|failure| (failure.task(), failure)).collect();
    match failures.iter().any(|failure| vague(failure)) {
        true => oracle.reached.iter_mut().flatten().for_each(|reached| *reached = true),
        false => steps.iter().for_each(|(step, id)| oracle.reach(step, roots.contains_key(id))),
    }
    for which in 0..program.data {
        if data[which].is_none() {
            continue;
        }
        let all = Part { data: which, ranges: extents.map(|extent| 0..extent) };
        let again = || (0..=devices.len()).find_map(|_| read(&rt, &data, &all)); // reading meets scripted faults too
        if let Some(got) = again() {
            oracle.check(&all, &got);
            let taken = data[which].take().map(|data| rt.take(data).expect("what was read is at home"));
            oracle.check(&all, &S::values(taken.expect("it is there")));
            continue;
        }
        let single = |e: usize| {
            let (i, j, k) = (e / extents[2] / extents[1], e / extents[2] % extents[1], e % extents[2]);
            Part { data: which, ranges: [i..i + 1, j..j + 1, k..k + 1] }
        };
        for e in 0..extents.iter().product() {
            match (0..=devices.len()).find_map(|_| read(&rt, &data, &single(e))) {
                Some(got) => oracle.check(&single(e), &got),
                None => assert!(
                    oracle.reached[which][e],
                    "element {e} of data {which} is lost, and no failure reaches it: {failures:?}"
                ),
            }
        }
    }
    assert_eq!(rt.conflicts(), Vec::<String>::new());
}

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

/// The seed of the program that runs; ends the process if that does not change for a long time.
static SEED: AtomicU64 = AtomicU64::new(0);

fn watch() {
    std::thread::spawn(|| {
        let (mut last, mut looks) = (u64::MAX, 0);
        loop {
            std::thread::sleep(Duration::from_secs(10));
            let seed = SEED.load(Ordering::Relaxed);
            (last, looks) = (seed, if seed == last { looks + 1 } else { 0 });
            if looks == 6 {
                // Past the capture of tests' output, which ends with the process.
                let _ = writeln!(std::io::stderr(), "THALWEG_SEED={seed} hangs: {:#?}", Program::new(seed));
                std::process::abort();
            }
        }
    });
}

#[test]
fn what_failures_leave_is_right_or_poisoned() {
    let (cases, first) = (variable("THALWEG_CASES", 3000), variable("THALWEG_SEED", 1));
    watch();
    (first..first + cases).for_each(check);
}

/// A device that another's replicas relied on when they left is lost. It takes a certain timing, so it is tried often.
#[test]
fn who_leaves_may_have_relied_on_a_device_that_is_lost() {
    (0..20).for_each(|_| check(515));
}

/// Runs the program of this seed.
fn check(seed: u64) {
    SEED.store(seed, Ordering::Relaxed);
    let program = Program::new(seed);
    let ran = catch_unwind(AssertUnwindSafe(|| match program.dims {
        1 => run(&program, submit_1d),
        2 => run(&program, submit_2d),
        _ => run(&program, submit_3d),
    }));
    if let Err(panic) = ran {
        eprintln!("THALWEG_SEED={seed}: {program:#?}");
        resume_unwind(panic);
    }
}

#[test]
fn a_task_goes_to_the_device_of_its_unit_that_it_fits() {
    watched("unequal devices", || {
        let devices = |n: usize| EmulatedDevice::new().capacity_bytes([8000, 800][n]);
        let rt = Runtime::builder().compute_units("1:EMU:2").emulated_devices(devices).build().unwrap();
        let data: Vec<_> = (0..8).map(|_| rt.data(vec![1u64; 500])).collect();
        for x in &data {
            let add = rt.task("add", (x.inout(),)).emulated(|_, (x,)| x.iter_mut().for_each(|x| *x += 1));
            add.submit().unwrap();
        }
        rt.wait().unwrap();
        data.into_iter().for_each(|x| assert_eq!(rt.take(x).unwrap(), [2; 500]));
    });
}

#[test]
fn what_no_device_can_hold_is_run_by_the_thread_that_hosts_one() {
    watched("too large", || {
        let rt = Runtime::builder()
            .compute_units("1:EMU:1")
            .emulated_devices(|_| EmulatedDevice::new().capacity_bytes(80))
            .build()
            .unwrap();
        let x = rt.data(vec![1u64; 500]);
        rt.task("add", (x.inout(),)).cpu(|at, (x,)| x.fill(1 + u64::from(at.is_cpu()))).submit().unwrap();
        let refused = rt.task("add", (x.inout(),)).emulated(|_, _| ()).submit();
        assert!(matches!(refused, Err(SubmitError::WorkingSet { needed_bytes: 4000, capacity_bytes: 80, .. })));
        assert_eq!(rt.take(x).unwrap(), [2; 500]);
    });
}

#[test]
fn a_hosting_thread_runs_what_cores_can_when_its_last_device_is_lost() {
    watched("last device", || {
        let device = |_| EmulatedDevice::new().lost_after_tasks(0);
        let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(device).build().unwrap();
        let (x, y) = (rt.data(vec![1u64; 4]), rt.data(vec![1u64; 4]));
        let data: Vec<_> = (0..20).map(|_| rt.scalar(0u64)).collect();
        rt.task("finds the loss", (x.inout(),)).emulated(|_, _| ()).submit().unwrap();
        for x in &data {
            rt.task("queued", (x.inout(),)).emulated(|_, _| ()).submit().unwrap(); // no unit is left for these
        }
        assert_eq!(common::failed(rt.wait()), ["finds the loss"]);
        rt.task("host", (y.inout(),)).host(|_, (y,)| y[0] = 2).submit().unwrap();
        rt.task("cpu", (y.inout(),)).cpu(|_, (y,)| y[1] = 3).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(rt.take(y).unwrap(), [2, 3, 1, 1]);
    });
}

#[test]
fn a_data_goes_while_another_wants_the_room_of_its_replica() {
    watched("release and eviction", || {
        const N: usize = 512;
        for round in 0..40 {
            let device = |_| EmulatedDevice::new().capacity_bytes(8 * N as u64 + 64);
            let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(device).build().unwrap();
            let (x, y, z) = (rt.data(vec![1u64; N]), rt.data(vec![2u64; N]), rt.scalar(0u64));
            let (open, wait) = common::gate();
            let first = rt.task("first", (x.inout(), z.inout()));
            first
                .emulated(move |_, (x, _)| {
                    wait();
                    x.fill(7)
                })
                .submit()
                .unwrap();
            // Both wait for the first, and get their turns in one step: in either order.
            let other = || rt.task("other", (y.inout(), z.input())).emulated(|_, (y, _)| y[0] += 1).submit().unwrap();
            if round % 2 == 0 {
                other();
                drop(x);
            } else {
                drop(x);
                other();
            }
            drop(open);
            rt.wait().unwrap();
            assert_eq!(rt.read(&y.slice(..2)).unwrap(), [3, 2]);
        }
    });
}
