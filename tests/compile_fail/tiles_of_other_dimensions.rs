// A tile has one size for each dimension of the data object.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x: Data<f64, Ix2> = rt.zeros([8, 8]);
    let _ = x.tiles([2, 2, 2]);
    let _ = x.tiles([2, 2]).part([0]);
}
