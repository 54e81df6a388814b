//! Reports on SIGUSR1. Each test runs itself in a child process, which sends itself the signal, and reads the child's
//! output.

#![cfg(all(unix, feature = "signals"))]

use crate::common::{builder, watched};
use crate::explained::held;
use signal_hook::consts::{SIGINT, SIGUSR1};
use signal_hook::low_level::raise;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, Command, Stdio};
use std::time::Duration;
use thalweg::prelude::*;
use thalweg_trace::Trace;

/// Environment variable that is set in the child process.
const INSIDE: &str = "THALWEG_TEST_SIGNALLED";

/// The child process, which runs until its standard input is closed.
struct Other(Child);

impl Other {
    /// Runs a test of this module in a child process. Returns `None` in the child.
    fn run(test: &str, variables: &[(&str, &str)]) -> Option<Self> {
        if std::env::var_os(INSIDE).is_some() {
            return None;
        }
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", &format!("signalled::{test}"), "--nocapture", "--test-threads=1"]);
        command.env(INSIDE, "1").envs(variables.iter().copied());
        Some(Self(command.stdin(Stdio::piped()).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()))
    }

    /// Reads the child's standard error until a line contains these words, then lets the child end. Returns the text
    /// that was read.
    #[track_caller]
    fn until(mut self, words: &str) -> String {
        let mut text = String::new();
        let mut errors = BufReader::new(self.0.stderr.take().unwrap());
        while !text.contains(words) {
            assert!(errors.read_line(&mut text).unwrap() > 0, "nothing of `{words}` in: {text}");
        }
        drop(self.0.stdin.take());
        errors.read_to_string(&mut text).unwrap();
        assert!(self.0.wait().unwrap().success(), "{text}");
        text
    }
}

/// Waits until the child process may end.
fn until_read() {
    std::io::stdin().read_to_end(&mut Vec::new()).unwrap();
}

/// Submits a chain of two tasks, the first of which sends the signal, and returns when the parent has read the report.
fn signal_in_a_chain(rt: &Runtime) {
    let x = rt.data(vec![0.0; 10]).named("x");
    let (open, begun, body) = held();
    rt.task("load", x.output()).cpu(move |_, _| body()).submit().unwrap();
    rt.task("sum", x.input()).cpu(|_, _| ()).submit().unwrap();
    begun.recv().unwrap();
    raise(SIGUSR1).unwrap();
    until_read();
    drop(open);
    rt.wait().unwrap();
}

#[test]
fn signal_makes_a_runtime_write_what_runs_and_what_waits() {
    let Some(other) = Other::run("signal_makes_a_runtime_write_what_runs_and_what_waits", &[]) else {
        return signal_in_a_chain(&builder("1:CPU:1", false).name("job").explain_on_signal(true).build().unwrap());
    };
    watched("signal", || {
        let text = other.until("task 1 `sum`");
        assert!(text.contains("thalweg: runtime `job`: 2 tasks are pending\n  task 0 `load`, submitted at "), "{text}");
        assert!(text.contains(", runs on unit 0 (CPU)"), "{text}");
        let sum = ", comes after task 0 `load` by its access to [0..10] (in) of data `x`\n";
        assert!(
            text.lines().any(|line| line.starts_with("    task 1 `sum`, submitted at ")) && text.contains(sum),
            "{text}"
        );
    });
}

#[test]
fn variable_makes_every_runtime_answer_whose_program_does_not_choose() {
    let name = "variable_makes_every_runtime_answer_whose_program_does_not_choose";
    let Some(other) = Other::run(name, &[("THALWEG_EXPLAIN", "1")]) else {
        let _silent = builder("1:CPU:1", false).name("silent").explain_on_signal(false).build().unwrap();
        let _other = builder("1:CPU:1", false).name("idle").build().unwrap();
        return signal_in_a_chain(&builder("1:CPU:1", false).name("last").build().unwrap());
    };
    watched("variable", || {
        let text = other.until("task 1 `sum`");
        assert!(text.contains("thalweg: runtime `idle`: 0 tasks are pending\n"), "{text}");
        assert!(text.contains("thalweg: runtime `last`: 2 tasks are pending\n"), "{text}");
        assert!(!text.contains("silent"), "{text}");
    });
}

#[test]
fn variable_with_another_value_is_refused() {
    let Some(other) = Other::run("variable_with_another_value_is_refused", &[("THALWEG_EXPLAIN", "yes")]) else {
        eprintln!("error: {}", builder("1:CPU:1", false).build().unwrap_err());
        return;
    };
    watched("refused", || drop(other.until("error: THALWEG_EXPLAIN: `yes` is not a choice; try 1 or 0\n")));
}

#[test]
fn signal_after_the_end_of_all_runtimes_does_not_end_the_process() {
    let name = "signal_after_the_end_of_all_runtimes_does_not_end_the_process";
    let Some(other) = Other::run(name, &[]) else {
        for round in 0..3 {
            let rt = builder("1:CPU:1", false).name(format!("round{round}")).explain_on_signal(true).build().unwrap();
            drop(rt);
            raise(SIGUSR1).unwrap();
            // The thread that handles the signal ends some time after the last runtime, or is reused by the next
            // runtime.
            std::thread::sleep(Duration::from_millis(150));
            raise(SIGUSR1).unwrap();
        }
        return signal_in_a_chain(&builder("1:CPU:1", false).explain_on_signal(true).build().unwrap());
    };
    watched("after", || {
        let text = other.until("task 1 `sum`");
        assert!(text.contains(": 2 tasks are pending\n") && text.contains("thalweg: runtime "), "{text}");
    });
}

/// A handler cancels a group, the program reports it, and the runtime can be used on.
#[test]
fn interrupt_cancels_a_group_and_the_program_ends_with_its_report() {
    let name = "interrupt_cancels_a_group_and_the_program_ends_with_its_report";
    let Some(other) = Other::run(name, &[]) else {
        let rt = builder("2:CPU:1", false).build().unwrap();
        let (x, y) = (rt.data(vec![1u64; 100]), rt.data(vec![2u64; 100]));
        let (group, mut signals) = (rt.group(), signal_hook::iterator::Signals::new([SIGINT]).unwrap());
        let on_interrupt = group.clone();
        let handler = std::thread::spawn(move || {
            assert_eq!(signals.forever().next(), Some(SIGINT));
            on_interrupt.cancel();
        });
        let search = |at: &thalweg::Context, x: &mut [u64]| {
            raise(SIGINT).unwrap();
            while !at.is_cancelled() {
                std::thread::yield_now();
            }
            x.fill(3);
        };
        group.task("search", x.inout()).cpu(search).submit().unwrap();
        rt.task("other", y.inout()).cpu(|_, y| y.fill(4)).submit().unwrap();
        handler.join().unwrap();
        let refused = group.task("later", x.inout()).cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(refused, SubmitError::Cancelled { .. }));
        group.wait().unwrap();
        assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (vec![3; 100], vec![4; 100]));
        rt.wait().unwrap();
        eprintln!("interrupted, with a result");
        return until_read();
    };
    watched("interrupt", || drop(other.until("interrupted, with a result\n")));
}

/// The disk's file has no name, and the trace is readable so far.
#[test]
fn killed_program_leaves_no_file_but_the_trace() {
    const FOLDER: &str = "THALWEG_TEST_FOLDER";
    if let Some(folder) = std::env::var_os(FOLDER).map(std::path::PathBuf::from) {
        let builder = builder("1:CPU:1", false).host_memory(1 << 14).spill_to(&folder).trace(folder.join("trace"));
        let rt = builder.build().unwrap();
        let tiles: Vec<Data<u64>> = (0..4).map(|_| rt.zeros(1024)).collect();
        loop {
            for tile in &tiles {
                rt.task("fill", tile.output()).cpu(|_, x| x.fill(1)).submit().unwrap();
            }
            rt.wait().unwrap();
        }
    }
    let folder = tempfile::tempdir().unwrap();
    let variables = [(FOLDER, folder.path().to_str().unwrap())];
    let mut other = Other::run("killed_program_leaves_no_file_but_the_trace", &variables).expect("it has a folder");
    watched("killed", move || {
        let trace = folder.path().join("trace");
        while !Trace::read(&trace).is_ok_and(|trace| trace.tasks.len() > 10) {
            assert!(other.0.try_wait().unwrap().is_none(), "it ended early");
            std::thread::sleep(Duration::from_millis(20));
        }
        other.0.kill().unwrap();
        assert!(!other.0.wait().unwrap().success());
        let left: Vec<_> = std::fs::read_dir(folder.path()).unwrap().map(|file| file.unwrap().file_name()).collect();
        assert_eq!(left, ["trace"]);
        assert!(Trace::read(&trace).unwrap().tasks.iter().any(|task| task.finished.is_some()));
    });
}
