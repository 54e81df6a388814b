//! The reference: the tasks one after the other in a plain loop, on one core.

use std::error::Error;

use super::Runner;
use crate::kernel::{Cell, body};
use crate::patterns::Grid;

/// The grid and its cells.
#[derive(Debug)]
pub(super) struct Serial<'g> {
    grid: &'g Grid,
    cells: Vec<Cell>,
}

impl<'g> Serial<'g> {
    pub(super) fn new(grid: &'g Grid) -> Self {
        let cells = vec![Cell::default(); grid.cells()];
        Self { grid, cells }
    }
}

impl Runner for Serial<'_> {
    fn pass(&mut self, iterations: u64, first_step: u64) -> Result<(), Box<dyn Error>> {
        let Self { grid, cells } = self;
        for step in 0..grid.steps {
            for point in 0..grid.width {
                let mut own = Cell::default();
                let inputs = grid.inputs(step, point).iter();
                let inputs = inputs.map(|&input| (input, &cells[grid.cell(step - 1, input)]));
                body((first_step + step as u64, point), inputs, &mut own, iterations)?;
                cells[grid.cell(step, point)] = own;
            }
        }
        Ok(())
    }

    fn cell(&self, number: usize) -> Result<Cell, Box<dyn Error>> {
        Ok(self.cells[number])
    }
}
