//! A service: many threads submit small task graphs to the same workers, and each thread submits one graph after
//! another.

use std::error::Error;
use std::thread;
use std::time::Duration;

use rayon::ThreadPoolBuilder;
use rayon::prelude::*;
use thalweg::prelude::*;

use crate::problems::{Answer, RAYON, THALWEG, fastest, timed};

/// Number of client threads.
const CLIENTS: usize = 8;
/// How many numbers each request has.
const NUMBERS: usize = 1024;
/// How many numbers each task processes.
const BLOCK: usize = 256;
/// Number of steps for each number, so that a task takes about 5 µs.
const STEPS: usize = 40;

/// Answers `requests` requests.
pub(crate) fn run(name: &str, requests: usize, workers: usize, passes: usize) -> Result<Answer, Box<dyn Error>> {
    match name {
        THALWEG => {
            let rt = Runtime::builder().compute_units(format!("{workers}:CPU:1")).build()?;
            fastest(passes, || serve(requests, |numbers| by_tasks(&rt, numbers)))
        }
        RAYON => {
            let pool = ThreadPoolBuilder::new().num_threads(workers).build()?;
            fastest(passes, || serve(requests, |numbers| Ok(pool.install(|| by_rayon(numbers)))))
        }
        _ => fastest(passes, || {
            let (elapsed, sums) = timed(|| (0..requests).map(|n| one_by_one(request(n))).collect::<Vec<_>>());
            Ok((elapsed, sums.iter().sum()))
        }),
    }
}

/// Runs all clients to completion. Returns the elapsed time and the sum of the answers.
fn serve(
    requests: usize,
    answer: impl Fn(Vec<f64>) -> Result<f64, RunError> + Sync,
) -> Result<(Duration, f64), Box<dyn Error>> {
    let client = |first: usize| -> Result<f64, RunError> {
        (first..requests).step_by(CLIENTS).map(|n| answer(request(n))).sum()
    };
    let (elapsed, sums) = timed(|| {
        thread::scope(|s| {
            let clients: Vec<_> = (0..CLIENTS).map(|first| s.spawn(move || client(first))).collect();
            clients.into_iter().map(|client| client.join().expect("no client panics")).sum::<Result<f64, RunError>>()
        })
    });
    Ok((elapsed, sums?))
}

fn by_tasks(rt: &Runtime, numbers: Vec<f64>) -> Result<f64, RunError> {
    let numbers = rt.data(numbers);
    rt.for_each("advance", numbers.blocks(BLOCK).inout()).cpu(|_, numbers| advance(numbers)).submit()?;
    rt.task("sum", numbers.input()).returns(|_, numbers: &[f64]| numbers.iter().sum()).submit()?.get()
}

fn by_rayon(mut numbers: Vec<f64>) -> f64 {
    numbers.par_chunks_mut(BLOCK).for_each(advance);
    numbers.iter().sum()
}

fn one_by_one(mut numbers: Vec<f64>) -> f64 {
    numbers.chunks_mut(BLOCK).for_each(advance);
    numbers.iter().sum()
}

/// Iterates a logistic map that converges, so that rounding makes no difference.
fn advance(numbers: &mut [f64]) {
    for x in numbers {
        for _ in 0..STEPS {
            *x *= 2.5 * (1.0 - *x);
        }
    }
}

fn request(n: usize) -> Vec<f64> {
    (0..NUMBERS).map(|i| ((n * NUMBERS + i) % 97 + 1) as f64 / 100.0).collect()
}
