//! Links between address spaces, and the queueing of copies on them.
//!
//! A link carries one copy at a time, first come, first served; a copy occupies the link for `latency + bytes / rate`.
//! Copies on different links, or in the two directions of a duplex link, do not affect each other. Between two devices
//! without a direct link, a copy goes through host memory, over one link and then the other. A copy between two
//! replicas in one device's memory takes a launch and is limited by the memory's own rate.

use crate::engine::Nanos;
use crate::ids::SpaceId;
use crate::machine::Machine;
use crate::sim::{LinkModel, SimulatedMachine};
use smallvec::SmallVec;

/// All links of a simulated machine.
#[derive(Debug)]
pub(super) struct Links {
    lanes: Vec<Lane>,
    /// For each ordered pair of spaces, the lanes that a copy takes one after another.
    routes: Vec<SmallVec<[usize; 2]>>,
    spaces: usize,
}

/// One direction of a duplex link, or both directions of a link that is not duplex.
#[derive(Debug)]
struct Lane {
    latency_ns: f64,
    ns_per_byte: f64,
    free_at: Nanos,
}

/// Key of a lane: the link, the link's ends unless all pairs share it, and the direction if it has two.
type Key = (usize, Option<(SpaceId, SpaceId)>, bool);

impl Links {
    /// Creates the links that `model` defines between the spaces of `machine`.
    pub(super) fn new(model: &SimulatedMachine, machine: &Machine) -> Self {
        let mut links = Self { lanes: Vec::new(), routes: Vec::new(), spaces: machine.num_spaces() };
        let kind = |space: SpaceId| space.device().map(|device| machine.unit(machine.unit_of_device(device)).kind);
        let mut keys: Vec<Key> = Vec::new();
        for from in machine.spaces() {
            for to in machine.spaces() {
                let mut legs = SmallVec::new();
                let mut leg = |from: SpaceId, to: SpaceId| {
                    let Some((number, link)) = model.link(kind(from), kind(to)) else { return false };
                    legs.push(links.lane(&mut keys, number, link, from, to));
                    true
                };
                if from != to && !leg(from, to) {
                    leg(from, SpaceId::HOST);
                    leg(SpaceId::HOST, to);
                }
                if from == to
                    && let Some(units) = kind(from).and_then(|kind| model.units(kind))
                {
                    let (latency_ns, bytes_per_s) = (units.launch_ns, 1e9 / units.otherwise.ns);
                    let inside =
                        LinkModel { between: [kind(from); 2], latency_ns, bytes_per_s, shared: false, duplex: false };
                    legs.push(links.lane(&mut keys, usize::MAX, &inside, from, to));
                }
                links.routes.push(legs);
            }
        }
        links
    }

    fn lane(&mut self, keys: &mut Vec<Key>, number: usize, link: &LinkModel, from: SpaceId, to: SpaceId) -> usize {
        let ends = (!link.shared).then(|| (from.min(to), from.max(to)));
        // If devices of one kind share a link, the forward direction is towards the larger device index.
        let key = (number, ends, link.duplex && from < to);
        keys.iter().position(|known| *known == key).unwrap_or_else(|| {
            keys.push(key);
            let ns_per_byte = 1e9 / link.bytes_per_s;
            self.lanes.push(Lane { latency_ns: link.latency_ns, ns_per_byte, free_at: 0 });
            keys.len() - 1
        })
    }

    /// Returns the lanes that a copy takes, in order.
    pub(super) fn route(&self, from: SpaceId, to: SpaceId) -> &[usize] {
        &self.routes[from.index() * self.spaces + to.index()]
    }

    /// Sends bytes over a lane after all bytes sent earlier. Returns how long they wait for the lane, and when they
    /// arrive.
    pub(super) fn send(&mut self, now: Nanos, lane: usize, bytes: u64) -> (Nanos, Nanos) {
        let lane = &mut self.lanes[lane];
        let takes = lane.latency_ns + bytes as f64 * lane.ns_per_byte;
        let begins = lane.free_at.max(now);
        lane.free_at = begins.saturating_add(takes.ceil() as Nanos);
        (begins - now, lane.free_at)
    }
}
