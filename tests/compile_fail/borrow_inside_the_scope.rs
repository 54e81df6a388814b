// What a scope's bodies and data borrow outlives the scope: it cannot be the closure's own.
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
