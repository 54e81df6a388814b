//! Python programs and the Python package on the stand-in drivers.

use crate::drivers::{self, CUDA, run};
use crate::on_both;

/// Runs the Python example `numpy` with device arrays like those that CuPy makes.
#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn python_exchanges_device_memory() {
    let Some(built) = drivers::built() else { return };
    let python = std::env::var("THALWEG_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    if std::process::Command::new(&python).arg("--version").output().is_err() {
        return println!("skipped: there is no `{python}`");
    }
    let library = built.example("jacobi").with_file_name("libnumpy.so");
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/examples/numpy/device.py");
    let (output, report) = run(&CUDA, python.as_ref(), &[script, &library.display().to_string()]);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{output}");
    report.is_clean();
    report.has_launched();
}

/// Runs the Python package's tests of devices, if the package is installed.
#[test]
#[ignore = "needs the Python package; `cargo test --test standin -- --ignored examples python`"]
fn python_package_uses_devices() {
    let python = std::env::var("THALWEG_PYTHON").unwrap_or_else(|_| "python3".to_owned());
    let has_package = std::process::Command::new(&python).args(["-c", "import pytest, thalweg"]).output();
    if !has_package.is_ok_and(|imported| imported.status.success()) {
        return println!("skipped: `{python}` has no package `thalweg`");
    }
    let tests = concat!(env!("CARGO_MANIFEST_DIR"), "/crates/thalweg-python/tests/test_devices.py");
    on_both(|settings| {
        if drivers::built().is_none() {
            return;
        }
        let (output, report) = run(settings, python.as_ref(), &["-X", "dev", "-m", "pytest", tests]);
        assert!(output.contains(" passed") && !output.contains("skipped"), "{output}");
        report.is_clean();
        report.has_launched();
    });
}
