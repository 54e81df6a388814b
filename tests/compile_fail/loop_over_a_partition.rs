// A loop must declare an access mode for the parts, as a task does for regions.
use thalweg::prelude::*;

fn main() {
    let rt = Runtime::builder().build().unwrap();
    let x = rt.data(vec![1.0f64; 80]);
    let _ = rt.for_each("t", (x.blocks(8),)).cpu(|_, _| ()).submit();
}
