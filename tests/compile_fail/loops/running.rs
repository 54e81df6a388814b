//! Loops that are no running sums: the addend depends on the sum or on a stored value, or the sum is read too early.

use thalweg::loops::{Out, target};

#[target]
fn made_of_itself(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    #[distribute]
    #[parallel_for(scan(+: sum))]
    for i in 0..x.len() {
        let half = 0.5 * sum;
        sum += x[i] - half;
        y[i] = sum;
    }
}

#[target]
fn recurrence(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum = 0.5 * sum + x[i];
        y[i] = sum;
    }
}

#[target]
fn sometimes(x: &[f64], y: Out<'_, [f64]>, sum: &mut f64) {
    for i in 0..x.len() {
        if x[i] > 0.0 {
            *sum += x[i];
        }
        y[i] = *sum;
    }
}

#[target]
fn stored_before(y: &mut [f64]) {
    let mut sum = 0.0;
    for i in 0..y.len() {
        y[i] = 2.0 * y[i] + sum;
        sum += y[i];
    }
}

#[target]
fn known_too_late(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum += x[i];
        y[i] = sum;
    }
    for i in 0..x.len() {
        y[i] = sum;
    }
}

#[target]
fn another_operation(x: &[f64], y: Out<'_, [f64]>) {
    let mut most = 0.0;
    #[distribute]
    #[parallel_for(scan(max: most))]
    for i in 0..x.len() {
        most += x[i];
        y[i] = most;
    }
}

#[target]
fn nothing_there(x: &[f64], y: Out<'_, [f64]>) {
    #[distribute]
    #[parallel_for(scan(+: sum))]
    for i in 0..x.len() {
        y[i] = x[i];
    }
}

#[target(split)]
fn in_pieces(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum += x[i];
        y[i] = sum;
    }
}

#[target]
fn a_sum_beside(x: &[f64], y: Out<'_, [f64]>, all: &mut f64) {
    let mut sum = 0.0;
    #[distribute]
    #[parallel_for(scan(+: sum), reduction(+: all))]
    for i in 0..x.len() {
        sum += x[i];
        *all += x[i];
        y[i] = sum;
    }
}

fn main() {}
