//! End-to-end tests of `thalweg doctor`.

use std::process::{Command, Output};

fn doctor(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_thalweg")).arg("doctor").args(arguments).output().unwrap()
}

#[test]
fn doctor_lists_devices_or_reason_for_every_interface() {
    let output = doctor(&["--json", "--quick"]);
    assert!(output.status.success(), "{output:?}");
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(report["cores"].as_u64().unwrap() > 0);
    let interfaces = report["interfaces"].as_array().unwrap();
    for name in ["CUDA", "HIP", "OpenCL"] {
        let interface = interfaces.iter().find(|interface| interface["name"] == name).unwrap();
        let devices = interface["devices"].as_array().unwrap();
        assert_eq!(devices.is_empty(), interface["absent"].is_string(), "{interface}");
        for device in devices {
            assert!(device["memory_bytes"].as_u64().unwrap() > 0, "{device}");
            assert_eq!(device["peers"].as_array().unwrap().len(), devices.len());
        }
    }
    let text = String::from_utf8(doctor(&["--quick"]).stdout).unwrap();
    for interface in interfaces {
        assert!(text.contains(interface["name"].as_str().unwrap()), "{text}");
    }
}

#[test]
fn doctor_measures_every_device() {
    let output = doctor(&["--json"]);
    let report: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for interface in report["interfaces"].as_array().unwrap() {
        for device in interface["devices"].as_array().unwrap() {
            assert!(device["failed"].is_null(), "{device}");
            for figure in ["to_device_bytes_per_s", "from_device_bytes_per_s", "round_trip_ns", "launch_ns"] {
                assert!(device["measured"][figure].as_f64().unwrap() > 0.0, "{device}");
            }
        }
    }
}

#[test]
fn doctor_rejects_unknown_options() {
    let output = doctor(&["--nonsense"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8(output.stderr).unwrap().contains("--nonsense"));
}
