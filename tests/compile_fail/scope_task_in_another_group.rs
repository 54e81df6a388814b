// A scope waits for its own group only, so its tasks cannot join another.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let (other, mut x) = (rt.group(), [1.0f64; 8]);
    let _ = rt.scope(|s| {
        let x = s.borrow_mut(&mut x);
        let _ = s.task("t", x.inout()).group(&other).cpu(|_, _| ()).submit();
        let _ = s.for_each("t", x.blocks(2).inout()).group(&other).cpu(|_, _| ()).submit();
    });
}
