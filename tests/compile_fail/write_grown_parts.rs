// Grown parts overlap, so a loop can only read them.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 80]);
    let _ = rt.for_each("t", x.blocks(8).grow(1).output()).cpu(|_, x| x.fill(0.0)).submit();
}
