//! Cholesky and LU factorizations in square tiles, as graphs.

use std::collections::BTreeMap;
use std::fmt;

use thalweg::Runtime;
use thalweg::prelude::*;

use crate::common::Result;

/// Rows and columns of a tile.
pub(crate) const TILE: usize = 960;

/// A factorization of a matrix with this many tiles per side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Cholesky, in single precision.
    Cholesky(usize),
    /// LU without pivoting, in double precision.
    Lu(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Cholesky(tiles) => write!(f, "Cholesky {tiles}"),
            Self::Lu(tiles) => write!(f, "LU {tiles}"),
        }
    }
}

/// A task: it reads some tiles and changes one.
#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) name: &'static str,
    reads: Vec<usize>,
    changes: usize,
    pub(crate) after: Vec<usize>,
}

/// A graph of tasks over tiles.
#[derive(Clone, Debug, Default)]
pub(crate) struct Graph {
    pub(crate) tasks: Vec<Node>,
    pub(crate) tile_bytes: usize,
    tiles: usize,
    /// The last task that changed a tile.
    last: BTreeMap<usize, usize>,
}

impl Kind {
    /// Returns whether a run takes long.
    pub(crate) fn is_large(self) -> bool {
        matches!(self, Self::Cholesky(24..) | Self::Lu(16..))
    }

    /// Builds the graph, with its tasks in the order of the sequential program.
    pub(crate) fn graph(self) -> Graph {
        let (Self::Cholesky(side) | Self::Lu(side)) = self;
        let element = if matches!(self, Self::Cholesky(_)) { size_of::<f32>() } else { size_of::<f64>() };
        let mut graph = Graph { tiles: side * side, tile_bytes: TILE * TILE * element, ..Graph::default() };
        let at = |i: usize, j: usize| i * side + j;
        for k in 0..side {
            if matches!(self, Self::Cholesky(_)) {
                graph.add("potrf", &[], at(k, k));
                (k + 1..side).for_each(|i| graph.add("trsm", &[at(k, k)], at(i, k)));
                for i in k + 1..side {
                    (k + 1..i).for_each(|j| graph.add("gemm", &[at(i, k), at(j, k)], at(i, j)));
                    graph.add("syrk", &[at(i, k)], at(i, i));
                }
            } else {
                graph.add("getrf", &[], at(k, k));
                for i in k + 1..side {
                    graph.add("trsm column", &[at(k, k)], at(i, k));
                    graph.add("trsm row", &[at(k, k)], at(k, i));
                }
                for i in k + 1..side {
                    (k + 1..side).for_each(|j| graph.add("lu gemm", &[at(i, k), at(k, j)], at(i, j)));
                }
            }
        }
        graph
    }
}

impl Graph {
    /// Adds a task. No task changes a tile that an earlier one has read only, so its predecessors are the last writers.
    fn add(&mut self, name: &'static str, reads: &[usize], changes: usize) {
        let mut after: Vec<usize> =
            reads.iter().chain([&changes]).filter_map(|tile| self.last.get(tile).copied()).collect();
        after.sort_unstable();
        after.dedup();
        self.last.insert(changes, self.tasks.len());
        self.tasks.push(Node { name, reads: reads.to_vec(), changes, after });
    }

    /// Registers fresh data.
    pub(crate) fn data(&self, rt: &Runtime) -> Vec<Data<u8>> {
        (0..self.tiles).map(|_| rt.zeros(self.tile_bytes)).collect()
    }

    /// Runs the graph and returns its nanoseconds.
    pub(crate) fn run(&self, rt: &Runtime, tiles: &[Data<u8>]) -> Result<f64> {
        let start = rt.now();
        for Node { name, reads, changes, .. } in &self.tasks {
            let reads: Vec<_> = reads.iter().map(|tile| tiles[*tile].input()).collect();
            rt.task(*name, (reads, tiles[*changes].inout())).cpu(|_, _| ()).submit()?;
        }
        rt.wait()?;
        Ok((rt.now() - start).as_nanos() as f64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn factorizations_have_the_known_numbers_of_tasks() {
        let count = |graph: &Graph, name: &str| graph.tasks.iter().filter(|task| task.name == name).count();
        let cholesky = Kind::Cholesky(5).graph();
        assert_eq!(["potrf", "trsm", "syrk", "gemm"].map(|name| count(&cholesky, name)), [5, 10, 10, 10]);
        let lu = Kind::Lu(4).graph();
        assert_eq!(["getrf", "trsm row", "trsm column", "lu gemm"].map(|name| count(&lu, name)), [4, 6, 6, 14]);
        assert_eq!((cholesky.tasks[0].after.len(), cholesky.tasks[1].after.clone()), (0, vec![0]));
        assert_eq!((cholesky.tile_bytes, lu.tile_bytes), (3_686_400, 7_372_800));
    }
}
