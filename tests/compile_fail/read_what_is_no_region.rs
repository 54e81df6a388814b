// A request takes one region or one data object, not several.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = vec![rt.scalar(1.0), rt.scalar(2.0)];
    let _ = rt.read(&x);
}
