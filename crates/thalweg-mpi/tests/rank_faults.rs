//! Ranks that die, leave or differ, and tasks that fail: every rank ends in bounded time and says why.

use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::Runtime;
use thalweg_mpi::{Broken, Cluster, ClusterData, ClusterError, Network, Options};

/// Time in which every rank must have ended.
const BOUND: Duration = Duration::from_secs(60);

/// Runs a program on each rank of a network, and returns what each has returned, or the message of its panic.
fn run<R: Send + 'static>(
    network: &Network,
    program: impl Fn(&Cluster) -> R + Send + Sync + Clone + 'static,
) -> Vec<Result<R, String>> {
    run_with(network, |options| options, |_| "1:CPU:1", move |cluster| program(&cluster.unwrap()))
}

/// As [`run`], with these options, and with units for each rank. The program gets what starting the rank has returned.
fn run_with<R: Send + 'static>(
    network: &Network,
    options: impl Fn(Options) -> Options + Send + Clone + 'static,
    units: fn(usize) -> &'static str,
    program: impl Fn(Result<Cluster, ClusterError>) -> R + Send + Sync + Clone + 'static,
) -> Vec<Result<R, String>> {
    let (send, ended) = channel();
    let ends = network.endpoints();
    let ranks = ends.len();
    for (rank, end) in ends.into_iter().enumerate() {
        let (send, program, options) = (send.clone(), program.clone(), options.clone());
        std::thread::spawn(move || {
            let run = || {
                let builder = Runtime::builder().compute_units(units(rank)).pin_threads(false);
                program(options(Options::new().eager_bytes(64).compare_programs(true)).over(end, builder))
            };
            let ended = std::panic::catch_unwind(std::panic::AssertUnwindSafe(run));
            let ended = ended.map_err(|payload| payload.downcast_ref::<&str>().unwrap_or(&"").to_string());
            send.send((rank, ended)).unwrap();
        });
    }
    let mut results: Vec<_> = (0..ranks).map(|_| None).collect();
    for _ in 0..ranks {
        let (rank, result) = ended.recv_timeout(BOUND).expect("a rank has not ended in time");
        results[rank] = Some(result);
    }
    results.into_iter().map(Option::unwrap).collect()
}

/// Passes an array around all ranks a few times.
fn circulate(cluster: &Cluster, rounds: usize, len: usize) -> Result<Vec<f64>, ClusterError> {
    let parts: ClusterData<f64> = cluster.distributed(len * cluster.ranks(), len, thalweg_mpi::owners::block);
    for step in 0..rounds * cluster.ranks() {
        let (from, to) = (parts.nth(step % cluster.ranks()), parts.nth((step + 1) % cluster.ranks()));
        if cluster.ranks() > 1 {
            let task = cluster.task("pass", (from.input(), to.output()));
            task.cpu(|_, (from, to)| from.iter().zip(to).for_each(|(from, to)| *to = from + 1.0)).submit()?;
        }
    }
    let first = cluster.read(parts.nth(0))?;
    cluster.wait()?;
    Ok(first)
}

#[test]
fn death_of_a_rank_ends_all_ranks_with_its_name() {
    for packets in [1, 2, 3, 5, 8, 13, 21] {
        for len in [4, 1000] {
            let network = Network::new(3).seed(packets).delays(20).death(1, packets);
            let ended = run(&network, move |cluster| circulate(cluster, 200, len));
            for (rank, result) in ended.into_iter().enumerate() {
                match result.unwrap().expect_err("no rank can finish") {
                    ClusterError::Broken(Broken::Lost { rank: 1, .. }) => {}
                    other => panic!("rank {rank}, {packets} packets: {other}"),
                }
            }
        }
    }
}

#[test]
fn death_of_a_rank_ends_the_measurement_of_clocks() {
    let folder = tempfile::tempdir().unwrap();
    for (dying, packets) in [0, 1].into_iter().flat_map(|rank| [1, 9, 32, 40, 80].map(|packets| (rank, packets))) {
        let network = Network::new(2).seed(packets).delays(20).death(dying, packets);
        let trace = folder.path().join("run.thw");
        let ended = run_with(
            &network,
            move |options| options.trace(&trace),
            |_| "1:CPU:1",
            |cluster| circulate(&cluster?, 200, 4),
        );
        for result in ended {
            let error = result.unwrap().expect_err("no rank can finish");
            assert!(
                matches!(error, ClusterError::Broken(Broken::Lost { rank, .. }) if rank == dying),
                "rank {dying} dies after {packets} packets: {error}"
            );
        }
    }
}

#[test]
fn rank_whose_runtime_cannot_be_built_ends_all_ranks() {
    let network = Network::new(3);
    let units = |rank| if rank == 1 { "no units" } else { "1:CPU:1" };
    let ended = run_with(&network, |options| options, units, |cluster| circulate(&cluster?, 3, 8));
    for (rank, result) in ended.into_iter().enumerate() {
        let error = result.unwrap().expect_err("no rank can finish");
        match error {
            ClusterError::Build(_) if rank == 1 => {}
            ClusterError::Broken(Broken::Lost { rank: 1, reason }) if rank != 1 => {
                assert!(reason.starts_with("its runtime cannot be built: "), "{reason}");
            }
            error => panic!("rank {rank}: {error}"),
        }
    }
}

#[test]
fn panic_of_a_program_ends_all_ranks_with_its_name() {
    let mut ended = run(&Network::new(3), |cluster| {
        circulate(cluster, 3, 8)?;
        assert_ne!(cluster.rank(), 2, "as it should");
        circulate(cluster, 3, 8)
    });
    assert!(ended.pop().unwrap().is_err());
    for result in ended {
        let text = result.unwrap().unwrap_err().to_string();
        assert!(text.contains("rank 2 is lost: its program has panicked"), "{text}");
    }
}

#[test]
fn rank_that_leaves_early_is_named() {
    let ended = run(&Network::new(3), |cluster| {
        circulate(cluster, 1, 8)?;
        if cluster.rank() == 1 {
            return Ok(Vec::new());
        }
        circulate(cluster, 1, 8)
    });
    for (rank, result) in ended.into_iter().enumerate().filter(|(rank, _)| *rank != 1) {
        let text = result.unwrap().unwrap_err().to_string();
        assert!(text.contains("rank 1 is lost: it has ended without"), "rank {rank}: {text}");
    }
}

#[test]
fn different_programs_are_found_with_both_places() {
    let ended = run(&Network::new(3), |cluster| -> Result<(), ClusterError> {
        let (x, y) = (cluster.data(0, vec![1.0]), cluster.data(1, vec![2.0]));
        for step in 0..10 {
            let (x, y) = if step % 2 == 0 { (&x, &y) } else { (&y, &x) };
            let name = if step == 6 && cluster.rank() == 2 { "wrong" } else { "right" };
            cluster.task(name, (x.input(), y.inout())).cpu(|_, (x, y)| y[0] += x[0]).submit()?;
        }
        cluster.wait()
    });
    for result in ended {
        let text = result.unwrap().unwrap_err().to_string();
        let place = text.split("tests/rank_faults.rs:").count() - 1;
        assert!(text.contains("submission 8 is `right`") && text.contains("but `wrong`"), "{text}");
        assert!(text.contains("on rank 2") && place == 2, "{text}");
    }
}

#[test]
fn missing_task_is_found_by_a_message_for_another_task() {
    let ended = run(&Network::new(2), |cluster| -> Result<Vec<f64>, ClusterError> {
        let (x, y) = (cluster.data(0, vec![1.0; 100]), cluster.data(1, vec![2.0]));
        for step in 0..4 {
            cluster.task("change", x.inout()).cpu(|_, x| x[0] += 1.0).submit()?;
            if step != 1 || cluster.rank() == 0 {
                cluster.task("use", (x.input(), y.inout())).cpu(|_, (x, y)| y[0] += x[0]).submit()?;
            }
        }
        cluster.wait()?; // else rank 1, which owns `y`, may read it before the last message shows the difference
        cluster.read(&y)
    });
    for result in ended {
        let text = result.unwrap().unwrap_err().to_string();
        assert!(text.contains("submission 5 is `use`") && text.contains("but `change`"), "{text}");
    }
}

#[test]
fn failures_are_the_same_on_every_rank_and_end_where_the_value_is_overwritten() {
    let ended = run(&Network::new(3).delays(9), |cluster| -> Result<(), ClusterError> {
        let parts: ClusterData<f64> = cluster.distributed(30, 10, thalweg_mpi::owners::block);
        cluster.task("returns", parts.nth(1).output()).cpu(|_, _| Err("no")).submit()?;
        cluster.task("panics", parts.nth(2).output()).cpu(|_, _| panic!("never")).submit()?;
        let accesses = (parts.nth(1).input(), parts.nth(0).output());
        cluster.task("skipped", accesses).cpu(|_, _| unreachable!("its input is poisoned")).submit()?;
        let text = cluster.wait().unwrap_err().to_string();
        assert!(text.contains("several tasks failed; task `returns` on rank 1"), "{text}");
        assert!(text.contains("failed: no; task `panics` on rank 2") && text.contains("panicked: never"), "{text}");
        assert!(!text.contains("skipped"), "{text}");
        let ClusterError::Poisoned(failure) = cluster.read(parts.nth(0)).unwrap_err() else { panic!() };
        assert_eq!((failure.name(), failure.rank()), ("returns", 1));
        cluster.wait()?; // nothing new has failed
        cluster.task("mend", parts.nth(1).output()).cpu(|_, x| x.fill(1.0)).submit()?;
        let accesses = (parts.nth(1).input(), parts.nth(0).output());
        cluster.task("copy", accesses).cpu(|_, (x, y)| y.copy_from_slice(x)).submit()?;
        assert_eq!(cluster.read(parts.nth(0))?, [1.0; 10]);
        cluster.wait()
    });
    ended.into_iter().for_each(|result| result.unwrap().unwrap());
}

#[test]
fn bad_calls_are_refused_on_every_rank_and_lose_nothing() {
    let ended = run(&Network::new(2), |cluster| -> Result<(), ClusterError> {
        let (x, y) = (cluster.data(0, vec![1.0, 2.0]), cluster.data(1, vec![0.0; 2]));
        let refused = |result: Result<(), ClusterError>, advice: &str| {
            let text = result.unwrap_err().to_string();
            assert!(text.starts_with("cannot submit") && text.contains(advice), "{text}");
        };
        let outside = cluster.task("outside", x.all().block(1..3).inout()).cpu(|_, _| ()).submit();
        refused(outside, "not inside");
        let twice = cluster.task("twice", (x.all().block(0..2).input(), x.all().block(1..2).inout()));
        refused(twice.cpu(|_, _| ()).submit(), "overlap");
        refused(cluster.task("reads", x.input()).cpu(|_, _| ()).submit(), "try `on`");
        refused(cluster.task("far", x.input()).on(2).cpu(|_, _| ()).submit(), "no rank 2");
        refused(cluster.read(x.all().block(5..9)).map(drop), "not inside");
        refused(cluster.migrate(x.all(), 7), "no rank 7");
        let on = cluster.task("on", (x.inout(), y.input())).on(1);
        on.cpu(|cx, (x, _)| x[0] += cx.inner_cores() as f64).submit()?;
        cluster
            .task("empty", (x.all().block(1..1).input(), y.inout()))
            .cpu(|_, (x, _)| assert!(x.is_empty()))
            .submit()?;
        assert_eq!(cluster.read(&x)?, [2.0, 2.0]);
        assert_eq!(cluster.read_on(1, &x)?, (cluster.rank() == 1).then(|| vec![2.0, 2.0]));
        cluster.wait()
    });
    ended.into_iter().for_each(|result| result.unwrap().unwrap());
}

#[test]
fn value_is_sent_once_for_each_version_and_only_the_part_that_is_read() {
    let ended = run(&Network::new(2), |cluster| -> Result<u64, ClusterError> {
        let (x, y) = (cluster.data(0, vec![1.0f64; 1000]), cluster.data(1, vec![0.0f64]));
        for _ in 0..3 {
            cluster.task("write", x.inout()).cpu(|_, x| x[10] += 1.0).submit()?;
            for _ in 0..5 {
                let accesses = (x.all().block(10..20).input(), y.inout());
                cluster.task("read", accesses).cpu(|_, (x, y)| y[0] += x[0]).submit()?;
            }
        }
        cluster.wait()?;
        Ok(cluster.traffic().bytes)
    });
    let bytes: Vec<u64> = ended.into_iter().map(|result| result.unwrap().unwrap()).collect();
    assert_eq!(bytes, [3 * 10 * 8, 0]);
}

#[test]
fn skipped_tasks_are_those_of_other_ranks() {
    let ended = run(&Network::new(4), |cluster| -> Result<usize, ClusterError> {
        let parts: ClusterData<f64> = cluster.distributed(400, 10, thalweg_mpi::owners::block);
        let mut submitted = 0;
        for _ in 0..3 {
            for part in parts.tiles() {
                if cluster.is_local(&part.inout()) {
                    submitted += 1;
                    cluster.task("add", part.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1.0)).submit()?;
                }
            }
        }
        assert!(cluster.gather(&parts)?.iter().all(|x| *x == 3.0));
        cluster.wait()?;
        Ok(submitted)
    });
    ended.into_iter().for_each(|result| assert_eq!(result.unwrap().unwrap(), 30));
}
