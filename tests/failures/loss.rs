//! Lost devices and failing copies: other units take over the work, lost data is reported, and nothing hangs.

use crate::common::watched;
use thalweg::error::FailureReason;
use thalweg::prelude::*;
use thalweg::sched;

const ARRAYS: usize = 12;

/// Returns a runtime whose first device is lost after `tasks` tasks and whose other units are intact.
fn machine(units: &str, scheduler: &str, tasks: u64) -> Runtime {
    let devices = move |number| {
        let device = EmulatedDevice::new();
        if number == 0 { device.lost_after_tasks(tasks) } else { device }
    };
    Runtime::builder().compute_units(units).scheduler(scheduler).emulated_devices(devices).build().unwrap()
}

fn is_loss(failure: &thalweg::error::TaskFailure) -> bool {
    matches!(failure.reason(), FailureReason::Device(DeviceError::Lost { .. }))
}

#[test]
fn other_units_take_over_from_a_lost_device() {
    for scheduler in sched::NAMES {
        for tasks in [0, 1, 7, 30] {
            watched("take over", move || {
                let name =
                    if scheduler.contains("pcf") { format!("{scheduler}:pcf=2") } else { (*scheduler).to_string() };
                let rt = machine("1:CPU:1,2:EMU:1", &name, tasks);
                let data: Vec<_> = (0..ARRAYS as u64).map(|n| rt.data(vec![n; 10])).collect();
                let zones = IterationSpace::new("zones", vec![1.0; ARRAYS]);
                for _ in 0..10 {
                    zones.begin();
                    for (index, x) in data.iter().enumerate() {
                        let task = rt.task("add", (x.inout(),)).at(&zones, index);
                        task.cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 100)).submit().unwrap();
                    }
                }
                let failed = match rt.wait() {
                    Ok(()) => 0,
                    Err(RunError::Failed(failures)) => {
                        assert!(failures.iter().all(|failure| is_loss(failure)), "{failures}");
                        failures.len()
                    }
                    Err(other) => panic!("{other}"),
                };
                assert!(failed <= 1, "more than one task found the loss");
                let mut lost = 0;
                for (n, x) in data.iter().enumerate() {
                    match rt.read(&x.all()) {
                        Ok(x) => assert_eq!(x, [n as u64 + 1000; 10]),
                        Err(RunError::Poisoned(cause)) => {
                            assert!(is_loss(&cause), "{cause}");
                            lost += 1;
                        }
                        Err(other) => panic!("{other}"),
                    }
                }
                assert!(lost < ARRAYS && (failed == 0) == (lost == 0), "{scheduler}: {lost} lost, {failed} failed");
                // Overwritten data is available again, and the rest of the machine keeps working.
                let again = |x: &Data<u64>| {
                    rt.task("fill", (x.output(),)).cpu(|_, (x,)| x.fill(7)).submit().unwrap();
                    rt.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
                };
                data.iter().for_each(again);
                if rt.wait().is_err() {
                    assert_eq!(failed, 0, "{scheduler}: a task found the loss although one had done so before");
                    data.iter().for_each(again);
                }
                for x in data {
                    assert_eq!(rt.take(x).unwrap(), [8; 10], "{scheduler}");
                }
            });
        }
    }
}

#[test]
fn loss_of_the_last_device_of_a_kind_poisons_its_tasks() {
    watched("last device", || {
        let rt = machine("1:CPU:1,1:EMU:1", "dynamic", 3);
        let (x, y) = (rt.data(vec![1u64; 10]), rt.data(vec![2u64; 10]));
        for _ in 0..5 {
            rt.task("device", (x.inout(),)).emulated(|_, (x,)| x[0] += 1).submit().unwrap();
        }
        let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
        assert_eq!((failures.len(), failures[0].skipped()), (1, 1));
        // No unit is left for this task, so it fails because of the same loss.
        rt.task("device", (y.inout(),)).emulated(|_, (y,)| y[0] += 1).submit().unwrap();
        assert!(matches!(rt.read(&y.all()), Err(RunError::Poisoned(cause)) if is_loss(&cause)));
        assert!(matches!(rt.fetch(&rt.data(vec![0u8; 4]).all(), SpaceId(1)), Err(RunError::Poisoned(_))));
        rt.task("core", (x.output(),)).cpu(|_, (x,)| x.fill(9)).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), [9; 10]);
    });
}

#[test]
fn data_only_read_on_a_lost_device_stays_valid_on_the_host() {
    watched("read only", || {
        let rt = machine("1:CPU:1,1:EMU:1", "dynamic", 1);
        let x = rt.data((0..10).collect::<Vec<u64>>());
        rt.fetch(&x.all(), SpaceId(1)).unwrap();
        for _ in 0..2 {
            let out = rt.data(vec![0u64; 10]);
            let _ = rt.task("copy", (x.input(), out.output())).emulated(|_, (x, out)| out.copy_from_slice(x)).submit();
            let _ = rt.wait();
        }
        assert_eq!(x.all().valid_in(), [SpaceId::HOST]);
        assert_eq!(rt.take(x).unwrap(), (0..10).collect::<Vec<u64>>());
    });
}

#[test]
fn failed_copy_fails_the_task_that_needs_it() {
    watched("failing copy", || {
        let device = EmulatedDevice::new().failing_copy(1);
        let rt = Runtime::builder().compute_units("1:EMU:1").emulated_devices(move |_| device.clone()).build().unwrap();
        let data: Vec<_> = (0..3u64).map(|n| rt.data(vec![n; 10])).collect();
        for x in &data {
            rt.task("add", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
            rt.task("then", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
        }
        let RunError::Failed(failures) = rt.wait().unwrap_err() else { panic!("another error") };
        assert_eq!((failures.len(), failures[0].skipped()), (1, 1), "{failures}");
        let said = failures[0].to_string();
        assert!(
            said.contains("a copy for add") && said.contains("copy failed (emulated error -1: scripted fault)"),
            "{said}"
        );
        let whole = data.iter().filter(|x| rt.read(&x.all()).is_ok()).count();
        assert_eq!(whole, 2);
    });
}
