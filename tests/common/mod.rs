//! What the integration tests share: the machines they run on, a watchdog, and gates.
//!
//! A test never waits for a clock: gates make an order certain, and the watchdog alone looks at the time, to turn a hang
//! into a failure.

#![allow(dead_code, unreachable_pub)] // each program of tests uses a part of this

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use thalweg::Builder;
use thalweg::prelude::*;

/// The machines that behaviour must not depend on.
pub const MIXES: [&str; 4] = ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1", "2:EMU:1"];
/// The schedulers that behaviour must not depend on.
pub const SCHEDULERS: [&str; 5] = ["stealing", "dynamic", "static", "eft", "priority"];

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` on a thread of its own; a hang is a failure, a panic passes through.
pub fn watched(what: &str, test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = std::thread::Builder::new().name(what.to_owned()).spawn(move || {
        test();
        let _ = done.send(());
    });
    let thread = thread.expect("the system gives a thread");
    match ended.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("{what}: hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Runs a test of this program, named with its module, once more in another process with these variables. Returns its
/// standard error output.
pub fn again(test: &str, variables: &[(&str, &str)]) -> String {
    again_by(Command::new(std::env::current_exe().unwrap()), test, variables)
}

/// The same where the process may map this many KiB.
pub fn again_within(kib: u64, test: &str, variables: &[(&str, &str)]) -> String {
    let mut shell = Command::new("sh");
    shell.args(["-c", &format!("ulimit -v {kib} && exec \"$0\" \"$@\"")]).arg(std::env::current_exe().unwrap());
    again_by(shell, test, variables)
}

fn again_by(mut process: Command, test: &str, variables: &[(&str, &str)]) -> String {
    process.args(["--exact", test, "--nocapture", "--test-threads=1"]).envs(variables.iter().copied());
    let output = process.output().unwrap();
    let [out, err] = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    assert!(output.status.success(), "{test} {variables:?}: {out}{err}");
    assert!(out.contains("running 1 test"), "no test has the name {test}");
    err
}

/// What a refusal says, without the place of the refused call. A test of the package makes the call, as its file says.
pub fn words(refused: &impl std::fmt::Display) -> String {
    let said = refused.to_string();
    let at = said.find(" at tests/").unwrap_or_else(|| panic!("{said} names no call in a test"));
    let place = &said[at..];
    let mut parts = place.splitn(4, ':');
    let (file, line, column) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let column = column.split(' ').next().unwrap();
    let numbers = [line, column].map(|number| number.parse::<u32>().expect("a line and a column follow the file"));
    assert!(numbers.iter().all(|number| *number > 0) && file.ends_with(".rs"), "{said}");
    let rest = &place[file.len() + 1 + line.len() + 1 + column.len()..];
    format!("{}{rest}", &said[..at])
}

/// Runs `test` on every mix under every scheduler, hosted by the submitter or not, watched and checked for conflicts.
pub fn for_each_mix(test: impl Fn(&Runtime) + Clone + Send + 'static) {
    for units in MIXES {
        for scheduler in SCHEDULERS {
            for hosts in [false, true] {
                let test = test.clone();
                watched(&format!("{units} {scheduler} hosts={hosts}"), move || {
                    let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                    let rt = builder.use_current_thread(hosts).detect_conflicts(true).build().unwrap();
                    test(&rt);
                    assert!(rt.conflicts().is_empty(), "{:?}", rt.conflicts());
                });
            }
        }
    }
}

/// As `for_each_mix`, for tests whose submitter hosts no unit: it blocks outside the runtime, or bodies wait.
pub fn for_each_free_mix(test: impl Fn(&Runtime) + Clone + Send + 'static) {
    for (units, scheduler) in MIXES.into_iter().flat_map(|units| SCHEDULERS.map(|scheduler| (units, scheduler))) {
        let test = test.clone();
        watched(&format!("{units} {scheduler}"), move || {
            let rt =
                Runtime::builder().compute_units(units).scheduler(scheduler).detect_conflicts(true).build().unwrap();
            test(&rt);
            assert!(rt.conflicts().is_empty(), "{:?}", rt.conflicts());
        });
    }
}

/// A runtime with these units and the defaults.
pub fn runtime(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).build().unwrap()
}

/// A builder of a runtime with these units, one of which the submitter hosts or not.
pub fn builder(units: &str, hosts: bool) -> Builder {
    Runtime::builder().compute_units(units).use_current_thread(hosts)
}

/// A gate that is closed: whoever waits at the second goes on when the first is used or dropped.
pub fn gate() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (open, opened): (Sender<()>, Receiver<()>) = channel();
    (open, move || _ = opened.recv())
}

/// The causes in an error of `wait`, by the names of the tasks.
pub fn failed(result: Result<(), RunError>) -> Vec<String> {
    match result {
        Err(RunError::Failed(failures)) => failures.iter().map(|failure| failure.name().to_owned()).collect(),
        other => panic!("tasks should have failed: {other:?}"),
    }
}

/// The name and the reason of the task that poisoned what was asked for.
pub fn poison<T: std::fmt::Debug>(result: Result<T, impl Into<RunError>>) -> (String, String) {
    match result.map_err(Into::into) {
        Err(RunError::Poisoned(cause)) => (cause.name().to_owned(), cause.reason().to_string()),
        other => panic!("the region should be poisoned: {other:?}"),
    }
}

/// A builder of machines with accelerators; `None`, and said, if these are missing. `OPENCL` in `units` stands for the kind
/// that `THALWEG_TEST_UNITS` names; where `THALWEG_REQUIRE` (a list) has the kind, a missing one is a failure.
pub fn accelerated(units: &str) -> Option<Builder> {
    let kind = std::env::var("THALWEG_TEST_UNITS").unwrap_or_else(|_| "OPENCL".to_owned());
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    let builder = || Runtime::builder().compute_units(units.replace("OPENCL", &kind));
    match builder().build() {
        Err(error @ BuildError::NoDevice { .. })
            if !required.split(',').any(|name| name.eq_ignore_ascii_case(&kind)) =>
        {
            println!("skipped: {error}");
            None
        }
        built => built.map(|_| builder()).map_err(|error| panic!("{error}")).ok(),
    }
}
