//! Loops with data races between iterations.

use thalweg::loops::target;

#[target]
fn one_element(x: &[f64], y: &mut [f64]) {
    for i in 0..x.len() {
        y[0] += x[i];
    }
}

#[target]
fn scattered(at: &[u32], y: &mut [f64]) {
    for i in 0..at.len() {
        y[at[i] as usize] = 1.0;
    }
}

#[target]
fn assigned(x: &[f64], last: &mut f64) {
    for i in 0..x.len() {
        *last = x[i];
    }
}

#[target]
fn written_input(x: &[f64]) {
    for i in 0..x.len() {
        x[i] = 0.0;
    }
}

#[target]
fn undeclared_sum(x: &[f64], y: &mut [f64]) {
    #[distribute]
    for i in 0..y.len() {
        let mut sum = 0.0;
        #[parallel_for]
        for j in 0..x.len() {
            sum += x[j];
        }
        y[i] = sum;
    }
}

#[target]
fn read_inside(x: &[f64], y: &mut [f64], sum: &mut f64) {
    #[distribute] #[parallel_for(reduction(+: sum))] for i in 0..x.len() {
        y[i] = *sum;
        *sum += x[i];
    }
}

#[target]
fn by_all_threads(x: &[f64], y: &mut [f64]) {
    #[distribute]
    for i in 0..y.len() {
        #[parallel_for]
        for j in 0..x.len() {
            y[i] = x[j];
        }
    }
}

#[target]
fn between(y: &mut [f64], n: usize) {
    #[distribute]
    for i in 0..n {
        #[parallel_for]
        for j in 0..n {
            y[(i * n + j) * n] = 1.0;
            #[parallel_for]
            for k in 1..n {
                y[(i * n + j) * n + k] = 2.0;
            }
        }
    }
}

fn main() {}
