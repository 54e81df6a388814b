//! End-to-end tests of `thalweg kernel`.

use std::process::{Command, Output};

fn kernel(place: &str) -> Output {
    let place = format!("{}/../../examples/loops/{place}", env!("CARGO_MANIFEST_DIR"));
    Command::new(env!("CARGO_BIN_EXE_thalweg")).args(["kernel", &place]).output().unwrap()
}

#[test]
fn kernel_prints_kernels_of_a_function() {
    let output = kernel("vecadd.rs:vecadd");
    let text = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success() && text.starts_with("KERNEL(TEAM_X, TEAM_Y, TEAM_Z) vecadd_loop("), "{text}");
}

/// The printed source is complete, so it begins with the constants that the kernels need.
#[test]
fn kernel_prints_constants_that_kernels_need() {
    let output = kernel("dg.rs:advance");
    let text = String::from_utf8(output.stdout).unwrap();
    let head = text.find("KERNEL(").unwrap();
    for define in ["#define v_NX (4)", "#define v_POINTS ((4)*(4))"] {
        assert!(text.find(define).is_some_and(|at| at < head), "no {define} in {text}");
    }
}

#[test]
fn kernel_names_missing_function_or_file() {
    for (place, words) in [
        ("vecadd.rs:main", "no function `main` with the attribute `target`"),
        ("nothing.rs:vecadd", "cannot read"),
        ("vecadd.rs", "cannot "),
    ] {
        let output = kernel(place);
        let text = String::from_utf8(output.stderr).unwrap();
        assert!(!output.status.success() && text.contains(words), "{place}: {text}");
    }
}
