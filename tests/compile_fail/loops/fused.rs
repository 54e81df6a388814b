//! Loops that cannot be fused.

use thalweg::loops::target;

#[target(fuse)]
fn alone(y: &mut [f64]) {
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target(fuse)]
fn other_range(x: &mut [f64], y: &mut [f64]) {
    for i in 0..x.len() {
        x[i] = 0.0;
    }
    for i in 0..y.len() {
        y[i] = 0.0;
    }
}

#[target(fuse)]
fn shared_otherwise(y: &mut [f64], n: usize) {
    for i in 0..n {
        y[i] = 0.0;
    }
    #[distribute]
    for i in 0..n {
        #[parallel_for]
        for j in i..i + 1 {
            y[j] += 1.0;
        }
    }
}

#[target(fuse)]
fn neighbour(x: &[f64], y: &mut [f64], z: &mut [f64], n: usize) {
    for i in 0..n {
        y[i] = x[i];
    }
    for i in 0..n {
        z[i] = y[i + 1];
    }
}

#[target(fuse)]
fn overwritten(x: &mut [f64], y: &mut [f64], n: usize) {
    for i in 0..n {
        y[i] = x[n - 1 - i];
    }
    for i in 0..n {
        x[i] = 0.0;
    }
}

#[target(fuse)]
fn turned(x: &[f64], y: &mut [f64], z: &mut [f64], n: usize) {
    for i in 0..n {
        y[n - 1 - i] = x[i];
    }
    for i in 0..n {
        z[i] = y[i];
    }
}

#[target(fuse)]
fn sum_before(x: &mut [f64], sum: &mut f64) {
    for i in 0..x.len() {
        *sum += x[i];
    }
    for i in 0..x.len() {
        x[i] /= *sum;
    }
}

fn main() {}
