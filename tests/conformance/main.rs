//! One suite for every kind of device: what holds for one holds for all.
//!
//! Emulated devices are always there. Tests on others that are missing are ignored, and it is said why; unless
//! `THALWEG_REQUIRE` (a list such as `opencl,cuda`) says that they must be there.

mod across;
mod copies;
mod failures;
mod fault;
mod kernels;
mod memory;
mod order;
mod random;

use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// A test, and how many devices it needs.
type Test = (&'static str, usize, fn(UnitKind));

const TESTS: [Test; 18] = [
    ("whole_arrays_go_there_and_back", 1, copies::whole_arrays_go_there_and_back),
    ("boxes_of_two_to_four_dimensions", 1, copies::boxes_of_two_to_four_dimensions),
    ("from_device_to_device", 2, copies::from_device_to_device),
    ("a_loop_over_the_devices_of_a_unit", 2, copies::a_loop_over_the_devices_of_a_unit),
    ("a_task_across_the_devices_of_a_unit", 2, across::a_task_across_the_devices_of_a_unit),
    ("a_task_across_devices_that_fails", 2, across::a_task_across_devices_that_fails),
    ("memory_is_used_to_the_limit", 1, memory::memory_is_used_to_the_limit),
    ("more_than_fits_is_refused", 1, memory::more_than_fits_is_refused),
    ("many_readers_between_two_writers", 1, order::many_readers_between_two_writers),
    ("data_released_behind_kernels", 1, order::data_released_behind_kernels),
    ("independent_kernels", 1, order::independent_kernels),
    ("reductions_on_private_replicas", 1, order::reductions_on_private_replicas),
    ("a_body_that_fails", 1, failures::a_body_that_fails),
    ("a_body_that_panics", 1, failures::a_body_that_panics),
    ("no_memory_for_scratch", 1, failures::no_memory_for_scratch),
    ("ten_thousand_random_tasks", 1, |kind| random::random_tasks(kind, 0, 1)),
    ("random_tasks_beside_cores", 1, |kind| random::random_tasks(kind, 1, 1)),
    ("random_tasks_on_two_devices", 2, |kind| random::random_tasks(kind, 1, 2)),
];

/// Where kernels run on processors of their own.
const OF_GPUS: [Test; 1] = [("a_kernel_that_faults", 1, fault::a_kernel_that_faults)];

const KINDS: [UnitKind; 4] = [UnitKind::Emulated, UnitKind::OpenCl, UnitKind::Cuda, UnitKind::Hip];

/// A runtime with device units of a kind, and perhaps CPU units.
fn runtime_of(kind: UnitKind, cpu_units: usize, devices: usize, memory_bytes: u64) -> Runtime {
    let builder = Runtime::builder().compute_units(units(kind, cpu_units, devices));
    builder.scheduler("dynamic").device_memory_bytes(memory_bytes).build().unwrap()
}

fn units(kind: UnitKind, cpu_units: usize, devices: usize) -> String {
    let cores = if cpu_units > 0 { format!("{cpu_units}:CPU:1,") } else { String::new() };
    format!("{cores}{devices}:{kind}:1")
}

/// Why there are not so many devices.
fn missing(kind: UnitKind, devices: usize) -> Option<String> {
    match Runtime::builder().compute_units(units(kind, 0, devices)).build() {
        Err(BuildError::NoDevice { found, .. }) => Some(format!("{devices} of {kind}: {found}")),
        _ => None, // other errors are the tests' to find
    }
}

fn main() {
    if fault::run_if_asked(&KINDS) {
        return;
    }
    let required = std::env::var("THALWEG_REQUIRE").unwrap_or_default();
    let mut known = BTreeMap::new();
    let mut trials = Vec::new();
    for kind in KINDS {
        let is_required = required.split(',').any(|name| name.eq_ignore_ascii_case(kind.keyword()));
        let of_gpus: &[Test] = if matches!(kind, UnitKind::Cuda | UnitKind::Hip) { &OF_GPUS } else { &[] };
        for &(name, devices, test) in TESTS.iter().chain(of_gpus) {
            let missing = known.entry((kind, devices)).or_insert_with(|| missing(kind, devices));
            // Of a kind that is required, a second device may be missing even so.
            let ignored = missing.is_some() && !(is_required && devices == 1);
            let name = format!("{}::{name}", kind.keyword().to_lowercase());
            let run = move || {
                test(kind);
                Ok(())
            };
            trials.push(Trial::test(name, run).with_ignored_flag(ignored));
        }
    }
    for why in known.values().flatten() {
        println!("skipped: {why}");
    }
    libtest_mimic::run(&Arguments::from_args(), trials).exit();
}
