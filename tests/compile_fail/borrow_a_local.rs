// A body may run after the function that submitted it has returned, so it must own its captures.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let factor = 2.0;
    let _ = rt.task("t", (x.inout(),)).cpu(|_, (x,)| x[0] *= factor).submit();
}
