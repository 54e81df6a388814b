//! Sums that each iteration would read: what a loop whose iterations run at once does not have.

use thalweg::loops::{Out, target};

#[target]
fn before_the_loop(x: &[f64], y: Out<'_, [f64]>) {
    let mut sum = 0.0;
    for i in 0..x.len() {
        sum += x[i];
        y[i] = sum;
    }
}

#[target]
fn through_a_parameter(x: &[f64], y: Out<'_, [f64]>, sum: &mut f64) {
    for i in 0..x.len() {
        *sum += x[i];
        y[i] = *sum;
    }
}

fn main() {}
