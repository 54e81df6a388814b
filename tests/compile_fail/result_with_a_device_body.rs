// Only bodies for CPU units return something.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _ = rt.task("t", ()).returns(|_, ()| 1).emulated(|_, ()| ()).submit();
}
