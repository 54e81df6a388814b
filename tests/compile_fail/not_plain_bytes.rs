// Elements are plain bytes, which any memory can hold: no pointers.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let _x = rt.data(vec![String::new(); 8]);
}
