//! Running sums, which are computed in two passes over chunks on cores and by three kernels on devices. The results
//! must be those of the plain loop.

use super::{bits, common, machines, numbers};
use thalweg::loops::{Out, target};
use thalweg::ndarray::{Array2, ArrayRef2};
use thalweg::prelude::*;

#[target]
fn inclusive(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum += x[i];
        y[i] = sum;
    }
}

#[target]
fn exclusive(x: &[u64], y: Out<'_, [u64]>) {
    let mut sum = 5;
    #[distribute]
    #[parallel_for(scan(+: sum))]
    for i in 0..x.len() {
        y[i] = sum;
        sum += x[i];
    }
}

/// Scans an array in place, starting from a parameter that receives the total.
#[target(teams(num = 3, thread_limit = 8))]
fn in_place(x: &mut [i32], sum: &mut i32) {
    for i in 1..=x.len() - 1 {
        let own = x[i];
        x[i] = *sum;
        *sum += own;
    }
}

/// A scan of stencil values with another operation and a narrower type, and a number computed from values before and
/// after the scan step.
#[target(teams(thread_limit = 32))]
fn peaks(x: &[f32], y: &mut [f32], steps: &mut [f32], low: f32) {
    let mut most = low * 2.0;
    #[distribute]
    #[parallel_for(scan(max: most))]
    for i in 1..x.len() - 1 {
        let mut middle = x[i];
        for k in 0..3usize {
            middle += 0.25 * x[i + k - 1];
        }
        let before = most;
        steps[i] = -before;
        most = f32::max(most, middle);
        y[i] = most;
        steps[i] += most;
    }
}

#[target(teams(thread_limit = 16))]
fn products(x: &[f64], y: Out<'_, [f64]>, product: &mut f64) {
    #[distribute]
    #[parallel_for(scan(*: product))]
    for i in 0..x.len() {
        *product *= if x[i] > 0.0 { 1.0 + x[i] * 1e-3 } else { 1.0 };
        y[i] = *product;
    }
}

/// Stores the elements to keep contiguously, and counts them.
#[target(teams(thread_limit = 64), shared(kept))]
fn compact(x: &[f64], kept: &mut [f64], count: &mut u32) {
    for i in 0..x.len() {
        let is_kept = x[i] > 0.0;
        if is_kept {
            kept[*count as usize] = x[i];
        }
        *count += if is_kept { 1 } else { 0 };
    }
}

/// Computes the sum of each row, and the position where each row would begin.
#[target(teams(thread_limit = 4))]
fn rows(a: &ArrayRef2<f64>, begin: Out<'_, [f64]>) {
    let n = a.ncols();
    let mut sum = 0.0;
    for i in 0..begin.len() {
        let mut own = 0.0;
        let mut held = [0.0; 2];
        for j in 0..n {
            held[j % 2] = a[[i, j]];
            own += held[j % 2];
        }
        begin[i] = sum;
        sum += own;
    }
}

/// Two loops, each with a running variable; one of the variables is used as an index.
#[target(teams(thread_limit = 16))]
fn places(x: &[u32], first: Out<'_, [u64]>, last: Out<'_, [u64]>) {
    let mut at: usize = 0;
    for i in 0..x.len() {
        first[i] = at as u64;
        at += x[i] as usize;
    }
    let mut behind = 0usize;
    for i in 0..x.len() {
        behind += x[i] as usize;
        last[i] = behind as u64;
    }
}

/// Iterations that read elements written by other iterations, so they must run one after the other, as in the plain
/// loop.
#[target]
fn one_after_the_other(y: &mut [f64]) {
    let mut sum = 1.0;
    for i in 1..y.len() {
        sum += y[i - 1];
        y[i] = sum;
    }
}

/// Sizes around the lengths of runs and chunks, and one size with as many chunks as a team has threads.
const SIZES: [usize; 13] = [0, 1, 2, 7, 8, 9, 63, 64, 65, 2047, 2048, 2049, 70_001];

fn is_near(found: &[f64], plain: &[f64]) -> bool {
    found.iter().zip(plain).all(|(found, plain)| (found - plain).abs() <= 1e-10 * (1.0 + plain.abs()) * 1e2)
}

/// All machines use the same order of summation, which differs from the order in the plain function.
#[test]
fn running_sums_of_floats_have_the_same_bits_on_every_machine() {
    for n in SIZES.into_iter().chain([530_000]) {
        let x = numbers(n, 1);
        let mut plain = vec![0.0; n];
        inclusive(&x, &mut plain);
        let (mut product, mut factors) = (2.0, vec![0.0; n]);
        products(&x, &mut factors, &mut product);
        let mut first = None;
        for rt in machines() {
            let (dx, y, z, last) = (rt.data(x.clone()), rt.zeros(n), rt.zeros(n), rt.scalar(2.0));
            inclusive::task(&rt, &dx, &y).submit().unwrap();
            products::task(&rt, &dx, &z, &last).submit().unwrap();
            let (y, z, last) = (rt.take(y).unwrap(), rt.take(z).unwrap(), rt.read(&last).unwrap()[0]);
            assert!(is_near(&y, &plain), "{n} {}", rt.machine().configuration());
            let is_close = |(a, b): (&f64, &f64)| a == b || (a / b - 1.0).abs() < 1e-9;
            assert!(z.iter().zip(&factors).all(is_close), "{n} {}", rt.machine().configuration());
            assert!(is_close((&last, &product)), "{n} {}", rt.machine().configuration());
            let all = (bits(&y), bits(&z), last.to_bits());
            assert_eq!(*first.get_or_insert_with(|| all.clone()), all, "{n} {}", rt.machine().configuration());
        }
    }
}

#[test]
fn exact_running_operations_match_plain_loop() {
    for n in SIZES {
        let x: Vec<f64> = numbers(n, 2);
        let counts: Vec<u64> = x.iter().map(|x| (x.abs() * 3.0) as u64).collect();
        let small: Vec<u32> = counts.iter().map(|count| *count as u32).collect();
        let signed: Vec<i32> = x.iter().map(|x| *x as i32).chain([3]).collect();
        let floats: Vec<f32> = x.iter().map(|x| *x as f32).chain([1.0, 2.0]).collect();
        let (mut before, mut first, mut last) = (vec![0; n], vec![0; n], vec![0; n]);
        exclusive(&counts, &mut before);
        places(&small, &mut first, &mut last);
        let (mut placed, mut sum) = (signed.clone(), -4);
        in_place(&mut placed, &mut sum);
        let (mut most, mut steps) = (vec![0.0; n + 2], vec![0.0; n + 2]);
        peaks(&floats, &mut most, &mut steps, -1e3);
        let (mut kept, mut count) = (vec![0.0; n], 0);
        compact(&x, &mut kept, &mut count);
        for rt in machines() {
            let what = format!("{n} {}", rt.machine().configuration());
            let (dx, y) = (rt.data(counts.clone()), rt.zeros(n));
            exclusive::task(&rt, &dx, &y).submit().unwrap();
            assert_eq!(rt.take(y).unwrap(), before, "{what}");
            let (dx, a, b) = (rt.data(small.clone()), rt.zeros(n), rt.zeros(n));
            places::task(&rt, &dx, &a, &b).submit().unwrap();
            assert_eq!((rt.take(a).unwrap(), rt.take(b).unwrap()), (first.clone(), last.clone()), "{what}");
            let (dx, all) = (rt.data(signed.clone()), rt.scalar(-4));
            in_place::task(&rt, &dx, &all).submit().unwrap();
            assert_eq!((rt.take(dx).unwrap(), rt.read(&all).unwrap()[0]), (placed.clone(), sum), "{what}");
            let (dx, a, b) = (rt.data(floats.clone()), rt.zeros(n + 2), rt.zeros(n + 2));
            peaks::task(&rt, &dx, &a, &b, -1e3).submit().unwrap();
            assert_eq!((rt.take(a).unwrap(), rt.take(b).unwrap()), (most.clone(), steps.clone()), "{what}");
            let (dx, a, all) = (rt.data(x.clone()), rt.zeros(n), rt.scalar(0u32));
            compact::task(&rt, &dx, &a, &all).submit().unwrap();
            assert_eq!((rt.take(a).unwrap(), rt.read(&all).unwrap()[0]), (kept.clone(), count), "{what}");
        }
    }
}

#[test]
fn running_sum_of_row_sums_matches_plain_loop() {
    for n in [0, 1, 31, 32, 33, 300] {
        // Small integers, whose sums are the same in any order.
        let all = numbers(n * 5, 3).iter().map(|x| x.round()).collect();
        let a = Array2::from_shape_vec((n, 5), all).unwrap();
        let mut plain = vec![0.0; n];
        rows(&a, &mut plain);
        for rt in machines() {
            let (da, begin) = (rt.array(a.clone()), rt.zeros(n));
            rows::task(&rt, &da, &begin).submit().unwrap();
            assert_eq!(rt.take(begin).unwrap(), plain, "{n} {}", rt.machine().configuration());
        }
    }
}

/// Cores run dependent iterations in order, and a device refuses them.
#[test]
fn dependent_running_sum_is_refused_on_devices_and_runs_in_order_on_cores() {
    let mut plain = numbers(3000, 4);
    let before = plain.clone();
    one_after_the_other(&mut plain);
    for units in ["1:CPU:1", "1:CPU:2"] {
        let rt = Runtime::builder().compute_units(units).build().unwrap();
        let y = rt.data(before.clone());
        one_after_the_other::task(&rt, &y).submit().unwrap();
        assert_eq!(bits(&rt.take(y).unwrap()), bits(&plain), "{units}");
    }
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let y = rt.data(before);
    one_after_the_other::task(&rt, &y).submit().unwrap();
    assert!(rt.wait().unwrap_err().to_string().contains("`y`"));
}
