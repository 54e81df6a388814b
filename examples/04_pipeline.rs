//! A pipeline: frames pass through three stages. Each frame has data of its own, so that several are in flight; the last
//! stage updates one log, so that it sees them in their order.

use thalweg::prelude::*;

const FRAMES: usize = 24;
const PIXELS: usize = 1 << 16;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let rt = Runtime::builder().build()?;
    let log = rt.data(vec![0u64; FRAMES + 1]); // how many there are, then a number for each

    for n in 0..FRAMES {
        let (raw, edges) = (rt.data(vec![0u8; PIXELS]), rt.data(vec![0u8; PIXELS]));
        rt.task("capture", (raw.output(),))
            .cpu(move |_, (raw,)| raw.iter_mut().enumerate().for_each(|(i, pixel)| *pixel = (i / (n + 1) % 251) as u8))
            .submit()?;
        rt.task("filter", (raw.input(), edges.output()))
            .cpu(|_, (raw, edges)| {
                for (edge, pair) in edges.iter_mut().zip(raw.windows(2)) {
                    *edge = pair[0].abs_diff(pair[1]);
                }
            })
            .submit()?;
        rt.task("log", (edges.input(), log.inout()))
            .cpu(|_, (edges, log)| {
                log[0] += 1;
                log[log[0] as usize] = edges.iter().filter(|&&edge| edge > 0).count() as u64;
            })
            .submit()?;
        // The handles go here. The memory goes when the last task that uses it has run.
    }

    let log = rt.take(log)?;
    assert_eq!(log[0], FRAMES as u64);
    assert!(log[1..].is_sorted_by(|before, after| before > after), "in the order of submission");
    println!("{FRAMES} frames; edges in the first {}, in the last {}", log[1], log[FRAMES]);
    Ok(())
}
