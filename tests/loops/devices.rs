//! The option `device`: which units run a task.

use super::numbers;
use thalweg::loops::target;
use thalweg::prelude::*;

#[target(device(smp))]
fn on_cores(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] += x[i];
    }
}

#[target(device(acc), split = 3)]
fn on_accelerators(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] += 2.0 * x[i];
    }
}

/// Returns the number of tasks that CPU units and devices have run.
fn by_kind(rt: &Runtime) -> [u64; 2] {
    let of = |is_cpu: bool| {
        let tasks = rt.statistics().tasks.into_iter().filter(|(unit, _)| rt.machine().unit(*unit).is_cpu() == is_cpu);
        tasks.map(|(_, tasks)| tasks).sum()
    };
    [of(true), of(false)]
}

#[test]
fn device_option_selects_the_kind_of_unit() {
    let (x, mut plain) = (numbers(100, 1), numbers(100, 2));
    let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").build().unwrap();
    let (dx, dy) = (rt.data(x.clone()), rt.data(plain.clone()));
    for _ in 0..8 {
        on_cores::task(&rt, &dx, &dy).submit().unwrap();
        on_cores(&x, &mut plain);
    }
    rt.wait().unwrap();
    assert_eq!(by_kind(&rt), [8, 0]);
    on_accelerators::task(&rt, &dx, &dy).submit().unwrap();
    on_accelerators(&x, &mut plain);
    assert_eq!(on_accelerators::split(&rt, &dx, &dy).unwrap(), 3);
    on_accelerators(&x, &mut plain);
    rt.wait().unwrap();
    assert_eq!(by_kind(&rt), [8, 4]);
    assert_eq!(rt.take(dy).unwrap(), plain);
}

#[test]
fn task_without_a_unit_of_its_kind_is_refused() {
    let cores = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let (x, y) = (cores.data(vec![1.0; 8]), cores.zeros(8));
    let error = on_accelerators::task(&cores, &x, &y).submit().unwrap_err().to_string();
    assert!(error.contains("on_accelerators"), "{error}");
    on_cores::task(&cores, &x, &y).submit().unwrap();
    assert_eq!(cores.take(y).unwrap(), [1.0; 8]);
}
