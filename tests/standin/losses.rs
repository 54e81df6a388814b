//! Loss of a device during an operation, early or late, with every form of memory that a task may use.

use super::{on_both, report};

#[test]
fn device_loss_during_replays_is_survived() {
    on_both(|settings| {
        for operation in [2, 20, 60] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "graphs::device_loss_during_replays_keeps_readable_data") else {
                return;
            };
            assert!(report.of("graph launches") > 0, "{operation} {report:?}");
        }
    });
}

#[test]
fn device_loss_with_adopted_and_exported_memory_is_survived() {
    on_both(|settings| {
        for operation in [5, 40, 90] {
            let settings = settings.clone().with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "memory::imported::lost") else { return };
            assert_eq!(report.of("devices lost"), 1, "{report:?}");
        }
    });
}

#[test]
fn device_loss_with_unified_memory_is_survived() {
    on_both(|settings| {
        for operation in [0, 5, 40, 90] {
            let settings = settings.clone().with("STANDIN_DEVICES", 2).with("STANDIN_LOSE", format!("0:{operation}"));
            let Some(report) = report(&settings, "unified::lost") else { return };
            assert_eq!(report.of("devices lost"), 1, "{report:?}");
        }
    });
}

/// A device is lost during some operation, which may be a copy or a kernel, early or late. It is either the only device
/// or one of two.
#[test]
fn device_loss_is_survived() {
    on_both(|settings| {
        let kind = settings.units;
        for (units, devices) in [("1:CPU:1,2:KIND:1", 2), ("2:KIND:1", 2), ("1:KIND:1", 1)] {
            for operation in [0, 3, 30, 60, 200, 500] {
                let settings =
                    settings.clone().with("STANDIN_DEVICES", devices).with("STANDIN_LOSE", format!("0:{operation}"));
                let settings = settings.with("STANDIN_MACHINE", units.replace("KIND", kind));
                let Some(report) = report(&settings, "loss") else { return };
                // How much of the work reaches the device depends on timing.
                let lost = report.of("devices lost");
                assert!(lost == 1 || operation > 30 && lost == 0, "{units} {operation} {report:?}");
            }
        }
    });
}

#[test]
fn device_loss_in_tasks_across_devices_is_survived() {
    on_both(|settings| {
        for units in ["1:CPU:1,1:KIND:2", "1:KIND:2"] {
            for (device, operation) in [(0, 0), (1, 3), (0, 30), (1, 60), (1, 200), (0, 500)] {
                let settings = settings.clone().with("STANDIN_DEVICES", 2);
                let settings = settings.with("STANDIN_LOSE", format!("{device}:{operation}"));
                let machine = units.replace("KIND", settings.units);
                let settings = settings.with("STANDIN_MACHINE", machine);
                let Some(report) = report(&settings, "across::loss") else { return };
                let lost = report.of("devices lost");
                assert!(lost == 1 || operation > 30 && lost == 0, "{units} {device} {operation} {report:?}");
            }
        }
    });
}
