// Only bodies for CPU units can return a result.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _ = rt.task("t", ()).returns(|_, ()| 1).emulated(|_, ()| ()).submit();
}
