// Bodies and data objects of a scope borrow memory that outlives the scope, not locals of its closure.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let _ = rt.scope(|s| {
        let factor = 2.0;
        let mut x = vec![1.0f64; 8];
        let data = s.borrow_mut(&mut x);
        s.task("t", (data.inout(),)).cpu(|_, (x,)| x[0] *= factor).submit()
    });
}
