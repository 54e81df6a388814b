//! Random programs with replays on devices, compared with the sequential execution of their tasks.

use super::super::programs::{kind, with_units};
use super::super::random::{Random, variable};
use super::{ABSORB, most_devices};
use std::ops::Range;
use thalweg::Explanation;
use thalweg::kernel::{DeviceView, DeviceViewMut, Launcher};
use thalweg::prelude::*;

const ROWS: usize = 5;
const COLUMNS: usize = 7;

#[derive(Debug, Clone)]
struct Part {
    data: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Good,
    Refuses,
    RefusesLate,
    Panics,
}

#[derive(Debug, Clone)]
struct Step {
    reads: Part,
    writes: Part,
    keeps: bool,
    /// Whether the task is a reduction, which adds to what it writes.
    adds: bool,
    salt: u64,
    end: End,
    on_host: bool,
}

impl Part {
    fn draw(lot: &mut Random, data: usize) -> Self {
        Self { data: lot.below(data), rows: lot.range(ROWS), columns: lot.range(COLUMNS) }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        self.data == other.data && meet(&self.rows, &other.rows) && meet(&self.columns, &other.columns)
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.clone();
        self.rows.clone().flat_map(move |row| columns.clone().map(move |column| row * COLUMNS + column))
    }
}

/// Expected memory contents if the tasks run one after the other; `None` for poisoned elements.
struct Oracle {
    memory: Vec<Vec<Option<u64>>>,
    /// The elements that are poisoned only because a member of an open group of reductions has failed. Later members
    /// do not fail with it.
    in_group: Vec<Vec<bool>>,
    failures: usize,
}

impl Oracle {
    /// Notes that a task uses a part in another way than by a reduction.
    fn close_groups(&mut self, part: &Part) {
        part.places().for_each(|at| self.in_group[part.data][at] = false);
    }

    fn apply(&mut self, step: &Step, more: u64) {
        let mut h = Some(step.salt.wrapping_add(more));
        for at in step.reads.places() {
            h = h.and_then(|h| Some(h.wrapping_mul(31).wrapping_add(self.memory[step.reads.data][at]?)));
        }
        self.close_groups(&step.reads);
        if !step.adds {
            self.close_groups(&step.writes);
        }
        let (target, in_group) = (&mut self.memory[step.writes.data], &mut self.in_group[step.writes.data]);
        let mut is_there = step.writes.places().map(|at| target[at].is_some() || step.adds && in_group[at]);
        let is_good = h.is_some() && (!(step.keeps || step.adds) || is_there.all(|is_there| is_there));
        self.failures += usize::from(is_good && step.end != End::Good);
        if step.adds {
            for (i, at) in (0..).zip(step.writes.places()) {
                if is_good && step.end == End::Good {
                    target[at] = target[at].zip(h).map(|(sum, h): (u64, u64)| sum.wrapping_add(h.wrapping_add(i)));
                } else if target[at].take().is_some() {
                    in_group[at] = true;
                }
            }
            return;
        }
        for (i, at) in (0..).zip(step.writes.places()) {
            let kept = if step.keeps { target[at].map(|kept| kept.wrapping_mul(7)) } else { Some(0) };
            let new = || Some(kept?.wrapping_add(h?).wrapping_add(i));
            target[at] = if is_good && step.end == End::Good { new() } else { None };
        }
    }
}

fn enqueue(
    k: &mut Launcher<'_>,
    a: &DeviceView<'_, u64>,
    t: &mut DeviceViewMut<'_, u64>,
    step: &Step,
    more: u64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match step.end {
        End::Refuses => return Err("it refuses".into()),
        End::Panics => panic!("it panics"),
        End::Good | End::RefusesLate => {}
    }
    let numbers = |extents: [usize; 4], strides: [usize; 4]| [extents[0], strides[0], extents[1]].map(|n| n as i32);
    let ([ar, a_stride, ac], [tr, ts, tc]) = (numbers(a.extents(), a.strides()), numbers(t.extents(), t.strides()));
    let salt = step.salt.wrapping_add(more);
    k.launch(&ABSORB, t.len(), (a, t, salt, i32::from(step.keeps), ar, a_stride, ac, tr, ts, tc))?;
    if step.end == End::RefusesLate { Err("it refuses late".into()) } else { Ok(()) }
}

macro_rules! describe {
    ($task:expr, $step:expr, $more:ident => $value:expr, $cores:expr) => {{
        let (step, cores) = ($step.clone(), $step.clone());
        let task = $task.gpu(move |k, ($more, a, mut t)| enqueue(k, &a, &mut t, &step, $value));
        if $cores || $step.on_host {
            let task = task.host(move |_, ($more, a, mut t)| {
                let h = a.iter().fold(cores.salt.wrapping_add($value), |h, a| h.wrapping_mul(31).wrapping_add(*a));
                for (i, t) in (0..).zip(t.iter_mut()) {
                    *t = if cores.keeps { t.wrapping_mul(7) } else { 0 }.wrapping_add(h).wrapping_add(i);
                }
                match cores.end {
                    End::Good => Ok(()),
                    End::Panics => panic!("it panics"),
                    End::Refuses | End::RefusesLate => Err("it refuses"),
                }
            });
            task.submit().map(drop)
        } else {
            task.submit().map(drop)
        }
    }};
}

/// Random programs with failures and with recorded parts that are replayed between the other tasks.
#[test]
#[ignore = "run on a stand-in by another test"]
fn random_replays_match_direct_execution() {
    let (cases, seed) = (variable("THALWEG_CASES", 60), variable("THALWEG_SEED", 1));
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("it panics") {
            eprintln!("{panic}");
        }
    }));
    let mut launched = 0;
    for case in 0..cases {
        launched += random_program(&mut Random(seed.wrapping_mul(1000).wrapping_add(case)), case);
    }
    assert!(launched > 0, "no replay was submitted as a graph");
}

/// Runs a program and compares the result with the oracle. Returns the number of submitted graphs.
fn random_program(lot: &mut Random, case: u64) -> usize {
    let kind = kind();
    let units = lot.of(&["1:K:1", "1:K:1", "N:K:1", "1:CPU:1,1:K:1"]);
    let units = units.replace('N', &most_devices().to_string()).replace('K', &kind);
    let (with_cores, data) = (lot.one_in(3) && !units.contains("CPU"), 1 + lot.below(4));
    let (fails, with_reductions) = (lot.one_in(2), lot.one_in(2));
    let mut before: Option<Step> = None;
    let mut draw = || {
        let reads = Part::draw(lot, data);
        let mut writes = Part::draw(lot, data);
        while writes.overlaps(&reads) {
            writes = Part { columns: lot.range(COLUMNS), rows: lot.range(ROWS), data: lot.below(data.max(2)) % data };
            if data == 1 && lot.one_in(8) {
                return None;
            }
        }
        let end = match fails && lot.one_in(12) {
            true => lot.of(&[End::Refuses, End::RefusesLate, End::Panics]),
            false => End::Good,
        };
        let on_host = units.contains("CPU") && lot.one_in(5);
        let keeps = on_host || lot.one_in(2);
        let mut step = Step { reads, writes, keeps, adds: false, salt: lot.next(), end, on_host };
        // Reductions are part of a run only between other uses of their region.
        if let Some(Step { writes, adds, .. }) = before.clone() {
            if adds && lot.one_in(2) && !writes.overlaps(&step.writes) {
                step.reads = writes.clone();
            } else if with_reductions && lot.one_in(2) && !writes.overlaps(&step.reads) {
                (step.writes, step.keeps, step.adds, step.on_host) = (writes.clone(), false, true, false);
            }
        }
        before.insert(step).clone().into()
    };
    let steps: Vec<Step> = (0..24).filter_map(|_| draw()).collect();
    let parts: Vec<&[Step]> = steps.chunks(9).collect();
    let rt = with_units(&units);
    let values: Vec<Vec<u64>> =
        (0..data as u64).map(|d| (0..(ROWS * COLUMNS) as u64).map(|i| d * 1000 + i).collect()).collect();
    let arrays =
        values.iter().map(|values| rt.array(ndarray::Array2::from_shape_vec([ROWS, COLUMNS], values.clone()).unwrap()));
    let arrays: Vec<Data<u64, Ix2>> = arrays.collect();
    let cut = |part: &Part| arrays[part.data].block((part.rows.clone(), part.columns.clone()));
    let mut recordings = Vec::new();
    for steps in &parts[..parts.len().min(2)] {
        let mut more = None;
        let recording = rt.record(|r| {
            let more = more.insert(r.parameter("more", 0u64));
            for step in *steps {
                let (a, t) = (cut(&step.reads), cut(&step.writes));
                match (step.on_host, step.keeps) {
                    _ if step.adds => {
                        let task = r.task("sum", (more.input(), a.input(), t.reduction(Sum)));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (false, true) => {
                        let task = r.task("step", (more.input(), a.input(), t.inout()));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (false, false) => {
                        let task = r.task("step", (more.input(), a.input(), t.output()));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (true, _) => {
                        let task = r.task("host", (more.input(), a.input(), t.inout()));
                        describe!(task, step, more => *more, true)?;
                    }
                }
            }
            Ok(())
        });
        recordings.push((recording.unwrap(), more.unwrap()));
    }
    let mut oracle = Oracle {
        memory: values.into_iter().map(|values| values.into_iter().map(Some).collect()).collect(),
        in_group: vec![vec![false; ROWS * COLUMNS]; data],
        failures: 0,
    };
    let (mut failed, mut launched) = (0, 0);
    let mut count = |ended: Result<(), RunError>| match ended {
        Ok(()) => {}
        Err(RunError::Failed(failures)) => {
            let is_ours = |failure: &&_| format!("{failure:?}").contains("it ");
            assert_eq!(failures.iter().filter(is_ours).count(), failures.iter().count(), "case {case}: {failures}");
            failed += failures.iter().count();
        }
        Err(other) => panic!("{other}"),
    };
    for _ in 0..12 {
        match lot.below(8) {
            0 => count(rt.wait()),
            1 => {
                let part = &steps[lot.below(steps.len())].writes;
                _ = rt.read(cut(part));
                oracle.close_groups(part);
            }
            2 => {
                for step in parts.get(2).copied().unwrap_or_default() {
                    let (a, t, none) = (cut(&step.reads), cut(&step.writes), rt.token());
                    let task = rt.task("step", (none.input(), a.input(), t.inout()));
                    let step = Step { keeps: true, adds: false, ..step.clone() };
                    describe!(task, step, _more => 0, with_cores).unwrap();
                    oracle.apply(&step, 0);
                }
            }
            _ => {
                let at = lot.below(recordings.len());
                let (recording, more) = &mut recordings[at];
                let value = lot.below(2) as u64;
                for _ in 0..1 + lot.below(4) {
                    recording.set(more, value).unwrap();
                    recording.replay().unwrap();
                    if let Explanation::Graphs { graphs, .. } = recording.explain() {
                        launched += graphs;
                    }
                    parts[at].iter().for_each(|step| oracle.apply(step, value));
                }
            }
        }
    }
    count(rt.wait());
    assert_eq!(failed, oracle.failures, "case {case}: {units} {steps:?}");
    for (array, expected) in arrays.iter().zip(&oracle.memory) {
        for (at, expected) in expected.iter().enumerate() {
            let found = rt.read(array.block((at / COLUMNS, at % COLUMNS)));
            let found = match found {
                Ok(found) => Some(found[[0, 0]]),
                Err(RunError::Poisoned(_)) => None,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, *expected, "case {case}: {units} {at} {steps:?}");
        }
    }
    launched
}
