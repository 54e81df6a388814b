//! The gradient kernel of a discontinuous Galerkin method (the DG kernel of NCAR's climate code, measured in MACC's
//! slides) by annotation alone: a team per element, a thread per point, and the gradient in the team's memory.

#[path = "../common/mod.rs"]
mod common;

use clap::Parser;
use common::{Machine, Outcome, integer};
use std::process::ExitCode;
use thalweg::loops::target;

/// Points along a side of an element, and in an element.
const NX: usize = 4;
const POINTS: usize = NX * NX;

/// Computes gradients of fluxes on the elements of a mesh
#[derive(Parser)]
struct Options {
    /// Elements of the mesh
    #[arg(long, value_name = "N", default_value = "2000", value_parser = integer(1..=10_000_000))]
    size: usize,
    /// Time steps
    #[arg(long, value_name = "N", default_value = "5", value_parser = integer(1..=1_000_000))]
    steps: usize,
    #[command(flatten)]
    machine: Machine,
}

/// Adds `dt` times the gradient of the fluxes to them, element by element.
#[target(teams(thread_limit = 64, firstprivate(der: POINTS, delta: POINTS, weights: NX)))]
fn advance(der: &[f64], delta: &[f64], weights: &[f64], dt: f64, x: &mut [f64], y: &mut [f64]) {
    #[distribute]
    for element in 0..x.len() / POINTS {
        let mut gradient = [0.0; POINTS];
        #[parallel_for]
        for point in 0..POINTS {
            let k = point % NX;
            let l = point / NX;
            let mut outer = 0.0;
            for j in 0..NX {
                let mut inner = 0.0;
                for i in 0..NX {
                    let at = element * POINTS + j * NX + i;
                    let along = delta[j * NX + l] * x[at] * der[k * NX + i];
                    let across = delta[k * NX + i] * y[at] * der[l * NX + j];
                    inner += (along + across) * weights[i];
                }
                outer += inner * weights[j];
            }
            gradient[point] = outer;
        }
        #[parallel_for]
        for point in 0..POINTS {
            x[element * POINTS + point] += dt * gradient[point];
            y[element * POINTS + point] += dt * gradient[point];
        }
    }
}

fn main() -> ExitCode {
    let options = Options::parse();
    options.machine.run(|rt| {
        if rt.machine().is_simulated() {
            return Err("cannot simulate these tasks: they have no cost; try `npb_mz`".into());
        }
        let n = options.size * POINTS;
        let der: Vec<f64> = (0..POINTS).map(|i| ((i * 7 + 3) % 11) as f64 / 11.0 - 0.4).collect();
        let delta: Vec<f64> = (0..POINTS).map(|i| f64::from(u8::from(i / NX == i % NX))).collect();
        let weights = vec![1.0 / 6.0, 5.0 / 6.0, 5.0 / 6.0, 1.0 / 6.0];
        let (mut x, mut y): (Vec<f64>, Vec<f64>) =
            (0..n).map(|i| ((i % 101) as f64 / 50.0, (i % 37) as f64 / 20.0)).unzip();
        let constants = [&der, &delta, &weights].map(|values| rt.data(values.clone()));
        let [d_der, d_delta, d_weights] = &constants;
        let (dx, dy) = (rt.data(x.clone()), rt.data(y.clone()));
        let start = rt.now();
        for _ in 0..options.steps {
            advance::task(rt, d_der, d_delta, d_weights, 1e-3, &dx, &dy).submit()?;
        }
        rt.wait()?;
        let elapsed = rt.now() - start;
        for _ in 0..options.steps {
            advance(&der, &delta, &weights, 1e-3, &mut x, &mut y);
        }
        println!("{} elements, {} steps", options.size, options.steps);
        Ok(Outcome { elapsed, verified: Some(rt.take(dx)? == x && rt.take(dy)? == y) })
    })
}
