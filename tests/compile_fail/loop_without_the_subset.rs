//! What kernels do not have.

#[thalweg::loops::target]
fn choose(x: &[f64], y: &mut [f64]) {
    for i in 0..y.len() {
        match i % 2 {
            0 => y[i] = x[i],
            _ => y[i] = x.iter().sum(),
        }
    }
}

#[thalweg::loops::target]
fn give(x: &[f64]) -> f64 {
    for i in 0..x.len() {}
    0.0
}

fn main() {}
