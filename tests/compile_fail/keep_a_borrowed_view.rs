// The view of borrowed data is the body's while it runs, and no longer, whatever outlives the scope.
use std::sync::Mutex;
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let (mut x, kept) = (vec![1.0f64; 8], Mutex::new(None));
    let _ = rt.scope(|s| {
        let x = s.borrow_mut(&mut x);
        s.task("t", (x.inout(),)).cpu(|_, (x,)| *kept.lock().unwrap() = Some(x)).submit()
    });
}
