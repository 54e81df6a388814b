//! Tests of conditions on runs.

mod common;

use common::{copy, on_units, task};
use thalweg_trace_tools::analysis::Analysis;
use thalweg_trace_tools::check::{Condition, HELP, failed};
use thalweg_trace_tools::{Outcome, StateKind, Trace};

/// A run of 10 µs on two units, of which one computes all the time and the other for 4 µs.
fn run() -> Trace {
    let mut trace = on_units(&["CPU", "GPU"]);
    task(&mut trace, "long", 0, 0, 0, 10_000);
    let short = task(&mut trace, "a<b (c)", 0, 1, 0, 4_000);
    trace.tasks[short].outcome = Some(Outcome::Failed);
    common::state(&mut trace, StateKind::Sleep, Some(1), 4_000, 10_000);
    copy(&mut trace, 1, (0, 1), 3 << 20, 0, 10);
    copy(&mut trace, 1, (1, 0), 1 << 20, 0, 10);
    trace.copies[1].evicts = true;
    trace
}

fn failures(conditions: &[&str]) -> Vec<String> {
    let conditions: Vec<Condition> = conditions.iter().map(|text| text.parse().unwrap()).collect();
    let trace = run();
    failed(&trace, &Analysis::of(&trace), &conditions).iter().map(ToString::to_string).collect()
}

#[test]
fn conditions_that_hold_are_silent() {
    let conditions = [
        "idle<31%",
        "idle<=30%",
        "idle=30%",
        "idle < 6.1 us",
        "computing>=70%",
        "runtime<5%",
        "makespan<2s",
        "makespan=10µs",
        "critical=100%",
        "critical<0.001min",
        "tasks=2",
        "tasks!=3",
        "failed==1",
        "unrun=0",
        "dependences=0",
        "copies<1GiB",
        "copies=2",
        "copies=4MiB",
        "copies>4.1MB",
        "evicted=1",
        "evicted<=1024KiB",
        "problems=0",
        "wait-p99=0ns",
        "mean(long)=10us",
        "failed(a<b (c))=1",
        "p99(a<b (c))<=4us",
    ];
    assert_eq!(failures(&conditions), Vec::<String>::new());
}

#[test]
fn conditions_that_fail_are_returned_with_values() {
    let found = failures(&["idle<10%", "tasks=2", "failed=0", "makespan>2ms", "copies<1MiB", "count(absent)=0"]);
    let expected = [
        "idle<10% does not hold: it is 30.00 %",
        "failed=0 does not hold: it is 1",
        "makespan>2ms does not hold: it is 10 µs",
        "copies<1MiB does not hold: it is 4 MiB",
        "count(absent)=0 does not hold: no task has this name",
    ];
    assert_eq!(found, expected);
}

#[test]
fn texts_that_are_no_conditions_are_explained() {
    let cases = [
        ("foo<10%", "cannot check `foo<10%`: no quantity is called `foo`; try one of computing, runtime,"),
        ("idle", "it compares nothing; try a condition such as idle<10%"),
        ("idle!10%", "`!` is no comparison"),
        ("idle<many", "`many` does not begin with a number; try a limit such as 10%"),
        ("idle<", "`` does not begin with a number"),
        ("idle<10 parsec", "`parsec` is no unit; try one of % ns us"),
        ("idle<10GiB", "its limit is bytes; try a share in % or a time"),
        ("makespan<10%", "its limit is a share in %; try a time"),
        ("failed<1%", "try a number"),
        ("speed(gemm)<1", "no quantity of a task name is called `speed`; try one of count, failed,"),
        ("", "it compares nothing"),
        ("<5", "no quantity is called ``"),
        ("idle<nan", "does not begin with a number"),
    ];
    for (text, words) in cases {
        let error = text.parse::<Condition>().unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
}

/// The help text lists all quantities.
#[test]
fn help_names_every_quantity() {
    let error = "nothing<1".parse::<Condition>().unwrap_err().to_string();
    let names = error.split("try one of ").nth(1).unwrap().split(", or").next().unwrap();
    assert!(names.split(", ").count() == 20, "{names}");
    names.split(", ").for_each(|name| assert!(HELP.contains(name), "{name} is not in the help text"));
}
