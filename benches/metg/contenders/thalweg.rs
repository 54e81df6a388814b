//! Thalweg as a contender: one task per cell of the grid, submitted through the public API.
//!
//! Each cell is a data object. The submitting thread hosts one of the units while it waits.

use std::error::Error;

use thalweg::prelude::*;

use super::Runner;
use crate::kernel::{Cell, body};
use crate::patterns::Grid;

/// Position of a task: its step in the grid, its step counted over all passes, and its point.
#[derive(Clone, Copy)]
struct Place {
    step: usize,
    counted: u64,
    point: usize,
}

/// Submits the task at `$place`, with its inputs numbered `$k` as views `$view`.
macro_rules! submit {
    ($tasks:expr, $place:expr, $iterations:expr; $($view:ident = $k:literal),*) => {{
        let (grid, place, iterations): (&'static Grid, Place, u64) = ($tasks.grid, $place, $iterations);
        let accesses = (
            $($tasks.cells[grid.cell(place.step - 1, grid.inputs(place.step, place.point)[$k])].input(),)*
            $tasks.cells[grid.cell(place.step, place.point)].output(),
        );
        $tasks
            .rt
            .task("cell", accesses)
            .cpu(move |_, ($($view,)* own,)| {
                let cells: &[&Cell] = &[$(&$view[0]),*];
                let inputs = grid.inputs(place.step, place.point).iter().copied();
                let inputs = inputs.zip(cells.iter().copied());
                body((place.counted, place.point), inputs, &mut own[0], iterations)
            })
            .submit()?;
    }};
}

/// The runtime, and a data object for each cell.
pub(super) struct Tasks {
    grid: &'static Grid,
    rt: Runtime,
    cells: Vec<Data<Cell>>,
}

impl Tasks {
    /// Starts `workers` CPU units of one core.
    pub(super) fn new(grid: &'static Grid, workers: usize) -> Result<Self, Box<dyn Error>> {
        let rt = Runtime::builder().compute_units(format!("{workers}:CPU:1")).use_current_thread(true).build()?;
        let cells = (0..grid.cells()).map(|_| rt.scalar(Cell::default())).collect();
        Ok(Self { grid, rt, cells })
    }
}

impl Runner for Tasks {
    fn pass(&mut self, iterations: u64, first_step: u64) -> Result<(), Box<dyn Error>> {
        for step in 0..self.grid.steps {
            for point in 0..self.grid.width {
                self.submit(Place { step, counted: first_step + step as u64, point }, iterations)?;
            }
        }
        Ok(self.rt.wait()?)
    }

    fn cell(&self, number: usize) -> Result<Cell, Box<dyn Error>> {
        Ok(self.rt.read(&self.cells[number])?[0])
    }
}

impl Tasks {
    /// Submits one task. The length of an access tuple is part of its type, so each number of inputs needs a separate
    /// case.
    fn submit(&self, place: Place, iterations: u64) -> Result<(), Box<dyn Error>> {
        match self.grid.inputs(place.step, place.point).len() {
            0 => submit!(self, place, iterations;),
            1 => submit!(self, place, iterations; a = 0),
            2 => submit!(self, place, iterations; a = 0, b = 1),
            3 => submit!(self, place, iterations; a = 0, b = 1, c = 2),
            4 => submit!(self, place, iterations; a = 0, b = 1, c = 2, d = 3),
            5 => submit!(self, place, iterations; a = 0, b = 1, c = 2, d = 3, e = 4),
            more => return Err(format!("{more} inputs: a pattern has at most five").into()),
        }
        Ok(())
    }
}
