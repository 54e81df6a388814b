//! CUDA and HIP without a GPU: the real backends on stand-in drivers (`tests/standin/core.hpp` says what these are and what
//! they can't show). Every program runs in a process of its own, whose loader finds the stand-in first, and leaves a report
//! of what was called and of what is left.
//!
//! Needs a C++ compiler `c++`; without one all is skipped, unless `THALWEG_REQUIRE` has `standin`.

#![allow(unsafe_code, unreachable_pub)] // texts of kernels are vouched for; the modules below are parts of this file

#[path = "standin/drivers.rs"]
mod drivers;
#[path = "standin/programs.rs"]
mod programs;

use drivers::{CUDA, HIP, Settings, run};

/// An example program, which has to verify what it computes.
fn example(settings: &Settings, name: &str, arguments: &str) {
    let Some(built) = drivers::built() else { return };
    let arguments: Vec<_> = arguments.split(' ').chain(["--no-progress"]).collect();
    let (output, report) = run(settings, &built.of(name), &arguments);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{name} {arguments:?}: {output}");
    report.is_clean();
    report.has_launched();
}

/// The examples on one device, on one beside a core, and on two. What takes long runs optimized only, as CI has it.
fn examples(settings: &Settings) {
    let kind = settings.units;
    let programs = [
        "jacobi --size 48 --block 24",
        "cg --class S",
        "npb_mz bt --class S",
        "npb_mz sp --class S",
        "npb_mz lu --class S",
    ];
    for units in [format!("1:{kind}:1"), format!("1:{kind}:1,1:CPU:1"), format!("2:{kind}:1")] {
        let settings = settings.clone().with("STANDIN_DEVICES", 2);
        for program in programs.iter().take(if cfg!(debug_assertions) { 1 } else { programs.len() }) {
            let (name, arguments) = program.split_once(' ').unwrap();
            example(&settings, name, &format!("{arguments} --units {units}"));
        }
    }
}

#[test]
fn examples_on_cuda() {
    examples(&CUDA);
}

#[test]
fn examples_on_hip() {
    examples(&HIP);
}

/// The whole suite that every kind of device has to pass, on two devices.
fn conformance(settings: &Settings) {
    let Some(built) = drivers::built() else { return };
    let settings = settings.clone().with("STANDIN_DEVICES", 2).with("THALWEG_REQUIRE", settings.units.to_lowercase());
    let tests = format!("{}::", settings.units.to_lowercase());
    let (output, report) = run(&settings, &built.of("conformance"), &[&tests]);
    assert!(output.contains("test result: ok. 16 passed; 0 failed; 0 ignored"), "{output}");
    report.is_clean();
}

#[test]
fn conformance_on_cuda() {
    conformance(&CUDA);
}

#[test]
fn conformance_on_hip() {
    conformance(&HIP);
}

/// A chain, independent chains, and reductions: what they compute is right, and nothing is left of them.
fn own_programs(settings: &Settings) {
    for program in ["chain", "chains", "reductions"] {
        let Some(report) = drivers::run_own(settings, program) else { return };
        report.is_clean();
        let others = (report.calls() - report.launches()) as f64 / report.launches() as f64;
        let streams: Vec<_> = report.starting("launches on stream").map(|(_, launches)| launches).collect();
        let blocking = report.of("blocking copies");
        println!("{program}: {others:.2} other calls per launch, {blocking} blocking copies, launches {streams:?}");
    }
}

#[test]
fn own_programs_on_cuda() {
    own_programs(&CUDA);
}

#[test]
fn own_programs_on_hip() {
    own_programs(&HIP);
}
