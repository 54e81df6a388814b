//! Regions have the element type of the function's parameters.

use thalweg::prelude::*;

#[thalweg::loops::target]
fn double(x: &mut [f64]) {
    for i in 0..x.len() {
        x[i] *= 2.0;
    }
}

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f32; 8]);
    let _ = double::task(&rt, &x).submit();
}
