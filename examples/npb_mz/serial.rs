//! A run as a plain loop over the zones, without the runtime: what tasks are measured against, and tested by.

use ndarray::Array4;

use super::classes::{Benchmark, Problem};
use super::exchange::{Side, receive};
use super::initial::initialise;
use super::operator::force;
use super::physics::Mesh;
use super::zones::Neighbours;

/// A zone and its arrays, all of shape `[5, nz, ny, nx]`.
#[derive(Clone, Debug)]
pub(crate) struct Zone {
    /// Its mesh.
    pub(crate) mesh: Mesh,
    /// The state.
    pub(crate) u: Array4<f64>,
    /// The forcing term.
    pub(crate) forcing: Array4<f64>,
    /// The right-hand side; zero on the boundary.
    pub(crate) r: Array4<f64>,
}

/// All zones of a run.
#[derive(Clone, Debug)]
pub(crate) struct Zones {
    /// In the order of their numbers.
    pub(crate) zones: Vec<Zone>,
    neighbours: Vec<Neighbours>,
}

impl Zones {
    /// The zones of a problem in their initial state.
    pub(crate) fn new(benchmark: Benchmark, problem: &Problem) -> Self {
        let zone = |mesh: Mesh| {
            let zeros = Array4::zeros(mesh.shape.array());
            let mut zone = Zone { mesh, u: zeros.clone(), forcing: zeros.clone(), r: zeros };
            initialise(&mesh, zone.u.view_mut());
            force(&mesh, zone.forcing.view_mut());
            zone
        };
        let zones = problem.meshes(benchmark).into_iter().map(zone).collect();
        Self { zones, neighbours: problem.neighbours() }
    }

    /// Sets the state of all zones to the initial one.
    pub(crate) fn initialise(&mut self) {
        for zone in &mut self.zones {
            initialise(&zone.mesh, zone.u.view_mut());
        }
    }

    /// Copies the outer faces of all zones from their neighbours.
    pub(crate) fn exchange(&mut self) {
        for (number, beside) in self.neighbours.iter().enumerate() {
            let mut u = std::mem::take(&mut self.zones[number].u);
            for side in Side::ALL {
                let neighbour = match side {
                    Side::West => beside.west,
                    Side::East => beside.east,
                    Side::South => beside.south,
                    Side::North => beside.north,
                };
                receive(u.view_mut(), side, self.zones[neighbour].u.view());
            }
            self.zones[number].u = u;
        }
    }
}
