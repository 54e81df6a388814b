// Nothing of a scope outlives it: neither the scope itself, nor its data objects, nor its tasks.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let mut x = vec![1.0f64; 8];
    let mut kept = None;
    let _ = rt.scope(|s| kept = Some(s));
    let handle = rt.scope(|s| s.borrow_mut(&mut x));
    let mut task = None;
    let _ = rt.scope(|s| task = Some(s.task("t", ())));
}
