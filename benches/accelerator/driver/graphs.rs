//! Cost of a graph for each of its kernels: creating, instantiating, launching and changing it.

use super::{Figure, figure};
use crate::cuda::{Cuda, Work, time};
use crate::{Result, Setting};

/// Launches of a graph that are timed together.
const LAUNCHES: usize = 10;

pub(super) fn measure(cuda: &Cuda, setting: &Setting) -> Result<Vec<Figure>> {
    let sizes: &[usize] = if setting.bench { &[100, 1000, 4000] } else { &[100] };
    let mut figures = Vec::new();
    for &nodes in sizes {
        for chains in [1, 16] {
            figures.extend(of(cuda, nodes, chains)?);
        }
    }
    // If no kernel waits for another chain's, the chains take as long as one of them.
    let (chains, depth) = (64, 24);
    let work = Work::Busy(cuda.rounds(if setting.bench { 100.0 } else { 10.0 })?);
    let mut alone = 1.0;
    for chains in [1, chains] {
        let graph = cuda.graph(work, chains * depth, chains)?;
        let launch = || time(|| cuda.launch_graph(&graph, 0).and_then(|()| cuda.synchronize(0)));
        launch()?;
        let ((), took) = launch()?;
        if chains == 1 {
            alone = took;
        } else {
            let name = format!("a graph of {chains} chains of {depth} busy kernels");
            figures.push(figure(name, took / alone, "x", "1 is one chain alone"));
        }
    }
    Ok(figures)
}

fn of(cuda: &Cuda, nodes: usize, chains: usize) -> Result<[Figure; 5]> {
    let graph = cuda.graph(Work::Touch, nodes, chains)?;
    let ((), first) = time(|| cuda.launch_graph(&graph, 0))?;
    cuda.synchronize(0)?;
    let (calls, all) = time(|| {
        let ((), calls) = time(|| (0..LAUNCHES).try_for_each(|_| cuda.launch_graph(&graph, 0)))?;
        cuda.synchronize(0).map(|()| calls)
    })?;
    let ((), setting) = time(|| cuda.set(&graph, Work::Touch))?;
    let (each, launches) = (nodes as f64, LAUNCHES as f64);
    let of = |what: &str| format!("{nodes} kernels, {chains} chains: {what}");
    let note = format!("the call {:.1} us, the first {first:.1} us", calls / launches);
    Ok([
        figure(of("a launch, to its end"), all / launches / each, "us a kernel", note),
        figure(of("creating"), graph.adding / each, "us a kernel", ""),
        figure(of("instantiating"), graph.instantiating / each, "us a kernel", ""),
        figure(of("changing parameters"), setting / each, "us a kernel", ""),
        figure(of("the call that launches"), calls / launches, "us", ""),
    ])
}
