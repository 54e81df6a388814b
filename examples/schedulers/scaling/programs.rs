//! The programs, with the owner of each task's results.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use clap::ValueEnum;
use npb::mz::{Benchmark, Class, Exchange, Fuse, Program, Settings};
use thalweg::prelude::*;
use thalweg::sched::{Assignment, Distributed, Distribution, Team, Times, Workload};
use thalweg_mpi::owners::{LargestFirst, TileAt, block_cyclic, square};

use crate::Result;

/// Time steps that are measured, after one that brings each zone to its owner.
const STEPS: u32 = 3;
/// Rows of a tile of the matrix.
const TILE: usize = 1024;

/// A program and its size.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Kind {
    Zones(Benchmark, Class),
    /// A factorization of this many tiles squared.
    Cholesky(usize),
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Zones(benchmark, class) => write!(f, "{}-{class:?}", format!("{benchmark:?}").to_lowercase()),
            Self::Cholesky(tiles) => write!(f, "cholesky-{tiles}"),
        }
    }
}

impl FromStr for Kind {
    type Err = String;

    fn from_str(text: &str) -> std::result::Result<Self, String> {
        let (program, size) = text.split_once('-').ok_or("write a program and its size, such as bt-E")?;
        match program {
            "cholesky" => size.parse().map(Self::Cholesky).map_err(|_| format!("`{size}` is not a number of tiles")),
            _ => Ok(Self::Zones(Benchmark::from_str(program, true)?, Class::from_str(size, true)?)),
        }
    }
}

/// A distribution that is known before the run.
#[derive(Clone)]
struct Owners(Vec<usize>);

impl Distribution for Owners {
    fn name(&self) -> &'static str {
        "owners"
    }

    fn assign(&mut self, _: &Workload<'_>, _: Option<&Times>) -> Assignment {
        Assignment::new(self.0.clone())
    }

    fn is_steady(&self) -> bool {
        true
    }
}

fn runtime(machine: &SimulatedMachine, nodes: usize, owners: Vec<usize>) -> Result<Runtime> {
    let builder = Runtime::builder().simulate(machine.clone()).compute_units(format!("{nodes}:EMU:1"));
    Ok(builder.policy(Distributed::new(Owners(owners))).build()?)
}

impl Kind {
    /// Returns the number of nodes that can have work.
    pub(crate) fn most_nodes(self) -> usize {
        match self {
            Self::Zones(benchmark, class) => benchmark.problem(class).zones.iter().product(),
            Self::Cholesky(tiles) => tiles * (tiles + 1) / 2,
        }
    }

    /// Returns the time of a step, or of a factorization.
    pub(crate) fn simulate(self, machine: &SimulatedMachine, nodes: usize) -> Result<Duration> {
        match self {
            Self::Zones(benchmark, class) => zones(machine, nodes, benchmark, class),
            Self::Cholesky(tiles) => cholesky(machine, nodes, tiles),
        }
    }
}

fn zones(machine: &SimulatedMachine, nodes: usize, benchmark: Benchmark, class: Class) -> Result<Duration> {
    let problem = benchmark.problem(class);
    let (weights, _) = problem.zones_to_share(benchmark);
    let team = Team { cpus: 0, devices: nodes };
    let owners = LargestFirst.assign(&Workload { team, weights: &weights, neighbours: None }, None);
    let rt = runtime(machine, nodes, owners.slots().to_vec())?;
    let settings = Settings { steps: 0, fuse: Fuse::Whole, periods: false, replay: false };
    let program = Program::new(&rt, benchmark, &problem, settings);
    program.prepare()?;
    program.step(Exchange::Together)?;
    rt.wait()?;
    let start = rt.now();
    for _ in 0..STEPS {
        program.step(Exchange::Together)?;
    }
    rt.wait()?;
    Ok((rt.now() - start) / STEPS)
}

fn cholesky(machine: &SimulatedMachine, nodes: usize, tiles: usize) -> Result<Duration> {
    let lower = || (0..tiles).flat_map(|i| (0..=i).map(move |j| [i, j]));
    let (rows, columns) = square(nodes);
    let owner = block_cyclic(rows, columns);
    let owners = lower().map(|tile| owner(TileAt { tile: &tile, grid: &[tiles, tiles], ranks: nodes })).collect();
    let rt = runtime(machine, nodes, owners)?;
    let space = IterationSpace::new("tiles", vec![1.0; tiles * (tiles + 1) / 2]);
    let a: Vec<Vec<Data<f64, Ix2>>> = (0..tiles).map(|i| (0..=i).map(|_| rt.zeros([TILE, TILE])).collect()).collect();
    let index = |i: usize, j: usize| i * (i + 1) / 2 + j;
    space.begin();
    for [i, j] in lower() {
        rt.task("fill", (a[i][j].output(),)).cpu(|_, _| ()).at(&space, index(i, j)).submit()?;
    }
    rt.wait()?;
    let start = rt.now();
    space.begin();
    for k in 0..tiles {
        rt.task("potrf", (a[k][k].inout(),)).cpu(|_, _| ()).at(&space, index(k, k)).submit()?;
        for i in k + 1..tiles {
            let accesses = (a[k][k].input(), a[i][k].inout());
            rt.task("trsm", accesses).cpu(|_, _| ()).at(&space, index(i, k)).submit()?;
        }
        for i in k + 1..tiles {
            for j in k + 1..i {
                let accesses = (a[i][k].input(), a[j][k].input(), a[i][j].inout());
                rt.task("gemm", accesses).cpu(|_, _| ()).at(&space, index(i, j)).submit()?;
            }
            let accesses = (a[i][k].input(), a[i][i].inout());
            rt.task("syrk", accesses).cpu(|_, _| ()).at(&space, index(i, i)).submit()?;
        }
    }
    rt.wait()?;
    Ok(rt.now() - start)
}
