// The body of a loop runs once for each part, so it cannot give away its captures.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let (x, captured) = (rt.data(vec![1.0f64; 80]), vec![1.0; 8]);
    let _ = rt.for_each("t", x.blocks(8).output()).cpu(move |_, _| drop(captured)).submit();
}
