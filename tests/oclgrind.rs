//! Kernels under Oclgrind, an OpenCL device simulator that detects data races between the threads of a kernel and
//! accesses outside of buffers. The tests run the kernels for vectors, sparse products, boxes and CG, some of the
//! conformance suite, Jacobi's method on a tiny square and one step of each NAS benchmark of class S, each in a
//! separate process.
//!
//! The tests need Oclgrind's library. Debian's package installs it at `LIBRARY`; on other systems, `THALWEG_OCLGRIND`
//! gives its path. Without the library, all tests are skipped unless `THALWEG_REQUIRE` contains `oclgrind`. Price and
//! McIntosh-Smith, "Oclgrind: An extensible OpenCL device simulator" (2015).

#![allow(unsafe_code)] // kernel texts are promised to respect their bounds; one of them has a race on purpose

#[path = "common/cargo.rs"]
mod cargo;

use std::path::{Path, PathBuf};
use std::process::Command;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::prelude::*;

const LIBRARY: &str = "/usr/lib/oclgrind/liboclgrind-rt-icd.so";

/// Returns the path of Oclgrind's library if it is installed.
fn library() -> Option<PathBuf> {
    let library = PathBuf::from(std::env::var("THALWEG_OCLGRIND").unwrap_or_else(|_| LIBRARY.to_owned()));
    if library.exists() {
        return Some(library);
    }
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    assert!(!required.split(',').any(|name| name == "oclgrind"), "{} does not exist", library.display());
    println!("skipped: {} does not exist", library.display());
    None
}

/// Runs a program under Oclgrind and asserts that it succeeds. Returns its output and Oclgrind's log.
fn run(program: &Path, arguments: &[&str]) -> Option<(String, String)> {
    let library = library()?;
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("oclgrind.icd"), format!("{}\n", library.display())).unwrap();
    let log = folder.path().join("log");
    let mut command = Command::new(program);
    command.args(arguments).env("RUST_BACKTRACE", "0");
    command.env("OCL_ICD_VENDORS", folder.path()).env("THALWEG_REQUIRE", "opencl").env("THALWEG_TEST_UNITS", "OPENCL");
    command.env("OCLGRIND_DATA_RACES", "1").env("OCLGRIND_LOG", &log).env("OCLGRIND_MAX_ERRORS", "10");
    // Oclgrind counts the local memory of all kernels of a program, where devices count that of the launched one.
    command.env("OCLGRIND_LOCAL_MEM_SIZE", "65536");
    let output = command.output().unwrap();
    // The verdict comes last, even if the simulator is so slow that the runtime reports a stall.
    let text = [output.stderr, output.stdout].map(|text| String::from_utf8_lossy(&text).into_owned()).concat();
    let log = std::fs::read_to_string(&log).unwrap_or_default();
    assert!(output.status.success(), "{} {arguments:?}: {:?}\n{text}\n{log}", program.display(), output.status);
    Some((text, log))
}

/// Runs tests under Oclgrind and asserts that all pass. Returns Oclgrind's log.
fn said(program: &Path, arguments: &[&str]) -> Option<String> {
    let (text, log) = run(program, arguments)?;
    assert!(!text.contains("0 passed") && text.contains("passed"), "{} {arguments:?}: {text}", program.display());
    Some(log)
}

const TEXT: &str = "
    KERNEL(64, 1, 1) all_to_one(INOUT(float, y, n), int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i / 64] = i;
    }
    KERNEL(64, 1, 1) fill(OUT(float, y, n), int n, int value)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = value;
    }";
// SAFETY: the kernels stay inside their buffers. The threads of one kernel race on purpose, because the test checks
// that Oclgrind detects this.
const PROGRAM: Program = unsafe { Program::new("races.cl", TEXT) };
static ALL_TO_ONE: Kernel<(Write<f32>, i32)> = Kernel::new(&PROGRAM, "all_to_one");

#[test]
#[ignore = "run under Oclgrind by another test"]
fn kernel_with_a_race() {
    let rt = Runtime::builder().compute_units("1:OPENCL:1").build().unwrap();
    let y = rt.data(vec![0f32; 256]);
    rt.task("race", (y.inout(),)).gpu(|k, (mut y,)| k.launch(&ALL_TO_ONE, 256, (&mut y, 256))).submit().unwrap();
    rt.wait().unwrap();
}

#[test]
#[ignore = "run under Oclgrind by another test"]
fn concurrent_calls_of_four_threads() {
    static FILL: Kernel<(Write<f32>, i32, i32)> = Kernel::new(&PROGRAM, "fill");
    let rounds = |rt: &Runtime| {
        for round in 0..1000 {
            let y = rt.data(vec![0f32; 64]);
            rt.task("fill", (y.output(),))
                .gpu(move |k, (mut y,)| k.launch(&FILL, 64, (&mut y, 64, round)))
                .submit()
                .unwrap();
            assert_eq!(rt.take(y).unwrap(), vec![round as f32; 64]);
        }
    };
    let rt = Runtime::builder().compute_units("1:OPENCL:1").build().unwrap();
    std::thread::scope(|scope| (0..4).for_each(|_| drop(scope.spawn(|| rounds(&rt)))));
}

/// Concurrent calls from several threads corrupt the simulator's heap, so Thalweg has to serialize its calls.
#[test]
fn calls_of_several_threads_are_serialized_for_oclgrind() {
    let this = std::env::current_exe().unwrap();
    let Some(log) = said(&this, &["--exact", "concurrent_calls_of_four_threads", "--ignored"]) else { return };
    assert_eq!(log, "");
}

/// Checks that the simulator does detect a race if there is one.
#[test]
fn race_in_a_kernel_is_detected() {
    let this = std::env::current_exe().unwrap();
    let Some(log) = said(&this, &["--exact", "kernel_with_a_race", "--ignored"]) else { return };
    assert!(log.contains("data race") && log.contains("all_to_one"), "{log}");
}

#[test]
#[ignore = "builds the programs; `cargo test --release --test oclgrind -- --ignored free_of_races`"]
fn kernels_are_free_of_races() {
    if library().is_none() {
        return;
    }
    let programs = cargo::programs(&["test", "--no-run", "--test", "kernels", "--test", "conformance"]);
    for (program, tests) in [("kernels", &[][..]), ("conformance", &["opencl::boxes", "opencl::reductions"])] {
        for tests in tests.chunks(1).chain(tests.is_empty().then_some(tests)) {
            let log = said(&programs[program], tests).expect("the simulator is installed");
            assert_eq!(log, "", "{program} {tests:?}");
        }
    }
}

#[test]
#[ignore = "builds the programs; `cargo test --release --test oclgrind -- --ignored free_of_races`"]
fn programs_are_free_of_races() {
    if library().is_none() {
        return;
    }
    let programs = cargo::programs(&["build", "--example", "jacobi", "--example", "npb_mz"]);
    for (program, arguments, verdict) in [
        ("jacobi", "--size 12 --block 5 --tolerance 0.5", "VERIFIED"),
        ("npb_mz", "bt --class S --niter 1", "NOT COMPARED"),
        ("npb_mz", "sp --class S --niter 1", "NOT COMPARED"),
        ("npb_mz", "lu --class S --niter 1", "NOT COMPARED"),
    ] {
        let arguments: Vec<_> = arguments.split(' ').chain(["--units", "1:OPENCL:1", "--no-progress"]).collect();
        let (text, log) = run(&programs[program], &arguments).expect("the simulator is installed");
        assert_eq!((text.trim_end().lines().last(), &*log), (Some(verdict), ""), "{program} {arguments:?}: {text}");
    }
    let tests = cargo::programs(&["test", "--no-run", "--test", "cg_numerics"]);
    let log =
        said(&tests["cg_numerics"], &["--ignored", "gpu::kernels_on_few_rows"]).expect("the simulator is installed");
    assert_eq!(log, "");
}
