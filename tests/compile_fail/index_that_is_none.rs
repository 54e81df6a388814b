// An index is a `usize` or a range of `usize`.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x: Data<f64, Ix2> = rt.zeros([4, 4]);
    let _ = x.block((.., -1));
    let _ = x.block((.., 1.5));
}
