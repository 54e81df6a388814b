//! The problems of the overhead bench, each of which defines which task accesses which data. Bodies are empty, except
//! those that compute Fibonacci numbers.
//!
//! `contenders/problem.h` defines the same problems for the contenders in C. The bench checks at its start that both
//! draw the same accesses for [`Problem::Random`]. The problems with regions, blocks of arrays, values, tokens and
//! results exist only here: these results of Thalweg are compared with each other, and regions are measured in absolute
//! time. The Fibonacci problems also exist only here and run on Rayon as well.
//!
//! Draws come from Knuth's 64-bit linear congruential generator ("The Art of Computer Programming"
//! vol. 2, section 3.3.4, table 1, line 26), high bits only.

use std::fmt::{self, Write};
use std::ops::Range;

/// Number of data objects in [`Problem::Random`].
pub(crate) const RANDOM_DATA: usize = 1024;

/// Number of elements in the single array of [`Problem::Regions`].
pub(crate) const REGION_ELEMENTS: usize = 1 << 20;

/// Number of elements per array block.
pub(crate) const BLOCK_ELEMENTS: usize = 8;

/// Regions start at multiples of this element index.
const REGION_GRID: usize = 256;

/// Minimum and maximum length of a region, in elements.
const REGION_LENGTHS: (usize, usize) = (512, 1024);

/// A problem: a task graph of a certain shape, with 200 000 tasks by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Problem {
    /// Tasks have no accesses at all.
    Independent,
    /// Each task updates its own data object.
    Indep1dep,
    /// All tasks update one data object.
    Chain,
    /// Task (i, j) of a square reads the data of its upper and left neighbours and writes its own.
    Wavefront,
    /// Each task reads two of 1024 data objects and writes a third, all drawn at random.
    Random,
    /// Each task updates an interval of one array. The intervals overlap partially.
    Regions,
    /// Like indep1dep, with a value for each task.
    Value,
    /// Like indep1dep, with a token for each task.
    Token,
    /// Like independent, but each task returns a number that is never read.
    Result,
    /// Each task updates one block of an array, in block order. The tasks are submitted one by one.
    Blocks,
    /// The same tasks, submitted by a single `for_each` call.
    #[value(name = "for_each")]
    ForEach,
    /// Each task reads a block of one array and updates the same block of another. The tasks are submitted one by one.
    Axpy,
    /// The same tasks, submitted by a single `for_each` call.
    #[value(name = "for_each_axpy")]
    ForEachAxpy,
    /// A Fibonacci number computed recursively without a cut-off: each call creates a child task for one of its two
    /// terms, computes the other term itself and waits for the child.
    Fib,
    /// The same number computed in the body of a single task, where every call with two terms forks.
    #[value(name = "fib_join")]
    FibJoin,
    /// Independent tasks of about 3 µs that all compute the same Fibonacci number.
    #[value(name = "flat_fib")]
    FlatFib,
    /// Like independent, but recorded once; each pass is one replay.
    #[value(name = "replay_independent")]
    ReplayIndependent,
    /// Like chain, but recorded once and replayed.
    #[value(name = "replay_chain")]
    ReplayChain,
    /// Like wavefront, but recorded once and replayed.
    #[value(name = "replay_wavefront")]
    ReplayWavefront,
    /// Like random, but recorded once and replayed.
    #[value(name = "replay_random")]
    ReplayRandom,
    /// One task waits until everything has been submitted, and all other tasks read its output.
    Memory,
}

impl Problem {
    /// Returns the problem's name on the command line, in tables and in JSON files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Independent => "independent",
            Self::Indep1dep => "indep1dep",
            Self::Chain => "chain",
            Self::Wavefront => "wavefront",
            Self::Random => "random",
            Self::Regions => "regions",
            Self::Value => "value",
            Self::Token => "token",
            Self::Result => "result",
            Self::Blocks => "blocks",
            Self::ForEach => "for_each",
            Self::Axpy => "axpy",
            Self::ForEachAxpy => "for_each_axpy",
            Self::Fib => "fib",
            Self::FibJoin => "fib_join",
            Self::FlatFib => "flat_fib",
            Self::ReplayIndependent => "replay_independent",
            Self::ReplayChain => "replay_chain",
            Self::ReplayWavefront => "replay_wavefront",
            Self::ReplayRandom => "replay_random",
            Self::Memory => "memory",
        }
    }

    /// Returns this problem's number of tasks if an ordinary problem has `tasks`. A wavefront is the square of side
    /// √(4/5 `tasks`), which is 400 × 400 for 200 000 tasks. Memory needs five times as many tasks for a precise
    /// figure. Problems whose tasks compute have fewer tasks; a Fibonacci number has one task per call with two terms.
    pub(crate) const fn tasks(self, tasks: usize) -> usize {
        match self {
            Self::Wavefront | Self::ReplayWavefront => (tasks * 4 / 5).isqrt().pow(2),
            Self::Memory => tasks * 5,
            Self::Fib | Self::FibJoin => splits(index_for(tasks)),
            Self::FlatFib => tasks.div_ceil(10),
            _ => tasks,
        }
    }
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Returns the number of calls with two terms in the recursive computation of a Fibonacci number, which is one less
/// than the next Fibonacci number.
const fn splits(index: u32) -> usize {
    let (mut this, mut next, mut n) = (0, 1, 0);
    while n < index {
        (this, next, n) = (next, this + next, n + 1);
    }
    next - 1
}

/// Returns the largest index, at least 2, for which the recursion makes at most `tasks` calls with two terms.
pub(crate) const fn index_for(tasks: usize) -> u32 {
    let mut index = 2;
    while splits(index + 1) <= tasks {
        index += 1;
    }
    index
}

/// Index of the Fibonacci number that each task of [`Problem::FlatFib`] computes recursively.
pub(crate) const FLAT_INDEX: u32 = 16;

/// Computes a Fibonacci number recursively.
pub(crate) fn fibonacci(index: u32) -> u64 {
    if index < 2 { index.into() } else { fibonacci(index - 1) + fibonacci(index - 2) }
}

/// A linear congruential generator with a fixed seed.
#[derive(Debug)]
struct Draws(u64);

impl Draws {
    const fn new() -> Self {
        Self(20_260_101)
    }

    /// Draws a number from `0..bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // The draw has 31 bits, so it fits into `usize` on every supported platform.
        (self.0 >> 33) as usize % bound
    }
}

/// Returns the data objects of each task of [`Problem::Random`]: two to read, then one to write, all different.
pub(crate) fn random_accesses(tasks: usize) -> Vec<[usize; 3]> {
    let mut draws = Draws::new();
    (0..tasks)
        .map(|_| {
            let first = draws.below(RANDOM_DATA);
            let mut second = first;
            while second == first {
                second = draws.below(RANDOM_DATA);
            }
            let mut written = first;
            while written == first || written == second {
                written = draws.below(RANDOM_DATA);
            }
            [first, second, written]
        })
        .collect()
}

/// Returns the interval of each task of [`Problem::Regions`].
pub(crate) fn regions(tasks: usize) -> Vec<Range<usize>> {
    let (least, most) = REGION_LENGTHS;
    let starts = (REGION_ELEMENTS - most) / REGION_GRID + 1;
    let mut draws = Draws::new();
    (0..tasks)
        .map(|_| {
            let start = draws.below(starts) * REGION_GRID;
            start..start + least + draws.below(most - least + 1)
        })
        .collect()
}

/// Returns the lines that a contender in C prints for `list TASKS`: the data objects of each task of `random`.
pub(crate) fn listing(tasks: usize) -> String {
    random_accesses(tasks).iter().fold(String::new(), |mut text, [first, second, written]| {
        let _ = writeln!(text, "{first} {second} {written}");
        text
    })
}
