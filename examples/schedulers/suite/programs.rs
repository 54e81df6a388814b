//! The programs of the suite: their tasks and, except for the NAS benchmarks, their definitions.

use npb::mz::{Benchmark, Class, Exchange, Fuse, Program, Settings};
use thalweg::prelude::*;

use crate::common::Result;

/// Rows and columns of a tile, and of a block of the stencil.
const TILE: usize = 960;
pub(super) const BLOCK: usize = 4096;

/// A program to schedule.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// A benchmark of several zones.
    Zones(Benchmark, Class),
    /// A Cholesky factorization with this many tiles per side.
    Cholesky(usize),
    /// An LU factorization without pivoting.
    Lu(usize),
    /// A stencil on this many blocks per side, in time steps.
    Stencil(usize),
    /// A graph drawn from this seed.
    Drawn(u64),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Zones(benchmark, class) => {
                write!(f, "{}-MZ, class {class:?}", format!("{benchmark:?}").to_uppercase())
            }
            Self::Cholesky(tiles) => write!(f, "Cholesky, {tiles} x {tiles} tiles"),
            Self::Lu(tiles) => write!(f, "LU factors, {tiles} x {tiles} tiles"),
            Self::Stencil(blocks) => write!(f, "stencil, {blocks} x {blocks} blocks"),
            Self::Drawn(number) => write!(f, "drawn graph {number}"),
        }
    }
}

/// A program with its data.
pub(crate) enum Prepared<'rt> {
    Zones(Box<Program<'rt>>),
    Tiles { tiles: Vec<Vec<Data<f64, Ix2>>>, lu: bool },
    Stencil { blocks: Vec<Vec<Data<f64, Ix2>>>, space: thalweg::task::IterationSpace },
    Drawn { data: Vec<Data<u8>>, graph: Vec<(&'static str, f64, Vec<usize>)> },
}

impl Kind {
    /// Returns whether it runs in time steps: then one step is measured, once the schedulers have settled.
    pub(crate) fn has_steps(self) -> bool {
        matches!(self, Self::Zones(..) | Self::Stencil(_))
    }

    /// Registers the program's data.
    pub(crate) fn prepare(self, rt: &Runtime) -> Result<Prepared<'_>> {
        Ok(match self {
            Self::Zones(benchmark, class) => {
                let settings = Settings { steps: 0, fuse: Fuse::Step, periods: false, replay: false };
                let program = Program::new(rt, benchmark, &benchmark.problem(class), settings);
                program.prepare()?;
                Prepared::Zones(Box::new(program))
            }
            Self::Cholesky(tiles) => Prepared::Tiles { tiles: squares(rt, tiles, TILE), lu: false },
            Self::Lu(tiles) => Prepared::Tiles { tiles: squares(rt, tiles, TILE), lu: true },
            Self::Stencil(side) => {
                let beside = |i: usize, j: usize| {
                    let [(up, down), (left, right)] = [i, j].map(|at| ((at + side - 1) % side, (at + 1) % side));
                    vec![up * side + j, down * side + j, i * side + left, i * side + right]
                };
                let neighbours = (0..side * side).map(|at| beside(at / side, at % side)).collect();
                let space = IterationSpace::new("blocks", vec![1.0; side * side]).with_neighbours(neighbours);
                Prepared::Stencil { blocks: squares(rt, side, BLOCK), space }
            }
            Self::Drawn(number) => {
                let graph = drawn(number);
                let data = graph.iter().map(|_| rt.zeros(8_000_000)).collect();
                Prepared::Drawn { data, graph }
            }
        })
    }
}

fn squares(rt: &Runtime, side: usize, size: usize) -> Vec<Vec<Data<f64, Ix2>>> {
    (0..side).map(|_| (0..side).map(|_| rt.zeros([size, size])).collect()).collect()
}

impl Prepared<'_> {
    /// Submits one time step, or all of the graph.
    pub(crate) fn submit(&self, rt: &Runtime) -> Result<()> {
        match self {
            Self::Zones(program) => drop(program.step(Exchange::Together)?),
            Self::Tiles { tiles, lu: false } => cholesky(rt, tiles)?,
            Self::Tiles { tiles, lu: true } => lu(rt, tiles)?,
            Self::Stencil { blocks, space } => stencil(rt, blocks, space)?,
            Self::Drawn { data, graph } => {
                for (task, (name, cost, after)) in graph.iter().enumerate() {
                    let reads: Vec<_> = after.iter().map(|before| data[*before].input()).collect();
                    let accesses = (reads, data[task].output());
                    rt.task(*name, accesses).cost(*cost).cpu(|_, _| ()).submit()?;
                }
            }
        }
        Ok(())
    }
}

fn cholesky(rt: &Runtime, a: &[Vec<Data<f64, Ix2>>]) -> Result<()> {
    let tiles = a.len();
    for k in 0..tiles {
        rt.task("potrf", (a[k][k].inout(),)).cpu(|_, _| ()).submit()?;
        for row in &a[k + 1..] {
            rt.task("trsm", (a[k][k].input(), row[k].inout())).cpu(|_, _| ()).submit()?;
        }
        for i in k + 1..tiles {
            for j in k + 1..i {
                let accesses = (a[i][k].input(), a[j][k].input(), a[i][j].inout());
                rt.task("gemm", accesses).cpu(|_, _| ()).submit()?;
            }
            rt.task("syrk", (a[i][k].input(), a[i][i].inout())).cpu(|_, _| ()).submit()?;
        }
    }
    Ok(())
}

fn lu(rt: &Runtime, a: &[Vec<Data<f64, Ix2>>]) -> Result<()> {
    let tiles = a.len();
    for k in 0..tiles {
        rt.task("getrf", (a[k][k].inout(),)).cpu(|_, _| ()).submit()?;
        for i in k + 1..tiles {
            rt.task("trsm column", (a[k][k].input(), a[i][k].inout())).cpu(|_, _| ()).submit()?;
            rt.task("trsm row", (a[k][k].input(), a[k][i].inout())).cpu(|_, _| ()).submit()?;
        }
        for i in k + 1..tiles {
            for j in k + 1..tiles {
                let accesses = (a[i][k].input(), a[k][j].input(), a[i][j].inout());
                rt.task("gemm", accesses).cpu(|_, _| ()).submit()?;
            }
        }
    }
    Ok(())
}

/// Submits first the copies of the neighbours' borders, near the block, then the block itself.
fn stencil(rt: &Runtime, blocks: &[Vec<Data<f64, Ix2>>], space: &thalweg::task::IterationSpace) -> Result<()> {
    let side = blocks.len();
    let (last, inner) = (BLOCK - 1, 1..BLOCK - 1);
    space.begin();
    for at in 0..side * side {
        let (i, j) = (at / side, at % side);
        let of = |i: usize, j: usize| &blocks[i % side][j % side];
        let (up, down, left, right) = (of(i + side - 1, j), of(i + 1, j), of(i, j + side - 1), of(i, j + 1));
        let own = of(i, j);
        let accesses = (
            up.block((last - 1..last, inner.clone())).input(),
            down.block((1..2, inner.clone())).input(),
            left.block((inner.clone(), last - 1..last)).input(),
            right.block((inner.clone(), 1..2)).input(),
            own.block((0..1, inner.clone())).output(),
            own.block((last..BLOCK, inner.clone())).output(),
            own.block((inner.clone(), 0..1)).output(),
            own.block((inner.clone(), last..BLOCK)).output(),
        );
        rt.task("borders", accesses).cpu(|_, _| ()).near(space, at).submit()?;
    }
    for at in 0..side * side {
        rt.task("stencil", (blocks[at / side][at % side].inout(),)).cpu(|_, _| ()).at(space, at).submit()?;
    }
    Ok(())
}

/// Returns layers of tasks; a task reads the output of up to four tasks of the two previous layers.
pub(super) fn drawn(number: u64) -> Vec<(&'static str, f64, Vec<usize>)> {
    let mut state = number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    // SplitMix64 (Steele, Lea & Flood 2014).
    let mut below = |end: usize| {
        state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        ((mixed ^ mixed >> 31) % end as u64) as usize
    };
    let mut graph: Vec<(&'static str, f64, Vec<usize>)> = Vec::new();
    let (mut before, mut first) = (0, 0);
    for _ in 0..24 {
        let (width, here) = (4 + below(44), graph.len());
        for _ in 0..width {
            let name = ["even", "fast", "fast", "fastest"][below(4)];
            let cost = 0.25 + below(1000) as f64 / 400.0;
            let reads = if here == 0 { 0 } else { 1 + below(4) };
            let mut after: Vec<usize> = (0..reads).map(|_| before + below(here - before)).collect();
            after.sort_unstable();
            after.dedup();
            graph.push((name, cost, after));
        }
        (before, first) = (first, here); // two layers
    }
    graph
}
