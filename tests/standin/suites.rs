//! Suites of other test programs on the stand-ins: conformance, the public API, traces and ranges of profilers.

use super::drivers::{CUDA, HIP, Settings, run};
use super::{drivers, on_both, programs, report};

/// Runs the whole conformance suite, which every kind of device has to pass, on two devices. Exact memory lets the
/// stand-in find accesses outside of each piece.
fn conformance(settings: &Settings) {
    let Some(built) = drivers::built() else { return };
    let settings = settings.clone().with("STANDIN_DEVICES", 2).with("THALWEG_REQUIRE", settings.units.to_lowercase());
    let tests = format!("{}::", settings.units.to_lowercase());
    for (variable, value) in [("THALWEG_EXACT_MEMORY", "1"), ("THALWEG_DEVICE_MEMORY", "recycler")] {
        let (output, report) = run(&settings.clone().with(variable, value), &built.of("conformance"), &[&tests]);
        assert!(output.contains("test result: ok. 23 passed; 0 failed; 0 ignored"), "{output}");
        report.is_clean();
    }
}

#[test]
fn conformance_on_cuda() {
    conformance(&CUDA);
}

#[test]
fn conformance_on_hip() {
    conformance(&HIP);
}

/// Runs the tests of the public API, including the checks of compiler messages.
#[test]
fn public_api_suite_passes_on_both_interfaces() {
    on_both(|settings| {
        let Some(built) = drivers::built() else { return };
        let settings = settings.clone().with("THALWEG_REQUIRE", settings.units.to_lowercase());
        let (_, report) = run(&settings, &built.of("accelerators"), &["--skip", "abandoned::"]);
        report.is_clean();
        report.has_launched();
        // An abandoned runtime keeps its devices' memory, because bodies may still use it.
        _ = run(&settings, &built.of("accelerators"), &["abandoned::"]);
    });
}

/// The clocks of devices drift, as the clocks of real devices do.
#[test]
fn traces_follow_the_clocks_of_devices() {
    on_both(|settings| {
        let Some(built) = drivers::built() else { return };
        for ppm in [0, 80, -80] {
            let settings = settings.clone().with("STANDIN_CLOCK_PPM", ppm).with("STANDIN_DELAY_US", 500);
            let (output, report) = run(&settings, &built.of("accelerators"), &["traces::"]);
            assert!(output.contains("test result: ok. 2 passed"), "{output}");
            assert!(report.of("timed events") > 0 && report.sum("cuEventElapsed") + report.sum("hipEventElapsed") > 0);
            report.is_clean();
        }
    });
}

/// Checks that the issue of each task is a range of the vendor's profiler.
#[test]
fn tasks_have_ranges_of_profilers() {
    let Some(built) = drivers::built() else { return };
    let profiler = CUDA.clone().with("NVTX_INJECTION64_PATH", built.library().display());
    let missing = CUDA.clone().with("NVTX_INJECTION64_PATH", "/no/such/profiler.so");
    for (settings, interface) in [(&CUDA, "NVTX 2"), (&profiler, "NVTX 3"), (&missing, "NVTX 2"), (&HIP, "rocTX")] {
        let report = report(settings, "chain").expect("the stand-in is available");
        let ranges: Vec<_> = report.starting("range of ").collect();
        assert_eq!(ranges, [(format!("range of {interface} next").as_str(), programs::CHAIN as i64)]);
        assert_eq!(report.of("ended ranges"), programs::CHAIN as i64);
    }
}
