//! Two tasks on one array. The second reads the first one's output, so it runs after it; nothing else orders them.

use thalweg::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    let x = rt.data(vec![0.0; 1000]);

    rt.task("fill", (x.output(),)).cpu(|_, (x,)| x.fill(3.0)).submit()?;
    rt.task("square", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= *x)).submit()?;

    let x = rt.take(x)?; // waits for both, and gives the array back
    assert!(x.iter().all(|&x| x == 9.0));
    println!("{} elements, each is {}", x.len(), x[0]);
    Ok(())
}
