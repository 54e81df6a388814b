// A concurrent region is for bodies that run: there is no guard of it.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![0u64; 8]);
    let _ = rt.task("t", (x.concurrent(),)).host_detached_until_event(|_, _| ());
}
