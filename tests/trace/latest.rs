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
