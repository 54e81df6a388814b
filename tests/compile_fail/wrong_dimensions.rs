// A block of an array has one range per dimension.
fn main() {
    let rt = thalweg::Runtime::builder().build().unwrap();
    let x = rt.array(ndarray::Array2::<f64>::zeros((8, 8)));
    let _ = x.block((0..4, 0..4, 0..4));
}
