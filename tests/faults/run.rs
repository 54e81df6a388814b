//! Runs a program, and judges by the oracle what it leaves.

use crate::oracle::Oracle;
use crate::program::{Act, Program};
use crate::steps::{Bodies, Dimensions, Part, Step, mix};
use std::collections::HashMap;
use std::sync::Arc;
use thalweg::error::{FailureReason, TaskFailure};
use thalweg::ids::TaskId;
use thalweg::prelude::*;

/// Runs a program and compares what can be read with the oracle.
pub(crate) fn run<S: Dimensions>(program: &Program) {
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
    fn read<S: Dimensions>(rt: &Runtime, data: &[Option<Data<u64, S>>], part: &Part) -> Option<Vec<u64>> {
        match rt.read(S::cut(data[part.data].as_ref().expect("it is read while it is there"), part)) {
            Ok(values) => Some(S::values(values)),
            Err(RunError::Poisoned(_)) => None,
            Err(other) => panic!("{other}"),
        }
    }
    for act in &program.acts {
        match act {
            Act::Task(step) => match S::submit(&rt, &data, step, || ()) {
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
