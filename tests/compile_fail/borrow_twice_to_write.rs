// Two data objects must not share memory that one of them writes: nothing would order their tasks.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let mut x = vec![1.0f64; 8];
    let _ = rt.scope(|s| {
        let one = s.borrow_mut(&mut x[..]);
        let two = s.borrow(&x[..]);
        s.task("t", (one.output(), two.input())).cpu(|_, (one, two)| one[0] = two[0]).submit()
    });
    let _ = rt.scope(|s| {
        let one = s.borrow_mut(&mut x[..]);
        x[0] = 2.0;
        s.task("t", (one.output(),)).cpu(|_, (one,)| one[0] = 3.0).submit()
    });
}
