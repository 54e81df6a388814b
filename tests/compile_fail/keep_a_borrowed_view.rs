// A body must not keep the view of borrowed data, even in a variable that outlives the scope.
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
