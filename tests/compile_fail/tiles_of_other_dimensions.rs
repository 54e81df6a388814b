// A tile has as many sizes as the data object has dimensions.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x: Data<f64, Ix2> = rt.zeros([8, 8]);
    let _ = x.tiles([2, 2, 2]);
    let _ = x.tiles([2, 2]).part([0]);
}
