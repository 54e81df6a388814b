// The operation of a reduction must have the element's type.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let product = Reduction::new("product", 1.0f64, |a: &mut f64, b| *a *= b);
    let x = rt.data(vec![1.0f32; 8]);
    let _ = rt.task("t", (x.reduction(product),));
}
