//! Operations, minimum traffic and measurement of Jacobi's sweep, for single sweeps and for sixteen sweeps at once.

use std::error::Error;
use std::mem;

use ndarray::{ArrayView2, ArrayViewMut2, Axis, s};
use rayon::prelude::*;
use thalweg::prelude::*;

use super::{Effort, Measured, Shares, Work, runtime, timed, timed_tasks};
use crate::class::Class;
use crate::crew::Crew;
use crate::machine::caches;
use crate::machine::memory::Numbers;

#[path = "../../../examples/jacobi/reach.rs"]
mod reach;
#[allow(dead_code, reason = "only the program measures the change of a sweep")]
#[path = "../../../examples/jacobi/sweep.rs"]
mod sweep;

use reach::Reach;
use sweep::{before, relax, relax_often};

/// Number of row bands per unit: one to work on, and others that wait for different neighbours.
const BANDS: usize = 4;

/// Work of a sweep per point: three additions and a product, one number read and one written. The rows of the
/// neighbours are in a cache when they are read. If several sweeps are done at once, the work is counted for each of
/// them although the numbers are read and written only once. Such passes can therefore exceed the memory bound, which
/// is their purpose.
const SWEEP: Work = Work::new(4.0, 16.0);

/// Number of sweeps at once. Three rows of a thousand columns for each sweep fit into a half-megabyte cache.
const AT_ONCE: usize = 16;
const COLUMNS: usize = 1024;

/// Measures sweeps.
pub(crate) fn measure(crew: &Crew, class: Class, effort: Effort) -> Result<Vec<Measured>, Box<dyn Error>> {
    [("sweep", 1), ("16 sweeps", AT_ONCE)]
        .map(|(stage, sweeps)| measure_pass(crew, class, effort, stage, sweeps))
        .into_iter()
        .collect()
}

/// Measures passes that do `sweeps` sweeps at once.
fn measure_pass(
    crew: &Crew,
    class: Class,
    effort: Effort,
    stage: &'static str,
    sweeps: usize,
) -> Result<Measured, Box<dyn Error>> {
    let side = class.jacobi();
    let rows = side.div_ceil(BANDS * crew.units());
    let pass = Pass { side, rows, columns: if sweeps == 1 { side } else { side.min(COLUMNS) }, sweeps };
    let mut plain = crew.run(|| Plain::new(pass));
    let passes = crew.run(|| {
        let first = timed(|| plain.pass());
        (0..effort.times(effort.passes, first)).map(|_| timed(|| plain.pass())).collect()
    });
    let shares = shares(crew, pass, &mut plain, effort)?;
    Ok(Measured {
        program: "Jacobi",
        class: class.letter(),
        units: crew.units(),
        stage,
        work: SWEEP * (side * side * sweeps) as f64,
        resident: pass.resident() as f64,
        gathered: 0.0,
        passes,
        shares: Some(shares),
    })
}

/// Reason why the array can be viewed as a square.
const SQUARE: &str = "there are as many numbers as the square has points";

/// A pass over a square of `side` × `side` points in blocks of `rows` × `columns` points.
#[derive(Clone, Copy)]
struct Pass {
    side: usize,
    rows: usize,
    columns: usize,
    sweeps: usize,
}

impl Pass {
    /// Returns the blocks of an array.
    fn blocks(self, u: &Data<f64, Ix2>) -> Partition<'_, f64, Ix2> {
        u.block((1..=self.side, 1..=self.side)).tiles([self.rows, self.columns])
    }

    /// Returns how many halo cells a block has above it and to its left.
    fn before(self, [row, column]: [usize; 2]) -> [usize; 2] {
        [before(row, self.rows, self.sweeps), before(column, self.columns, self.sweeps)]
    }

    /// Returns the total size of both arrays in bytes.
    fn resident(self) -> usize {
        2 * (self.side + 2).pow(2) * size_of::<f64>()
    }

    /// Does all sweeps of the pass over the block `new`; `old` is this block together with its halo.
    fn relax(self, block: [usize; 2], old: &ArrayView2<'_, f64>, new: &mut ArrayViewMut2<'_, f64>) {
        match self.sweeps {
            1 => relax(old, new, Reach::of(self.resident())),
            sweeps => relax_often(old, self.before(block), new, sweeps),
        }
    }
}

/// The same functions in a plain loop, with one thread for the blocks of each unit. The arrays are placed in memory
/// like those of the runtime.
struct Plain {
    old: Numbers<f64>,
    new: Numbers<f64>,
    pass: Pass,
}

impl Plain {
    /// Creates both arrays, with 0 inside and 1 on the boundary.
    fn new(pass: Pass) -> Self {
        let start = |number| {
            let mut all = Numbers::apart(number, (pass.side + 2).pow(2), 1.0);
            array_mut(&mut all, pass.side).slice_mut(s![1..=pass.side, 1..=pass.side]).fill(0.0);
            all
        };
        Self { old: start(0), new: start(1), pass }
    }

    fn pass(&mut self) {
        mem::swap(&mut self.old, &mut self.new);
        let Pass { side, rows, columns, sweeps } = self.pass;
        let old = ArrayView2::from_shape([side + 2; 2], self.old.slice()).expect(SQUARE);
        let mut new = array_mut(&mut self.new, side);
        let mut inside = new.slice_mut(s![1..=side, 1..=side]);
        let bands: Vec<_> = inside.axis_chunks_iter_mut(Axis(0), rows).enumerate().collect();
        bands.into_par_iter().with_min_len(BANDS).for_each(|(row, mut band)| {
            for (column, mut new) in band.axis_chunks_iter_mut(Axis(1), columns).enumerate() {
                let first = [1 + row * rows, 1 + column * columns];
                let halo = [0, 1].map(|axis| {
                    let end = first[axis] + new.len_of(Axis(axis));
                    first[axis].saturating_sub(sweeps)..(end + sweeps).min(side + 2)
                });
                self.pass.relax([row, column], &old.slice(s![halo[0].clone(), halo[1].clone()]), &mut new);
            }
        });
    }
}

/// Returns a view of an array including its boundary.
fn array_mut(numbers: &mut Numbers<f64>, side: usize) -> ArrayViewMut2<'_, f64> {
    ArrayViewMut2::from_shape([side + 2; 2], numbers.slice_mut()).expect(SQUARE)
}

/// Measures the time per pass in a plain loop and as tasks, interleaved.
fn shares(crew: &Crew, pass: Pass, plain: &mut Plain, effort: Effort) -> Result<Shares, Box<dyn Error>> {
    let units = crew.units();
    let rt = runtime(crew)?;
    let inside = 1..=pass.side;
    let start = || {
        let inside = inside.clone();
        rt.data_with([pass.side + 2; 2], move |(i, j)| f64::from(!(inside.contains(&i) && inside.contains(&j))))
    };
    let (mut old, mut new) = (start()?, start()?);
    let along = pass.side.div_ceil(pass.columns);
    let mut submit = || -> Result<(), SubmitError> {
        mem::swap(&mut old, &mut new);
        rt.for_each("relax", (0.., pass.blocks(&old).grow(pass.sweeps).input(), pass.blocks(&new).output()))
            .cpu(move |_, (number, old, mut new)| pass.relax([number / along, number % along], &old, &mut new))
            .submit()?;
        Ok(())
    };
    submit()?;
    rt.wait()?;
    let (turns, passes) = effort.turns(timed(|| crew.run(|| plain.pass())));
    let mut repetitions = Vec::new();
    for _ in 0..turns {
        let in_loop = timed(|| crew.run(|| (0..passes).for_each(|_| plain.pass())));
        let as_tasks = timed_tasks(&rt, passes, |_| Ok(submit()?))?;
        let per_pass = units as f64 / passes as f64;
        repetitions.push((in_loop * per_pass, as_tasks * per_pass));
    }
    Ok(Shares::of(&repetitions))
}
