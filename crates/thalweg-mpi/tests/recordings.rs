//! Recordings on clusters: their messages are planned once, and again if the directory has changed.

use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::Runtime;
use thalweg::memory::Sum;
use thalweg_mpi::{Cluster, ClusterData, ClusterError, Network, Options, owners};

/// Runs a program on each rank of a network; regions of more than 64 bytes are not sent inside packets.
fn on_ranks<R: Send>(ranks: usize, program: impl Fn(&Cluster) -> R + Sync) -> Vec<R> {
    let (network, program) = (Network::new(ranks).delays(4).seed(9), &program);
    std::thread::scope(|scope| {
        let start = |end| {
            scope.spawn(move || {
                let builder = Runtime::builder().compute_units("1:CPU:1").pin_threads(false);
                let cluster = Options::new().eager_bytes(64).compare_programs(false).over(end, builder).unwrap();
                program(&cluster)
            })
        };
        let ranks: Vec<_> = network.endpoints().into_iter().map(start).collect();
        ranks.into_iter().map(|rank| rank.join().unwrap()).collect()
    })
}

const LEN: usize = 100;

/// Each tile becomes the sum of itself and the one before it.
fn shift<'d>(
    cluster: &Cluster,
    x: &'d ClusterData<f64>,
    y: &'d ClusterData<f64>,
) -> Result<thalweg_mpi::Recording<'d>, ClusterError> {
    cluster.record(|r| {
        for at in 0..x.num_tiles() {
            let before = (at + x.num_tiles() - 1) % x.num_tiles();
            r.task("add", (x.nth(at).input(), x.nth(before).input(), y.nth(at).output()))
                .cpu(|_, (x, before, y)| y.iter_mut().zip(x.iter().zip(before)).for_each(|(y, (a, b))| *y = a + b))
                .submit()?;
        }
        for at in 0..x.num_tiles() {
            let task = r.task("back", (y.nth(at).input(), x.nth(at).output()));
            task.cpu(|_, (y, x)| x.copy_from_slice(y)).submit()?;
        }
        Ok(())
    })
}

fn filled(cluster: &Cluster, tiles: usize) -> [ClusterData<f64>; 2] {
    let make = || cluster.distributed(tiles * LEN, LEN, owners::cyclic);
    let all: [ClusterData<f64>; 2] = [make(), make()];
    for tile in all[0].tiles() {
        let value = tile.number() as f64;
        cluster.task("fill", tile.output()).cpu(move |_, x| x.fill(value)).submit().unwrap();
    }
    all
}

fn expected(tiles: usize, steps: usize) -> Vec<f64> {
    let mut x: Vec<f64> = (0..tiles).map(|tile| tile as f64).collect();
    (0..steps).for_each(|_| x = (0..tiles).map(|at| x[at] + x[(at + tiles - 1) % tiles]).collect());
    x
}

fn firsts(cluster: &Cluster, x: &ClusterData<f64>) -> Vec<f64> {
    x.tiles().map(|tile| cluster.read(tile.block(..1)).unwrap()[0]).collect()
}

#[test]
fn repeated_steps_send_all_large_messages_by_planned_requests() {
    const STEPS: usize = 50;
    let results = on_ranks(3, |cluster| {
        let [x, y] = filled(cluster, 6);
        let mut step = shift(cluster, &x, &y).unwrap();
        assert_eq!(step.planned_messages(), None);
        (0..STEPS).for_each(|_| step.replay().unwrap());
        cluster.wait().unwrap();
        let sent = cluster.traffic();
        (firsts(cluster, &x), step.planned_messages(), sent)
    });
    for (values, planned, sent) in results {
        assert_eq!(values, expected(6, STEPS));
        assert_eq!(planned, Some(4), "each rank sends two tiles and receives two");
        assert_eq!((sent.messages, sent.repeated), (2 * STEPS as u64, 2 * STEPS as u64));
    }
}

#[test]
fn plan_is_made_again_after_release_migration_and_foreign_reads() {
    let results = on_ranks(3, |cluster| {
        let [x, y] = filled(cluster, 6);
        let mut step = shift(cluster, &x, &y).unwrap();
        for at in 0..6 {
            (0..3).for_each(|_| step.replay().unwrap());
            match at % 3 {
                0 => x.tiles().for_each(|tile| cluster.release(tile).unwrap()),
                1 => cluster.migrate(x.nth(at), (at + 1) % 3).unwrap(),
                _ => _ = cluster.read(x.nth(at)).unwrap(),
            }
        }
        firsts(cluster, &x)
    });
    results.iter().for_each(|values| assert_eq!(*values, expected(6, 18)));
}

#[test]
fn contributions_of_replays_are_combined_in_the_order_of_submission() {
    let sums = |ranks| {
        on_ranks(ranks, |cluster| {
            let [x, _] = filled(cluster, 5);
            let total = cluster.data(0, vec![0.1]);
            let mut step = cluster
                .record(|r| {
                    for tile in x.tiles() {
                        let task = r.task("sum", (tile.inout(), total.reduction(Sum)));
                        task.cpu(|_, (x, total)| {
                            x.iter_mut().for_each(|x| *x = 0.3 * *x + 0.7);
                            total[0] += x.iter().sum::<f64>() / 3.0;
                        })
                        .submit()?;
                    }
                    Ok(())
                })
                .unwrap();
            (0..20).for_each(|_| step.replay().unwrap());
            cluster.read(&total).unwrap()[0].to_bits()
        })
    };
    let one = sums(1)[0];
    assert!([2, 3, 4].into_iter().flat_map(sums).all(|bits| bits == one));
}

#[test]
fn failure_of_a_replay_poisons_what_it_writes_until_it_is_written_again() {
    let calls = AtomicUsize::new(0);
    let calls: &'static AtomicUsize = Box::leak(Box::new(calls));
    on_ranks(2, |cluster| {
        let (x, y) = (cluster.data(0, vec![1.0; LEN]), cluster.data(1, vec![0.0; LEN]));
        let step = cluster.record(|r| {
            let source = r.task("source", x.inout());
            source.cpu(|_, x| x.iter_mut().for_each(|x| *x += 1.0)).submit()?;
            r.task("copy", (x.input(), y.output()))
                .cpu(|_, (x, y)| {
                    y.copy_from_slice(x);
                    if calls.fetch_add(1, Ordering::Relaxed) == 1 { Err("second call") } else { Ok(()) }
                })
                .submit()
        });
        let mut step = step.unwrap();
        for round in 0..4 {
            step.replay().unwrap();
            let read = cluster.read(y.all().block(..1));
            assert_eq!(read.is_err(), round == 1, "replay {round}: {read:?}");
            assert_eq!(cluster.wait().is_err(), round == 1, "replay {round}");
        }
    });
}

#[test]
fn refused_task_is_an_error_of_the_recording() {
    on_ranks(1, |cluster| {
        let x = cluster.data(0, vec![1.0; 4]);
        let refused = cluster.record(|r| r.task("t", x.all().block(2..9).inout()).cpu(|_, _| ()).submit());
        let text = refused.unwrap_err().to_string();
        assert!(text.contains("is not inside of tile 0"), "{text}");
    });
}
