//! Links between address spaces, and the queueing of copies on them.
//!
//! A link carries one copy at a time, first come, first served; a copy occupies the link for `latency + bytes / rate`.
//! Copies on different links, or in the two directions of a duplex link, do not affect each other. Between two devices
//! without a direct link, a copy goes through host memory, over one link and then the other. A copy between two
//! replicas in one device's memory takes a launch and is limited by the memory's own rate.
//!
//! Over a switch, a copy passes the sender's port, the uplinks and the receiver's port, and queues at each of them. It
//! occupies each for its `bytes / rate` and is forwarded as soon as its first byte passes, so the lanes of an idle way
//! carry it at the same time. The copy arrives when the last of them has carried it and the latency has passed.
//! Switches have buffers without limit: a copy that waits for a lane does not hold those before it.

use crate::engine::Nanos;
use crate::ids::SpaceId;
use crate::machine::{Machine, UnitKind};
use crate::sim::{LinkModel, SimulatedMachine, SwitchModel};
use rustc_hash::FxHashMap;
use smallvec::SmallVec;

/// All links of a simulated machine. A lane comes into being with the first copy that takes it.
#[derive(Debug)]
pub(super) struct Links {
    model: SimulatedMachine,
    /// The kind of each space's device; `None` for the host.
    kinds: Vec<Option<UnitKind>>,
    lanes: Vec<Lane>,
    numbers: FxHashMap<Key, usize>,
}

/// One direction of a duplex link, both directions of a link that is not duplex, or a port of a switch.
#[derive(Debug)]
struct Lane {
    latency_ns: f64,
    ns_per_byte: f64,
    free_at: Nanos,
}

/// Key of a lane. The first number is that of the link in the machine file.
#[derive(Debug, PartialEq, Eq, Hash)]
enum Key {
    /// The link's ends unless all pairs share it, and the direction if it has two.
    Link(usize, Option<(SpaceId, SpaceId)>, bool),
    /// A device's port, outwards or inwards.
    Port(usize, SpaceId, bool),
    /// A leaf switch's connection to the others, upwards or downwards.
    Uplink(usize, usize, bool),
}

/// The lanes that a copy passes, in order, and the latency after that.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Leg {
    lanes: SmallVec<[usize; 4]>,
    latency_ns: Nanos,
}

impl Links {
    /// Creates the links that `model` defines between the spaces of `machine`.
    pub(super) fn new(model: &SimulatedMachine, machine: &Machine) -> Self {
        let kind = |space: SpaceId| space.device().map(|device| machine.unit(machine.unit_of_device(device)).kind);
        let kinds = machine.spaces().map(kind).collect();
        Self { model: model.clone(), kinds, lanes: Vec::new(), numbers: FxHashMap::default() }
    }

    /// Returns the legs that a copy takes, one after the other.
    pub(super) fn route(&mut self, from: SpaceId, to: SpaceId) -> (Leg, Option<Leg>) {
        if from == to {
            return (self.inside(from), None);
        }
        match self.leg(from, to) {
            Some(leg) => (leg, None),
            None => {
                let mut via_host = |from, to| self.leg(from, to).expect("a link joins the host and each device");
                (via_host(from, SpaceId::HOST), Some(via_host(SpaceId::HOST, to)))
            }
        }
    }

    /// A copy within one memory.
    fn inside(&mut self, space: SpaceId) -> Leg {
        let units = self.kinds[space.index()].and_then(|kind| self.model.units(kind));
        let units = units.expect("only devices copy within their memory");
        let (launch_ns, ns_per_byte) = (units.launch_ns, units.otherwise.ns);
        let lane = self.lane(Key::Link(usize::MAX, Some((space, space)), false), launch_ns, ns_per_byte);
        Leg { lanes: SmallVec::from_slice(&[lane]), latency_ns: 0 }
    }

    fn leg(&mut self, from: SpaceId, to: SpaceId) -> Option<Leg> {
        let (number, link) = self.model.link(self.kinds[from.index()], self.kinds[to.index()])?;
        let LinkModel { latency_ns, bytes_per_s, shared, duplex, switch, .. } = *link;
        let ns_per_byte = 1e9 / bytes_per_s;
        let Some(SwitchModel { leaves }) = switch else {
            let ends = (!shared).then(|| (from.min(to), from.max(to)));
            // If devices of one kind share a link, the forward direction is towards the larger device index.
            let lane = self.lane(Key::Link(number, ends, duplex && from < to), latency_ns, ns_per_byte);
            return Some(Leg { lanes: SmallVec::from_slice(&[lane]), latency_ns: 0 });
        };
        let mut lanes = SmallVec::from_slice(&[self.lane(Key::Port(number, from, true), 0.0, ns_per_byte)]);
        if let Some((devices, rate)) = leaves {
            let [up, down] = [from, to].map(|space| (space.index() - 1) / devices);
            if up != down {
                let uplinks = [Key::Uplink(number, up, true), Key::Uplink(number, down, false)];
                lanes.extend(uplinks.map(|uplink| self.lane(uplink, 0.0, 1e9 / rate)));
            }
        }
        lanes.push(self.lane(Key::Port(number, to, false), 0.0, ns_per_byte));
        Some(Leg { lanes, latency_ns: latency_ns.ceil() as Nanos })
    }

    fn lane(&mut self, key: Key, latency_ns: f64, ns_per_byte: f64) -> usize {
        *self.numbers.entry(key).or_insert_with(|| {
            self.lanes.push(Lane { latency_ns, ns_per_byte, free_at: 0 });
            self.lanes.len() - 1
        })
    }

    /// Sends bytes over the lane numbered `at` of a leg, after all bytes that have come to it earlier. Returns when it
    /// begins to carry them, and when it has carried them.
    pub(super) fn send(&mut self, now: Nanos, leg: &Leg, at: usize, bytes: u64) -> (Nanos, Nanos) {
        let lane = &mut self.lanes[leg.lanes[at]];
        let begins = lane.free_at.max(now);
        let takes = lane.latency_ns + bytes as f64 * lane.ns_per_byte;
        lane.free_at = begins.saturating_add(takes.ceil() as Nanos);
        (begins, lane.free_at)
    }
}

impl Leg {
    /// The number of lanes, at least one.
    pub(super) fn len(&self) -> usize {
        self.lanes.len()
    }

    /// The time after the last lane.
    pub(super) fn latency_ns(&self) -> Nanos {
        self.latency_ns
    }
}
