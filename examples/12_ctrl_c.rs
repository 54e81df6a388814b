//! Cancellation with Ctrl-C: a search that is stopped early and prints the best result found so far.
//!
//! The handler runs on a separate thread and cancels the group: tasks that have not begun never will, and running
//! tasks poll their context.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use thalweg::prelude::*;

/// Returns the number of steps until the Collatz sequence of `n` reaches 1.
fn steps(mut n: u64) -> u64 {
    let mut steps = 0;
    while n != 1 {
        n = if n.is_multiple_of(2) { n / 2 } else { 3 * n + 1 };
        steps += 1;
    }
    steps
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    const PART: u64 = 100_000;
    let rt = Runtime::builder().build()?;
    let search = rt.group();
    let on_interrupt = search.clone(); // borrows nothing, so the handler can keep it
    ctrlc::set_handler(move || on_interrupt.cancel())?;

    // The number of steps is in the upper 16 bits, so the largest value is the best result.
    let best = Arc::new(AtomicU64::new(0));
    let parts: u64 = std::env::args().nth(1).map_or(Ok(1_000), |parts| parts.parse())?;
    println!("searching; Ctrl-C ends it early");
    for part in 0..parts {
        let best = best.clone();
        let body = move |cx: &Context, ()| {
            let numbers = part * PART + 1..=(part + 1) * PART;
            let searched = numbers.take_while(|n| n % 1000 != 0 || !cx.is_cancelled());
            let found = searched.map(|n| steps(n) << 48 | n).max();
            best.fetch_max(found.unwrap_or(0), Ordering::Relaxed);
        };
        if let Err(SubmitError::Cancelled { .. }) = search.task("search", ()).cpu(body).submit() {
            break;
        }
    }
    let outcome = search.wait(); // the failures are those of the cancelled tasks
    let best = best.load(Ordering::Relaxed);
    println!("{} takes {} steps, the most found", best & ((1 << 48) - 1), best >> 48);
    if search.is_cancelled() {
        println!("cancelled");
        return Ok(());
    }
    Ok(outcome?)
}
