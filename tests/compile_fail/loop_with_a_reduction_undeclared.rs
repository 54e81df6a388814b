//! What all threads of a loop add to is declared.

#[thalweg::loops::target]
fn rows(x: &[f64], y: &mut [f64], n: usize) {
    #[distribute]
    for i in 0..y.len() {
        let mut sum = 0.0;
        #[parallel_for]
        for j in 0..n {
            sum += x[i * n + j];
        }
        y[i] = sum;
    }
}

fn main() {}
