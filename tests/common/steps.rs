//! One step of a random program in one to three dimensions: its regions, its effect on them, and its submission.
//!
//! A step hashes its seed together with two boxes that it reads, uses the hash to change its target in its access mode,
//! and then updates one more box. The result therefore depends on everything that the step has read, and an oracle can
//! compute the same on plain memory ([`Kind::value`], [`updated`]).

#![allow(dead_code, unreachable_pub)] // each test program that includes this module uses a part of it

#[path = "meter.rs"]
mod meter;

pub use meter::Meter;

use ndarray::{Array, Dimension, Ix2, Ix3};
use std::ops::Range;
use std::panic::resume_unwind;
use std::sync::mpsc::{Sender, channel};
use std::sync::{LazyLock, Mutex};
use thalweg::TaskBuilder;
use thalweg::ids::TaskId;
use thalweg::memory::{Reduction, Shape, Shared};
use thalweg::prelude::*;
use thalweg::task::Accesses;

/// The mode in which a step accesses its target.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Kind {
    Out,
    Inout,
    Commutative,
    Concurrent,
    Add,
    Accumulate,
    Max,
}

/// The kinds of units that a step has a body for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bodies {
    All,
    Cores,
    Devices,
    /// On cores, where another thread ends the task. With a concurrent target, this is the same as [`Self::Cores`].
    Detached,
}

/// How a body ends after it has changed the target; it updates the other box only if it returns.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum End {
    Returns,
    Fails,
    Panics,
}

/// A box of a data object, which may be empty. Objects of fewer dimensions have an extent of 1 in the leading ones.
#[derive(Debug, Clone, PartialEq)]
pub struct Part {
    pub data: usize,
    pub ranges: [Range<usize>; 3],
}

#[derive(Debug, Clone)]
pub struct Step {
    pub reads: [Part; 2],
    pub kind: Kind,
    pub target: Part,
    pub update: Part,
    pub bodies: Bodies,
    pub end: End,
    pub seed: u64,
    /// A resource, if the step uses one; [`Step::amount`] is how much.
    pub meter: Option<Meter>,
}

impl Step {
    /// Returns the amount of the resource that the step uses.
    pub fn amount(&self) -> u32 {
        [0, 0, 0, 1, 1, 2, METERED][self.seed as usize % 7]
    }

    /// Returns the resource, and the amount that the step uses.
    pub fn metered(&self) -> Option<(Meter, u32)> {
        self.meter.clone().map(|meter| (meter, self.amount()))
    }
}

/// Total of the resource that steps use.
pub const METERED: u32 = 3;

/// Adds the resource that a step uses to its task.
pub fn using<'t, A: Accesses, C, K>(
    task: TaskBuilder<'t, A, C, K>,
    metered: &Option<(Meter, u32)>,
) -> TaskBuilder<'t, A, C, K> {
    match metered {
        Some((meter, amount)) => task.uses(&meter.resource, *amount),
        None => task,
    }
}

impl Part {
    pub fn overlaps(&self, other: &Part) -> bool {
        let meet = |(a, b): (&Range<usize>, &Range<usize>)| a.start.max(b.start) < a.end.min(b.end);
        self.data == other.data && self.ranges.iter().zip(&other.ranges).all(meet)
    }

    pub fn volume(&self) -> usize {
        self.ranges.iter().map(Range::len).product()
    }

    /// Returns the indices of the elements in the flattened array, in row-major order.
    pub fn elements(&self, extents: [usize; 3]) -> Vec<usize> {
        let [x, y, z] = self.ranges.clone();
        let row = |i: usize, j: usize| z.clone().map(move |k| (i * extents[1] + j) * extents[2] + k);
        x.flat_map(|i| y.clone().map(move |j| (i, j))).flat_map(|(i, j)| row(i, j)).collect()
    }

    /// Returns an empty box at the same position.
    pub fn empty(self) -> Part {
        Part { ranges: self.ranges.map(|range| range.start..range.start), ..self }
    }
}

impl Kind {
    /// Returns the new value of the target's `n`-th element, given its old value `x` (which is arbitrary for
    /// [`Kind::Out`]) and the step's hash `h`.
    pub fn value(self, x: u64, h: u64, n: usize) -> u64 {
        match self {
            Kind::Out => mix(h, n as u64),
            Kind::Inout => mix(x, h),
            Kind::Commutative | Kind::Concurrent | Kind::Add | Kind::Accumulate => x.wrapping_add(h),
            Kind::Max => x.max(h),
        }
    }
}

/// Returns the new value of an element of the other box, given its old value `x`.
pub fn updated(x: u64, h: u64) -> u64 {
    mix(x, h.rotate_left(7))
}

pub fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ b
}

pub fn hash<'a>(seed: u64, values: impl IntoIterator<Item = &'a u64>) -> u64 {
    values.into_iter().fold(seed, |h, v| mix(h, *v))
}

#[derive(Debug, thiserror::Error)]
#[error("as the program says")]
pub struct AsTheProgramSays;

/// Ends a body as `end` says.
pub fn end(end: End) -> Result<(), AsTheProgramSays> {
    match end {
        End::Returns => Ok(()),
        End::Fails => Err(AsTheProgramSays),
        // Use `resume_unwind` because it does not call the panic hook, which would print a message.
        End::Panics => resume_unwind(Box::new("as the program says")),
    }
}

/// Runs `job` after a delay on a thread that does not belong to the runtime.
pub fn outside(delay: u64, job: impl FnOnce() + Send + 'static) {
    type Job = Box<dyn FnOnce() + Send>;
    static JOBS: LazyLock<Vec<Mutex<Sender<Job>>>> = LazyLock::new(|| {
        let worker = || {
            let (send, jobs) = channel::<Job>();
            std::thread::spawn(move || jobs.into_iter().for_each(|job| job()));
            Mutex::new(send)
        };
        (0..3).map(|_| worker()).collect()
    });
    let job = move || {
        (0..delay % 64).for_each(|_| std::thread::yield_now());
        job();
    };
    JOBS[delay as usize % JOBS.len()].lock().unwrap().send(Box::new(job)).unwrap();
}

pub static ADD: LazyLock<Reduction<u64>> =
    LazyLock::new(|| Reduction::new("wrapping add", 0, |a: &mut u64, b| *a = a.wrapping_add(b)));

/// Where steps are submitted: to the runtime, or in a body whose children they become.
#[derive(Clone, Copy)]
pub enum Front<'a> {
    Outside(&'a Runtime),
    Body(&'a Context),
}

impl<'a> Front<'a> {
    pub fn task<A: Accesses>(self, name: &'static str, accesses: A) -> TaskBuilder<'a, A> {
        match self {
            Self::Outside(rt) => rt.task(name, accesses),
            Self::Body(at) => at.task(name, accesses),
        }
    }
}

/// Operations that steps need on data objects of a given number of dimensions.
pub trait Dimensions: Shape {
    fn register(rt: &Runtime, extents: [usize; 3], values: Vec<u64>) -> Data<u64, Self>;
    fn cut<'d>(data: &'d Data<u64, Self>, part: &Part) -> Region<'d, u64, Self>;
    fn values(owned: Self::Owned<u64>) -> Vec<u64>;

    /// Submits a step, whose body calls `began` first. All data objects that the step accesses must be present.
    fn submit(
        front: Front<'_>,
        data: &[Option<Data<u64, Self>>],
        step: &Step,
        began: impl FnOnce() + Send + 'static,
    ) -> Result<TaskId, SubmitError>;
}

/// Calls the macro `$task` with a step's access to its target, by its kind, and a closure that changes the view of it.
macro_rules! access_target {
    ($shape:ty, $kind:ident, $target:ident, $task:ident) => {{
        let change = move |mut target: <$shape as Shape>::ViewMut<'_, u64>, h| {
            target.iter_mut().enumerate().for_each(|(n, x)| *x = $kind.value(*x, h, n))
        };
        match $kind {
            Kind::Out => $task!($target.output(), change),
            Kind::Inout => $task!($target.inout(), change),
            Kind::Commutative => $task!($target.commutative(), change),
            Kind::Concurrent => $task!($target.concurrent(), |target: Shared<'_, u64>, h| {
                (0..target.len()).for_each(|n| target.update(n, |x| $kind.value(x, h, n)))
            }),
            Kind::Add => $task!($target.reduction(ADD.clone()), change),
            Kind::Accumulate => $task!($target.accumulate(ADD.clone()), change),
            Kind::Max => $task!($target.reduction(Max), change),
        }
    }};
}

/// Body of [`Dimensions::submit`]. The same code works for every shape, because slices and array views are iterated in
/// the same way.
macro_rules! submit {
    ($shape:ty) => {
        #[allow(unused_mut)] // array views must be mutable to be iterated, slices need not
        fn submit(
            front: Front<'_>,
            data: &[Option<Data<u64, Self>>],
            step: &Step,
            began: impl FnOnce() + Send + 'static,
        ) -> Result<TaskId, SubmitError> {
            let cut = |part: &Part| Self::cut(data[part.data].as_ref().expect("steps use only present data"), part);
            let [a, b] = &step.reads;
            let (a, b, target, update) = (cut(a).input(), cut(b).input(), cut(&step.target), cut(&step.update).inout());
            let &Step { kind, bodies, end: ends, seed, .. } = step;
            let metered = step.metered();
            macro_rules! task {
                ($access:expr, $change:expr) => {{
                    let task = using(front.task("step", (a, b, $access, update)), &metered);
                    macro_rules! body {
                        () => {
                            move |_, (a, b, target, mut update)| {
                                let _used = metered.as_ref().map(|(meter, amount)| meter.begin(*amount));
                                began();
                                let h = hash(hash(seed, a.iter()), b.iter());
                                $change(target, h);
                                end(ends)?;
                                update.iter_mut().for_each(|x| *x = updated(*x, h));
                                Ok::<(), AsTheProgramSays>(())
                            }
                        };
                    }
                    match bodies {
                        Bodies::All => task.cpu(body!()).submit(),
                        Bodies::Cores | Bodies::Detached => task.host(body!()).submit(),
                        Bodies::Devices => task.emulated(body!()).submit(),
                    }
                }};
            }
            macro_rules! detached {
                ($access:expr) => {{
                    let task = using(front.task("step", (a, b, $access, update)), &metered);
                    let detached = task.host_detached_until_event(move |_, (a, b, mut target, mut update)| {
                        let used = metered.as_ref().map(|(meter, amount)| meter.begin(*amount));
                        began();
                        outside(seed, move || {
                            let h = hash(hash(seed, a.iter()), b.iter());
                            target.iter_mut().enumerate().for_each(|(n, x)| *x = kind.value(*x, h, n));
                            a.finish();
                            match ends {
                                End::Returns => {
                                    update.iter_mut().for_each(|x| *x = updated(*x, h));
                                    target.finish();
                                }
                                End::Fails => target.fail(AsTheProgramSays),
                                End::Panics => drop(target),
                            }
                            update.finish();
                            drop(used); // before the last of the accesses ends the task
                            b.finish();
                        });
                    });
                    return detached.submit();
                }};
            }
            if bodies == Bodies::Detached {
                match kind {
                    Kind::Out => detached!(target.output()),
                    Kind::Inout => detached!(target.inout()),
                    Kind::Commutative => detached!(target.commutative()),
                    Kind::Concurrent => {}
                    Kind::Add => detached!(target.reduction(ADD.clone())),
                    Kind::Accumulate => detached!(target.accumulate(ADD.clone())),
                    Kind::Max => detached!(target.reduction(Max)),
                }
            }
            access_target!($shape, kind, target, task)
        }
    };
}

impl Dimensions for Ix1 {
    fn register(rt: &Runtime, _: [usize; 3], values: Vec<u64>) -> Data<u64> {
        rt.data(values)
    }

    fn cut<'d>(data: &'d Data<u64>, part: &Part) -> Region<'d, u64> {
        data.slice(part.ranges[2].clone())
    }

    fn values(owned: Vec<u64>) -> Vec<u64> {
        owned
    }

    submit!(Ix1);
}

fn array<D: Dimension>(shape: D, values: Vec<u64>) -> Array<u64, D> {
    Array::from_shape_vec(shape, values).unwrap()
}

impl Dimensions for Ix2 {
    fn register(rt: &Runtime, [_, y, z]: [usize; 3], values: Vec<u64>) -> Data<u64, Ix2> {
        rt.array(array(Ix2(y, z), values))
    }

    fn cut<'d>(data: &'d Data<u64, Ix2>, part: &Part) -> Region<'d, u64, Ix2> {
        data.block((part.ranges[1].clone(), part.ranges[2].clone()))
    }

    fn values(owned: Array<u64, Ix2>) -> Vec<u64> {
        owned.into_iter().collect()
    }

    submit!(Ix2);
}

impl Dimensions for Ix3 {
    fn register(rt: &Runtime, [x, y, z]: [usize; 3], values: Vec<u64>) -> Data<u64, Ix3> {
        rt.array(array(Ix3(x, y, z), values))
    }

    fn cut<'d>(data: &'d Data<u64, Ix3>, part: &Part) -> Region<'d, u64, Ix3> {
        data.block((part.ranges[0].clone(), part.ranges[1].clone(), part.ranges[2].clone()))
    }

    fn values(owned: Array<u64, Ix3>) -> Vec<u64> {
        owned.into_iter().collect()
    }

    submit!(Ix3);
}
