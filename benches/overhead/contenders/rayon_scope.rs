//! Rayon's scope: the cost of spawning a task on a work-stealing pool without dependence tracking.
//!
//! Rayon marks the lower bound and is not a rival: it offers only independent tasks, and `join` for tasks that split in
//! two. Tasks are spawned from a worker thread, because Rayon is fastest there.

use std::error::Error;
use std::hint::black_box;

use rayon::{ThreadPool, ThreadPoolBuilder};

use super::{Answer, measure};
use crate::problems::{self, FLAT_INDEX, Problem};

/// Runs `problem` on a pool of `workers` threads.
pub(super) fn run(problem: Problem, tasks: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
    match problem {
        Problem::Fib | Problem::FibJoin => {
            let index = problems::index_for(tasks);
            measure(tasks, passes, || {
                assert_eq!(pool.install(|| fibonacci(index)), problems::fibonacci(index));
                Ok(())
            })
        }
        Problem::FlatFib => {
            let body = || _ = black_box(problems::fibonacci(black_box(FLAT_INDEX)));
            measure(tasks, passes, || {
                spawn(&pool, tasks, body);
                Ok(())
            })
        }
        _ => measure(tasks, passes, || {
            spawn(&pool, tasks, || {});
            Ok(())
        }),
    }
}

fn spawn(pool: &ThreadPool, tasks: usize, body: fn()) {
    pool.scope(|scope| {
        for _ in 0..tasks {
            scope.spawn(move |_| body());
        }
    });
}

fn fibonacci(index: u32) -> u64 {
    if index < 2 {
        return index.into();
    }
    let (left, right) = rayon::join(|| fibonacci(index - 1), || fibonacci(index - 2));
    left + right
}
