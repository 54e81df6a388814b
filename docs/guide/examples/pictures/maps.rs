//! Maps of the assignment of zones to units, one for each work distribution in its steady state.
//!
//! The time of a zone is proportional to its area; a device takes an eighth of a core's time. If nothing else takes
//! time, a distribution is a function of the times of the previous instance, so no task is run.

use crate::mesh::{SIDE, areas, neighbours, widths};
use crate::svg::Svg;
use thalweg::sched::{
    Adjacency, Assignment, ClusteredGuided, Distribution, GuidedRuntime, Neighbour, Pcf, PcfGuided, Static, StaticPcf,
    Team, Times, Workload,
};

const TEAM: Team = Team { cpus: 6, devices: 2 };
const DEVICE_SPEED: f64 = 8.0;
/// More instances than any distribution needs to become steady.
const INSTANCES: usize = 200;

/// Cores in blues and greens, devices in orange and red.
const COLOURS: [&str; 8] = ["#9ecae1", "#4292c6", "#08519c", "#a1d99b", "#41ab5d", "#006d2c", "#fdae6b", "#cb181d"];

pub(crate) fn draw() -> String {
    let distributions: [Box<dyn Distribution>; 6] = [
        Box::new(Static),
        Box::new(StaticPcf::new(Pcf::Given(DEVICE_SPEED))),
        Box::new(PcfGuided::new(Pcf::Given(DEVICE_SPEED))),
        Box::<GuidedRuntime>::default(),
        Box::new(ClusteredGuided::new(ClusteredGuided::THRESHOLD)),
        Box::new(Adjacency::new(Adjacency::SLACK)),
    ];
    let (size, gap) = (200.0, 30.0);
    let mut picture = Svg::new(3.0 * size + 4.0 * gap, 2.0 * (size + 60.0) + 2.0 * gap);
    for (n, mut distribution) in distributions.into_iter().enumerate() {
        let [x, y] = [gap + (n % 3) as f64 * (size + gap), gap + (n / 3) as f64 * (size + 60.0)];
        let assignment = steady(&mut *distribution);
        picture.text([x, y + 4.0], 15.0, "start", distribution.name());
        let (longest, cut) = judge(&assignment);
        let says = format!("longest unit {longest:.2} of the ideal, {cut} faces cut");
        picture.text([x, y + 22.0], 11.0, "start", &says);
        let widths = widths(false);
        let scale = size / SIDE as f64;
        let ends: Vec<f64> = widths.iter().scan(0.0, |end, width| Some(std::mem::replace(end, *end + width))).collect();
        for (zone, slot) in assignment.slots().iter().enumerate() {
            let (column, row) = (zone % SIDE, zone / SIDE);
            let [left, top] = [ends[column], ends[row]].map(|end| end * scale);
            let [width, height] = [widths[column], widths[row]].map(|width| width * scale);
            picture.rectangle([x + left, y + 30.0 + top, width, height], COLOURS[*slot]);
        }
    }
    let y = 2.0 * (size + 60.0) + gap + 12.0;
    for (slot, colour) in COLOURS.iter().enumerate() {
        let name = if TEAM.is_device(slot) { format!("device {}", slot - TEAM.cpus) } else { format!("core {slot}") };
        let x = gap + slot as f64 * 80.0;
        picture.rectangle([x, y - 10.0, 12.0, 12.0], colour);
        picture.text([x + 16.0, y], 11.0, "start", &name);
    }
    picture.finish()
}

fn steady(distribution: &mut dyn Distribution) -> Assignment {
    let alike = |list: Vec<usize>| list.into_iter().map(Neighbour::from).collect();
    let (weights, neighbours): (_, Vec<Vec<Neighbour>>) = (areas(false), neighbours().into_iter().map(alike).collect());
    let workload = Workload { team: TEAM, weights: &weights, neighbours: Some(&neighbours) };
    let mut measured = None;
    let mut assignment = distribution.assign(&workload, None);
    for _ in 0..INSTANCES {
        let times = Times::of(&assignment, TEAM.len(), times(&assignment));
        if distribution.is_steady() {
            distribution.observe(&workload, &times);
        }
        assignment = distribution.assign(&workload, Some(measured.insert(times)));
    }
    assignment
}

/// Returns the time of every zone on its assigned unit.
fn times(assignment: &Assignment) -> Vec<f64> {
    let speed = |slot: usize| if TEAM.is_device(slot) { DEVICE_SPEED } else { 1.0 };
    areas(false).iter().zip(assignment.slots()).map(|(area, slot)| area * 1e6 / speed(*slot)).collect()
}

/// Returns the time of the slowest unit relative to an ideal division, and the number of faces between two units.
fn judge(assignment: &Assignment) -> (f64, usize) {
    let longest = assignment.loads(TEAM.len(), &times(assignment)).into_iter().fold(0.0, f64::max);
    let ideal = areas(false).iter().sum::<f64>() * 1e6 / (TEAM.cpus as f64 + TEAM.devices as f64 * DEVICE_SPEED);
    let slots = assignment.slots();
    let faces = neighbours()
        .into_iter()
        .enumerate()
        .flat_map(|(zone, beside)| beside.into_iter().map(move |other| (zone, other)));
    let cut = faces.filter(|&(zone, other)| zone < other && slots[zone] != slots[other]).count();
    (longest / ideal, cut)
}
