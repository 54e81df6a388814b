// A body that is run again cannot give away what it captured.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let (x, words) = (rt.data(vec![1.0f64; 8]), String::from("once"));
    let _ = rt.task("t", (x.inout(),)).retries(2).cpu(move |_, _| drop(words)).submit();
}
