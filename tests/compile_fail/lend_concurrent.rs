// A concurrent region is only for bodies that are running: it has no guard that could outlive the body.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![0u64; 8]);
    let _ = rt.task("t", (x.concurrent(),)).host_detached_until_event(|_, _| ());
}
