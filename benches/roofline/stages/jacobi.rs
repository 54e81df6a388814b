//! Jacobi's sweep: operations, least bytes, and how it is measured.

use std::error::Error;
use std::mem;

use ndarray::{Array2, Axis, s};
use rayon::prelude::*;
use thalweg::prelude::*;

use super::{Effort, Measured, Shares, Work, runtime, timed, timed_tasks};
use crate::class::Class;
use crate::crew::Crew;

#[allow(dead_code, reason = "sweeps that are measured for their change, and several at once, are the program's")]
#[path = "../../../examples/jacobi/sweep.rs"]
mod sweep;

use sweep::relax;

/// Bands of rows for each unit: one to work on, and others that wait for different neighbours.
const BANDS: usize = 4;

/// A sweep at a point: three additions and a product; one number is read, one is written. The neighbours' rows are read
/// while they are in a cache.
const SWEEP: Work = Work::new(4.0, 16.0);

/// Measures sweeps.
pub(crate) fn measure(crew: &Crew, class: Class, effort: Effort) -> Result<Vec<Measured>, Box<dyn Error>> {
    let side = class.jacobi();
    let band = side.div_ceil(BANDS * crew.units());
    let mut plain = crew.run(|| Plain::new(side, band));
    let passes = crew.run(|| {
        let first = timed(|| plain.sweep());
        (0..effort.times(effort.passes, first)).map(|_| timed(|| plain.sweep())).collect()
    });
    let shares = shares(crew, side, band, &mut plain, effort)?;
    Ok(vec![Measured {
        program: "Jacobi",
        class: class.letter(),
        units: crew.units(),
        stage: "sweep",
        work: SWEEP * (side * side) as f64,
        resident: 16.0 * ((side + 2) * (side + 2)) as f64,
        gathered: 0.0,
        passes,
        shares: Some(shares),
    }])
}

/// What a sweep starts from: 1 on the boundary, 0 inside.
fn start(side: usize) -> Array2<f64> {
    let inside = 1..=side;
    Array2::from_shape_fn([side + 2; 2], |(i, j)| f64::from(!(inside.contains(&i) && inside.contains(&j))))
}

/// The same function in a plain loop, a thread for each unit's bands.
struct Plain {
    old: Array2<f64>,
    new: Array2<f64>,
    band: usize,
}

impl Plain {
    fn new(side: usize, band: usize) -> Self {
        Self { old: start(side), new: start(side), band }
    }

    fn sweep(&mut self) {
        mem::swap(&mut self.old, &mut self.new);
        let side = self.new.nrows() - 2;
        let mut inside = self.new.slice_mut(s![1..=side, 1..=side]);
        let bands: Vec<_> = inside.axis_chunks_iter_mut(Axis(0), self.band).enumerate().collect();
        bands.into_par_iter().with_min_len(BANDS).for_each(|(number, mut new)| {
            let first = number * self.band;
            relax(&self.old.slice(s![first..first + new.nrows() + 2, ..]), &mut new);
        });
    }
}

/// The bands of rows that a sweep's tasks have.
fn bands(u: &Data<f64, Ix2>, band: usize) -> Partition<'_, f64, Ix2> {
    let inside = 1..u.shape()[0] - 1;
    let side = inside.len();
    u.block((inside.clone(), inside)).tiles([band, side])
}

/// Sweeps as a plain loop and as tasks, by turns.
fn shares(crew: &Crew, side: usize, band: usize, plain: &mut Plain, effort: Effort) -> Result<Shares, Box<dyn Error>> {
    let units = crew.units();
    let rt = runtime(crew)?;
    let (mut old, mut new) = (rt.array(start(side)), rt.array(start(side)));
    let mut sweep = || -> Result<(), SubmitError> {
        mem::swap(&mut old, &mut new);
        rt.for_each("relax", (bands(&old, band).grow(1).input(), bands(&new, band).output()))
            .cpu(|_, (old, mut new)| relax(&old, &mut new))
            .submit()?;
        Ok(())
    };
    sweep()?;
    rt.wait()?;
    let (turns, sweeps) = effort.turns(timed(|| crew.run(|| plain.sweep())));
    let mut repetitions = Vec::new();
    for _ in 0..turns {
        let in_loop = timed(|| crew.run(|| (0..sweeps).for_each(|_| plain.sweep())));
        let as_tasks = timed_tasks(&rt, sweeps, |_| Ok(sweep()?))?;
        let per_sweep = units as f64 / sweeps as f64;
        repetitions.push((in_loop * per_sweep, as_tasks * per_sweep));
    }
    Ok(Shares::of(&repetitions))
}
