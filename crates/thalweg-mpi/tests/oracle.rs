//! Random programs: on any number of ranks, over a network with random delays, they compute the same as one loop.

mod program;

use program::{Program, run};
use thalweg_mpi::{Network, Options};

/// Programs in one test run; `THALWEG_PROGRAMS` sets another number.
const PROGRAMS: u64 = 600;
/// Programs that run on one cluster, one after the other.
const PER_CLUSTER: u64 = 40;

fn programs() -> u64 {
    std::env::var("THALWEG_PROGRAMS").ok().and_then(|text| text.parse().ok()).unwrap_or(PROGRAMS)
}

#[test]
fn programs_on_any_number_of_ranks_compute_what_a_loop_computes() {
    for first in (0..programs()).step_by(PER_CLUSTER as usize) {
        let seeds = first..(first + PER_CLUSTER).min(programs());
        let ranks = 1 + (first / PER_CLUSTER % 5) as usize;
        // A budget that holds no region, one that holds few, and one that holds all.
        let budget = [0, 100, 1 << 20][(first / PER_CLUSTER % 3) as usize];
        let network = Network::new(ranks).seed(first).delays(first % 7 * 3);
        let options = Options::new().eager_bytes(200).budget_bytes(budget).compare_programs(first % 80 == 0);
        let window = [1, 1000, 3][(first / PER_CLUSTER % 4 % 3) as usize];
        let units = ["1:CPU:1", "1:CPU:1,1:EMU:2", "1:EMU:1"][(first / PER_CLUSTER % 7 % 3) as usize];
        let programs: Vec<Program> = seeds.map(|seed| Program::random(seed, ranks, false)).collect();
        let expected: Vec<_> = programs.iter().map(Program::oracle).collect();
        for (rank, found) in run(&network, &options, (units, window), &programs).into_iter().enumerate() {
            for ((program, found), expected) in programs.iter().zip(found).zip(&expected) {
                assert_eq!(&found, expected, "rank {rank} of {ranks}, {program:#?}");
            }
        }
    }
}

#[test]
fn programs_that_fail_have_the_same_failures_and_values_on_any_number_of_ranks() {
    for first in (0..programs() / 4).step_by(PER_CLUSTER as usize) {
        let seeds = first..(first + PER_CLUSTER).min(programs() / 4);
        let options = Options::new().eager_bytes(200).budget_bytes(1000);
        let programs: Vec<Program> = seeds.map(|seed| Program::random(seed, 4, true)).collect();
        let mut expected = None;
        for ranks in [1, 2, 4] {
            let network = Network::new(ranks).seed(first).delays(10);
            let units = if ranks == 2 { "1:CPU:1,1:EMU:1" } else { "1:CPU:1" };
            for (rank, found) in run(&network, &options, (units, 1000), &programs).into_iter().enumerate() {
                let expected = expected.get_or_insert_with(|| found.clone());
                for ((program, found), expected) in programs.iter().zip(&found).zip(expected) {
                    assert_eq!(found, expected, "rank {rank} of {ranks}, {program:#?}");
                }
            }
        }
    }
}
