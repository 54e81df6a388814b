//! Iterations that write the same element.

#[thalweg::loops::target]
fn total(x: &[f64], sum: &mut [f64]) {
    for i in 0..x.len() {
        sum[0] += x[i];
    }
}

#[thalweg::loops::target]
fn scatter(x: &[f64], to: &[u32], y: &mut [f64]) {
    for i in 0..x.len() {
        y[to[i] as usize] = x[i];
    }
}

fn main() {}
