//! End-to-end tests of `thalweg trace` on traces of small programs.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use tempfile::TempDir;
use thalweg::prelude::*;

/// Runs a program that squares numbers in `rounds` chains of tasks. If `fails`, one of the tasks fails.
fn record(folder: &TempDir, name: &str, rounds: usize, fails: bool) -> PathBuf {
    let path = folder.path().join(name);
    let rt = Runtime::builder().compute_units("1:CPU:1").trace(&path).build().unwrap();
    let data: Vec<Data<f64>> = (0..4).map(|_| rt.data(vec![1.5; 1000]).named("numbers, \"raw\"")).collect();
    for _ in 0..rounds {
        for x in &data {
            let task = rt.task("square", (x.inout(),));
            task.cpu(|_, (x,)| x.iter_mut().for_each(|x| *x = (*x * *x).sin())).submit().unwrap();
        }
    }
    if fails {
        rt.task("break", (data[0].inout(),)).cpu(|_, (_,)| panic!("planted")).submit().unwrap();
        rt.task("square", (data[0].inout(),)).cpu(|_, (_,)| {}).submit().unwrap();
    }
    assert_eq!(rt.wait().is_err(), fails);
    drop((data, rt));
    path
}

fn thalweg(file: &Path, arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("trace").arg(file).args(arguments).output().unwrap()
}

/// Returns the program's output. Asserts that it succeeds and prints nothing to stderr.
fn shown(file: &Path, arguments: &[&str]) -> String {
    let output = thalweg(file, arguments);
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(output.status.success() && complaints.is_empty(), "{complaints}");
    String::from_utf8(output.stdout).unwrap()
}

/// Returns the program's error output. Asserts that it fails.
fn refused(file: &Path, arguments: &[&str]) -> String {
    let output = thalweg(file, arguments);
    let complaints = String::from_utf8(output.stderr).unwrap();
    assert!(!output.status.success() && !complaints.contains("panicked"), "{complaints}");
    complaints
}

#[test]
fn summary_is_the_default() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 10, true);
    let text = shown(&file, &[]);
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for begin in ["run trace", "time ", "unit 0 CPU 41 tasks", "square 40 ", "break 1 (1 failed) ", "critical path "] {
        assert!(lines.iter().any(|line| line.starts_with(begin)), "no {begin:?} in {text}");
    }
    for words in ["42 tasks of ", "1 failed, 1 not run", "trace.rs:", "1 unit (1 CPU)", "verdict "] {
        assert!(text.contains(words), "no {words:?} in {text}");
    }
    assert!(lines.len() <= 25, "{text}");
    assert_eq!(shown(&file, &["--summary"]), text);
}

#[test]
fn conditions_decide_about_success() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 3, false);
    let holds =
        ["--check", "failed=0", "--check", "count(square) = 12", "--check", "copies<1GiB", "--check", "makespan>0ns"];
    assert_eq!(shown(&file, &holds), "");
    let complaints = refused(&file, &["--check", "tasks<5", "--check", "failed=0", "--check", "makespan<1ns"]);
    let lines: Vec<&str> = complaints.lines().collect();
    assert_eq!(lines[0], "thalweg: tasks<5 does not hold: it is 12");
    assert!(lines.len() == 2 && lines[1].starts_with("thalweg: makespan<1ns does not hold: it is "), "{complaints}");
    let complaints = refused(&file, &["--check", "speed<5"]);
    assert!(complaints.contains("no quantity is called `speed`; try one of computing,"), "{complaints}");
    let help = Command::new(env!("CARGO_BIN_EXE_thalweg")).args(["trace", "--help"]).output().unwrap();
    assert!(String::from_utf8(help.stdout).unwrap().contains("wait-p50, wait-p99"));
}

#[test]
fn runs_are_compared_by_task_name() {
    let folder = tempfile::tempdir().unwrap();
    let files = [("small.thw", 2), ("large.thw", 20)].map(|(name, rounds)| record(&folder, name, rounds, false));
    let text = shown(&files[0], &["--compare", files[1].to_str().unwrap()]);
    let lines: Vec<String> = text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect();
    for begin in ["tasks 8 80 +72 10.00×", "square 8 80 "] {
        assert!(lines.iter().any(|line| line.starts_with(begin)), "no {begin:?} in {text}");
    }
    assert!(text.contains("small.thw") && text.contains("large.thw"), "{text}");
}

#[test]
fn files_for_other_programs_are_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 5, false);
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let [tables, perfetto, paraver] = [path("tables"), path("run.pftrace"), path("run")];
    assert_eq!(shown(&file, &["--csv", &tables, "--perfetto", &perfetto, "--paraver", &paraver]), "");
    let tasks = fs::read_to_string(Path::new(&tables).join("tasks.csv")).unwrap();
    assert_eq!(tasks.lines().filter(|line| line.contains(",square,")).count(), 20, "{tasks}");
    assert!(fs::read_to_string(Path::new(&tables).join("data.csv")).unwrap().contains("numbers, \"\"raw\"\""));
    for name in ["run.pftrace", "run.prv", "run.pcf", "run.row"] {
        assert!(fs::metadata(folder.path().join(name)).unwrap().len() > 20, "{name}");
    }
    let complaints = refused(&file, &["--csv", file.to_str().unwrap()]);
    assert!(complaints.starts_with("thalweg: cannot write "), "{complaints}");
}

#[cfg(feature = "sqlite")]
#[test]
fn database_is_written() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 5, false);
    let base = folder.path().join("run.db");
    assert_eq!(shown(&file, &["--sqlite", base.to_str().unwrap()]), "");
    assert!(fs::read(&base).unwrap().starts_with(b"SQLite format 3\0"));
    let before = fs::read(&file).unwrap();
    let complaints = refused(&file, &["--sqlite", file.to_str().unwrap()]);
    assert!(complaints.contains("it is no SQLite database") && fs::read(&file).unwrap() == before, "{complaints}");
}

#[cfg(not(feature = "sqlite"))]
#[test]
fn missing_database_library_is_explained() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 1, false);
    let base = folder.path().join("run.db");
    let complaints = refused(&file, &["--sqlite", base.to_str().unwrap()]);
    assert!(complaints.contains("was built without SQLite; try one built with `--features sqlite`"), "{complaints}");
    assert!(!base.exists());
}

#[test]
fn damaged_files_are_shown_as_far_as_possible() {
    let folder = tempfile::tempdir().unwrap();
    let file = record(&folder, "run.thw", 50, false);
    let bytes = fs::read(&file).unwrap();
    let cut = folder.path().join("cut.thw");
    fs::write(&cut, &bytes[..bytes.len() - 5]).unwrap();
    let output = thalweg(&cut, &[]);
    let [text, complaints] = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).unwrap());
    assert!(output.status.success() && text.contains("200 tasks"), "{text} {complaints}");
    assert!(
        text.contains("\nincomplete     byte ") && complaints.contains("cut.thw is incomplete: byte "),
        "{complaints}"
    );
    assert!(refused(&cut, &["--check", "problems=0"]).contains("problems=0 does not hold: it is 1"));
    fs::write(&cut, "no trace").unwrap();
    assert!(refused(&cut, &[]).starts_with("thalweg: cannot read trace "));
    assert!(refused(&folder.path().join("missing.thw"), &[]).starts_with("thalweg: cannot read trace "));
    assert!(refused(&file, &["--compare", cut.to_str().unwrap()]).contains("cut.thw: byte 0"));
}

#[test]
fn several_files_are_one_timeline() {
    let folder = tempfile::tempdir().unwrap();
    let (first, second) = (record(&folder, "run.0.thw", 3, false), record(&folder, "run.1.thw", 2, false));
    let tables = folder.path().join("tables");
    let arguments = [second.to_str().unwrap(), "--csv", tables.to_str().unwrap()];
    fs::write(folder.path().join("run.1.thw.clock"), "0 -5000000000 40\n").unwrap();
    shown(&first, &arguments);
    let tasks = fs::read_to_string(tables.join("tasks.csv")).unwrap();
    assert_eq!(tasks.lines().filter(|line| line.contains("square")).count(), 4 * (3 + 2));
    fs::write(folder.path().join("run.1.thw.clock"), "0 -5000000000 40\nnever\n").unwrap();
    let problem = refused(&first, &arguments);
    assert!(problem.contains("run.1.thw.clock: line 2 is not a time, an offset and an error"), "{problem}");
}
