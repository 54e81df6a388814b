use super::*;
use crate::sched::{Neighbour, Team};
use proptest::prelude::*;

/// Runs until the distribution is steady, on units where an index takes its weight divided by the unit's speed.
fn settle(workload: &Workload<'_>, speed: f64) -> (Certified, Assignment, f64) {
    let mut distribution = Certified::default();
    let mut assignment = distribution.assign(workload, None);
    let longest = |assignment: &Assignment| {
        let time =
            |(weight, slot): (&f64, &usize)| 1e6 * weight / if workload.team.is_device(*slot) { speed } else { 1.0 };
        let ns = workload.weights.iter().zip(assignment.slots()).map(time).collect();
        Times::of(assignment, workload.team.len(), ns)
    };
    for _ in 0..100 {
        let times = longest(&assignment);
        if distribution.is_steady() {
            let took = times.slot_ns.iter().copied().fold(0.0, f64::max);
            return (distribution, assignment, took);
        }
        assignment = distribution.assign(workload, Some(&times));
    }
    panic!("not steady after 100 instances");
}

/// Class D of BT-MZ, on the article's machine.
#[test]
fn mesh_of_the_articles_is_within_one_percent_of_the_optimum() {
    let width = |at: usize| 4.5f64.powf(at as f64 / 31.0);
    let weights: Vec<f64> = (0..1024).map(|zone| width(zone % 32) * width(zone / 32)).collect();
    for (cpus, devices) in [(64, 0), (16, 1), (63, 1), (62, 2)] {
        let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: None };
        let (distribution, _, took) = settle(&workload, 16.9);
        let best = 1e6 * weights.iter().sum::<f64>() / (cpus as f64 + 16.9 * devices as f64);
        assert!(took < 1.01 * best, "{cpus} + {devices}: {took} of {best}");
        let bound = distribution.bound().unwrap();
        assert!((bound.longest_ns as f64 - took).abs() <= 1.0 && bound.gap() < 0.01, "{bound}");
    }
}

#[test]
fn neighbours_stay_in_one_memory_if_time_allows() {
    let neighbours: Vec<Vec<Neighbour>> =
        (0..64).map(|at| vec![((at + 1) % 64).into(), ((at + 8) % 64).into()]).collect();
    let team = Team { cpus: 4, devices: 2 };
    let apart = |slots: &[usize]| {
        let space = |slot: usize| if slot < 4 { 0 } else { slot };
        let cut = |(one, list): (usize, &Vec<Neighbour>)| {
            list.iter().filter(|other| space(slots[other.index]) != space(slots[one])).count()
        };
        neighbours.iter().enumerate().map(cut).sum::<usize>()
    };
    let weights: Vec<f64> = (0..64).map(|at| 1.0 + (at * 7 % 13) as f64 / 10.0).collect();
    let without = Workload { team, weights: &weights, neighbours: None };
    let with = Workload { neighbours: Some(&neighbours), ..without };
    let ((_, scattered, fastest), (_, joined, took)) = (settle(&without, 4.0), settle(&with, 4.0));
    assert!(apart(joined.slots()) <= apart(scattered.slots()));
    assert!(took <= 1.02 * fastest, "{took} after {fastest}");
}

#[test]
fn edge_cases_are_assigned_completely() {
    for (cpus, devices, len) in [(1, 0, 5), (0, 1, 5), (2, 1, 0), (3, 0, 1), (0, 3, 2), (5, 2, 3)] {
        let weights = vec![1.0; len];
        let workload = Workload { team: Team { cpus, devices }, weights: &weights, neighbours: None };
        let (_, assignment, _) = settle(&workload, 3.0);
        assert!(assignment.slots().len() == len && assignment.slots().iter().all(|slot| *slot < cpus + devices));
    }
}

proptest! {
    /// For few indices, checks that the best of all maps takes no less than the bound, and the map found at most twice
    /// the best.
    #[test]
    fn bound_is_below_the_best_of_all_maps(
        ns in prop::collection::vec((1.0..50.0f64, 1.0..50.0f64), 1..7),
        (cpus, devices) in (0..3usize, 0..3usize),
    ) {
        prop_assume!(cpus + devices > 0);
        let (ns, team): (Vec<[f64; 2]>, _) = (ns.into_iter().map(|(cpu, device)| [cpu, device]).collect(), Team { cpus, devices });
        let longest = |slots: &[usize]| {
            let mut loads = vec![0.0; team.len()];
            slots.iter().zip(&ns).for_each(|(slot, ns)| loads[*slot] += ns[usize::from(team.is_device(*slot))]);
            loads.into_iter().fold(0.0, f64::max)
        };
        let all = team.len().pow(ns.len() as u32);
        let slots = |number: usize| -> Vec<usize> {
            (0..ns.len()).scan(number, |rest, _| { let slot = *rest % team.len(); *rest /= team.len(); Some(slot) }).collect()
        };
        let best = (0..all).map(|number| longest(&slots(number))).fold(f64::INFINITY, f64::min);
        let bound = share::least_ns(&ns, team);
        prop_assert!(bound <= best * (1.0 + 1e-9), "{} of {}", bound, best);
        let weights = vec![1.0; ns.len()];
        let found = map(&Workload { team, weights: &weights, neighbours: None }, &ns, 0.0);
        prop_assert!(longest(found.slots()) <= 2.0 * best * (1.0 + 1e-9), "{} of {}", longest(found.slots()), best);
    }
}
