//! Random work on tiles that do not all fit into the host memory of a runtime: tasks, tasks that fail, replays of a
//! recording, reads.

use crate::Sums;
use crate::random::Random;
use thalweg::prelude::*;
use thalweg::{Context, Recording};

/// Number of elements of a tile, which takes 16 KiB.
const LEN: usize = 2048;
const TILES: usize = 12;
/// Number of rounds on one runtime.
const ROUNDS: usize = 20;
const ACTS: usize = 40;

/// A step of a recording: the tile that is read, the tile that is updated, and a number.
type Update = (usize, usize, u64);

fn update(x: &[u64], y: &mut [u64], n: u64) {
    y.iter_mut().zip(x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x ^ n));
}

/// Submits an update of one tile by another.
fn submit(rt: &Runtime, tiles: &[Data<u64>], (from, to, n): Update) {
    let body = move |_: &Context, (x, y): (&[u64], &mut [u64])| update(x, y, n);
    rt.task("update", (tiles[from].input(), tiles[to].inout())).cpu(body).submit().unwrap();
}

fn record(rt: &Runtime, tiles: &[Data<u64>], updates: &[Update]) -> Recording {
    let steps = |r: &Recorder<'_>| {
        for &(from, to, n) in updates {
            let body = move |_: &Context, (x, y): (&[u64], &mut [u64])| update(x, y, n);
            r.task("update", (tiles[from].input(), tiles[to].inout())).cpu(body).submit()?;
        }
        Ok(())
    };
    rt.record(steps).unwrap()
}

/// Performs the update on the expected values. A tile without a value passes that on.
fn expect(expected: &mut [Option<Vec<u64>>], (from, to, n): Update) {
    let source = expected[from].clone();
    match (source, &mut expected[to]) {
        (Some(x), Some(y)) => update(&x, y, n),
        (_, y) => *y = None,
    }
}

/// Runs random rounds on one runtime and compares all tiles after each of them.
pub(crate) fn run(seed: u64, sums: &mut Sums) {
    let mut lot = Random(seed);
    let rt = Runtime::builder()
        .compute_units(lot.of(&["2:CPU:1", "1:CPU:2", "3:CPU:1"]))
        .scheduler(lot.of(&["stealing", "dynamic", "eft", "priority"]))
        .host_memory(lot.of(&[2, 3, 5]) * 8 * LEN as u64)
        .spill_to(std::env::temp_dir())
        .build()
        .unwrap();
    let mut expected: Vec<Option<Vec<u64>>> = (0..TILES as u64).map(|n| Some(vec![n; LEN])).collect();
    let tiles: Vec<Data<u64>> = expected.iter().map(|tile| rt.data(tile.clone().unwrap())).collect();
    let any = |lot: &mut Random| {
        let (from, to) = (lot.below(TILES), lot.below(TILES - 1));
        (from, (from + 1 + to) % TILES, lot.next())
    };
    let updates: Vec<Update> = (0..6).map(|_| any(&mut lot)).collect();
    let mut recording = record(&rt, &tiles, &updates);
    for _ in 0..ROUNDS {
        let mut failures = 0;
        for _ in 0..ACTS {
            match lot.below(16) {
                0 => {
                    let to = lot.below(TILES);
                    rt.task("fails", tiles[to].inout()).cpu(|_, _| Err("as planned")).submit().unwrap();
                    failures += usize::from(expected[to].take().is_some());
                }
                1..=3 => {
                    let (to, n) = (lot.below(TILES), lot.next());
                    rt.task("fill", tiles[to].output()).cpu(move |_, x| x.fill(n)).submit().unwrap();
                    expected[to] = Some(vec![n; LEN]);
                }
                4 => {
                    recording.replay().unwrap();
                    updates.iter().for_each(|one| expect(&mut expected, *one));
                    (sums.replays, sums.tasks) = (sums.replays + 1, sums.tasks + updates.len() as u64);
                    continue;
                }
                5 => {
                    let which = lot.below(TILES);
                    check(&rt, &tiles[which], &expected[which]);
                }
                _ => {
                    let one = any(&mut lot);
                    submit(&rt, &tiles, one);
                    expect(&mut expected, one);
                }
            }
            sums.tasks += 1;
        }
        let failed = match rt.wait() {
            Ok(()) => 0,
            Err(RunError::Failed(failed)) => failed.len(),
            Err(other) => panic!("{other}"),
        };
        assert_eq!(failed, failures, "the number of failures");
        sums.failures += failures as u64;
        for (tile, expected) in tiles.iter().zip(&mut expected) {
            check(&rt, tile, expected);
            if expected.is_none() {
                rt.task("fill", tile.output()).cpu(|_, x| x.fill(7)).submit().unwrap();
                *expected = Some(vec![7; LEN]);
            }
        }
    }
    sums.evictions += rt.statistics().evictions;
    drop(recording);
}

fn check(rt: &Runtime, tile: &Data<u64>, expected: &Option<Vec<u64>>) {
    match (rt.read(tile), expected) {
        (Ok(found), Some(expected)) => assert!(found == *expected, "a tile differs"),
        (Err(RunError::Poisoned(_)), None) => {}
        (found, expected) => panic!("{} instead of {}", found.is_ok(), expected.is_some()),
    }
}
