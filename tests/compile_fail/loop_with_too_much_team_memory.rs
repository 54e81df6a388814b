//! A team's memory is small.

#[thalweg::loops::target]
fn copy(x: &[f64], y: &mut [f64]) {
    #[distribute(dist_firstprivate([8192] x))]
    #[parallel_for]
    for i in 0..y.len() {
        y[i] = x[i];
    }
}

fn main() {}
