//! Traces that keep only the last seconds of a run.

use std::time::{Duration, Instant};
use thalweg::prelude::*;
use thalweg_trace::Trace;

#[test]
fn latest_records_are_kept_and_older_ones_are_not() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.thw");
    let rt =
        Runtime::builder().compute_units("1:CPU:1").trace_latest(&file, Duration::from_millis(300)).build().unwrap();
    let x = rt.scalar(0u64);
    let mut submitted = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1500) {
        for _ in 0..1000 {
            rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        submitted += 1000;
        rt.wait().unwrap();
    }
    rt.task("last", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
    drop((x, rt));
    let trace = Trace::read(&file).unwrap();
    assert!(trace.tasks.len() < submitted * 3 / 4, "{} of {submitted}", trace.tasks.len());
    let last = trace.tasks.last().unwrap();
    assert_eq!(trace.sites[last.site].name, "last");
    assert!(last.start >= Some(last.submitted) && last.end >= last.start);
}

/// Submits tasks with accesses, dependences and parents until the trace has lost its beginning.
#[test]
fn records_after_a_lost_beginning_belong_to_their_tasks() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.thw");
    let latest = Duration::from_millis(1);
    let builder = Runtime::builder().compute_units("1:CPU:1").trace_accesses(true);
    let rt = builder.trace_latest(&file, latest).build().unwrap();
    let data: Vec<_> = (0..7).map(|_| rt.data(vec![0u64; 64])).collect();
    let mut submitted = 0;
    let begin = Instant::now();
    while begin.elapsed() < Duration::from_millis(1200) {
        for x in data.iter().cycle().take(700) {
            // The child's accesses come after its parent's record, and a chunk may end between any two of them.
            let accesses = x.blocks(8).into_iter().map(|block| block.inout()).collect::<Vec<_>>();
            rt.task("parent", accesses)
                .cpu(|cx, _| cx.task("child", ()).cpu(|_, ()| ()).submit().map(drop).map_err(|error| error.to_string()))
                .submit()
                .unwrap();
        }
        submitted += 1400;
        rt.wait().unwrap();
    }
    drop((data, rt));
    let trace = Trace::read(&file).unwrap();
    assert_eq!(trace.problem, None);
    assert!(trace.tasks.len() < submitted * 3 / 4, "{} of {submitted}", trace.tasks.len());
    let mut accesses = vec![Vec::new(); trace.tasks.len()];
    for access in &trace.accesses {
        accesses[access.task].push(trace.regions[access.region.unwrap()].text.clone());
    }
    let all: Vec<_> = (0..8).map(|part| format!("[{}..{}]", 8 * part, 8 * part + 8)).collect();
    let (mut whole, mut parents) = (0, 0);
    for (task, accesses) in trace.tasks.iter().zip(&accesses) {
        assert!(task.submitted <= trace.end && task.start.is_none_or(|start| start <= trace.end));
        let is_parent = trace.sites[task.site].name == "parent";
        assert!(is_parent || accesses.is_empty(), "{task:?} has {accesses:?}");
        assert!(accesses.len() <= 8 && accesses.iter().all(|text| all.contains(text)), "{accesses:?}");
        whole += usize::from(*accesses == all);
        parents += usize::from(is_parent);
        if let Some(parent) = task.parent {
            assert!(!is_parent && trace.sites[trace.tasks[parent].site].name == "parent");
        }
    }
    assert_eq!(whole, parents);
}
