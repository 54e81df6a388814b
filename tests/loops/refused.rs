//! Numbers with which a loop does not do what it says.

use super::{Runtime, common, machines, numbers};
use thalweg::error::RunError;
use thalweg::loops::target;

#[target]
fn shift(x: &mut [f64], by: usize) {
    for i in 0..x.len() - by {
        x[i] = x[i + by] + 1.0;
    }
}

/// Iterations that read what others write are refused on an accelerator, with a word; on cores they come one after the other.
#[test]
fn iterations_that_disturb_each_other() {
    let x = numbers(500, 1);
    let mut plain = x.clone();
    shift(&mut plain, 2);
    for rt in machines() {
        let data = rt.data(x.clone());
        shift::task(&rt, &data, 2).submit().unwrap();
        match rt.read(&data) {
            Ok(found) => assert!(found == plain && !rt.configuration().contains("OPENCL")),
            Err(error) => {
                let text = format!("{error}");
                assert!(
                    text.contains("cannot launch the loop `shift`") && text.contains("same element of `x`"),
                    "{text}"
                );
            }
        }
        let _ = rt.wait();
        // By nothing, each iteration has its own.
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
fn a_copy_that_is_too_short() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let (a, y) = (rt.data(vec![1.0; 9]), rt.zeros(4));
    small::task(&rt, &a, &y).submit().unwrap();
    let error = rt.wait().unwrap_err();
    assert!(has(&error, "it asks for 9 elements in a team's copy of `a`, and there are at most 8"), "{error}");
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

/// What the host cannot see to be inside is looked at on the device: nothing outside is touched.
#[test]
fn indices_that_lead_out() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let (x, y) = (rt.data(vec![1.0; 100]), rt.data(vec![2.0; 100]));
    beyond::task(&rt, x.slice(0..10), y.slice(0..20), 1000).submit().unwrap();
    let found = rt.take(y).unwrap();
    assert_eq!(found[..10], [1.0; 10]);
    assert_eq!(found[10..20], [0.0; 10], "what is not there reads as 0");
    assert_eq!(found[20..], [2.0; 80]);
    assert_eq!(rt.take(x).unwrap(), [1.0; 100]);
}

#[target]
fn up_to(last: i32, sum: &mut i32) {
    for i in 0..=last {
        *sum += i % 2;
    }
}

/// A range whose end has no number is refused: nothing would be left of it.
#[test]
fn a_range_up_to_the_largest_number() {
    let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
    let sum = rt.scalar(0);
    up_to::task(&rt, i32::MAX, &sum).submit().unwrap();
    let error = rt.wait().unwrap_err();
    assert!(has(&error, "cannot run a loop up to 2147483647, the largest i32"), "{error}");
}
