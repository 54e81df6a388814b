use super::*;
use crate::sched::fpm::testing::linear;
use crate::sched::{Team, TeamSize, TeamSized};
use proptest::prelude::*;

/// Units whose time and power are functions of size.
struct Units {
    team: Team,
    seconds: Vec<fn(f64) -> f64>,
    watts: Vec<f64>,
}

impl Units {
    fn run(&self, assignment: &Assignment, weights: &[f64], energy: bool) -> Times {
        let loads = assignment.loads(self.team.len(), weights);
        let ns = |(slot, weight): (&usize, &f64)| {
            1e9 * (self.seconds[*slot])(loads[*slot]) * weight / loads[*slot].max(f64::MIN_POSITIVE)
        };
        let times = Times::of(assignment, self.team.len(), assignment.slots().iter().zip(weights).map(ns).collect());
        let joules = times.slot_ns.iter().zip(&self.watts).map(|(ns, watts)| ns / 1e9 * watts).collect();
        times.with_energy(energy.then_some(joules))
    }

    /// Runs until the distribution is steady. Returns the load of each slot and the number of instances run.
    fn settle(&self, distribution: &mut impl Distribution, weights: &[f64], energy: bool) -> (Vec<f64>, usize) {
        let workload = Workload { team: self.team, weights, neighbours: None };
        let mut assignment = distribution.assign(&workload, None);
        for instances in 0..60 {
            if distribution.is_steady() {
                return (assignment.loads(self.team.len(), weights), instances);
            }
            let times = self.run(&assignment, weights, energy);
            assignment = distribution.assign(&workload, Some(&times));
        }
        panic!("not steady");
    }
}

/// A small model of the server in Farrelly et al. 2024: a CPU that is faster and uses less energy than either of two
/// equal GPUs.
fn server() -> Units {
    Units {
        team: Team { cpus: 1, devices: 2 },
        seconds: vec![|x| x / 160.0, |x| x / 60.0, |x| x / 60.0],
        watts: vec![200.0, 150.0, 150.0],
    }
}

#[test]
fn linear_times_are_balanced_in_one_step() {
    let (loads, instances) = server().settle(&mut Fpm::new(Objective::Time), &[1.0; 280], false);
    assert_eq!(loads, [160.0, 60.0, 60.0]);
    assert!(instances <= 2, "{instances}");
}

/// A device that takes cores away from the processor. According to their profiles both are worth using, but together
/// they are slower.
#[test]
fn unit_that_slows_the_others_too_much_is_left_out() {
    for (burden, expected) in [(1.25, [16.0, 0.0]), (1.0, [15.0, 1.0])] {
        let workload = Workload { team: Team { cpus: 1, devices: 1 }, weights: &[1.0; 16], neighbours: None };
        let mut fpm = Fpm::new(Objective::Time);
        let mut assignment = fpm.assign(&workload, None);
        for instances in 0.. {
            assert!(instances < 12, "not steady");
            if fpm.is_steady() {
                break;
            }
            let is_used = assignment.slots().contains(&1);
            let ns = assignment.slots().iter().map(|slot| [if is_used { burden } else { 1.0 }, 12.0][*slot] * 1e9);
            let times = Times::of(&assignment, 2, ns.collect());
            assignment = fpm.assign(&workload, Some(&times));
        }
        assert_eq!(assignment.loads(2, workload.weights), expected, "{burden}");
    }
}

#[test]
fn energy_and_budget_objectives_are_met() {
    let weights = [1.0; 280];
    let of = |objective| server().settle(&mut Fpm::new(objective), &weights, true).0;
    assert_eq!(of(Objective::Energy), [280.0, 0.0, 0.0]);
    let within = of(Objective::Pareto(Budget::Seconds(1.5)));
    assert_eq!(within[0], 240.0, "as much as the CPU can do in that time");
    assert_eq!(of(Objective::Pareto(Budget::OfFastest(1.5))), within);
    assert_eq!(of(Objective::Pareto(Budget::OfFastest(1.0))), [160.0, 60.0, 60.0]);
}

#[test]
fn fastest_shares_give_the_reason_if_the_objective_fails() {
    for (objective, energy, words) in [
        (Objective::Energy, false, "the energy of some unit is not known"),
        (Objective::Pareto(Budget::Seconds(0.5)), true, "cannot complete 280 within 0.5 s: the minimum is 1 s"),
    ] {
        let mut fpm = Fpm::new(objective);
        assert_eq!(server().settle(&mut fpm, &[1.0; 280], energy).0, [160.0, 60.0, 60.0]);
        let in_use = fpm.shares().unwrap();
        assert!(in_use.to_string().contains(words), "{in_use}");
        assert_eq!(in_use.energy.is_some(), energy);
    }
}

#[test]
fn known_profiles_decide_the_first_instance() {
    let known = Known { time: vec![linear("CPU:4", 1.0), linear("GPU:1", 0.5)], energy: vec![linear("GPU:1", 9.0)] };
    let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
    let first = |known: Known, cpus: &[&str], weights: &[f64]| {
        let mut fpm = Fpm::new(Objective::Time).with_known(known, names(cpus), names(&["GPU:1", "GPU:1"]));
        let workload = Workload { team: Team { cpus: 1, devices: 2 }, weights, neighbours: None };
        let loads = fpm.assign(&workload, None).loads(3, weights);
        (loads, fpm)
    };
    assert_eq!(first(known.clone(), &["CPU:4"], &[2.0; 20]).0, [8.0, 16.0, 16.0]);
    assert_eq!(first(known.clone(), &["CPU:8"], &[1.0; 12]).0, [4.0; 3], "this unit has no profile");
    let (loads, fpm) = first(known.clone(), &["CPU:4"], &[0.5; 10]);
    assert_eq!(loads, [1.0, 2.0, 2.0], "weights need not be whole");
    assert_eq!(fpm.profiles(), None, "but then no profile is kept");
    let (_, mut fpm) = first(known.clone(), &["CPU:4"], &[1.0; 20]);
    assert_eq!(fpm.profiles(), Some(known));
    let workload = Workload { team: Team { cpus: 1, devices: 2 }, weights: &[1.0; 20], neighbours: None };
    let times = Times::of(&fpm.present.clone(), 3, vec![1e9; 20]);
    fpm.assign(&workload, Some(&times));
    let learned = fpm.profiles().unwrap();
    assert_eq!(learned.time.iter().map(Profile::unit).collect::<Vec<_>>(), ["CPU:4", "GPU:1"]);
    assert_eq!(learned.time[1].points(), [(1, 0.5), (8, 8.0)]);
}

#[test]
fn falling_time_is_exploited() {
    // On the device, sizes that are not multiples of 16 take twice as long.
    let units = Units {
        team: Team { cpus: 1, devices: 1 },
        seconds: vec![|x| x / 10.0, |x| if x % 16.0 == 0.0 { x / 20.0 } else { x / 10.0 }],
        watts: vec![1.0; 2],
    };
    let known = Known {
        time: vec![
            linear("CPU:1", 0.1),
            Profile::new("GPU:1", (1..=48).map(|x| (x, (units.seconds[1])(x as f64))).collect::<Vec<_>>()).unwrap(),
        ],
        energy: Vec::new(),
    };
    let mut fpm = Fpm::new(Objective::Time).with_known(known, vec!["CPU:1".to_owned()], vec!["GPU:1".to_owned()]);
    assert_eq!(units.settle(&mut fpm, &[1.0; 48], false).0, [16.0, 32.0]);
}

#[test]
fn slower_unit_is_noticed() {
    let weights = [1.0; 100];
    let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &weights, neighbours: None };
    let even = Units { team: workload.team, seconds: vec![|x| x; 2], watts: vec![1.0; 2] };
    let mut fpm = Fpm::new(Objective::Time);
    assert_eq!(even.settle(&mut fpm, &weights, false).0, [50.0, 50.0]);
    let slower = Units { seconds: vec![|x| x, |x| 3.0 * x], ..even };
    let mut noticed = 0;
    while fpm.is_steady() {
        fpm.observe(&workload, &slower.run(&fpm.present.clone(), &weights, false));
        noticed += 1;
    }
    assert_eq!(noticed, PATIENCE);
    for _ in 0..20 {
        if !fpm.is_steady() {
            let times = slower.run(&fpm.present.clone(), &weights, false);
            fpm.assign(&workload, Some(&times));
        }
    }
    let loads = fpm.present.loads(2, &weights);
    assert!((70.0..80.0).contains(&loads[0]), "{loads:?}");
}

#[test]
fn smaller_team_keeps_its_energies() {
    let mut units = server();
    units.team = Team { cpus: 3, devices: 1 };
    units.seconds = vec![|x| x / 50.0; 4];
    units.watts = vec![10.0, 10.0, 10.0, 99.0];
    let mut sized = TeamSized::new(Fpm::new(Objective::Energy), TeamSize::Of(1));
    assert_eq!(units.settle(&mut sized, &[1.0; 40], true).0, [40.0, 0.0, 0.0, 0.0]);
}

#[test]
fn empty_workloads_and_single_units_become_steady() {
    for (weights, cpus) in
        [(vec![], 2), (vec![0.0; 5], 2), (vec![1.0; 5], 1), (vec![f64::NAN; 3], 2), (vec![f64::MAX; 3], 2)]
    {
        let units = Units { team: Team { cpus, devices: 0 }, seconds: vec![|_| 1.0; 2], watts: vec![1.0; 2] };
        let mut fpm = Fpm::new(Objective::Energy);
        units.settle(&mut fpm, &weights, true);
        assert_eq!(fpm.present.slots().len(), weights.len());
    }
}

proptest! {
    #[test]
    fn cuts_are_within_one_index_of_the_wanted_shares(
        weights in prop::collection::vec(0u64..50, 1..30),
        parts in prop::collection::vec(0u64..10, 1..5),
    ) {
        let total: u64 = weights.iter().sum();
        let all: u64 = parts.iter().sum();
        prop_assume!(total > 0 && all > 0);
        let mut wanted: Vec<u64> = parts.iter().map(|part| part * total / all).collect();
        let last = wanted.iter().rposition(|wanted| *wanted > 0).unwrap_or(0);
        wanted[last] += total - wanted.iter().sum::<u64>();
        let fpm = Fpm { sizes: weights.clone(), slots: vec![Slot::default(); parts.len()], ..Fpm::default() };
        let assignment = fpm.cut(&wanted);
        prop_assert!(assignment.slots().is_sorted() && assignment.slots().len() == weights.len());
        let most = *weights.iter().max().unwrap();
        for (load, wanted) in fpm.loads(&assignment).into_iter().zip(wanted) {
            prop_assert!(load.abs_diff(wanted) <= most, "{} for {}", load, wanted);
        }
    }
}
