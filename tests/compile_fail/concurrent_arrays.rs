// `concurrent` updates elements atomically; the hardware supports that for numbers of four or eight bytes.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![[0.0f32; 2]; 8]);
    let _ = rt.task("t", (x.concurrent(),));
}
