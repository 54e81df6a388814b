//! Parts of programs are recorded, and replayed in any order between the others: it is as if their steps had been submitted
//! again.

use crate::oracle::Memory;
use crate::program::{self, Program};
use crate::steps::{ADD, AsTheProgramSays, Dimensions, End, Front, Kind, Part, Step, end, hash, mix, updated};
use crate::{builder, check_parts};
use ndarray::{Ix1, Ix2, Ix3};
use proptest::prelude::*;
use std::collections::HashMap;
use thalweg::Explanation;
use thalweg::memory::{Shape, Shared};
use thalweg::prelude::*;

/// How many recordings there are; the steps behind theirs are submitted one by one.
const RECORDINGS: usize = 2;

#[derive(Debug, Clone, Copy)]
enum Act {
    Replay(usize),
    /// The steps that are in no recording.
    Submit,
    Wait,
    Read,
}

#[derive(Debug, Clone)]
pub(crate) struct Replayed {
    program: Program,
    acts: Vec<Act>,
}

impl Replayed {
    pub(crate) fn dims(&self) -> usize {
        self.program.dims
    }
}

pub(crate) fn program() -> impl Strategy<Value = Replayed> {
    let act = prop_oneof![
        6 => (0..RECORDINGS).prop_map(Act::Replay),
        1 => Just(Act::Submit),
        1 => Just(Act::Wait),
        1 => Just(Act::Read),
    ];
    let acts = prop::collection::vec((act, 1..4usize), 1..12);
    (program::program(), acts).prop_map(|(program, acts)| {
        let acts = acts.into_iter().flat_map(|(act, times)| std::iter::repeat_n(act, times)).collect();
        Replayed { program: Program { record: program.record && program.data == 1, ..program }, acts }
    })
}

/// What recordings need of data objects of one number of dimensions.
pub(crate) trait Recordable: Dimensions {
    fn record(r: &Recorder<'_>, data: &[Data<u64, Self>], step: &Step) -> Result<(), SubmitError>;
}

/// As `steps::submit`: the same text for every shape.
macro_rules! record {
    ($shape:ty) => {
        impl Recordable for $shape {
            #[allow(unused_mut)] // array views must be mutable to be iterated so, slices must not
            fn record(r: &Recorder<'_>, data: &[Data<u64, Self>], step: &Step) -> Result<(), SubmitError> {
                let cut = |part: &Part| Self::cut(&data[part.data], part);
                let [a, b] = &step.reads;
                let (a, b, target, update) =
                    (cut(a).input(), cut(b).input(), cut(&step.target), cut(&step.update).inout());
                let &Step { kind, end: ends, seed, .. } = step;
                macro_rules! task {
                    ($access:expr, $change:expr) => {{
                        let task = r.task("step", (a, b, $access, update));
                        task.cpu(move |_, (a, b, target, mut update)| {
                            let h = hash(hash(seed, a.iter()), b.iter());
                            $change(target, h);
                            end(ends)?;
                            update.iter_mut().for_each(|x| *x = updated(*x, h));
                            Ok::<(), AsTheProgramSays>(())
                        })
                        .submit()
                    }};
                }
                let change = move |mut target: <$shape as Shape>::ViewMut<'_, u64>, h| {
                    target.iter_mut().enumerate().for_each(|(n, x)| *x = kind.value(*x, h, n))
                };
                match kind {
                    Kind::Out => task!(target.output(), change),
                    Kind::Inout => task!(target.inout(), change),
                    Kind::Commutative => task!(target.commutative(), change),
                    Kind::Concurrent => task!(target.concurrent(), |target: Shared<'_, u64>, h| {
                        (0..target.len()).for_each(|n| target.update(n, |x| kind.value(x, h, n)))
                    }),
                    Kind::Add => task!(target.reduction(ADD.clone()), change),
                    Kind::Accumulate => task!(target.accumulate(ADD.clone()), change),
                    Kind::Max => task!(target.reduction(Max), change),
                }
            }
        }
    };
}

record!(Ix1);
record!(Ix2);
record!(Ix3);

/// Whether the first or the last access to some element is one of a group.
fn has_groups_outside(steps: &[Step], extents: [usize; 3]) -> bool {
    let mut ends: HashMap<(usize, usize), [bool; 2]> = HashMap::new();
    for Step { reads: [a, b], kind, target, update, .. } in steps {
        let is_group = !matches!(kind, Kind::Out | Kind::Inout);
        for (part, is_group) in [(a, false), (b, false), (target, is_group), (update, false)] {
            for element in part.elements(extents) {
                ends.entry((part.data, element)).or_insert([is_group; 2])[1] = is_group;
            }
        }
    }
    ends.values().any(|ends| ends.contains(&true))
}

/// Runs the program and compares memory and failures with the oracle.
pub(crate) fn check<S: Recordable>(Replayed { program, acts }: &Replayed) {
    let len = program.extents.iter().product::<usize>();
    let values = initial(program);
    let rt = builder(program).build().unwrap();
    let data: Vec<_> = values.iter().map(|values| S::register(&rt, program.extents, values.clone())).collect();
    let handles: Vec<_> = data.iter().cloned().map(Some).collect();
    let steps = &program.threads[0];
    let parts = parts_of(program);
    let mut recordings = record(&rt, &data, &parts);
    let poisoned = vec![vec![false; len]; program.data];
    let (mut memory, mut failed) = (Memory { values, poisoned, failures: 0 }, 0);
    for act in acts {
        let done = match *act {
            Act::Replay(number) => {
                recordings[number].replay().unwrap();
                let is_hard = |step: &Step| step.kind == Kind::Accumulate;
                let stays = program.scheduler == "stealing" && !program.units.contains("EMU") && !program.record;
                let stays = stays && !parts[number].is_empty() && !parts[number].iter().any(is_hard);
                let stays = stays && !has_groups_outside(parts[number], program.extents);
                let explanation = recordings[number].explain();
                assert_eq!(explanation == &Explanation::Frozen, stays, "{explanation}");
                parts[number]
            }
            Act::Submit => {
                let last = parts[RECORDINGS];
                last.iter().for_each(|step| _ = S::submit(Front::Outside(&rt), &handles, step, || ()).unwrap());
                last
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
        done.iter().for_each(|step| memory.apply(step, program.extents));
    }
    failed += failures(rt.wait());
    assert_eq!(failed, memory.failures);
    drop((handles, recordings));
    for (number, data) in data.into_iter().enumerate() {
        let (values, poisoned) = (&memory.values[number], &memory.poisoned[number]);
        if poisoned.contains(&true) {
            check_parts(&rt, &data, program.extents, values, poisoned);
        } else {
            assert_eq!(&S::values(rt.take(data).unwrap()), values);
        }
    }
    assert_eq!(rt.conflicts(), Vec::<String>::new());
}

/// Runs the program by replays and by submissions, with steps that fail in whatever mode they have their targets: what is
/// there at the end is the same, and so is what is missing.
pub(crate) fn check_by_hand<S: Recordable>(Replayed { program, acts }: &Replayed) {
    let mut program = program.clone();
    for (number, step) in program.threads[0].iter_mut().enumerate().filter(|(number, _)| number % 4 == 1) {
        step.end = if number % 3 == 0 { End::Panics } else { End::Fails };
    }
    let by_replays = outcome::<S>(&program, acts, true);
    let by_hand = outcome::<S>(&program, acts, false);
    assert_eq!(by_replays, by_hand);
}

/// Each element of each data object, if it can be read, and how many tasks have failed.
fn outcome<S: Recordable>(program: &Program, acts: &[Act], replays: bool) -> (Vec<Option<u64>>, usize) {
    let extents = program.extents;
    let rt = builder(program).build().unwrap();
    let data: Vec<_> = initial(program).into_iter().map(|values| S::register(&rt, extents, values)).collect();
    let handles: Vec<_> = data.iter().cloned().map(Some).collect();
    let mut failed = 0;
    let submit = |steps: &[Step]| {
        steps.iter().for_each(|step| _ = S::submit(Front::Outside(&rt), &handles, step, || ()).unwrap());
    };
    let parts = parts_of(program);
    let mut recordings = record(&rt, &data, &parts);
    for act in acts {
        match *act {
            Act::Replay(number) if replays => recordings[number].replay().unwrap(),
            Act::Replay(number) => submit(parts[number]),
            Act::Submit => submit(parts[RECORDINGS]),
            Act::Wait => failed += failures(rt.wait()),
            Act::Read => _ = rt.read(S::cut(&data[0], &program.threads[0][0].target)),
        }
    }
    failed += failures(rt.wait());
    let [x, y, z] = extents;
    let element = |number: usize, i: usize, j: usize, k: usize| {
        let part = Part { data: number, ranges: [i..i + 1, j..j + 1, k..k + 1] };
        rt.read(S::cut(&data[number], &part)).ok().map(|found| S::values(found)[0])
    };
    let places = (0..program.data * x * y * z).map(|n| (n / (x * y * z), n / (y * z) % x, n / z % y, n % z));
    (places.map(|(number, i, j, k)| element(number, i, j, k)).collect(), failed)
}

/// What is recorded, in parts, and what is not.
fn parts_of(program: &Program) -> Vec<&[Step]> {
    let steps = &program.threads[0];
    let third = steps.len().div_ceil(RECORDINGS + 1);
    let mut parts: Vec<_> = steps.chunks(third).collect();
    parts.resize(RECORDINGS + 1, &[]);
    parts
}

/// What is in each data object at the beginning.
fn initial(program: &Program) -> Vec<Vec<u64>> {
    let len = program.extents.iter().product::<usize>() as u64;
    (0..program.data).map(|d| (0..len).map(|e| mix(d as u64, e)).collect()).collect()
}

fn record<S: Recordable>(rt: &Runtime, data: &[Data<u64, S>], parts: &[&[Step]]) -> Vec<Recording> {
    let record = |steps: &&[Step]| rt.record(|r| steps.iter().try_for_each(|step| S::record(r, data, step))).unwrap();
    parts[..RECORDINGS].iter().map(record).collect()
}

/// How many tasks have failed.
fn failures(waited: Result<(), RunError>) -> usize {
    match waited {
        Ok(()) => 0,
        Err(RunError::Failed(failures)) => failures.len(),
        Err(other) => panic!("{other}"),
    }
}
