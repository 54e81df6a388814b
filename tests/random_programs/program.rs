//! The random programs and their generators.

use crate::loops::{self, Loop};
use crate::oracle::seed;
use crate::steps::{Bodies, End, Kind, METERED, Meter, Part, Step};
use proptest::prelude::*;
use std::ops::Range;
use thalweg::Runtime;

#[derive(Debug, Clone)]
pub(crate) struct Program {
    pub(crate) dims: usize,
    pub(crate) extents: [usize; 3],
    pub(crate) data: usize,
    /// One list of steps per submitting thread.
    pub(crate) threads: Vec<Vec<Step>>,
    /// For each thread, the loops, whose steps are submitted in one call.
    pub(crate) loops: Vec<Vec<Loop>>,
    /// Whether all threads access every data object as a whole; otherwise each thread uses only its own slab.
    pub(crate) shared: bool,
    /// The data object whose handle is dropped after the last submission and before the wait; `None` if all are kept.
    pub(crate) dropped: Option<usize>,
    pub(crate) units: &'static str,
    pub(crate) scheduler: &'static str,
    pub(crate) hosted: bool,
    pub(crate) spare_bytes: u64,
    /// Whether the graph is compared as well, which requires that finished tasks are not forgotten.
    pub(crate) record: bool,
}

impl Program {
    /// Returns the same program, in which steps outside of loops use a resource of this runtime.
    pub(crate) fn metered(&self, rt: &Runtime) -> Self {
        let (meter, mut program) = (Meter::new(rt, METERED), self.clone());
        for (steps, loops) in program.threads.iter_mut().zip(&program.loops) {
            let in_loop = |n: usize| loops.iter().any(|cut| (cut.first..cut.first + cut.steps).contains(&n));
            steps
                .iter_mut()
                .enumerate()
                .filter(|(n, _)| !in_loop(*n))
                .for_each(|(_, step)| step.meter = Some(meter.clone()));
        }
        program
    }
}

fn range(within: Range<usize>) -> impl Strategy<Value = Range<usize>> {
    let end = within.end;
    (within.clone(), within).prop_map(move |(a, b)| a.min(b)..(a.max(b) + 1).min(end))
}

/// Draws a box inside `slab` (in the last dimension), sometimes empty.
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
        // The accesses of one task must not overlap if one of them writes. Most tasks update only one box.
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
        let end = if failing && lot == 1 { End::Fails } else { End::Returns };
        let bodies = if lot > 8 { Bodies::Detached } else { Bodies::All };
        Step { reads: [a, b], kind, target, update, bodies, end, seed: 0, meter: None }
    })
}

pub(crate) fn program() -> impl Strategy<Value = Program> {
    let units = ["2:CPU:1", "1:CPU:2", "3:CPU:1", "1:CPU:1,2:EMU:1", "2:CPU:1,1:EMU:2", "2:EMU:1"];
    let fast = (prop::sample::select(units[..3].to_vec()), Just("stealing"), any::<bool>());
    let any_machine =
        (prop::sample::select(units.to_vec()), prop::sample::select(thalweg::sched::NAMES), any::<bool>());
    let machine = prop_oneof![fast, any_machine];
    // Multi-dimensional data uses a different history as long as no task joins a group.
    const KINDS: [Kind; 7] =
        [Kind::Out, Kind::Inout, Kind::Commutative, Kind::Concurrent, Kind::Add, Kind::Accumulate, Kind::Max];
    let kinds = prop::sample::select(vec![&KINDS[..], &KINDS[..2]]);
    let flags = (any::<bool>(), any::<bool>(), any::<bool>(), prop::option::of(0..3usize));
    (1..=3usize, 1..=3usize, 1..=3usize, machine, 0..4u64, kinds, flags).prop_flat_map(
        |(dims, data, threads, (units, scheduler, hosted), spare, kinds, (record, shared, failing, dropped))| {
            let extents = [[1, 1, 48], [1, 7, 12], [4, 5, 9]][dims - 1];
            let cpu = units.contains("CPU");
            let shared = shared && threads > 1;
            // Other tests cover the effect of a failure on the other members of its group. If threads share data,
            // skipped bodies do not record their order.
            let failing = failing && kinds.len() == 2 && !shared;
            let slab = move |t: usize| match shared {
                true => 0..extents[2],
                false => t * extents[2] / threads..(t + 1) * extents[2] / threads,
            };
            let steps = (0..threads)
                .map(|t| (step(dims, data, extents, slab(t), cpu, kinds, failing), loops::size()))
                .map(|step| prop::collection::vec(step, 1..40).prop_map(loops::cut))
                .collect::<Vec<_>>();
            let seeded = |mut threads: Vec<Vec<Step>>| {
                for (thread, steps) in threads.iter_mut().enumerate() {
                    steps.iter_mut().enumerate().for_each(|(n, step)| step.seed = seed((thread, n)));
                }
                threads
            };
            steps.prop_map(move |steps| {
                let (steps, loops) = steps.into_iter().unzip();
                Program {
                    dims,
                    extents,
                    data,
                    threads: seeded(steps),
                    loops,
                    shared,
                    dropped,
                    units,
                    scheduler,
                    hosted,
                    spare_bytes: spare * spare * 256,
                    record: record && threads == 1,
                }
            })
        },
    )
}
