//! The factorization as a recursion on halves of the matrix: factor the upper left, solve for the lower left,
//! subtract its square from the lower right, and factor that.
//!
//! Each of these steps is a task that holds its blocks *weakly*, which means that it waits for no other task and only
//! declares where its children will work. The children halve their blocks in turn until single tiles are left. No level
//! waits for another: a tile's task waits only for the tasks of the tiles that it uses, however far away they are in
//! the recursion.

use std::ops::Range;

use thalweg::prelude::*;

use crate::kernels::{gemm, potrf, trsm};

/// Submits the factorization.
pub(crate) fn factor(rt: &Runtime, a: &Data<f64, Ix2>, tile: usize) -> Result<(), SubmitError> {
    let tiles = 0..a.tiles([tile, tile]).shape()[0];
    let blocked = Blocked { a: a.clone(), tile };
    rt.task("factor", a.weak_inout()).host(move |at, ()| blocked.factor(at, tiles)).submit().map(drop)
}

/// The matrix, whose blocks are given as ranges of tiles.
#[derive(Clone)]
struct Blocked {
    a: Data<f64, Ix2>,
    tile: usize,
}

impl Blocked {
    fn block(&self, rows: &Range<usize>, columns: &Range<usize>) -> Region<'_, f64, Ix2> {
        let n = self.a.shape()[0];
        let elements = |tiles: &Range<usize>| tiles.start * self.tile..n.min(tiles.end * self.tile);
        self.a.block((elements(rows), elements(columns)))
    }

    /// Factors a diagonal block.
    fn factor(&self, at: &Context, part: Range<usize>) -> Result<(), SubmitError> {
        if part.len() == 1 {
            return at.task("potrf", self.block(&part, &part).inout()).cpu(|_, a| potrf(a)).submit().map(drop);
        }
        let [first, second] = halves(&part);
        for half in [first.clone(), second.clone()] {
            if half == second {
                self.solve_task(at, first.clone(), second.clone())?;
                self.subtract_task(at, second.clone(), second.clone(), first.clone())?;
            }
            let (inner, own) = (self.clone(), half.clone());
            let task = at.task("factor", self.block(&half, &half).weak_inout());
            task.host(move |at, ()| inner.factor(at, own)).submit()?;
        }
        Ok(())
    }

    /// Solves for a block below a factored diagonal block.
    fn solve(&self, at: &Context, factor: Range<usize>, rows: Range<usize>) -> Result<(), SubmitError> {
        if factor.len() == 1 && rows.len() == 1 {
            let accesses = (self.block(&factor, &factor).input(), self.block(&rows, &factor).inout());
            return at.task("trsm", accesses).cpu(|_, (l, b)| trsm(l, b)).submit().map(drop);
        }
        if rows.len() >= factor.len() {
            return halves(&rows).into_iter().try_for_each(|rows| self.solve_task(at, factor.clone(), rows));
        }
        let [first, second] = halves(&factor);
        self.solve_task(at, first.clone(), rows.clone())?;
        self.subtract_task(at, rows.clone(), second.clone(), first)?;
        self.solve_task(at, second, rows)
    }

    fn solve_task(&self, at: &Context, factor: Range<usize>, rows: Range<usize>) -> Result<(), SubmitError> {
        let inner = self.clone();
        let accesses = (self.block(&factor, &factor).weak_input(), self.block(&rows, &factor).weak_inout());
        at.task("solve", accesses).host(move |at, _| inner.solve(at, factor, rows)).submit().map(drop)
    }

    /// Subtracts the product of two blocks further left from a block on or below the diagonal.
    fn subtract(
        &self,
        at: &Context,
        rows: Range<usize>,
        columns: Range<usize>,
        left: Range<usize>,
    ) -> Result<(), SubmitError> {
        if rows.len() > 1 || columns.len() > 1 {
            let parts = |of: &Range<usize>| halves(of).into_iter().filter(|half| !half.is_empty());
            for i in parts(&rows) {
                for j in parts(&columns).filter(|j| j.start <= i.start) {
                    self.subtract_task(at, i.clone(), j, left.clone())?;
                }
            }
            return Ok(());
        }
        for k in left.map(|k| k..k + 1) {
            let own = self.block(&rows, &columns).inout();
            if rows == columns {
                let task = at.task("syrk", (self.block(&rows, &k).input(), own));
                task.cpu(|_, (a, mut c)| gemm(a, a, &mut c)).submit()?;
            } else {
                let task = at.task("gemm", (self.block(&rows, &k).input(), self.block(&columns, &k).input(), own));
                task.cpu(|_, (a, b, mut c)| gemm(a, b, &mut c)).submit()?;
            }
        }
        Ok(())
    }

    fn subtract_task(
        &self,
        at: &Context,
        rows: Range<usize>,
        columns: Range<usize>,
        left: Range<usize>,
    ) -> Result<(), SubmitError> {
        let inner = self.clone();
        let mut reads = vec![self.block(&rows, &left).weak_input()];
        if rows != columns {
            reads.push(self.block(&columns, &left).weak_input());
        }
        let task = at.task("subtract", (reads, self.block(&rows, &columns).weak_inout()));
        task.host(move |at, _| inner.subtract(at, rows, columns, left)).submit().map(drop)
    }
}

/// Splits a range into two parts; the second is empty if there is only one tile.
fn halves(part: &Range<usize>) -> [Range<usize>; 2] {
    let middle = part.start + part.len().div_ceil(2);
    [part.start..middle, middle..part.end]
}
