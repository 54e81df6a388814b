//! Numbers at the limits of their types. Each is either refused with an error that names it or has its ordinary
//! meaning. None causes a panic inside the library or an endless wait.

use crate::common::{watched, words};
use std::time::Duration;
use thalweg::Builder;
use thalweg::energy::{FileMeter, Power};
use thalweg::prelude::*;

const ODD: [f64; 11] =
    [0.0, -0.0, -1.0, 5e-324, 1e-300, 1e-7, 1e300, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];

/// Builds a runtime and runs tasks on every unit. Returns the error if the runtime cannot be built.
fn run(builder: Builder) -> Option<String> {
    let rt = match builder.build() {
        Ok(rt) => rt,
        Err(error) => return Some(error.to_string()),
    };
    let space = IterationSpace::new("zones", vec![1.0; 4]);
    let data: Vec<_> = (0..4).map(|_| rt.data(vec![1.0; 8])).collect();
    for _ in 0..2 {
        space.begin();
        for (index, x) in data.iter().enumerate() {
            let double = rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0));
            double.at(&space, index).submit().unwrap();
        }
    }
    for x in data {
        let found = rt.take(x).unwrap();
        #[cfg(feature = "sim")]
        if rt.now() > Duration::ZERO {
            continue; // a simulation computes nothing
        }
        assert_eq!(found, [4.0; 8]);
    }
    let _ = (rt.statistics().to_string(), rt.wait());
    None
}

/// Runs a program with each of the odd numbers, and checks that exactly those in `refused` are refused.
fn refuses(what: &'static str, refused: &[f64], build: fn(f64) -> Builder) {
    for number in ODD {
        let must = refused.iter().any(|one| one.to_bits() == number.to_bits());
        watched(what, move || match run(build(number)) {
            Some(error) if must => assert!(error.contains(&number.to_string()), "{what}: {error}"),
            Some(error) => panic!("{what} refuses {number}: {error}"),
            None => assert!(!must, "{what} takes {number}"),
        });
    }
}

fn devices(device: EmulatedDevice) -> Builder {
    Runtime::builder().compute_units("1:CPU:1,1:EMU:1").emulated_devices(move |_| device.clone())
}

const NEGATIVE: [f64; 3] = [-1.0, f64::NEG_INFINITY, f64::NAN];

#[test]
fn invalid_figures_of_emulated_devices_are_refused_by_name() {
    let tiny = [0.0, -0.0, -1.0, 5e-324, 1e-300, 1e-7];
    let large = [1e300, f64::MAX, f64::INFINITY];
    let odd = [f64::NEG_INFINITY, f64::NAN];
    refuses("speed", &[&tiny[..], &large, &odd].concat(), |number| devices(EmulatedDevice::new().speed(number)));
    refuses("copy_delay", &[&tiny[..], &odd].concat(), |number| {
        devices(EmulatedDevice::new().copy_delay(Duration::ZERO, number))
    });
    let long = run(devices(EmulatedDevice::new().copy_delay(Duration::MAX, 1e9))).unwrap();
    assert!(long.starts_with("emulated_devices: a latency of "), "{long}");
}

#[test]
fn invalid_powers_are_refused_by_name() {
    let infinite = [f64::INFINITY];
    fn power(idle_w: f64, busy_w: f64) -> Builder {
        Runtime::builder().compute_units("1:CPU:1").power(UnitKind::Cpu, Power { idle_w, busy_w })
    }
    refuses("power", &[&NEGATIVE[..], &infinite].concat(), |number| power(0.0, number));
    assert!(run(power(f64::NAN, 1.0)).unwrap().contains("NaN W idle"));
    refuses("energy_meter", &[&NEGATIVE[..], &infinite].concat(), |number| {
        Runtime::builder().compute_units("1:CPU:1").energy_meter(FileMeter::new("no/such/file"), number)
    });
}

#[test]
fn invalid_costs_are_refused_at_submission_and_extreme_weights_work() {
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        for scheduler in ["stealing", "eft", "fpm", "static", "guided-sizes", "clustered-guided", "adjacency"] {
            watched(scheduler, move || {
                let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
                for number in ODD {
                    let must = !(0.0..=f64::MAX).contains(&number);
                    let submitted = rt.task("costs", ()).cpu(|_, ()| ()).cost(number).submit();
                    match submitted {
                        Err(error) if must => assert_eq!(
                            words(&error),
                            format!("cannot submit task `costs`: its cost is {number}; try a finite number, 0 or more")
                        ),
                        submitted => assert!(submitted.is_ok() && !must, "{number}: {submitted:?}"),
                    }
                    if must {
                        continue; // such a weight panics, which `panics.rs` tests
                    }
                    let space = IterationSpace::new("odd", vec![number, 1.0, number]);
                    for _ in 0..4 {
                        space.begin();
                        for index in 0..3 {
                            rt.task("weighs", ()).cpu(|_, ()| ()).at(&space, index).submit().unwrap();
                        }
                        rt.wait().unwrap();
                    }
                }
            });
        }
    }
}

#[test]
fn extreme_scheduler_parameters_are_refused_or_work() {
    let parameters = [
        "static-pcf:pcf",
        "pcf-static:pcf",
        "pcf-guided:pcf",
        "clustered-guided:threshold",
        "adjacency:slack",
        "eft:latency_ns",
        "eft:bytes_per_s",
    ];
    for parameter in parameters {
        for number in ODD {
            watched(parameter, move || {
                let builder = Runtime::builder().compute_units("1:CPU:1,1:EMU:1");
                if let Some(error) = run(builder.scheduler(format!("{parameter}={number}"))) {
                    assert!(error.contains(&format!("`{number}` is not a number")), "{error}");
                }
            });
        }
    }
}

#[test]
fn maximal_timeouts_and_windows_work() {
    watched("times", || {
        let rt = Runtime::builder().compute_units("1:CPU:1").report_stalls_after(Duration::MAX).build().unwrap();
        rt.task("t", ()).cpu(|_, ()| ()).submit().unwrap();
        assert!(rt.wait_timeout(Duration::MAX).unwrap());
        assert!(rt.wait_timeout(Duration::ZERO).unwrap());
    });
    watched("window", || {
        assert_eq!(run(Runtime::builder().compute_units("1:CPU:1").max_pending_tasks(usize::MAX)), None)
    });
}

/// Every figure of a machine file is replaced by every odd number in turn.
#[cfg(feature = "sim")]
#[test]
fn extreme_figures_of_simulated_machines_are_refused_or_work() {
    let file = "name = \"m\"
static_w = 1.5
[noise]
seed = 1
relative_deviation = 0.25
[units.CPU]
count = 2
bytes_per_s = 2.5e9
total_bytes_per_s = 3.5e9
idle_w = 4.5
busy_w = 5.5
[units.GPU]
count = 1
memory_bytes = 1_000_000
bytes_per_s = 6.5e9
launch_ns = 7.5
[[links]]
between = [\"host\", \"GPU\"]
latency_ns = 8.5
bytes_per_s = 9.5e9
[[tasks]]
name = \"double\"
cost = 10.5
time_ns.CPU = { 1 = 11.5 }
time_ns.GPU = { 1 = 12.5 }
";
    let simulated = |machine| Runtime::builder().simulate(machine).scheduler("eft");
    for figure in file.split([' ', '\n']).filter(|word| word.contains('.') && word.parse::<f64>().is_ok()) {
        for number in ODD.into_iter().chain([1e-18, 1e18]) {
            let text = file.replacen(&format!(" {figure}"), &format!(" {number:e}"), 1);
            let machine = match text.parse::<thalweg::SimulatedMachine>() {
                Ok(machine) => machine,
                Err(error) => {
                    assert!(error.to_string().contains(", line "), "{error}");
                    continue;
                }
            };
            watched(&format!("{figure} is {number:e}"), move || assert_eq!(run(simulated(machine)), None));
        }
    }
}
