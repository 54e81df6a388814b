//! A loop of a kernel runs over integers.

#[thalweg::loops::target]
fn total(x: &[f64], sum: &mut f64) {
    for value in x.iter() {
        *sum += value;
    }
}

fn main() {}
