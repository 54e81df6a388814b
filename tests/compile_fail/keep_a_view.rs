// A view ends with the body: it cannot be sent elsewhere.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 8]);
    let (send, _receive) = std::sync::mpsc::channel::<&'static [f64]>();
    let _ = rt.task("t", (x.input(),)).cpu(move |_, (x,)| send.send(x).unwrap()).submit();
}
