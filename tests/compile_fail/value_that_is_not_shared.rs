// A value must be `Sync`: tasks on several threads may read it at once.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _value = rt.value(std::cell::Cell::new(1));
}
