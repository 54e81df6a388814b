//! Trace files: each runtime writes its own, and the file is readable however the program ends.

use std::path::Path;
use std::process::Command;
use std::sync::mpsc::channel;
use thalweg::prelude::*;
use thalweg_trace::Trace;

/// Returns a command that runs one of the ignored tests below in a child process with `THALWEG_TRACE` set.
fn alone(test: &str, file: &Path) -> Command {
    let test = format!("files::{test}");
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", &test, "--ignored", "--nocapture"]).env("THALWEG_TRACE", file);
    command
}

fn run_alone(test: &str, file: &Path) -> std::process::ExitStatus {
    alone(test, file).output().unwrap().status
}

fn submit_some(rt: &Runtime, tasks: usize) {
    let x = rt.scalar(0u64);
    for _ in 0..tasks {
        rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
    }
    rt.wait().unwrap();
}

#[test]
fn variable_traces_each_runtime_of_a_process_to_its_own_file() {
    let folder = tempfile::tempdir().unwrap();
    assert!(run_alone("builds_two_runtimes", &folder.path().join("run.thw")).success());
    for (file, tasks) in [("run.thw", 10), ("run-2.thw", 20)] {
        let trace = Trace::read(&folder.path().join(file)).unwrap();
        assert_eq!((trace.tasks.len(), trace.problem), (tasks, None));
    }
}

#[test]
#[ignore = "run by the test above in its own process"]
fn builds_two_runtimes() {
    let runtimes = [(); 2].map(|()| Runtime::builder().compute_units("1:CPU:1").build().unwrap());
    submit_some(&runtimes[0], 10);
    submit_some(&runtimes[1], 20);
}

#[test]
fn killed_program_leaves_a_readable_file() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.thw");
    assert!(!run_alone("aborts_after_a_second", &file).success());
    let trace = Trace::read(&file).unwrap();
    assert!((1000..=1001).contains(&trace.tasks.len()) && trace.problem.is_none(), "{trace:?}"); // one may be lost
    assert!(trace.tasks[..1000].iter().all(|task| task.end.is_some()));
}

#[test]
#[ignore = "run by the test above in its own process"]
fn aborts_after_a_second() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    submit_some(&rt, 1000);
    std::thread::sleep(std::time::Duration::from_secs(1));
    submit_some(&rt, 1);
    std::process::abort();
}

#[test]
fn variable_for_accesses_is_a_switch() {
    let folder = tempfile::tempdir().unwrap();
    for (value, expected) in [("1", Ok(true)), ("0", Ok(false)), ("", Ok(false)), ("yes", Err("`yes` is not a choice"))]
    {
        let file = folder.path().join("run.thw");
        let output = alone("builds_two_runtimes", &file).env("THALWEG_TRACE_ACCESSES", value).output().unwrap();
        let text = String::from_utf8_lossy(&output.stderr);
        match expected {
            Ok(any) => assert_eq!(!Trace::read(&file).unwrap().accesses.is_empty(), any, "{value:?}: {text}"),
            Err(problem) => assert!(text.contains(problem) && text.contains("THALWEG_TRACE_ACCESSES"), "{text}"),
        }
    }
}

#[test]
fn file_that_cannot_be_created_refuses_the_build() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("missing/run.thw");
    let error = Runtime::builder().compute_units("1:CPU:1").trace(&file).build().unwrap_err().to_string();
    assert!(error.starts_with(&format!("trace: cannot create {}: ", file.display())), "{error}");
    assert!(!run_alone("builds_two_runtimes", &file).success());
}

#[test]
fn damaged_files_are_read_up_to_the_damage() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.thw");
    let rt = Runtime::builder().compute_units("1:CPU:1").trace(&file).build().unwrap();
    submit_some(&rt, 100);
    drop(rt);
    let bytes = std::fs::read(&file).unwrap();
    let whole = Trace::from_bytes(&bytes).unwrap();
    assert_eq!((whole.tasks.len(), &whole.problem), (100, &None));
    for len in 0..bytes.len() {
        match Trace::from_bytes(&bytes[..len]) {
            Err(problem) => assert!(len < 12, "{problem}"),
            Ok(cut) => assert!(cut.tasks.len() <= 100 && (cut.problem.is_some() || cut.end <= whole.end)),
        }
    }
    for at in 0..bytes.len() {
        let mut damaged = bytes.clone();
        damaged[at] ^= 0x55;
        let _ = Trace::from_bytes(&damaged); // anything but a panic
    }
    for (version, hint) in [(3, "try the `thalweg trace` of that version"), (5, "try a newer `thalweg trace`")] {
        let mut other = bytes.clone();
        other[8] = version;
        let problem = Trace::from_bytes(&other).unwrap_err();
        let begin = format!("byte 8: it has version {version}, but this program reads version 4; ");
        assert_eq!(problem, begin + hint);
    }
}

/// Dropping an abandoned runtime ends its trace, although a body still runs on one of its threads.
#[test]
fn abandoned_runtime_leaves_a_readable_file_in_which_the_endless_task_has_no_end() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        let folder = tempfile::tempdir().unwrap();
        let file = folder.path().join("run.thw");
        let rt = Runtime::builder().compute_units(units).trace(&file).build().unwrap();
        let ((open, opened), (begin, begun), (end, ended)) = (channel::<()>(), channel(), channel());
        let x = rt.scalar(1u64);
        rt.task("before", x.inout()).cpu(|_, x| x[0] += 1).submit().unwrap();
        let endless = move |_: &thalweg::Context, x: &mut [u64]| {
            begin.send(()).unwrap();
            _ = opened.recv();
            end.send(x[0]).unwrap();
        };
        rt.task("endless", x.inout()).cpu(endless).submit().unwrap();
        rt.task("after", x.inout()).cpu(|_, _| panic!("it must not begin")).submit().unwrap();
        begun.recv().unwrap();
        rt.abandon().unwrap();
        drop((x, rt));
        let trace = Trace::read(&file).unwrap();
        assert_eq!(trace.problem, None);
        let task = |name: &str| trace.tasks.iter().find(|task| trace.sites[task.site].name == name).unwrap();
        assert!(task("before").end.is_some());
        assert!(task("endless").end.is_none() && task("endless").outcome.is_none());
        assert!(task("after").end.is_none());
        let bytes = std::fs::read(&file).unwrap();
        drop(open);
        assert_eq!(ended.recv().unwrap(), 2);
        assert_eq!(std::fs::read(&file).unwrap(), bytes, "the trace has ended");
    }
}

#[test]
fn name_of_several_lines_adds_no_facts() {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.thw");
    let builder = Runtime::builder().compute_units("1:CPU:1").name("two\nunit\tCPU 7").trace(&file);
    submit_some(&builder.build().unwrap(), 1);
    let trace = Trace::read(&file).unwrap();
    assert_eq!(trace.units.len(), 1, "{:?}", trace.units);
    assert_eq!(trace.facts["runtime"], "two unit CPU 7");
}
