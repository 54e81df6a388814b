//! Tests of writing traces to CSV files and reading them back.

mod common;

use common::from_csv::{durations, read};
use common::{on_units, runs, task};
use proptest::prelude::*;
use thalweg_trace_tools::{Decision, Trace, csv};

proptest! {
    #![proptest_config(ProptestConfig::with_cases(50))]

    #[test]
    fn tables_come_back_from_csv(mut trace in runs(40), problem in any::<bool>()) {
        trace.problem = problem.then(|| "byte 17: \"what\",\nelse".to_owned());
        let (at, space, instance, state, pivot) = (5, "z, \"x\"".to_owned(), 3, 1, 77);
        trace.decisions.push(Decision { at, space, instance, state, pivot });
        let folder = tempfile::tempdir().unwrap();
        csv::write(&trace, folder.path()).unwrap();
        let mut expected = trace.clone();
        for (task, ready) in expected.tasks.iter_mut().zip(trace.ready()) {
            task.ready = Some(ready);
        }
        prop_assert_eq!(format!("{:?}", read(folder.path()).tasks), format!("{:?}", expected.tasks));
        let (found, expected) = (sorted(read(folder.path())), sorted(expected));
        prop_assert_eq!(found, expected);
        let tasks = trace.tasks.iter().zip(trace.ready());
        for ((task, ready), (duration, wait)) in tasks.zip(durations(folder.path())) {
            prop_assert_eq!(duration, task.start.map(|start| task.end.unwrap() - start));
            prop_assert_eq!(wait, task.start.map(|start| start - ready));
        }
    }
}

/// Returns the whole trace in a form that can be compared.
fn sorted(trace: Trace) -> String {
    let facts: std::collections::BTreeMap<_, _> = trace.facts.iter().collect();
    let data: std::collections::BTreeMap<_, _> = trace.data.iter().collect();
    let rest = Trace { facts: Default::default(), data: Default::default(), ..trace.clone() };
    format!("{facts:?} {data:?} {rest:?}")
}

#[test]
fn empty_trace_has_only_headers() {
    let folder = tempfile::tempdir().unwrap();
    let inside = folder.path().join("new/folder");
    csv::write(&Trace::default(), &inside).unwrap();
    let tasks = std::fs::read_to_string(inside.join("tasks.csv")).unwrap();
    assert!(tasks.starts_with("task,number,name,site,parent,submitted_ns,") && tasks.lines().count() == 1, "{tasks}");
    assert_eq!(std::fs::read_to_string(inside.join("facts.csv")).unwrap(), "fact,value\nend_ns,0\n");
}

#[test]
fn unwritable_folder_is_named() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("file");
    std::fs::write(&file, "kept").unwrap();
    let mut trace = on_units(&["CPU"]);
    task(&mut trace, "a", 0, 0, 0, 1);
    let error = csv::write(&trace, &file).unwrap_err().to_string();
    assert!(error.contains(&format!("cannot write {}: ", file.display())) && error.contains("; try "), "{error}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), "kept");
}
