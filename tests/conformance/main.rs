//! A suite that every kind of device must pass.
//!
//! Emulated devices are always available. Tests on other kinds are ignored with a message if the devices are missing,
//! unless `THALWEG_REQUIRE` (a list such as `opencl,cuda`) contains the kind.

mod across;
mod copies;
mod failures;
mod fault;
mod kernels;
mod memory;
mod order;
mod random;
mod reductions;

use libtest_mimic::{Arguments, Trial};
use std::collections::BTreeMap;
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// A test: its name, the number of devices it needs, and its function.
type Test = (&'static str, usize, fn(UnitKind));

const TESTS: [Test; 22] = [
    ("whole_arrays_survive_copies_to_a_device_and_back", 1, copies::whole_arrays_survive_copies_to_a_device_and_back),
    ("boxes_of_two_to_four_dimensions_match_host", 1, copies::boxes_of_two_to_four_dimensions_match_host),
    ("arrays_are_copied_from_device_to_device", 2, copies::arrays_are_copied_from_device_to_device),
    ("loop_spread_over_devices_copies_halos_only", 2, copies::loop_spread_over_devices_copies_halos_only),
    ("task_across_the_devices_of_a_unit_matches_host", 2, across::task_across_the_devices_of_a_unit_matches_host),
    ("failing_task_across_devices_fails_as_a_whole", 2, across::failing_task_across_devices_fails_as_a_whole),
    ("full_device_memory_evicts_and_keeps_values", 1, memory::full_device_memory_evicts_and_keeps_values),
    ("working_set_larger_than_device_memory_is_refused", 1, memory::working_set_larger_than_device_memory_is_refused),
    ("readers_between_writers_are_ordered", 1, order::readers_between_writers_are_ordered),
    ("released_memory_is_reused_only_after_its_kernels", 1, order::released_memory_is_reused_only_after_its_kernels),
    ("independent_kernels_compute_correct_values", 1, order::independent_kernels_compute_correct_values),
    ("reductions_and_accumulations_match_host", 1, order::reductions_and_accumulations_match_host),
    ("reductions_on_one_device_have_the_bits_of_cores", 1, reductions::reductions_on_one_device_have_the_bits_of_cores),
    ("loop_in_a_body_copies_only_its_residual", 1, reductions::loop_in_a_body_copies_only_its_residual),
    ("reductions_on_one_device_copy_nothing", 1, reductions::reductions_on_one_device_copy_nothing),
    (
        "failed_reduction_on_one_device_leaves_out_its_contribution",
        1,
        reductions::failed_reduction_on_one_device_leaves_out_its_contribution,
    ),
    ("failing_body_poisons_its_outputs", 1, failures::failing_body_poisons_its_outputs),
    ("panicking_body_poisons_its_outputs", 1, failures::panicking_body_poisons_its_outputs),
    ("oversized_scratch_memory_fails_the_task", 1, failures::oversized_scratch_memory_fails_the_task),
    ("ten_thousand_random_tasks_match_host", 1, |kind| random::random_tasks(kind, 0, 1)),
    ("random_tasks_shared_with_cores_match_host", 1, |kind| random::random_tasks(kind, 1, 1)),
    ("random_tasks_on_two_devices_match_host", 2, |kind| random::random_tasks(kind, 1, 2)),
];

/// Tests only for devices with their own processor, which excludes OpenCL on cores and emulated devices.
const OF_GPUS: [Test; 1] = [("faulting_kernel_loses_only_its_device", 1, fault::faulting_kernel_loses_only_its_device)];

const KINDS: [UnitKind; 4] = [UnitKind::Emulated, UnitKind::OpenCl, UnitKind::Cuda, UnitKind::Hip];

/// Returns a runtime with `devices` device units of this kind and `cpu_units` CPU units.
fn runtime_of(kind: UnitKind, cpu_units: usize, devices: usize, memory_bytes: u64) -> Runtime {
    let builder = Runtime::builder().compute_units(units(kind, cpu_units, devices));
    builder.scheduler("dynamic").device_memory_bytes(memory_bytes).build().unwrap()
}

fn units(kind: UnitKind, cpu_units: usize, devices: usize) -> String {
    let cores = if cpu_units > 0 { format!("{cpu_units}:CPU:1,") } else { String::new() };
    format!("{cores}{devices}:{kind}:1")
}

/// If there are fewer than `devices` devices of this kind, returns the reason.
fn missing(kind: UnitKind, devices: usize) -> Option<String> {
    match Runtime::builder().compute_units(units(kind, 0, devices)).build() {
        Err(BuildError::NoDevice { found, .. }) => Some(format!("{devices} of {kind}: {found}")),
        _ => None, // other errors are for the tests to find
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
            // Only one device is required; tests that need a second one may be ignored.
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
