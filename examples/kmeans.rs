//! K-means (Lloyd 1982): points are assigned to the nearest of several centres, which then move to the mean of
//! their points.
//!
//! The contribution of a block of points to a centre is a struct, which a custom reduction combines. The reduction
//! combines contributions in block order, so rounding is the same on any number of cores.

mod common;

use std::process::ExitCode;
use std::time::Instant;

use bytemuck::{Pod, Zeroable};
use clap::Parser;
use common::{Machine, Outcome, integer};
use ndarray::{Array2, ArrayView2, Axis};
use thalweg::memory::Reducer;
use thalweg::prelude::*;

/// Coordinates of a point.
const DIMENSIONS: usize = 4;

/// K-means of random points around some centres
#[derive(Parser)]
struct Options {
    /// Number of points
    #[arg(long, value_name = "N", default_value = "100000", value_parser = integer(1..=100_000_000))]
    size: usize,
    /// Number of centres
    #[arg(long, value_name = "N", default_value = "8", value_parser = integer(1..=1000))]
    clusters: usize,
    /// Points per block
    #[arg(long, value_name = "N", default_value = "4096", value_parser = integer(1..=100_000_000))]
    block: usize,
    /// Number of times that the centres move
    #[arg(long, value_name = "N", default_value = "20", value_parser = integer(1..=10_000))]
    iterations: usize,
    /// Run plain loops on one core, without the runtime
    #[arg(long, conflicts_with_all = ["units", "scheduler", "simulate"])]
    serial: bool,
    #[command(flatten)]
    machine: Machine,
}

/// Sum and number of points assigned to a centre.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
struct Assigned {
    sum: [f64; DIMENSIONS],
    points: u64,
}

/// Combines the points assigned to a centre.
#[derive(Debug, Clone, Copy)]
struct Together;

impl Reducer<Assigned> for Together {
    fn identity(&self) -> Assigned {
        Assigned::zeroed()
    }

    fn combine(&self, all: &mut Assigned, more: Assigned) {
        all.sum.iter_mut().zip(more.sum).for_each(|(all, more)| *all += more);
        all.points += more.points;
    }
}

type Centre = [f64; DIMENSIONS];

fn main() -> ExitCode {
    let options = Options::parse();
    if options.serial {
        let points = points(&options);
        let start = Instant::now();
        let centres = serially(&options, &points);
        let elapsed = start.elapsed();
        println!("first centre {:.6?}", centres[0]);
        return Outcome { elapsed, verified: Some(is_near_truth(&centres)) }.conclude();
    }
    options.machine.run(|rt| {
        let input = (!rt.machine().is_simulated()).then(|| points(&options));
        let points = input.clone().map_or_else(|| rt.zeros([options.size, DIMENSIONS]), |points| rt.array(points));
        let (centres, assigned) = (rt.zeros(options.clusters), rt.zeros(options.clusters));
        let start = rt.now();
        submit(rt, &options, &points, &centres, &assigned)?;
        rt.wait()?;
        let elapsed = rt.now() - start;
        let Some(input) = input else { return Ok(Outcome { elapsed, verified: None }) };
        let centres: Vec<Centre> = rt.take(centres)?;
        println!("first centre {:.6?}", centres[0]);
        Ok(Outcome { elapsed, verified: Some(centres == serially(&options, &input) && is_near_truth(&centres)) })
    })
}

/// Submits all iterations. The tasks of an iteration wait only for the centres of the previous one.
fn submit(
    rt: &Runtime,
    options: &Options,
    points: &Data<f64, Ix2>,
    centres: &Data<Centre>,
    assigned: &Data<Assigned>,
) -> Result<(), SubmitError> {
    let first = points.block((..options.clusters.min(options.size), ..)).input();
    rt.task("begin", (first, centres.output())).cpu(|_, (points, centres)| begin(points, centres)).submit()?;
    for _ in 0..options.iterations {
        rt.for_each("assign", (points.rows(options.block).input(), centres.input(), assigned.reduction(Together)))
            .cpu(|_, (points, centres, assigned)| assign(points, centres, assigned))
            .submit()?;
        rt.task("move", (assigned.inout(), centres.inout()))
            .cpu(|_, (assigned, centres)| move_centres(assigned, centres))
            .submit()?;
    }
    Ok(())
}

/// Does the same in plain loops.
fn serially(options: &Options, points: &Array2<f64>) -> Vec<Centre> {
    let mut centres = vec![[0.0; DIMENSIONS]; options.clusters];
    begin(points.view(), &mut centres);
    for _ in 0..options.iterations {
        let mut assigned = vec![Together.identity(); options.clusters];
        for block in points.axis_chunks_iter(Axis(0), options.block) {
            let mut more = vec![Together.identity(); options.clusters];
            assign(block, &centres, &mut more);
            assigned.iter_mut().zip(more).for_each(|(all, more)| Together.combine(all, more));
        }
        move_centres(&mut assigned, &mut centres);
    }
    centres
}

/// Takes the first points as the first centres.
fn begin(points: ArrayView2<'_, f64>, centres: &mut [Centre]) {
    for (centre, point) in centres.iter_mut().zip(points.rows()) {
        centre.copy_from_slice(point.to_slice().expect("points are contiguous"));
    }
}

/// Adds each point to the points assigned to its nearest centre.
fn assign(points: ArrayView2<'_, f64>, centres: &[Centre], assigned: &mut [Assigned]) {
    for point in points.rows() {
        let point: Centre = std::array::from_fn(|d| point[d]);
        let distance = |centre: &Centre| centre.iter().zip(point).map(|(c, p)| (c - p) * (c - p)).sum::<f64>();
        let nearest = (0..centres.len()).min_by(|a, b| distance(&centres[*a]).total_cmp(&distance(&centres[*b])));
        Together.combine(&mut assigned[nearest.expect("there is a centre")], Assigned { sum: point, points: 1 });
    }
}

/// Moves each centre to the mean of its points, if it has any, and resets the assignment.
fn move_centres(assigned: &mut [Assigned], centres: &mut [Centre]) {
    for (centre, assigned) in centres.iter_mut().zip(assigned) {
        if assigned.points > 0 {
            *centre = assigned.sum.map(|sum| sum / assigned.points as f64);
        }
        *assigned = Together.identity();
    }
}

/// Returns points around the true centres, grouped by centre.
fn points(options: &Options) -> Array2<f64> {
    let mut state = 1u64;
    let mut draw = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 11) as f64 / (1u64 << 53) as f64
    };
    Array2::from_shape_fn((options.size, DIMENSIONS), |(i, d)| truth(i % options.clusters, d) + draw() - 0.5)
}

/// Returns a coordinate of the true centre of a cluster.
fn truth(cluster: usize, d: usize) -> f64 {
    if d == 0 { 4.0 * cluster as f64 } else { 0.0 }
}

/// Checks the centres. In each dimension, points are at most ½ away from their true centre, so the same must hold for
/// the means.
fn is_near_truth(centres: &[Centre]) -> bool {
    centres.iter().enumerate().all(|(n, centre)| (0..DIMENSIONS).all(|d| (centre[d] - truth(n, d)).abs() <= 0.5))
}
