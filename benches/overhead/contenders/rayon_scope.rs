//! Rayon's scope: what spawning a task costs on a work-stealing pool that knows no dependences.
//!
//! The floor, not a rival: it offers independent tasks only. They are spawned from a worker, where
//! Rayon is fastest.

use std::error::Error;

use rayon::ThreadPoolBuilder;

use super::{Answer, measure};

/// Spawns `tasks` empty tasks on a pool of `workers` threads.
pub(super) fn run(tasks: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
    measure(tasks, passes, || {
        pool.scope(|scope| {
            for _ in 0..tasks {
                scope.spawn(|_| {});
            }
        });
        Ok(())
    })
}
