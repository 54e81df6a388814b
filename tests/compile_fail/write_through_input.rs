// `in` gives a shared slice, which cannot be written through.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let _ = rt.task("t", (x.input(),)).cpu(|_, (x,)| x[0] = 2.0).submit();
}
