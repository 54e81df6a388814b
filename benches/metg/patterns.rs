//! The dependence patterns of METG: which tasks of step t − 1 each task of step t reads.
//!
//! Definitions: Slaughter et al., "Task Bench: A Parameterized Benchmark for Evaluating Parallel
//! Runtime Performance" (SC20), section II, with radix 5, period 3 and a quarter of the candidates
//! connected. For a grid of width w and a task (t, i) with t > 0, and for r = 2 either side:
//!
//! - `stencil_1d`: i − 1, i, i + 1;
//! - `nearest`: i − r ..= i + r;
//! - `fft`: i − d, i, i + d with d = 2^((t − 1) mod ⌈log₂ w⌉);
//! - `spread`: (i + ⌊k w / 5⌋ + (t mod 3 if k > 0)) mod w for k in 0..5;
//! - `random_nearest`: i itself, and each other j of `nearest` whose hash of (t mod 3, j, i) falls
//!   into the lowest quarter.
//!
//! Points outside the grid are left out, and a point named twice is kept once. The hash function is specific to this
//! bench (SplitMix64's finalizer: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014,
//! figure 16, variant 13 of Stafford), so random_nearest has the same distribution as in Task Bench but not the same
//! edges. `contenders/grid.h` defines the same patterns, and the bench compares both definitions.

use std::fmt::Write;

use smallvec::SmallVec;

/// Maximum number of inputs of a task.
pub(crate) const MOST_INPUTS: usize = 5;
/// Number of steps after which the patterns spread and random_nearest repeat.
const PERIOD: usize = 3;
/// Number of neighbours on either side in the patterns nearest and random_nearest.
const REACH: usize = MOST_INPUTS / 2;

/// The points of step t − 1 that a task reads.
pub(crate) type Inputs = SmallVec<[usize; MOST_INPUTS]>;

/// A dependence pattern, named as in Task Bench.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
#[value(rename_all = "snake_case")]
pub(crate) enum Pattern {
    #[value(name = "stencil_1d")]
    Stencil1d,
    Nearest,
    Fft,
    Spread,
    RandomNearest,
}

impl Pattern {
    /// Returns the pattern's name on the command line, in tables and in JSON files.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Stencil1d => "stencil_1d",
            Self::Nearest => "nearest",
            Self::Fft => "fft",
            Self::Spread => "spread",
            Self::RandomNearest => "random_nearest",
        }
    }

    /// Returns the points that task (`step`, `point`) of a grid of `width` reads, in a fixed order.
    fn inputs(self, width: usize, step: usize, point: usize) -> Inputs {
        let mut inputs = Inputs::new();
        if step == 0 {
            return inputs;
        }
        let mut add = |input: Option<usize>| {
            if let Some(input) = input.filter(|&input| input < width && !inputs.contains(&input)) {
                inputs.push(input);
            }
        };
        let phase = step % PERIOD;
        match self {
            Self::Stencil1d => neighbours(point, 1).for_each(add),
            Self::Nearest => neighbours(point, REACH).for_each(add),
            Self::Fft => {
                let stages = width.next_power_of_two().trailing_zeros().max(1) as usize;
                let distance = 1 << ((step - 1) % stages);
                add(point.checked_sub(distance));
                add(Some(point));
                add(Some(point + distance));
            }
            Self::Spread => (0..MOST_INPUTS).for_each(|k| {
                let shift = if k > 0 { phase } else { 0 };
                add(Some((point + k * width / MOST_INPUTS + shift) % width));
            }),
            Self::RandomNearest => neighbours(point, REACH)
                .filter(|&near| near == Some(point) || near.is_some_and(|near| connected(phase, near, point)))
                .for_each(add),
        }
        inputs
    }
}

/// Returns the points `point - reach ..= point + reach`, with `None` for those below zero.
fn neighbours(point: usize, reach: usize) -> impl Iterator<Item = Option<usize>> {
    (0..=2 * reach).map(move |offset| (point + offset).checked_sub(reach))
}

/// Returns whether random_nearest has an edge from `from` to `to` in this phase, which is true for one in four
/// candidates.
fn connected(phase: usize, from: usize, to: usize) -> bool {
    let mut hash = (phase as u64) << 40 | (from as u64) << 20 | to as u64;
    hash = hash.wrapping_add(0x9e37_79b9_7f4a_7c15);
    hash = (hash ^ hash >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    hash = (hash ^ hash >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    (hash ^ hash >> 31) >> 62 == 0
}

/// A grid of tasks. The inputs of all tasks are computed once, before the timed part.
///
/// The cells form `fields` rows of `width` cells each, which the steps use in rotation. With as many fields as steps,
/// each task has its own data object, and the only dependences are those of the pattern.
#[derive(Debug)]
pub(crate) struct Grid {
    pub(crate) width: usize,
    pub(crate) steps: usize,
    pub(crate) fields: usize,
    inputs: Vec<Inputs>,
}

impl Grid {
    pub(crate) fn new(pattern: Pattern, width: usize, steps: usize, fields: usize) -> Self {
        let inputs =
            (0..steps).flat_map(|step| (0..width).map(move |point| pattern.inputs(width, step, point))).collect();
        Self { width, steps, fields, inputs }
    }

    /// Returns the points that task (`step`, `point`) reads.
    pub(crate) fn inputs(&self, step: usize, point: usize) -> &[usize] {
        &self.inputs[step * self.width + point]
    }

    /// Returns the index of the cell that task (`step`, `point`) writes.
    pub(crate) fn cell(&self, step: usize, point: usize) -> usize {
        step % self.fields * self.width + point
    }

    /// Returns the number of cells.
    pub(crate) fn cells(&self) -> usize {
        self.fields * self.width
    }

    /// Returns the steps whose cells are not overwritten by a later step.
    pub(crate) fn last_steps(&self) -> std::ops::Range<usize> {
        self.steps.saturating_sub(self.fields)..self.steps
    }

    pub(crate) fn tasks(&self) -> usize {
        self.width * self.steps
    }

    /// Returns the lines that a contender in C prints for `list PATTERN WIDTH STEPS`, one for each task.
    pub(crate) fn listing(&self) -> String {
        let mut text = String::new();
        for step in 0..self.steps {
            for point in 0..self.width {
                let _ = write!(text, "{step} {point}:");
                for input in self.inputs(step, point) {
                    let _ = write!(text, " {input}");
                }
                text.push('\n');
            }
        }
        text
    }
}
