// Complex numbers have no order.
use thalweg::memory::Complex;
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.scalar(Complex { re: 0.0, im: 0.0 });
    let _ = rt.task("t", (x.reduction(Min),)).cpu(|_, _| ()).submit();
}
