//! Heat spreads along a rod. There is one task per block and step, which reads its block and one point on either side.
//! A block waits only for its neighbours' previous step, so there is no barrier, and steps overlap.

use thalweg::prelude::*;

const POINTS: usize = 10_000;
const BLOCK: usize = 1_000;
const STEPS: usize = 500;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    // The ends are held at 1 and 0; the rod between them begins cold.
    let start: Vec<f64> = (0..POINTS + 2).map(|i| if i == 0 { 1.0 } else { 0.0 }).collect();
    let (mut old, mut new) = (rt.data(start.clone()), rt.data(start.clone()));

    for _ in 0..STEPS {
        let [old_blocks, new_blocks] = [&old, &new].map(|rod| rod.slice(1..=POINTS).blocks(BLOCK));
        rt.for_each("step", (old_blocks.grow(1).input(), new_blocks.output()))
            .cpu(|_, (old, new)| relax(old, new))
            .submit()?;
        std::mem::swap(&mut old, &mut new);
    }
    let heat = rt.take(old)?;

    let (mut old, mut new) = (start.clone(), start);
    for _ in 0..STEPS {
        relax(&old, &mut new[1..=POINTS]);
        std::mem::swap(&mut old, &mut new);
    }
    assert_eq!(heat, old, "tasks compute what a loop does");
    println!("after {STEPS} steps, {:.3} of the rod's {POINTS} points are warm", heat.iter().sum::<f64>());
    Ok(())
}

/// Computes each point of `new` from the three points around it in `old`, which has one more point on either side.
fn relax(old: &[f64], new: &mut [f64]) {
    for (new, old) in new.iter_mut().zip(old.windows(3)) {
        *new = old[1] + 0.25 * (old[0] - 2.0 * old[1] + old[2]);
    }
}
