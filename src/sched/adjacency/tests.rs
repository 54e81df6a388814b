use super::*;
use crate::sched::{LinkEstimate, Neighbour, Team};
use proptest::prelude::*;

/// Returns a mesh of zones with neighbours in x and y as in NPB-MZ. Each zone names its east and north neighbours, and
/// neighbours wrap around the edges if `wraps` is set.
fn mesh(x: usize, y: usize, wraps: bool) -> Vec<Vec<Neighbour>> {
    let next = |at: usize, len: usize| if at + 1 < len { Some(at + 1) } else { (wraps && len > 2).then_some(0) };
    let zone = |index: usize| {
        let (column, row) = (index % x, index / x);
        let east = next(column, x).map(|column| row * x + column);
        let north = next(row, y).map(|row| row * x + column);
        east.into_iter().chain(north).map(Neighbour::from).collect()
    };
    (0..x * y).map(zone).collect()
}

/// Counts the pairs of neighbours on a mesh that an assignment places in different memories.
fn cut_edges(assignment: &Assignment, neighbours: &[Vec<Neighbour>], team: Team) -> i64 {
    let one_ns = LinkEstimate::default().copy_ns(1) as i64;
    Graph::new(neighbours, assignment.slots().len()).cut(assignment.slots(), team) / one_ns
}

#[test]
fn edge_is_cut_only_between_memories() {
    let ring = [1, 2, 3, 0].map(|next| vec![Neighbour::from(next)]);
    let assignment = Assignment::new(vec![0, 0, 1, 1]);
    for (cpus, devices, cut) in [(0, 2, 2), (1, 1, 2), (2, 0, 0)] {
        assert_eq!(cut_edges(&assignment, &ring, Team { cpus, devices }), cut, "{cpus} + {devices}");
    }
}

#[test]
fn pair_takes_the_larger_of_both_ends_and_sums_within_a_list() {
    let to = |index, megabytes: u64| Neighbour { index, bytes: megabytes.saturating_mul(1_000_000) };
    // The lists name an index twice, as across two faces, the index itself, an edge of no bytes, and an index that does
    // not exist.
    let lists = [vec![to(1, 3), to(1, 4), to(0, 9), to(2, 0), to(7, 5)], vec![to(0, 5)], vec![to(1, 2)]];
    let graph = Graph::new(&lists, 3);
    assert_eq!(
        [(0, 1), (1, 0), (1, 2), (2, 1), (0, 2)].map(|(one, other)| graph.between(one, other)),
        [720_000, 720_000, 210_000, 210_000, 0]
    );
    let team = Team { cpus: 1, devices: 1 };
    assert_eq!([[0, 0, 1], [0, 1, 1], [0, 1, 0]].map(|slots| graph.cut(&slots, team)), [210_000, 720_000, 930_000]);
    // Weights beyond the maximum are clipped to it.
    let most = Graph::new(&[vec![to(1, u64::MAX), to(2, u64::MAX)], vec![to(2, u64::MAX)], vec![]], 3);
    assert!(most.cut(&[0, 1, 1], team) > most.cut(&[0, 0, 1], team) / 2 && most.cut(&[0, 1, 1], team) > 0);
}

/// On a mesh of 8 × 8, exchanges along y cost ten times as much as exchanges along x. Halves made of columns therefore
/// cut less than halves made of rows, which the index order suggests.
#[test]
fn heavier_edges_are_not_cut() {
    let weights = vec![1.0; 64];
    let team = Team { cpus: 0, devices: 2 };
    let found = |along_y: u64| {
        let mut neighbours = mesh(8, 8, false);
        let is_above = |at: usize, other: &&mut Neighbour| other.index == at + 8;
        for (at, list) in neighbours.iter_mut().enumerate() {
            list.iter_mut().filter(|other| is_above(at, other)).for_each(|other| other.bytes = along_y);
        }
        let workload = Workload { team, weights: &weights, neighbours: Some(&neighbours) };
        let (found, took) = settle(&mut Adjacency::default(), &workload, 1.0, |_| 1.0);
        (cut_edges(&found, &neighbours, team), took)
    };
    assert_eq!((found(1), found(900_000)), ((8, 32.0), (8, 32.0)));
}

/// Runs a distribution until it is steady.
fn settle(
    distribution: &mut impl Distribution,
    workload: &Workload<'_>,
    speed: f64,
    penalty: impl Fn(&Assignment) -> f64,
) -> (Assignment, f64) {
    let mut assignment = distribution.assign(workload, None);
    for _ in 0..500 {
        let slow = penalty(&assignment);
        let time =
            |(weight, slot): (&f64, &usize)| slow * weight / if workload.team.is_device(*slot) { speed } else { 1.0 };
        let ns = workload.weights.iter().zip(assignment.slots()).map(time).collect();
        let times = Times::of(&assignment, workload.team.len(), ns);
        if distribution.is_steady() {
            return (assignment, times.longest_ns());
        }
        assignment = distribution.assign(workload, Some(&times));
    }
    panic!("not steady after 500 instances");
}

fn both(x: usize, y: usize, team: Team, speed: f64) -> [(i64, f64); 2] {
    let (neighbours, weights) = (mesh(x, y, false), vec![1.0; x * y]);
    let workload = Workload { team, weights: &weights, neighbours: Some(&neighbours) };
    let (line, line_took) = settle(&mut ClusteredGuided::default(), &workload, speed, |_| 1.0);
    let (found, took) = settle(&mut Adjacency::default(), &workload, speed, |_| 1.0);
    [(cut_edges(&line, &neighbours, team), line_took), (cut_edges(&found, &neighbours, team), took)]
}

#[test]
fn squares_replace_strips_on_a_mesh() {
    // For 8 × 8 zones on 16 units of 4, half rows cut 7·8 + 8 edges and squares of 2 × 2 cut 3·8 + 3·8.
    let [line, found] = both(8, 8, Team { cpus: 0, devices: 16 }, 1.0);
    assert_eq!((line, found), ((64, 4.0), (48, 4.0)));
    // For 4 units of 16, strips of two rows cut 3·8 edges and squares of 4 × 4 cut 2·8.
    let [line, found] = both(8, 8, Team { cpus: 0, devices: 4 }, 1.0);
    assert_eq!((line, found), ((24, 16.0), (16, 16.0)));
}

#[test]
fn mixed_teams_cut_less_within_the_limit() {
    let [line, found] = both(16, 16, Team { cpus: 14, devices: 2 }, 10.0);
    assert!(found.0 <= line.0 && found.1 <= line.1 * 1.05, "{line:?} {found:?}");
    let [line, found] = both(16, 16, Team { cpus: 8, devices: 8 }, 10.0);
    assert!(3 * found.0 < 2 * line.0 && found.1 <= line.1 * 1.05, "{line:?} {found:?}");
}

/// Class D of BT-MZ: 32 × 32 zones whose sizes differ by a factor of 20, with the PCF that González Tallada & Morancho
/// 2024, table 4, gives for 64 × 1 units.
#[test]
fn mesh_of_the_articles_is_cut_less() {
    let neighbours = mesh(32, 32, true);
    let size = |at: usize| 20f64.powf(at as f64 / 62.0);
    let weights: Vec<f64> = (0..1024).map(|zone| size(zone % 32) * size(zone / 32)).collect();
    for (cpus, devices) in [(64, 0), (63, 1), (62, 2), (56, 8)] {
        let team = Team { cpus, devices };
        let workload = Workload { team, weights: &weights, neighbours: Some(&neighbours) };
        let (line, line_took) = settle(&mut ClusteredGuided::default(), &workload, 34.69, |_| 1.0);
        let (found, took) = settle(&mut Adjacency::default(), &workload, 34.69, |_| 1.0);
        let (line, found) = (cut_edges(&line, &neighbours, team), cut_edges(&found, &neighbours, team));
        assert!(found <= line, "{cpus} + {devices}: {found} after {line}");
        assert!(devices < 8 || 4 * found < 3 * line, "{cpus} + {devices}: {found} after {line}");
        assert!(took <= 1.05 * line_took, "{cpus} + {devices}: {took} after {line_took}");
    }
}

#[test]
fn strips_stay_if_they_are_best() {
    let [line, found] = both(8, 8, Team { cpus: 0, devices: 2 }, 1.0);
    assert_eq!((line, found), ((8, 32.0), (8, 32.0)), "two halves");
    let [line, found] = both(40, 1, Team { cpus: 4, devices: 1 }, 3.0);
    assert_eq!(line.0, found.0, "a chain");
}

#[test]
fn slower_alternative_is_reverted() {
    let (neighbours, weights) = (mesh(8, 8, false), vec![1.0; 64]);
    let workload = Workload { team: Team { cpus: 0, devices: 16 }, weights: &weights, neighbours: Some(&neighbours) };
    let penalty = |assignment: &Assignment| if assignment.slots().is_sorted() { 1.0 } else { 1.2 };
    let (found, _) = settle(&mut Adjacency::default(), &workload, 1.0, penalty);
    assert!(found.slots().is_sorted(), "the 1-D answer");
    // Without neighbours, `adjacency` equals `clustered-guided`.
    let workload = Workload { neighbours: None, ..workload };
    let (found, _) = settle(&mut Adjacency::default(), &workload, 1.0, |_| 1.0);
    let (line, _) = settle(&mut ClusteredGuided::default(), &workload, 1.0, |_| 1.0);
    assert_eq!(found, line);
}

proptest! {
    #[test]
    fn assignment_is_complete_cuts_no_more_and_keeps_the_limit(
        (x, y, wraps) in (1..9usize, 1..9usize, any::<bool>()),
        (cpus, devices) in (0..7usize, 0..3usize),
        speed in 0.5..10.0f64,
        seed in prop::collection::vec(0.5..3.0f64, 64),
    ) {
        prop_assume!(cpus + devices > 0);
        let (neighbours, weights) = (mesh(x, y, wraps), &seed[..x * y]);
        let workload = Workload { team: Team { cpus, devices }, weights, neighbours: Some(&neighbours) };
        let (line, line_took) = settle(&mut ClusteredGuided::default(), &workload, speed, |_| 1.0);
        let (found, took) = settle(&mut Adjacency::default(), &workload, speed, |_| 1.0);
        prop_assert_eq!(found.slots().len(), x * y);
        prop_assert!(found.slots().iter().all(|slot| *slot < cpus + devices));
        let team = workload.team;
        prop_assert!(cut_edges(&found, &neighbours, team) <= cut_edges(&line, &neighbours, team));
        prop_assert!(took <= line_took * 1.05 + 1e-9, "{} after {}", took, line_took);
    }
}
