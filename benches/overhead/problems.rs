//! The problems of the overhead bench: which task accesses which data. Bodies are empty, except those that compute
//! Fibonacci numbers.
//!
//! `contenders/problem.h` defines the same for the contenders in C; the bench compares the draws of
//! [`Problem::Random`] at its start. Regions, blocks of arrays, values, tokens and results are defined only here:
//! Thalweg's are compared with each other, and regions with the clock. Fibonacci numbers are also defined only
//! here, and computed by Rayon as well.
//!
//! Draws come from Knuth's 64-bit linear congruential generator ("The Art of Computer Programming"
//! vol. 2, section 3.3.4, table 1, line 26), high bits only.

use std::fmt::{self, Write};
use std::ops::Range;

/// Data objects in [`Problem::Random`].
pub(crate) const RANDOM_DATA: usize = 1024;

/// Elements of the one array of [`Problem::Regions`].
pub(crate) const REGION_ELEMENTS: usize = 1 << 20;

/// Elements per block of an array.
pub(crate) const BLOCK_ELEMENTS: usize = 8;

/// Regions start at multiples of this.
const REGION_GRID: usize = 256;

/// Least and greatest number of elements of a region.
const REGION_LENGTHS: (usize, usize) = (512, 1024);

/// A shape of task graph, with 200 000 tasks by default.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Problem {
    /// No accesses at all.
    Independent,
    /// Each task updates its own data object.
    Indep1dep,
    /// All tasks update one data object.
    Chain,
    /// Task (i, j) of a square reads the data of its upper and left neighbours and writes its own.
    Wavefront,
    /// Each task reads two of 1024 data objects and writes a third, all drawn at random.
    Random,
    /// Each task updates an interval of one array; the intervals overlap partly.
    Regions,
    /// Like indep1dep, with a value for each task.
    Value,
    /// Like indep1dep, with a token for each task.
    Token,
    /// Like independent, with tasks that return a number that is never read.
    Result,
    /// Each task updates a block of one array, in order; submitted one by one.
    Blocks,
    /// The same, submitted in one call.
    #[value(name = "for_each")]
    ForEach,
    /// Each task reads a block of one array and updates that of another; submitted one by one.
    Axpy,
    /// The same, submitted in one call.
    #[value(name = "for_each_axpy")]
    ForEachAxpy,
    /// A Fibonacci number by its definition, without a cut-off: each call leaves one of its two terms to a child,
    /// computes the other itself and waits for the child.
    Fib,
    /// The same number in the body of one task, whose calls with two terms fork.
    #[value(name = "fib_join")]
    FibJoin,
    /// Independent tasks of some 3 µs: each computes the same Fibonacci number.
    #[value(name = "flat_fib")]
    FlatFib,
    /// Like independent, recorded once: a pass is one replay.
    #[value(name = "replay_independent")]
    ReplayIndependent,
    /// Like chain, recorded once.
    #[value(name = "replay_chain")]
    ReplayChain,
    /// Like wavefront, recorded once.
    #[value(name = "replay_wavefront")]
    ReplayWavefront,
    /// Like random, recorded once.
    #[value(name = "replay_random")]
    ReplayRandom,
    /// A task that waits for the end of the submission; all others read its output.
    Memory,
}

impl Problem {
    /// The name on the command line, in tables and in JSON.
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

    /// Returns the number of tasks when the other problems have `tasks`: a wavefront is the square of side √(4/5
    /// `tasks`), so 400 × 400 for 200 000; memory needs five times as many to be exact. Tasks that compute are
    /// fewer, and those of a Fibonacci number are as many as there are calls with two terms.
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

/// Returns how many calls with two terms the definition of a Fibonacci number makes: one fewer than the next
/// number.
const fn splits(index: u32) -> usize {
    let (mut this, mut next, mut n) = (0, 1, 0);
    while n < index {
        (this, next, n) = (next, this + next, n + 1);
    }
    next - 1
}

/// Returns the largest index, at least 2, for which the definition makes at most `tasks` calls with two terms.
pub(crate) const fn index_for(tasks: usize) -> u32 {
    let mut index = 2;
    while splits(index + 1) <= tasks {
        index += 1;
    }
    index
}

/// Index of the number that a task of [`Problem::FlatFib`] computes, by the definition.
pub(crate) const FLAT_INDEX: u32 = 16;

/// Returns a Fibonacci number by its definition.
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

    /// Returns a draw from `0..bound`.
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        // 31 bits: they fit every `usize` this runs on.
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
