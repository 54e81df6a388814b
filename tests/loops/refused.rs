//! Loops that are refused at run time because of their arguments.

use super::{Runtime, common, machines, numbers};
use thalweg::error::RunError;
use thalweg::loops::target;

#[target]
fn shift(x: &mut [f64], by: usize) {
    for i in 0..x.len() - by {
        x[i] = x[i + by] + 1.0;
    }
}

/// On an accelerator, iterations that read elements written by other iterations are refused with a message. On cores,
/// such iterations run in order.
#[test]
fn dependent_iterations_are_refused_on_devices_and_run_in_order_on_cores() {
    let x = numbers(500, 1);
    let mut plain = x.clone();
    shift(&mut plain, 2);
    for rt in machines() {
        let data = rt.data(x.clone());
        shift::task(&rt, &data, 2).submit().unwrap();
        match rt.read(&data) {
            Ok(found) => assert!(found == plain && !rt.machine().configuration().contains("OPENCL")),
            Err(error) => {
                let text = format!("{error}");
                assert!(
                    text.contains("cannot launch the loop `shift`") && text.contains("same element of `x`"),
                    "{text}"
                );
            }
        }
        let _ = rt.wait();
        // With a shift of 0, each iteration has its own element.
        let data = rt.data(x.clone());
        shift::task(&rt, &data, 0).submit().unwrap();
        assert_eq!(rt.take(data).unwrap(), x.iter().map(|x| x + 1.0).collect::<Vec<_>>());
    }
}

#[target(teams(firstprivate(a: 8)))]
fn small(a: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = a[i % a.len()];
    }
}

#[test]
fn array_longer_than_its_team_copy_is_refused() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let (a, y) = (rt.data(vec![1.0; 9]), rt.zeros(4));
    small::task(&rt, &a, &y).submit().unwrap();
    let error = rt.wait().unwrap_err();
    assert!(has(&error, "it requests 9 elements in a team's copy of `a`, but the limit is 8"), "{error}");
}

fn has(error: &RunError, words: &str) -> bool {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(error) = source {
        text += &error.to_string();
        source = error.source();
    }
    text.contains(words)
}

#[target]
fn beyond(x: &[f64], y: &mut [f64], n: usize) {
    for i in 0..n {
        if i < y.len() {
            y[i] = x[i];
        }
    }
}

/// Indices that the host cannot prove to be in bounds are checked on the device, so nothing outside the region is
/// accessed.
#[test]
fn out_of_range_indices_read_zero_and_write_nothing() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let (x, y) = (rt.data(vec![1.0; 100]), rt.data(vec![2.0; 100]));
    beyond::task(&rt, x.slice(0..10), y.slice(0..20), 1000).submit().unwrap();
    let found = rt.take(y).unwrap();
    assert_eq!(found[..10], [1.0; 10]);
    assert_eq!(found[10..20], [0.0; 10], "elements out of range must read as 0");
    assert_eq!(found[20..], [2.0; 80]);
    assert_eq!(rt.take(x).unwrap(), [1.0; 100]);
}

#[target]
fn up_to(last: i32, sum: &mut i32) {
    for i in 0..=last {
        *sum += i % 2;
    }
}

/// A range up to the largest integer is refused, because its end plus one cannot be represented.
#[test]
fn inclusive_range_up_to_the_largest_number_is_refused() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let sum = rt.scalar(0);
    up_to::task(&rt, i32::MAX, &sum).submit().unwrap();
    let error = rt.wait().unwrap_err();
    assert!(has(&error, "cannot run a loop up to 2147483647, the largest i32"), "{error}");
}
