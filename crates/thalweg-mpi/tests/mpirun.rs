//! The examples under `mpirun`, on one to four ranks. Skipped if `mpirun` is not installed, unless `THALWEG_REQUIRE`
//! contains `mpirun`.

#![cfg(feature = "mpi")]

use std::path::PathBuf;
use std::process::Command;

/// Runs an example on this many ranks and returns its output.
fn mpirun(ranks: usize, example: &str, arguments: &[&str]) -> Option<(bool, String)> {
    let installed = Command::new("mpirun").arg("--version").output().is_ok_and(|output| output.status.success());
    if !installed {
        let required =
            std::env::var("THALWEG_REQUIRE").is_ok_and(|names| names.split(',').any(|name| name == "mpirun"));
        assert!(!required, "mpirun is required, but not installed");
        eprintln!("skipped: mpirun is not installed");
        return None;
    }
    // Cargo builds the examples before the tests, next to them.
    let test = std::env::current_exe().unwrap();
    let program: PathBuf = test.parent().and_then(|deps| deps.parent()).unwrap().join("examples").join(example);
    let version = Command::new("mpirun").arg("--version").output().unwrap();
    let mut command = Command::new("timeout");
    command.args(["100", "mpirun"]);
    // Open MPI refuses to run as root, or with more ranks than cores, unless it is asked to.
    if String::from_utf8_lossy(&version.stdout).contains("Open MPI") {
        command.args(["--allow-run-as-root", "--oversubscribe"]);
    }
    let output = command.args(["-np", &ranks.to_string()]).arg(program).args(arguments).output().unwrap();
    let text = format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    Some((output.status.success(), text))
}

fn verifies(example: &str, arguments: &[&str]) -> Vec<String> {
    let mut outputs = Vec::new();
    for ranks in 1..=4 {
        let Some((success, text)) = mpirun(ranks, example, arguments) else { return Vec::new() };
        let verified = text.lines().filter(|line| *line == "VERIFIED").count();
        assert!(success && verified == ranks, "{example} on {ranks} ranks:\n{text}");
        outputs.push(text);
    }
    outputs
}

#[test]
fn jacobi_equals_one_loop_on_any_number_of_ranks() {
    verifies("mpi_jacobi", &["130", "17", "20"]);
}

#[test]
fn cholesky_factorizes_on_any_number_of_ranks() {
    verifies("mpi_cholesky", &["200", "48"]);
}

#[test]
fn cg_has_the_same_bits_on_any_number_of_ranks() {
    let outputs = verifies("mpi_cg", &["500", "60", "20"]);
    let residuals: Vec<&str> =
        outputs.iter().flat_map(|text| text.lines()).filter(|line| line.starts_with("residual")).collect();
    assert!(residuals.windows(2).all(|two| two[0] == two[1]), "{residuals:#?}");
}
