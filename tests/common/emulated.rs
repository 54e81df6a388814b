//! The machine that emulated devices beside CPU units are, as a machine file for simulations.

#![allow(dead_code, unreachable_pub)] // a test program that has this may use it or not

use thalweg::prelude::*;

/// So many cores and devices, on which a task of this name and cost 1 takes so long. Each device has one copy engine, which
/// takes half a millisecond and 2 GB/s for a copy.
pub fn machine(cores: usize, devices: usize, task: &str, [core_ns, device_ns]: [f64; 2]) -> SimulatedMachine {
    let text = format!(
        r#"
        name = "emulated"
        [units.CPU]
        count = {cores}
        bytes_per_s = 1e9
        [units.EMU]
        count = {devices}
        bytes_per_s = 1e9
        memory_bytes = 100_000_000
        [[links]]
        between = ["host", "EMU"]
        latency_ns = 500_000
        bytes_per_s = 2e9
        duplex = false
        [[links]]
        between = ["EMU", "EMU"]
        latency_ns = 500_000
        bytes_per_s = 2e9
        [[tasks]]
        name = "{task}"
        cost = 1
        [tasks.time_ns]
        CPU = {{ 1 = {core_ns} }}
        EMU = {{ 1 = {device_ns} }}
        "#
    );
    text.parse().unwrap_or_else(|error| panic!("{error}"))
}
