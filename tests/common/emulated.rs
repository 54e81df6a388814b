//! A machine file that simulates CPU units alongside emulated devices.

#![allow(dead_code, unreachable_pub)] // not every test program that includes this module uses it

use thalweg::prelude::*;

/// Returns a machine of `cores` cores and `devices` devices, on which a `task` of cost 1 takes `core_ns` or
/// `device_ns`. Each device has one copy engine; a copy takes half a millisecond plus its bytes at 2 GB/s.
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
