//! Reductions over the blocks of an array. A loop submits one task per block, and each task adds to a private
//! replica, so that the tasks run in parallel. The runtime combines the replicas in submission order, so the sum is
//! the same in every run, on any number of cores.

use thalweg::prelude::*;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    let terms: Vec<f64> = (1..=1_000_000).map(|k| 1.0 / (k as f64 * k as f64)).collect();
    let n = terms.len();
    let (x, sum, largest) = (rt.data(terms), rt.scalar(0.0), rt.scalar(0.0));

    rt.for_each("sum", (x.blocks(1 << 16).input(), sum.reduction(Sum), largest.reduction(Max)))
        .cpu(|_, (x, sum, largest)| {
            sum[0] += x.iter().sum::<f64>();
            largest[0] = x.iter().copied().fold(largest[0], f64::max);
        })
        .submit()?;

    let (sum, largest) = (rt.read(&sum)?[0], rt.read(&largest)?[0]);
    assert!((sum - std::f64::consts::PI.powi(2) / 6.0).abs() < 1e-5 && largest == 1.0);
    println!("the sum of 1/k² up to k = {n} is {sum:.6}, the largest term {largest}");
    Ok(())
}
