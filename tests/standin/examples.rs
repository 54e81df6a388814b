//! Example programs on the stand-ins, which must verify their results.

use super::drivers;
use super::drivers::{CUDA, HIP, Settings, run};

/// Runs an example program, which must report that its results are verified.
fn example(settings: &Settings, name: &str, arguments: &str) {
    let Some(built) = drivers::built() else { return };
    let arguments: Vec<_> = arguments.split(' ').chain(["--no-progress"]).collect();
    let (output, report) = run(settings, &built.example(name), &arguments);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{name} {arguments:?}: {output}");
    report.is_clean();
    report.has_launched();
}

/// Runs the examples on one device, on one device with a core, and on two devices. Slow examples run only in optimized
/// builds, as in CI.
fn examples(settings: &Settings) {
    let kind = settings.units;
    let programs = [
        "jacobi --size 48 --block 24",
        "cg --class S",
        "npb_mz bt --class S",
        "npb_mz sp --class S",
        "npb_mz lu --class S",
        "compact --size 20011",
        "macc_cg --size 12",
        "dg --size 50 --steps 2",
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
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_on_cuda() {
    examples(&CUDA);
}

#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_on_hip() {
    examples(&HIP);
}

/// Checks that each stage of a step is one launch for all zones, where single zones take a launch each.
#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_in_batches_launch_each_stage_once() {
    let Some(built) = drivers::built() else { return };
    // Steps of class S; launches of a zone's step with the exchange; number of zones.
    for (benchmark, steps, stages, zones) in [("bt", 60, 7, 4), ("sp", 100, 8, 4), ("lu", 50, 6, 16)] {
        let launches = |fuse: &str| {
            let arguments = [benchmark, "--class", "S", "--units", "1:CUDA:1", "--fuse", fuse, "--no-progress"];
            let (output, report) = run(&CUDA, &built.example("npb_mz"), &arguments);
            assert_eq!(output.lines().last(), Some("VERIFIED"), "{output}");
            report.is_clean();
            report.launches()
        };
        // With the step before the first; faces are sent twice at the start, and received once at the end.
        let expected = stages * (steps + 1) + 3;
        assert_eq!(launches("batch"), expected, "{benchmark}");
        if benchmark == "sp" {
            assert_eq!(launches("whole"), zones * expected, "{benchmark}");
        }
    }
}
