//! Runs random programs and checks the remaining data against the oracle.

use crate::oracle::{Fate, Oracle};
use crate::program::{Act, Program};
use crate::steps::{Bodies, Dimensions, Front, Part, mix};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};
use thalweg::error::{FailureReason, TaskFailure};
use thalweg::ids::TaskId;
use thalweg::prelude::*;

/// Runs a program and compares everything that can be read with the oracle. Returns the number of failures.
pub(crate) fn run<S: Dimensions>(program: &Program) -> usize {
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
        .use_current_thread(program.hosted)
        .detect_conflicts(true)
        .emulated_devices(move |n| described[n].clone())
        .build()
        .unwrap();
    let mut data: Vec<_> = start.into_iter().map(|values| Some(S::register(&rt, extents, values))).collect();
    let tasks = Tasks::default();
    let mut failures: Vec<Arc<TaskFailure>> = Vec::new();
    let mut wait = |rt: &Runtime| match rt.wait() {
        Ok(()) => {}
        Err(RunError::Failed(reported)) => failures.extend(reported.iter().cloned()),
        Err(other) => panic!("{other}"),
    };
    fn read<S: Dimensions>(rt: &Runtime, data: &[Option<Data<u64, S>>], part: &Part) -> Option<Vec<u64>> {
        match rt.read(S::cut(data[part.data].as_ref().expect("only present data is read"), part)) {
            Ok(values) => Some(S::values(values)),
            Err(RunError::Poisoned(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }
    let mut first = 0;
    for act in &program.acts {
        match act {
            Act::Task(_) | Act::Parent(_) => {
                submit::<S>(Front::Outside(&rt), &data, act, first, &tasks);
                if !tasks.has_refused(first) {
                    oracle.apply(act);
                }
                first += act.tasks();
            }
            Act::Prefetch(part, space) => {
                let cell = data[part.data].as_ref().expect("only present data is prefetched");
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
    // If a device is lost or an eviction fails, the error does not say which elements are affected.
    let vague = |failure: &TaskFailure| {
        let lost = matches!(failure.reason(), FailureReason::Device(error) if error.is_loss());
        lost || failure.name() == "a copy to make room"
    };
    let roots: HashMap<TaskId, &Arc<TaskFailure>> = failures.iter().map(|failure| (failure.task(), failure)).collect();
    match failures.iter().any(|failure| vague(failure)) {
        true => oracle.reached.iter_mut().flatten().for_each(|reached| *reached = true),
        false => {
            let mut n = 0;
            for act in &program.acts {
                oracle.reach(act, &mut n, &|n| tasks.fate(n, &roots));
            }
        }
    }
    for which in 0..program.data {
        if data[which].is_none() {
            continue;
        }
        let all = Part { data: which, ranges: extents.map(|extent| 0..extent) };
        let again = || (0..=devices.len()).find_map(|_| read(&rt, &data, &all)); // scripted faults can also hit reads
        if let Some(got) = again() {
            oracle.check(&all, &got);
            let taken = data[which].take().map(|data| rt.take(data).expect("data that was read is valid on the host"));
            oracle.check(&all, &S::values(taken.expect("the handle was not dropped")));
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
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
    tasks.unexpected();
    failures.len()
}

/// The submission results of tasks, by the tasks' indices in the program.
#[derive(Clone, Default)]
struct Tasks(Arc<Mutex<HashMap<usize, Result<TaskId, SubmitError>>>>);

impl Tasks {
    fn has_refused(&self, n: usize) -> bool {
        matches!(self.0.lock().unwrap().get(&n), Some(Err(_)))
    }

    fn fate(&self, n: usize, roots: &HashMap<TaskId, &Arc<TaskFailure>>) -> Fate {
        match self.0.lock().unwrap().get(&n) {
            Some(Ok(id)) if roots.contains_key(id) => Fate::Failed,
            Some(Ok(_)) => Fate::Submitted,
            _ => Fate::Absent,
        }
    }

    /// Checks that no task was refused for any reason other than its size.
    fn unexpected(&self) {
        for (n, submitted) in &*self.0.lock().unwrap() {
            let is_expected = matches!(submitted, Ok(_) | Err(SubmitError::WorkingSet { .. }));
            assert!(is_expected, "task {n}: {submitted:?}");
        }
    }
}

/// Submits a task, or a parent with all its children. The first task has the index `n`.
fn submit<S: Dimensions>(front: Front<'_>, data: &[Option<Data<u64, S>>], act: &Act, n: usize, tasks: &Tasks) {
    let submitted = match act {
        Act::Task(step) => S::submit(front, data, step, || ()),
        Act::Parent(parent) => {
            let region = |part: &Part| S::cut(data[part.data].as_ref().expect("only present data is used"), part);
            let weak: Vec<_> = parent.weak.iter().map(|part| region(part).weak_inout()).collect();
            let reads: Vec<_> = parent.reads.iter().map(|part| region(part).input()).collect();
            // Keep only the handles of data that the children may access; the other handles can be dropped in the
            // meantime.
            let is_for_children = |which: usize| parent.weak.iter().any(|part| part.data == which);
            let own: Vec<_> =
                (0..data.len()).map(|which| data[which].clone().filter(|_| is_for_children(which))).collect();
            let (inner, children, waits) = (tasks.clone(), parent.children.clone(), parent.waits);
            let act = move |at: &Context| {
                let mut next = n + 1;
                for child in &children {
                    submit::<S>(Front::Body(at), &own, child, next, &inner);
                    next += child.tasks();
                }
                if waits {
                    let _ = at.wait(); // refused on devices; the oracle accounts for failures
                }
            };
            let task = front.task("parent", (weak, reads));
            match parent.bodies {
                Bodies::Devices => task.emulated(move |at, _| act(at)).submit(),
                Bodies::All => task.cpu(move |at, _| act(at)).submit(),
                Bodies::Cores | Bodies::Detached => task.host(move |at, _| act(at)).submit(),
            }
        }
        _ => unreachable!("only tasks are submitted"),
    };
    tasks.0.lock().unwrap().insert(n, submitted);
}
