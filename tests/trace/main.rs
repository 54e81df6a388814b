//! Traces match the run that wrote them, for each driver and however the program ends.

mod content;
mod equality;
mod files;
mod latest;
mod placement;
mod replays;
#[cfg(feature = "spans")]
mod spans;

use thalweg::Builder;
use thalweg::prelude::*;
use thalweg_trace::Trace;

/// Returns a builder of a simulated machine of two cores, on which a task `work` takes 1 µs.
fn two_cores() -> Builder {
    let machine = r#"
        name = "two cores"
        [units.CPU]
        count = 2
        bytes_per_s = 1e12
        [[tasks]]
        name = "work"
        time_ns = { CPU = { 1 = 1000 } }
    "#;
    let machine: thalweg::SimulatedMachine = machine.parse().unwrap();
    Runtime::builder().compute_units("2:CPU:1").simulate(machine)
}

/// Runs a program on a runtime built by `builder` and returns the trace. The program must drop its data objects.
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
