//! Thalweg as a contender: every problem, submitted through the public API.
//!
//! The submitting thread hosts one of the units, so `workers` threads run in all, as with OpenMP; in `memory` it only
//! submits. All data objects are created once, before the timed part.

use std::error::Error;
use std::hint::black_box;
use std::path::Path;

use thalweg::prelude::*;

use super::{Answer, measure, measure_memory};
use crate::problems::{self, BLOCK_ELEMENTS, FLAT_INDEX, Problem, REGION_ELEMENTS};

type Outcome = Result<(), Box<dyn Error>>;

/// Runs `problem` on `workers` CPU units of one core, and writes a trace if a file is given.
pub(super) fn run(
    problem: Problem,
    tasks: usize,
    workers: usize,
    passes: usize,
    trace: Option<&Path>,
) -> Result<Answer, Box<dyn Error>> {
    let mut builder = Runtime::builder().compute_units(format!("{workers}:CPU:1"));
    if let Some(trace) = trace {
        builder = builder.trace(trace);
    }
    let rt = match problem {
        // The submitter must not host a unit, because it could then run the gate itself, which never ends. The window
        // must not block the submission of the tasks after the gate.
        Problem::Memory => builder.use_current_thread(false).max_pending_tasks(usize::MAX).build()?,
        _ => builder.use_current_thread(true).build()?,
    };
    match problem {
        Problem::Independent => measure(tasks, passes, || {
            for _ in 0..tasks {
                rt.task("empty", ()).cpu(|_, ()| {}).submit()?;
            }
            Ok(rt.wait()?)
        }),
        Problem::Indep1dep => {
            let data = scalars(&rt, tasks);
            measure(tasks, passes, || {
                for own in &data {
                    rt.task("empty", (own.inout(),)).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Chain => {
            let datum = rt.scalar(0_u64);
            measure(tasks, passes, || {
                for _ in 0..tasks {
                    rt.task("empty", (datum.inout(),)).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Wavefront => {
            let data = scalars(&rt, tasks);
            measure(tasks, passes, || wavefront(&rt, &data))
        }
        Problem::Random => {
            let data = scalars(&rt, problems::RANDOM_DATA);
            let accesses = problems::random_accesses(tasks);
            measure(tasks, passes, || {
                for &[first, second, written] in &accesses {
                    let accesses = (data[first].input(), data[second].input(), data[written].output());
                    rt.task("empty", accesses).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Regions => {
            let array = rt.data(vec![0_u64; REGION_ELEMENTS]);
            let regions = problems::regions(tasks);
            measure(tasks, passes, || {
                for region in &regions {
                    let region = array.slice(region.clone());
                    rt.task("empty", (region.inout(),)).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Value => {
            let values: Vec<Value<u64>> = (0..tasks).map(|_| rt.value(0)).collect();
            measure(tasks, passes, || {
                for own in &values {
                    rt.task("empty", (own.inout(),)).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Token => {
            let tokens: Vec<Token> = (0..tasks).map(|_| rt.token()).collect();
            measure(tasks, passes, || {
                for own in &tokens {
                    rt.task("empty", (own.inout(),)).cpu(|_, _| {}).submit()?;
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Result => measure(tasks, passes, || {
            for task in 0..tasks {
                drop(rt.task("empty", ()).returns(move |_, ()| task).submit()?);
            }
            Ok(rt.wait()?)
        }),
        Problem::Blocks | Problem::ForEach => {
            let array = rt.data(vec![0_u64; tasks * BLOCK_ELEMENTS]);
            let blocks = array.blocks(BLOCK_ELEMENTS);
            measure(tasks, passes, || {
                if problem == Problem::ForEach {
                    rt.for_each("empty", (blocks.inout(),)).cpu(|_, _| {}).submit()?;
                } else {
                    for block in blocks {
                        rt.task("empty", (block.inout(),)).cpu(|_, _| {}).submit()?;
                    }
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Axpy | Problem::ForEachAxpy => {
            let (x, y) = (rt.data(vec![0_u64; tasks * BLOCK_ELEMENTS]), rt.data(vec![0_u64; tasks * BLOCK_ELEMENTS]));
            let (x, y) = (x.blocks(BLOCK_ELEMENTS), y.blocks(BLOCK_ELEMENTS));
            measure(tasks, passes, || {
                if problem == Problem::ForEachAxpy {
                    rt.for_each("empty", (x.input(), y.inout())).cpu(|_, _| {}).submit()?;
                } else {
                    for (x, y) in x.into_iter().zip(y) {
                        rt.task("empty", (x.input(), y.inout())).cpu(|_, _| {}).submit()?;
                    }
                }
                Ok(rt.wait()?)
            })
        }
        Problem::Fib => {
            let index = problems::index_for(tasks);
            measure(tasks, passes, || {
                let number = rt.task("fibonacci", ()).try_returns(move |at, ()| fibonacci(at, index)).submit()?;
                assert_eq!(number.get()?, problems::fibonacci(index));
                Ok(rt.wait()?)
            })
        }
        Problem::FibJoin => {
            let index = problems::index_for(tasks);
            measure(tasks, passes, || {
                let number = rt.task("fibonacci", ()).returns(move |at, ()| fork(at, index)).submit()?;
                assert_eq!(number.get()?, problems::fibonacci(index));
                Ok(rt.wait()?)
            })
        }
        Problem::FlatFib => measure(tasks, passes, || {
            for _ in 0..tasks {
                rt.task("fibonacci", ())
                    .cpu(|_, ()| _ = black_box(problems::fibonacci(black_box(FLAT_INDEX))))
                    .submit()?;
            }
            Ok(rt.wait()?)
        }),
        Problem::ReplayIndependent => {
            replay(&rt, tasks, passes, |r| (0..tasks).try_for_each(|_| r.task("empty", ()).cpu(|_, ()| {}).submit()))
        }
        Problem::ReplayChain => {
            let datum = rt.scalar(0_u64);
            replay(&rt, tasks, passes, |r| {
                (0..tasks).try_for_each(|_| r.task("empty", (datum.inout(),)).cpu(|_, _| {}).submit())
            })
        }
        Problem::ReplayWavefront => {
            let data = scalars(&rt, tasks);
            replay(&rt, tasks, passes, |r| {
                let side = tasks.isqrt();
                (0..tasks).try_for_each(|at| {
                    let up = (at >= side).then(|| data[at - side].input());
                    let left = (at % side > 0).then(|| data[at - 1].input());
                    let near: Vec<_> = up.into_iter().chain(left).collect();
                    match <[_; 2]>::try_from(near) {
                        Ok([up, left]) => r.task("empty", (up, left, data[at].output())).cpu(|_, _| {}).submit(),
                        Err(near) => r.task("empty", (near, data[at].output())).cpu(|_, _| {}).submit(),
                    }
                })
            })
        }
        Problem::ReplayRandom => {
            let data = scalars(&rt, problems::RANDOM_DATA);
            let accesses = problems::random_accesses(tasks);
            replay(&rt, tasks, passes, |r| {
                accesses.iter().try_for_each(|&[first, second, written]| {
                    let accesses = (data[first].input(), data[second].input(), data[written].output());
                    r.task("empty", accesses).cpu(|_, _| {}).submit()
                })
            })
        }
        Problem::Memory => memory(rt, tasks),
    }
}

/// Measures replays. A pass consists of one replay and a wait.
fn replay(
    rt: &Runtime,
    tasks: usize,
    passes: usize,
    program: impl FnOnce(&Recorder<'_>) -> Result<(), SubmitError>,
) -> Result<Answer, Box<dyn Error>> {
    let mut recording = rt.record(program)?;
    assert_eq!(recording.len(), tasks);
    measure(tasks, passes, || {
        recording.replay()?;
        Ok(rt.wait()?)
    })
}

fn scalars(rt: &Runtime, count: usize) -> Vec<Data<u64>> {
    (0..count).map(|_| rt.scalar(0)).collect()
}

/// Computes one term in a child task and the other in the current task, like Rayon's `join`.
fn fibonacci(at: &Context, index: u32) -> Result<u64, RunError> {
    if index < 2 {
        return Ok(index.into());
    }
    let left = at.task("fibonacci", ()).try_returns(move |at, ()| fibonacci(at, index - 1)).submit()?;
    let right = fibonacci(at, index - 2)?;
    Ok(left.get()? + right)
}

/// Computes both terms by fork-join calls, like Rayon's `join`, without a task per call.
fn fork(at: &Context, index: u32) -> u64 {
    if index < 2 {
        return index.into();
    }
    let (left, right) = at.join(|at| fork(at, index - 1), |at| fork(at, index - 2));
    left + right
}

/// Submits one pass over a square of tasks and waits for it. `data` holds one data object per task, row by row.
fn wavefront(rt: &Runtime, data: &[Data<u64>]) -> Outcome {
    let side = data.len().isqrt();
    for i in 0..side {
        for j in 0..side {
            let own = &data[i * side + j];
            let up = (i > 0).then(|| &data[(i - 1) * side + j]);
            let left = (j > 0).then(|| &data[i * side + j - 1]);
            match (up, left) {
                (Some(up), Some(left)) => {
                    rt.task("empty", (up.input(), left.input(), own.output())).cpu(|_, _| {}).submit()?
                }
                (Some(near), None) | (None, Some(near)) => {
                    rt.task("empty", (near.input(), own.output())).cpu(|_, _| {}).submit()?
                }
                (None, None) => rt.task("empty", (own.output(),)).cpu(|_, _| {}).submit()?,
            };
        }
    }
    Ok(rt.wait()?)
}

/// Submits a gate that never opens and `tasks` tasks after it, and leaves them pending. The runtime is leaked, because
/// dropping it would wait for these tasks. The process ends after it has printed the answer.
fn memory(rt: Runtime, tasks: usize) -> Result<Answer, Box<dyn Error>> {
    let gate = rt.scalar(0_u64);
    let answer = measure_memory(tasks, || -> Outcome {
        rt.task("gate", (gate.output(),)).cpu(|_, _| hold()).submit()?;
        for _ in 0..tasks {
            rt.task("empty", (gate.input(),)).cpu(|_, _| {}).submit()?;
        }
        Ok(())
    })?;
    std::mem::forget((rt, gate));
    Ok(answer)
}

/// Body of the gate, which blocks all tasks after the gate until the process ends.
fn hold() {
    loop {
        std::thread::park();
    }
}
