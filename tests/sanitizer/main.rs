//! The access sanitizer: it finds every planted mistake, and nothing in correct programs.

#![allow(unsafe_code)] // most mistakes need it

#[path = "../common/mod.rs"]
mod common;
mod correct;
mod devices;
mod wrong;

use thalweg::error::{AccessFaults, Breach, FailureReason};
use thalweg::prelude::*;

/// Returns a runtime with the sanitizer.
fn sanitizing(units: &str) -> Runtime {
    Runtime::builder().compute_units(units).sanitize(true).build().unwrap()
}

/// Waits, and returns the findings of the only task that failed: for each, the number of the access, what happened,
/// where first, and how often.
fn findings(rt: &Runtime) -> Vec<(usize, Breach, String, usize)> {
    let error = rt.wait().expect_err("the sanitizer finds the mistake");
    let RunError::Failed(failures) = error else { panic!("{error}") };
    assert_eq!(failures.len(), 1, "{failures}");
    let text = failures[0].to_string();
    assert!(text.contains("`wrong`") && text.contains("submitted at tests/sanitizer/"), "{text}");
    assert!(text.contains("cannot accept access ") && text.contains("; try "), "{text}");
    let FailureReason::Returned(error) = failures[0].reason() else { panic!("{text}") };
    let faults: &AccessFaults = error.downcast_ref().unwrap_or_else(|| panic!("{text}"));
    faults.iter().map(|fault| (fault.access, fault.breach, fault.first.clone(), fault.count)).collect()
}
