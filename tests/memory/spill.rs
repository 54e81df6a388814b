//! Limited host memory: arrays leave for the disk and come back unchanged, and faults of the disk lose nothing else.

use crate::common::{SCHEDULERS, builder, watched, words};
use crate::random::Random;
use std::path::PathBuf;
use std::sync::Arc;
use thalweg::check::Explorer;
use thalweg::error::TaskFailure;
use thalweg::prelude::*;
use thalweg::{Builder, Context, Eviction};

/// Number of elements of a tile, which takes 16 KiB.
const LEN: usize = 2048;
const TILE_BYTES: u64 = 8 * LEN as u64;

/// Limits a runtime to this many tiles in memory.
fn limited(builder: Builder, tiles: u64) -> Builder {
    builder.host_memory(tiles * TILE_BYTES).spill_to(std::env::temp_dir())
}

/// Runs random tasks on tiles that have mostly been spilled before, and compares them with a sequential run.
fn random_tasks(rt: &Runtime, seed: u64, tasks: usize) {
    const TILES: usize = 12;
    let mut lot = Random(seed);
    let mut expected: Vec<Vec<u64>> = (0..TILES as u64).map(|n| vec![if n % 2 == 0 { n } else { 0 }; LEN]).collect();
    let register = |(n, tile): (usize, &Vec<u64>)| if n % 2 == 0 { rt.data(tile.clone()) } else { rt.zeros(LEN) };
    let tiles: Vec<Data<u64>> = expected.iter().enumerate().map(register).collect();
    for n in 0..tasks as u64 {
        let (from, to) = (lot.below(TILES), lot.below(TILES));
        let half = if lot.below(2) == 0 { 0..LEN / 2 } else { LEN / 2..LEN };
        match lot.below(4) {
            _ if from == to => {
                rt.task("add", tiles[to].inout()).cpu(move |_, x| x.iter_mut().for_each(|x| *x += n)).submit().unwrap();
                expected[to].iter_mut().for_each(|x| *x += n);
            }
            0 => {
                let body = move |_: &Context, x: &mut [u64]| x.fill(n);
                rt.task("fill", tiles[to].slice(half.clone()).output()).cpu(body).submit().unwrap();
                expected[to][half].fill(n);
            }
            1 => {
                rt.task("fill all", tiles[to].output()).cpu(move |_, x| x.fill(n)).submit().unwrap();
                expected[to].fill(n);
            }
            _ => {
                let body = move |_: &Context, (x, y): (&[u64], &mut [u64])| {
                    y.iter_mut().zip(x).for_each(|(y, x)| *y = y.wrapping_mul(3).wrapping_add(*x + n));
                };
                let accesses = (tiles[from].slice(half.clone()).input(), tiles[to].slice(half.clone()).inout());
                rt.task("update", accesses).cpu(body).submit().unwrap();
                let source = expected[from][half.clone()].to_vec();
                let update = |(y, x): (&mut u64, u64)| *y = y.wrapping_mul(3).wrapping_add(x + n);
                expected[to][half].iter_mut().zip(source).for_each(update);
            }
        }
        if lot.below(20) == 0 {
            assert!(rt.read(&tiles[to]).unwrap() == expected[to]);
        }
    }
    for (tile, expected) in tiles.into_iter().zip(expected) {
        assert!(rt.take(tile).unwrap() == expected);
    }
}

#[test]
fn arrays_of_others_may_exceed_the_limit() {
    let rt = limited(Runtime::builder().compute_units("2:CPU:1"), 2).build().unwrap();
    let mut mine = vec![1u64; 8 * LEN];
    let tiles: Vec<Data<u64>> = (0..4).map(|n| rt.data(vec![n; LEN])).collect();
    rt.scope(|scope| {
        let borrowed = scope.borrow_mut(&mut mine);
        for tile in &tiles {
            let body = |_: &Context, (all, tile): (&mut [u64], &[u64])| all.iter_mut().for_each(|x| *x += tile[7]);
            scope.task("add", (borrowed.inout(), tile.input())).cpu(body).submit().unwrap();
        }
    })
    .unwrap();
    assert_eq!(mine, [1 + 1 + 2 + 3; 8 * LEN]);
    let together = rt.zeros_together::<u64, _>([4 * LEN, 4 * LEN]);
    for part in &together {
        rt.task("fill", part.output()).cpu(|_, x| x.fill(3)).submit().unwrap();
    }
    assert_eq!(rt.read(&together[1]).unwrap(), [3; 4 * LEN]);
    let all = (tiles[0].input(), tiles[1].input(), tiles[2].input());
    assert!(matches!(rt.task("three", all).cpu(|_, _| ()).submit(), Err(SubmitError::WorkingSet { .. })));
}

#[test]
fn arrays_leave_and_come_back_unchanged() {
    for scheduler in SCHEDULERS {
        for hosts in [false, true] {
            watched(&format!("{scheduler} hosts={hosts}"), move || {
                let evictions = [Eviction::LeastRecent, Eviction::FurthestUse];
                for (tiles, eviction) in [2, 3, 5, 12].into_iter().zip(evictions.into_iter().cycle()) {
                    let builder = limited(builder("2:CPU:1", hosts), tiles).eviction(eviction);
                    let rt = builder.scheduler(scheduler).build().unwrap();
                    random_tasks(&rt, tiles, 150);
                    let evictions = rt.statistics().evictions;
                    assert_eq!(evictions > 20, tiles < 12, "{evictions} evictions at {tiles} tiles");
                }
            });
        }
    }
}

#[test]
fn explored_schedules_with_a_disk_give_the_same_results() {
    for seed in 0..4 {
        let eviction = if seed < 2 { Eviction::LeastRecent } else { Eviction::FurthestUse };
        let explorer =
            Explorer::new().runtime(move |builder| limited(builder.compute_units("2:CPU:1"), 3).eviction(eviction));
        explorer.run(0..20, |rt| random_tasks(rt, seed, 40)).unwrap_or_else(|failure| panic!("{failure}"));
    }
}

#[test]
fn working_set_beyond_the_limit_is_refused_with_the_numbers() {
    let rt = limited(builder("1:CPU:1", false), 2).build().unwrap();
    let [x, y, z] = [(); 3].map(|()| rt.zeros::<u64, _>(LEN));
    let accesses = (x.input(), y.input(), z.slice(0..1).output());
    let refused = rt.task("t", accesses).cpu(|_, _| ()).submit().unwrap_err();
    let said = "cannot make room for the data of `t`: it needs 49152 bytes at once, and the largest memory it could use \
                has 32768; try smaller regions, or units with more memory";
    assert_eq!(words(&refused), said);
    rt.task("t", (x.input(), y.inout())).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
}

#[test]
fn bodies_that_wait_do_not_keep_their_children_from_memory() {
    watched("waiting bodies", || {
        let rt = limited(builder("2:CPU:1", false), 2).build().unwrap();
        let tiles: Vec<Data<u64>> = (0..6).map(|_| rt.zeros(LEN)).collect();
        for n in 0..6 {
            let (own, other) = (&tiles[n], &tiles[(n + 3) % 6]);
            let (accesses, child) = ((own.slice(..LEN / 2).inout(), other.weak_inout()), other.clone());
            let body = move |cx: &Context, (x, _): (&mut [u64], _)| {
                x[0] += 1;
                cx.task("child", child.slice(LEN / 2..).inout()).cpu(|_, x| x[0] += 1).submit()?;
                cx.wait()
            };
            rt.task("parent", accesses).host(body).submit().unwrap();
        }
        rt.wait().unwrap();
        for tile in tiles {
            let tile = rt.take(tile).unwrap();
            assert_eq!((tile[0], tile[LEN / 2]), (1, 1));
        }
    });
}

#[test]
fn arguments_that_make_no_sense_are_refused() {
    let said = |builder: Builder| builder.build().unwrap_err().to_string();
    let cores = || builder("1:CPU:1", false);
    assert_eq!(said(cores().host_memory(1)), "host_memory: arrays have nowhere to go; try `spill_to` as well");
    assert_eq!(said(cores().spill_to("/")), "spill_to: nothing leaves without a limit; try `host_memory` as well");
    let missing = PathBuf::from("/there/is/no/such/folder");
    assert!(said(cores().host_memory(1).spill_to(missing)).starts_with("spill_to: cannot create a file in /there/is"));
    assert!(said(limited(builder("1:CPU:1,1:EMU:1", false), 1)).contains("try CPU units only"));
}

/// Returns the failures that a wait reports.
pub(crate) fn failures(result: Result<(), RunError>) -> Vec<Arc<TaskFailure>> {
    match result {
        Err(RunError::Failed(failures)) => failures.iter().cloned().collect(),
        other => panic!("tasks should have failed: {other:?}"),
    }
}

/// Passes to `change` each file that this process has opened in the directory and that has no name any more. Returns
/// their number.
#[cfg(target_os = "linux")]
fn for_each_file(directory: &std::path::Path, change: impl Fn(std::fs::File)) -> usize {
    use std::os::unix::fs::MetadataExt;
    let mut files = std::collections::HashSet::new();
    for entry in std::fs::read_dir("/proc/self/fd").unwrap() {
        let path = entry.unwrap().path();
        let Ok(target) = std::fs::read_link(&path) else { continue };
        let name = target.to_string_lossy().into_owned();
        if name.starts_with(&*directory.to_string_lossy()) && name.ends_with("(deleted)") {
            let file = std::fs::OpenOptions::new().read(true).write(true).open(&path).unwrap();
            // A file may be open several times.
            if files.insert(file.metadata().unwrap().ino()) {
                change(file);
            }
        }
    }
    files.len()
}

/// Numbers of elements of a tile: one that passes through the page cache, and one of several transfers past it, whose
/// last one is no whole block.
#[cfg(target_os = "linux")]
pub(crate) const LENS: [usize; 2] = [LEN, 300_001];

/// Runs a test with a folder and each of these lengths of tiles.
#[cfg(target_os = "linux")]
pub(crate) fn for_each_len(what: &str, test: impl Fn(&std::path::Path, usize) + Copy + Send + 'static) {
    for len in LENS {
        watched(&format!("{what} {len}"), move || {
            let folder = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
            test(folder.path(), len);
        });
    }
}

/// Returns a runtime and four tiles that tasks fill with `first` and the numbers after it. Two tiles fit into memory.
#[cfg(target_os = "linux")]
pub(crate) fn spilled(directory: &std::path::Path, len: usize, first: u64) -> (Runtime, Vec<Data<u64>>) {
    let rt = builder("1:CPU:1", false).host_memory(16 * len as u64).spill_to(directory).build().unwrap();
    let tiles: Vec<Data<u64>> = (0..4).map(|_| rt.zeros(len)).collect();
    for (n, tile) in (first..).zip(&tiles) {
        rt.task("fill", tile.output()).cpu(move |_, x| x.fill(n)).submit().unwrap();
    }
    (rt, tiles)
}

/// Changes a byte of each block.
#[cfg(target_os = "linux")]
fn corrupt(file: std::fs::File) {
    use std::os::unix::fs::FileExt;
    for at in (5..file.metadata().unwrap().len()).step_by(4096) {
        let mut byte = [0];
        file.read_exact_at(&mut byte, at).unwrap();
        file.write_all_at(&[byte[0] ^ 1], at).unwrap();
    }
}

#[test]
#[cfg(target_os = "linux")]
fn file_that_was_cut_fails_its_task_and_nothing_else() {
    for_each_len("cut", |folder, len| {
        let (rt, tiles) = spilled(folder, len, 1);
        rt.wait().unwrap();
        assert_eq!(for_each_file(folder, |file| file.set_len(4 * len as u64).unwrap()), 1);
        rt.task("sum", tiles[0].input()).cpu(|_, _| ()).submit().unwrap();
        let failed = failures(rt.wait());
        assert_eq!(failed.len(), 1);
        let said = failed[0].to_string();
        assert!(
            said.contains("sum") && (said.contains("read failed") || said.contains("its checksum differs")),
            "{said}"
        );
        assert!(rt.read(&tiles[3]).unwrap() == vec![4; len]);
        // The file grows again, and later writes are good.
        for (n, tile) in tiles.iter().enumerate() {
            rt.task("fill", tile.output()).cpu(move |_, x| x.fill(n as u64 + 7)).submit().unwrap();
        }
        tiles.iter().enumerate().for_each(|(n, tile)| assert!(rt.read(tile).unwrap() == vec![n as u64 + 7; len]));
    });
}

#[test]
#[cfg(target_os = "linux")]
fn changed_block_fails_its_task_and_nothing_else() {
    for_each_len("corrupt", |folder, len| {
        let (rt, tiles) = spilled(folder, len, 0);
        rt.wait().unwrap();
        assert!(for_each_file(folder, corrupt) > 0);
        rt.task("sum", tiles[0].input()).cpu(|_, _| ()).submit().unwrap();
        let failed = failures(rt.wait());
        assert_eq!(failed.len(), 1);
        let said = failed[0].to_string();
        assert!(said.contains("its checksum differs") && said.contains("sum"), "{said}");
        // Arrays in memory, and arrays that are overwritten, are as before.
        assert!(rt.read(&tiles[3]).unwrap() == vec![3; len]);
        rt.task("fill", tiles[0].output()).cpu(|_, x| x.fill(9)).submit().unwrap();
        assert!(rt.read(&tiles[0]).unwrap() == vec![9; len]);
    });
}

#[test]
fn full_disk_fails_the_task_that_needs_the_room_and_loses_nothing() {
    let folder = tempfile::tempdir().unwrap();
    // Files of this process are limited to one tile; the signal that the system sends otherwise is ignored.
    let own = std::env::current_exe().unwrap();
    let mut shell = std::process::Command::new("sh");
    let limit = TILE_BYTES / 512;
    shell.args(["-c", &format!("trap '' XFSZ && ulimit -f {limit} && exec \"$0\" \"$@\"")]).arg(own);
    shell.args(["--ignored", "--exact", "spill::on_a_full_disk", "--nocapture"]).env("SPILL_FOLDER", folder.path());
    let output = shell.output().unwrap();
    let out = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success() && out.contains("1 passed"), "{out}");
}

#[test]
#[ignore = "runs in a process whose files are limited"]
fn on_a_full_disk() {
    let folder = std::env::var("SPILL_FOLDER").unwrap();
    watched("full", || {
        let rt = builder("1:CPU:1", false).host_memory(2 * TILE_BYTES).spill_to(folder).build().unwrap();
        let mut tiles: Vec<Data<u64>> = (0..4).map(|_| rt.zeros(LEN)).collect();
        for (n, tile) in tiles.iter().enumerate() {
            rt.task("fill", tile.output()).cpu(move |_, x| x.fill(n as u64)).submit().unwrap();
        }
        let failed = failures(rt.wait());
        assert_eq!(failed.len(), 1, "three tiles have room, on the disk or in memory");
        let said = failed[0].to_string();
        assert!(said.contains("write failed (system error 27: File too large)"), "{said}");
        for (n, tile) in tiles.iter().enumerate().take(3).skip(1) {
            assert_eq!(rt.read(tile).unwrap(), [n as u64; LEN], "they are in memory");
        }
        // The first is on the disk. It has no room in memory until another array is gone.
        assert!(matches!(rt.read(&tiles[0]), Err(RunError::Poisoned(_))));
        assert_eq!(rt.take(tiles.remove(1)).unwrap(), [1; LEN]);
        assert_eq!(rt.read(&tiles[0]).unwrap(), [0; LEN]);
        assert_eq!(rt.read(&tiles[1]).unwrap(), [2; LEN]);
    });
}

/// Data objects are released, and the runtime ends, while their tasks still wait for memory.
#[test]
#[cfg(target_os = "linux")]
fn runtime_that_ends_with_released_data_and_pending_tasks_closes_its_file() {
    let directory = std::env::temp_dir().join(format!("thalweg-ends-{}", std::process::id()));
    std::fs::create_dir_all(&directory).unwrap();
    let open = || for_each_file(&directory, |_| ());
    for seed in 0..100 {
        let mut lot = Random(seed + 1);
        let rt = builder(lot.of(&["2:CPU:1", "3:CPU:1"]), seed % 2 == 0)
            .host_memory(2 * TILE_BYTES)
            .spill_to(&directory)
            .build()
            .unwrap();
        let tiles: Vec<Data<u64>> = (0..12).map(|n| rt.data(vec![n; LEN])).collect();
        for _ in 0..lot.below(40) {
            let tile = &tiles[lot.below(12)];
            if lot.below(8) == 0 {
                rt.task("fails", tile.inout()).cpu(|_, _| Err("as planned")).submit().unwrap();
            } else {
                rt.task("fill", tile.output()).cpu(|_, x| x.fill(7)).submit().unwrap();
            }
        }
        drop(tiles);
        drop(rt);
        assert_eq!(open(), 0, "seed {seed}");
    }
    std::fs::remove_dir(directory).unwrap();
}
