//! NumPy's arrays in tasks, and back: the example `numpy`, loaded by Python.
//!
//! Needs a Python with NumPy: `python3`, or the one that `THALWEG_PYTHON` names. Without one the test is skipped,
//! unless `THALWEG_REQUIRE` has `numpy`.

use std::path::Path;
use std::process::Command;

/// Returns a Python that has NumPy.
fn python() -> Option<String> {
    let python = std::env::var("THALWEG_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let found = Command::new(&python).args(["-c", "import numpy"]).output();
    if found.is_ok_and(|output| output.status.success()) {
        return Some(python);
    }
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name == "numpy"), "`{python}` has no NumPy");
    println!("skipped: `{python}` has no NumPy; set THALWEG_PYTHON to one that has");
    None
}

#[test]
fn numpy_arrays_round_trip_through_tasks() {
    let Some(python) = python() else { return };
    let root = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."));
    // Running a single test does not build the examples, so build the library here to avoid testing an outdated one.
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--example", "numpy"]).current_dir(root);
    if !cfg!(debug_assertions) {
        cargo.arg("--release");
    }
    let built = cargo.output().unwrap();
    assert!(built.status.success(), "{}", String::from_utf8_lossy(&built.stderr));
    let test = std::env::current_exe().expect("tests have a path");
    let profile = test.ancestors().nth(2).expect("tests are in <profile>/deps");
    let library = format!("{}numpy{}", std::env::consts::DLL_PREFIX, std::env::consts::DLL_SUFFIX);
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("numpy/roundtrip.py");
    let output = Command::new(python).arg(script).arg(profile.join("examples").join(library)).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert_eq!(String::from_utf8_lossy(&output.stdout).lines().last(), Some("VERIFIED"));
}
