//! Traces: what the file says is what happened, whatever the driver, and whatever becomes of the program.

mod content;
mod files;
mod latest;

use thalweg::Builder;
use thalweg::prelude::*;
use thalweg_trace::Trace;

/// The trace of a program that runs on a runtime built so; the data objects must be dropped by the program.
fn traced(builder: Builder, program: impl FnOnce(&Runtime)) -> Trace {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.thw");
    let rt = builder.trace(&path).build().unwrap();
    program(&rt);
    drop(rt);
    let trace = Trace::read(&path).unwrap();
    assert_eq!(trace.problem, None);
    trace
}
