//! Reads files using the messages of Python's `perfetto` package, which Perfetto's authors generate from their
//! schema.
//!
//! The package is installed once, into a build folder. Without Python or a network, the test prints that it is
//! skipped.

use super::{Options, bytes, synthetic};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg_trace_tools::Trace;
use thalweg_trace_tools::perfetto::Arrows;

/// Returns the path of a Python that has the package, or the reason why there is none.
fn python() -> Result<PathBuf, String> {
    let has_package = |python: &Path| {
        let found =
            Command::new(python).args(["-c", "import perfetto.protos.perfetto.trace.perfetto_trace_pb2"]).output();
        found.is_ok_and(|output| output.status.success())
    };
    if has_package(Path::new("python3")) {
        return Ok("python3".into());
    }
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("perfetto-package");
    let python = folder.join("bin/python");
    if !has_package(&python) {
        run(Command::new("python3").args(["-m", "venv"]).arg(&folder))?;
        run(Command::new(&python).args([
            "-m",
            "pip",
            "install",
            "--quiet",
            "--retries=0",
            "--timeout=10",
            "perfetto",
        ]))?;
    }
    Ok(python)
}

/// Returns the output of a command, or its error output if it failed.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|problem| problem.to_string())?;
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

/// Returns the numbers that the package should find.
fn expected(trace: &Trace) -> BTreeMap<String, u64> {
    let ran = |task: usize| trace.tasks[task].start.is_some();
    let bodies: Vec<_> = trace.tasks.iter().filter(|task| task.start.is_some()).collect();
    let count = |number: usize| number as u64;
    let evictions = trace.copies.iter().filter(|copy| copy.evicts).count();
    let arrows = trace.dependences.iter().filter(|dependence| ran(dependence.from) && ran(dependence.to)).count();
    let numbers = [
        ("processes", 1),
        ("unknown", 0),
        ("begin task", count(bodies.len())),
        ("begin state", count(trace.states.len())),
        ("begin copy", count(trace.copies.len() - evictions)),
        ("begin eviction", count(evictions)),
        ("end", count(bodies.len() + trace.states.len() + trace.copies.len())),
        ("arrows", count(arrows)),
        ("annotation task", count(bodies.len())),
        ("annotation source", count(bodies.len())),
        ("annotation submitted (ns)", count(bodies.len())),
        ("annotation ready (ns)", count(bodies.len())),
        ("annotation bytes", count(trace.copies.len())),
        ("sum of tasks", bodies.iter().map(|task| task.number).sum()),
        // The facts about the run, notes, and decisions.
        ("marks", 1 + count(trace.notes.len() + trace.drops.len() + trace.decisions.len())),
    ];
    numbers.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

#[test]
fn package_of_perfetto_counts_slices_arrows_and_annotations() {
    let python = match python() {
        Ok(python) => python,
        Err(problem) => {
            eprintln!("skipped: Python's `perfetto` package cannot be installed: {problem}");
            return;
        }
    };
    let mut trace = synthetic(5000, 4, 21);
    // A body without duration could begin together with its successor, which would then have no arrow.
    for task in &mut trace.tasks {
        if task.start == task.end {
            (task.start, task.end, task.finished) = (None, None, None);
        }
    }
    let one = checked(&python, &[&trace]);
    for (key, value) in expected(&trace) {
        assert_eq!(one.get(key.as_str()), Some(&value), "{key}");
    }
    let memory: u64 = trace.memory.iter().filter(|change| change.space == 1).map(|change| change.bytes).sum();
    assert_eq!(one.get("sum of bytes in use: EMU 0"), Some(&memory));
    let mut other = trace.clone();
    other.facts.insert("process".to_owned(), "43".to_owned());
    let joined = checked(&python, &[&trace, &other]);
    assert_eq!(joined, one.into_iter().map(|(key, value)| (key, 2 * value)).collect());
}

/// Returns the numbers that the package finds in one file made by concatenating the files of several traces.
fn checked(python: &Path, traces: &[&Trace]) -> BTreeMap<String, u64> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("out.pftrace");
    let options = Options { arrows: Arrows::All, annotations: true };
    let bytes: Vec<u8> = traces.iter().flat_map(|trace| bytes(trace, options)).collect();
    std::fs::write(&path, bytes).expect("the file can be written");
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/perfetto/check.py");
    let printed = run(Command::new(python).arg(script).arg(&path)).expect("the package reads the file");
    let pair = |line: &str| {
        let (key, value) = line.split_once('\t').expect("key and value");
        (key.to_owned(), value.parse::<u64>().expect("a number"))
    };
    printed.lines().map(pair).collect()
}
