//! CUDA and HIP without a GPU: the real backends run on stand-in drivers, which `tests/standin/core.hpp` describes
//! together with their limitations. Every program runs in a separate process whose dynamic loader finds the stand-in
//! first. The stand-in writes a report of all calls and leaked objects.
//!
//! The tests need the C++ compiler `c++`. Without it, they are skipped unless `THALWEG_REQUIRE` contains `standin`.

#![allow(unsafe_code, unreachable_pub)] // promises about kernel texts; the modules below are parts of this file

mod across;
mod allocation;
mod bodies;
#[path = "../common/cargo.rs"]
mod cargo;
mod copies;
mod drivers;
mod examples;
mod flights;
mod graphs;
mod interop;
mod loops;
mod losses;
mod memory;
mod opencl;
mod programs;
mod python;
#[path = "../common/random.rs"]
mod random;
mod raw;
mod replays;
mod shapes;
mod suites;
mod unified;

use drivers::{CUDA, HIP, Report, Settings};

/// Runs one of our own programs. Checks that it has leaked nothing and broken no rule, and returns its report.
fn report(settings: &Settings, program: &str) -> Option<Report> {
    let report = drivers::run_own(settings, program)?;
    report.is_clean();
    Some(report)
}

/// Runs `test` on both interfaces.
fn on_both(test: impl Fn(&Settings)) {
    test(&CUDA);
    test(&HIP);
}
