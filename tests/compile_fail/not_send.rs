// A body runs on any thread, so its captures must be `Send`.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let factor = std::rc::Rc::new(2.0);
    let _ = rt.task("t", (x.inout(),)).cpu(move |_, (x,)| x[0] *= *factor).submit();
}
