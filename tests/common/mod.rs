//! Parts that the integration tests share: the machines they run on, a watchdog, and gates.
//!
//! No test depends on timing. Gates enforce an order, and only the watchdog looks at the time, in order to turn a hang
//! into a failure.

#![allow(dead_code, unreachable_pub)] // each test program uses a part of this module

use std::process::Command;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;
use thalweg::Builder;
use thalweg::prelude::*;

/// Machines on which behaviour must be identical.
pub const MIXES: [&str; 4] = ["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1", "2:EMU:1"];
/// Schedulers under which behaviour must be identical.
pub const SCHEDULERS: [&str; 5] = ["stealing", "dynamic", "static", "eft", "priority"];

const PATIENCE: Duration = Duration::from_secs(60);

/// Runs `test` on a separate thread. A hang counts as a failure; a panic is propagated.
pub fn watched(what: &str, test: impl FnOnce() + Send + 'static) {
    let (done, ended) = channel();
    let thread = std::thread::Builder::new().name(what.to_owned()).spawn(move || {
        test();
        let _ = done.send(());
    });
    let thread = thread.expect("the system can create a thread");
    match ended.recv_timeout(PATIENCE) {
        Err(RecvTimeoutError::Timeout) => panic!("{what}: hangs"),
        Ok(()) | Err(RecvTimeoutError::Disconnected) => {
            if let Err(panic) = thread.join() {
                std::panic::resume_unwind(panic);
            }
        }
    }
}

/// Runs a test of this program again in another process with these environment variables. `test` is the test's name
/// including its module. Returns what the process wrote to standard error.
pub fn again(test: &str, variables: &[(&str, &str)]) -> String {
    again_by(Command::new(std::env::current_exe().unwrap()), test, variables)
}

/// Like [`again`], but limits the process to `kib` KiB of mapped memory.
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

/// Returns the text of a refusal without the source location of the refused call. The call must be in a test file.
pub fn words(refused: &impl std::fmt::Display) -> String {
    let said = refused.to_string();
    let at = said.find(" at tests/").unwrap_or_else(|| panic!("{said} names no call in a test"));
    let place = &said[at..];
    let mut parts = place.splitn(4, ':');
    let (file, line, column) = (parts.next().unwrap(), parts.next().unwrap(), parts.next().unwrap());
    let column = column.split(' ').next().unwrap();
    let numbers =
        [line, column].map(|number| number.parse::<u32>().expect("the file is followed by a line and a column"));
    assert!(numbers.iter().all(|number| *number > 0) && file.ends_with(".rs"), "{said}");
    let rest = &place[file.len() + 1 + line.len() + 1 + column.len()..];
    format!("{}{rest}", &said[..at])
}

/// Runs `test` on every machine in [`MIXES`] under every scheduler, with and without a unit hosted by the submitter.
/// The watchdog and the conflict detector are active.
pub fn for_each_mix(test: impl Fn(&Runtime) + Clone + Send + 'static) {
    for units in MIXES {
        for scheduler in SCHEDULERS {
            for hosts in [false, true] {
                let test = test.clone();
                watched(&format!("{units} {scheduler} hosts={hosts}"), move || {
                    let builder = Runtime::builder().compute_units(units).scheduler(scheduler);
                    let rt = builder.use_current_thread(hosts).detect_conflicts(true).build().unwrap();
                    test(&rt);
                    assert!(rt.statistics().conflicts.is_empty(), "{:?}", rt.statistics().conflicts);
                });
            }
        }
    }
}

/// Like [`for_each_mix`], for tests whose submitter cannot host a unit, either because it blocks outside the runtime or
/// because bodies wait.
pub fn for_each_free_mix(test: impl Fn(&Runtime) + Clone + Send + 'static) {
    for (units, scheduler) in MIXES.into_iter().flat_map(|units| SCHEDULERS.map(|scheduler| (units, scheduler))) {
        let test = test.clone();
        watched(&format!("{units} {scheduler}"), move || {
            let rt =
                Runtime::builder().compute_units(units).scheduler(scheduler).detect_conflicts(true).build().unwrap();
            test(&rt);
            assert!(rt.statistics().conflicts.is_empty(), "{:?}", rt.statistics().conflicts);
        });
    }
}

/// Builds a runtime with these units and default settings.
pub fn runtime(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).build().unwrap()
}

/// Returns a builder for a runtime with these units. If `hosts` is true, the submitter hosts one of the units.
pub fn builder(units: &str, hosts: bool) -> Builder {
    Runtime::builder().compute_units(units).use_current_thread(hosts)
}

/// Returns a closed gate: a call of the returned function blocks until the sender sends a message or is dropped.
pub fn gate() -> (Sender<()>, impl FnOnce() + Send + 'static) {
    let (open, opened): (Sender<()>, Receiver<()>) = channel();
    (open, move || _ = opened.recv())
}

/// Returns the names of the tasks whose failures `wait` has reported.
pub fn failed(result: Result<(), RunError>) -> Vec<String> {
    match result {
        Err(RunError::Failed(failures)) => failures.iter().map(|failure| failure.name().to_owned()).collect(),
        other => panic!("tasks should have failed: {other:?}"),
    }
}

/// Returns the name of the task that poisoned the requested region, and the reason.
pub fn poison<T: std::fmt::Debug>(result: Result<T, impl Into<RunError>>) -> (String, String) {
    match result.map_err(Into::into) {
        Err(RunError::Poisoned(cause)) => (cause.name().to_owned(), cause.reason().to_string()),
        other => panic!("the region should be poisoned: {other:?}"),
    }
}

/// Returns a builder for a machine with accelerators. If they are missing, prints a message and returns `None`.
/// `OPENCL` in `units` is replaced by the kind that `THALWEG_TEST_UNITS` names. If the list in `THALWEG_REQUIRE`
/// contains the kind, a missing device is a failure.
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
