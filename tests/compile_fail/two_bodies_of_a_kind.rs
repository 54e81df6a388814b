// A task has one body for CPU units: a second one would never run.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let _ = rt.task("t", (x.input(),)).cpu(|_, _| ()).cpu(|_, _| ()).submit();
}
