//! Recordings whose tasks use scratch memory. Their graphs must be as parallel as the tasks.

use super::programs::runtime;
use super::random::Random;
use super::{on_both, report};
use thalweg::kernel::{Kernel, Program, Read, Write};

const TEXT: &str = "
    KERNEL(16, 1, 1) put(IN(UINT64, x, n), INOUT(UINT64, between, n), UINT64 salt, int n)
    {
        REGION(x); REGION(between);
        int i = GLOBAL_ID(0);
        if (i < n) between[i] = x[n - 1 - i] * 31 + salt;
    }
    KERNEL(16, 1, 1) fold(IN(UINT64, between, n), INOUT(UINT64, y, n), int n)
    {
        REGION(between); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 7 + between[n - 1 - i];
    }
";
// SAFETY: each kernel compares its index with the size that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("shapes.cl", TEXT) };
static PUT: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "put");
static FOLD: Kernel<(Read<u64>, Write<u64>, i32)> = Kernel::new(&PROGRAM, "fold");

const N: usize = 20;
/// The number of arrays.
const ARRAYS: usize = 16;
/// Each task launches two kernels.
const LAUNCHES: usize = 2;

/// A task: the arrays that it reads, and the array that it updates. The first of the arrays that it reads, or the array
/// that it updates if it reads none, is the source of the new values.
struct Task {
    reads: Vec<usize>,
    updates: usize,
}

impl Task {
    fn new(reads: impl IntoIterator<Item = usize>, updates: usize) -> Self {
        let mut reads: Vec<_> = reads.into_iter().filter(|array| *array != updates).collect();
        reads.sort_unstable();
        reads.dedup();
        Self { reads, updates }
    }
}

/// Returns the tasks of each recording.
fn plans() -> Vec<Vec<Task>> {
    let chains = (0..8 * ARRAYS).map(|n| Task::new([], n % ARRAYS)).collect();
    let one_by_one = (0..8 * ARRAYS).map(|n| Task::new([], n / 8)).collect();
    // Rounds of tasks that all read one array, and a task that reads all arrays.
    let forks = (0..5 * ARRAYS).map(|n| match n % ARRAYS {
        0 => Task::new(1..ARRAYS, 0),
        array => Task::new([0], array),
    });
    let mut random = Random(5);
    let mut draw = |n: usize| random.below(n);
    let any = (0..100).map(|_| {
        let reads: Vec<_> = (0..draw(4)).map(|_| draw(ARRAYS)).collect();
        Task::new(reads, draw(ARRAYS))
    });
    vec![chains, one_by_one, forks.collect(), any.collect()]
}

/// Returns the length of the longest chain of launches, and the largest number of launches that are equally far from
/// the start.
fn shape(tasks: &[Task]) -> (usize, usize) {
    let (mut written, mut read) = ([0; ARRAYS], [0; ARRAYS]);
    let mut widths = vec![0; tasks.len() + 1];
    for Task { reads, updates } in tasks {
        let before = reads.iter().map(|array| written[*array]).max().unwrap_or(0);
        let depth = 1 + before.max(written[*updates]).max(read[*updates]);
        reads.iter().for_each(|array| read[*array] = depth.max(read[*array]));
        (written[*updates], read[*updates]) = (depth, 0);
        widths[depth] += 1;
    }
    let longest = widths.iter().rposition(|width| *width > 0).unwrap_or(0);
    (LAUNCHES * longest, widths.into_iter().max().unwrap_or(0))
}

/// Each recording becomes one graph, whose nodes have the order of the tasks and no other. All replays launch the same
/// graph, since their scratch memory has the same addresses.
#[test]
fn graphs_with_scratch_memory_are_as_parallel_as_their_tasks() {
    on_both(|settings| {
        let Some(report) = report(settings, "shapes::graphs_of_tasks_with_scratch_memory") else { return };
        for (number, plan) in plans().iter().enumerate() {
            let of = |what: &str| report.of(&format!("graph {number} {what}")) as usize;
            assert_eq!((of("longest chain"), of("width")), shape(plan), "graph {number} {report:?}");
        }
        assert_eq!(shape(&plans()[0]), (LAUNCHES * 8, ARRAYS), "chains of eight tasks");
        assert_eq!(report.of(&format!("graph {} width", plans().len())), 0, "a replay needed a graph of its own");
    });
}

/// The recordings, each replayed several times.
#[test]
#[ignore = "run on a stand-in by another test"]
fn graphs_of_tasks_with_scratch_memory() {
    for plan in plans() {
        let rt = runtime();
        let y: Vec<_> = (0..ARRAYS as u64).map(|n| rt.data(vec![n; N])).collect();
        let mut recording = rt
            .record(|r| {
                for (salt, Task { reads, updates }) in (0..).zip(&plan) {
                    let reads: Vec<_> = reads.iter().map(|array| y[*array].input()).collect();
                    r.task("task", (reads, y[*updates].inout()))
                        .gpu(move |k, (reads, mut y)| {
                            let mut between = k.scratch::<u64>(N)?;
                            match reads.first() {
                                Some(x) => k.launch(&PUT, N, (x, &mut between, salt, N as i32))?,
                                None => k.launch(&PUT, N, (&y, &mut between, salt, N as i32))?,
                            }
                            k.launch(&FOLD, N, (&between, &mut y, N as i32))
                        })
                        .submit()?;
                }
                Ok(())
            })
            .unwrap();
        const REPLAYS: usize = 6;
        (0..REPLAYS).for_each(|_| recording.replay().unwrap());
        let mut expected: Vec<_> = (0..ARRAYS as u64).map(|n| [n; N]).collect();
        for (salt, Task { reads, updates }) in (0..REPLAYS).flat_map(|_| (0u64..).zip(&plan)) {
            let x = expected[reads.first().copied().unwrap_or(*updates)];
            for (y, x) in expected[*updates].iter_mut().zip(x) {
                *y = y.wrapping_mul(7).wrapping_add(x.wrapping_mul(31).wrapping_add(salt));
            }
        }
        for (y, expected) in y.into_iter().zip(expected) {
            assert_eq!(rt.take(y).unwrap(), expected);
        }
    }
}
