// A body gets one view per access.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let _ = rt.task("t", (x.inout(),)).cpu(|_, (x, y)| x[0] = y[0]).submit();
}
