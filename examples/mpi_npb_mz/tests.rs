//! NPB-MZ with zones over ranks equals a single runtime, bit for bit. Each rank is a thread.

mod ranks;

use npb::mz::{Benchmark, Class, Fuse, Norms, Program, Settings};
use ranks::{OWNERS, Ranks};
use std::cell::Cell;
use thalweg::{Builder, Runtime};
use thalweg_mpi::{Network, Options};

fn builder() -> Builder {
    Runtime::builder().compute_units("1:CPU:1").pin_threads(false)
}

fn alone(benchmark: Benchmark, class: Class, settings: Settings) -> Norms {
    let rt = builder().build().unwrap();
    Program::new(&rt, benchmark, &benchmark.problem(class), settings).run(|| ()).unwrap().1
}

/// Returns each rank's norms, the bytes that all ranks have sent, and how many zones have changed their rank.
fn on_ranks(
    count: usize,
    benchmark: Benchmark,
    class: Class,
    settings: Settings,
    owners: &str,
) -> (Vec<Norms>, u64, usize) {
    let run = |end| {
        let cluster = Options::new().over(end, builder()).unwrap();
        let problem = benchmark.problem(class);
        let ranks = Ranks::new(&cluster, benchmark, &problem, owners);
        let program = Program::new(&ranks, benchmark, &problem, settings);
        let moved = Cell::new(0);
        let step = || moved.set(moved.get() + ranks.rebalance(|| program.log().take_times()).unwrap());
        let (_, norms) = program.run(step).unwrap();
        (norms, cluster.traffic().bytes, moved.get())
    };
    std::thread::scope(|scope| {
        let ends = Network::new(count).delays(3).seed(count as u64).endpoints();
        let threads: Vec<_> = ends.into_iter().map(|end| scope.spawn(move || run(end))).collect();
        let all: Vec<_> = threads.into_iter().map(|thread| thread.join().unwrap()).collect();
        let (bytes, moved) = (all.iter().map(|(_, bytes, _)| bytes).sum(), all[0].2);
        (all.into_iter().map(|(norms, ..)| norms).collect(), bytes, moved)
    })
}

#[test]
fn norms_have_the_same_bits_on_any_number_of_ranks() {
    for benchmark in [Benchmark::Bt, Benchmark::Sp, Benchmark::Lu] {
        for fuse in [Fuse::Whole, Fuse::Step, Fuse::Stages] {
            let settings = Settings { steps: 5, fuse, periods: false, replay: false };
            let alone = alone(benchmark, Class::S, settings);
            for (ranks, owners) in [(1, "size"), (2, "static"), (3, "adjacency"), (4, "size"), (4, "guided")] {
                let (norms, bytes, _) = on_ranks(ranks, benchmark, Class::S, settings, owners);
                assert!(norms.iter().all(|norms| *norms == alone), "{benchmark:?}, {fuse:?}, {ranks} ranks, {owners}");
                assert_eq!(bytes > 0, ranks > 1, "{benchmark:?}, {fuse:?}, {ranks} ranks, {owners}");
            }
        }
    }
}

#[test]
fn guided_owners_follow_the_sizes_of_zones() {
    let settings = Settings { steps: 20, fuse: Fuse::Whole, periods: false, replay: false };
    let alone = alone(Benchmark::Bt, Class::W, settings);
    let (norms, _, moved) = on_ranks(2, Benchmark::Bt, Class::W, settings, "guided");
    assert!(norms.iter().all(|norms| *norms == alone));
    assert!(moved > 0, "zones of BT differ in size by a factor of 20, so equal chunks of them are no balance");
}

#[test]
fn recordings_and_children_are_refused_with_advice() {
    assert_eq!(OWNERS.len(), 4);
    for (fuse, replay, advice) in
        [(Fuse::Step, true, "try without replay"), (Fuse::Planes, false, "try `in`, `out` or `inout`")]
    {
        let end = Network::new(1).endpoints().remove(0);
        let cluster = Options::new().over(end, builder()).unwrap();
        let problem = Benchmark::Bt.problem(Class::S);
        let ranks = Ranks::new(&cluster, Benchmark::Bt, &problem, "size");
        let settings = Settings { steps: 2, fuse, periods: false, replay };
        let error = Program::new(&ranks, Benchmark::Bt, &problem, settings).run(|| ()).unwrap_err().to_string();
        assert!(error.contains(advice), "{error}");
    }
}
