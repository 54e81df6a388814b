//! Environment variables that a runtime reads, and the calls that override them. Each case runs in a separate process,
//! because environment variables are per process.

use crate::common::again;
use thalweg::prelude::*;

/// Environment variable that tells a child process which case to run.
const CASE: &str = "THALWEG_TEST_CASE";

/// Runs a single test of this file in a child process with these environment variables. Returns the child's standard
/// error output.
fn child(test: &str, case: &str, variables: &[(&str, &str)]) -> String {
    again(&format!("environment::{test}"), &[&[(CASE, case)], variables].concat())
}

#[test]
fn environment_sets_units_and_scheduler_unless_the_program_does() {
    let Ok(case) = std::env::var(CASE) else {
        let this = "environment_sets_units_and_scheduler_unless_the_program_does";
        let set = [("THALWEG_UNITS", "3:CPU:1,2:EMU:1"), ("THALWEG_SCHEDULER", "dynamic:chunk=2")];
        child(this, "set", &set);
        child(this, "empty", &[("THALWEG_UNITS", " "), ("THALWEG_SCHEDULER", "")]);
        child(this, "wrong units", &[("THALWEG_UNITS", "3:TPU:1")]);
        child(this, "wrong scheduler", &[("THALWEG_SCHEDULER", "fastest")]);
        child(this, "wrong log", &[("THALWEG_LOG", "loud")]);
        child(this, "wrong switch", &[("THALWEG_EXACT_MEMORY", "yes")]);
        return;
    };
    let build = |builder: thalweg::Builder| builder.build().map(|rt| format!("{rt:?}"));
    let refused = |result: Result<String, BuildError>| result.unwrap_err().to_string();
    match &*case {
        "set" => {
            let found = build(Runtime::builder()).unwrap();
            assert!(found.contains("3:CPU:1,2:EMU:1"), "{found}");
            let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
            assert_eq!(rt.machine().num_units(), 1, "the program's units take precedence");
            let placed =
                |builder: thalweg::Builder| !format!("{:?}", builder.build().unwrap()).contains("placed: None");
            assert!(placed(Runtime::builder().compute_units("1:CPU:1")), "`dynamic` places tasks");
            assert!(
                !placed(Runtime::builder().compute_units("1:CPU:1").scheduler("stealing")),
                "the program takes precedence"
            );
        }
        "empty" => assert!(build(Runtime::builder()).unwrap().contains(":CPU:1")),
        "wrong units" => {
            let error = refused(build(Runtime::builder()));
            assert!(error.starts_with("THALWEG_UNITS: term 1 (`3:TPU:1`): unknown kind of unit"), "{error}");
            build(Runtime::builder().compute_units("1:CPU:1")).unwrap();
        }
        "wrong scheduler" => {
            let error = refused(build(Runtime::builder()));
            assert!(error.starts_with("THALWEG_SCHEDULER: cannot find scheduler `fastest`; try one of"), "{error}");
            build(Runtime::builder().scheduler("dynamic")).unwrap();
        }
        "wrong log" => {
            let error = refused(build(Runtime::builder()));
            assert!(error.starts_with("THALWEG_LOG: `loud` is not a level; try one of off, error, warn"), "{error}");
        }
        "wrong switch" => {
            let error = refused(build(Runtime::builder().compute_units("1:CPU:1")));
            assert_eq!(error, "THALWEG_EXACT_MEMORY: `yes` is not a choice; try 1 or 0");
        }
        other => panic!("{other}"),
    }
}

#[test]
fn log_reaches_standard_error_without_a_subscriber() {
    if std::env::var_os(CASE).is_none() {
        let this = "log_reaches_standard_error_without_a_subscriber";
        let lines = |level: &str| child(this, "log", &[("THALWEG_LOG", level)]);
        for (level, starts, runs) in [("off", false, false), ("warn", false, true), ("info", true, true)] {
            let said = lines(level);
            assert_eq!(said.contains("thalweg info: runtime of 1:EMU:1 starts"), starts, "{level}: {said}");
            let once = said.matches("thalweg warn: task `value` and others like it run on the core that hosts").count();
            assert_eq!(once, usize::from(runs), "{level}: {said}");
        }
        assert!(!child(this, "log", &[]).contains("thalweg warn"));
        return;
    }
    hosting_core_runs_tasks();
}

/// Checks that a device unit's hosting core runs tasks that no device can run, in host memory.
fn hosting_core_runs_tasks() {
    let small = |_| EmulatedDevice::new().capacity_bytes(64);
    let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(small).build().unwrap();
    let seen = rt.value(Vec::new());
    let (fits, large) = (rt.zeros::<f64, _>(4), rt.zeros::<f64, _>(100));
    for _ in 0..2 {
        let body = |cx: &thalweg::Context, (seen,): (&mut Vec<UnitKind>,)| seen.push(cx.kind());
        rt.task("value", (seen.inout(),)).cpu(body).submit().unwrap();
    }
    let report = |cx: &thalweg::Context, (x,): (&mut [f64],)| {
        x.fill(if cx.kind() == UnitKind::Cpu && cx.is_cpu() && cx.device().is_none() { 1.0 } else { 2.0 });
    };
    rt.task("large", (large.output(),)).cpu(report).submit().unwrap();
    rt.task("fits", (fits.output(),)).cpu(report).submit().unwrap();
    assert_eq!(rt.take(seen).unwrap(), [UnitKind::Cpu; 2]);
    assert_eq!(
        (rt.take(large).unwrap()[99], rt.take(fits).unwrap()[3]),
        (1.0, 2.0),
        "`large` must run on a core and `fits` on the device"
    );
    let statistics = rt.statistics();
    assert_eq!((statistics.tasks_on_hosts, statistics.tasks[0].1), (3, 4));
    assert!(statistics.to_string().contains("3 of them on hosting cores"), "{statistics}");
}

#[test]
fn tasks_run_by_hosting_cores_are_counted() {
    crate::common::watched("hosting core", hosting_core_runs_tasks);
    let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build().unwrap();
    let value = rt.value(0);
    rt.task("value", (value.inout(),)).cpu(|_, (value,)| *value = 1).submit().unwrap();
    assert_eq!(
        (rt.take(value).unwrap(), rt.statistics().tasks_on_hosts),
        (1, 0),
        "with a CPU unit, hosting cores run no tasks"
    );
}
