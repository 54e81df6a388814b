// Data borrowed as `&[T]` can only be read.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = vec![1.0f64; 8];
    let _ = rt.scope(|s| {
        let x = s.borrow(&x);
        let _ = s.task("all", (x.inout(),)).cpu(|_, (x,)| x[0] = 2.0).submit();
        let _ = s.task("part", (x.slice(1..).output(),)).cpu(|_, (x,)| x[0] = 2.0).submit();
        let _ = rt.clear(&x);
        s.task("view", (x.input(),)).cpu(|_, (x,)| x[0] = 2.0).submit()
    });
}
