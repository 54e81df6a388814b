//! Resources of units: exclusive cores, threads inside a unit, use of all devices, stealing from every other unit, and
//! sleep.
//!
//! None of these is visible in a program's values, so each test makes a unit do something that it could not do without
//! the resource. These tests run one after the other, because the cores in use and the sleeping threads are properties
//! of the whole process.

use crate::common::{gate, runtime, watched};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Sender, channel};
use std::sync::{Arc, Barrier, Condvar, Mutex, MutexGuard, PoisonError};
use thalweg::Context;
use thalweg::prelude::*;

/// Prevents the other tests of this file from running while the guard is held.
fn alone() -> MutexGuard<'static, ()> {
    static TURN: Mutex<()> = Mutex::new(());
    TURN.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The unit that has run a task, available once the task has run.
#[derive(Default)]
struct Taken(Mutex<Option<usize>>, Condvar);

impl Taken {
    fn tell(&self, unit: usize) {
        *self.0.lock().unwrap() = Some(unit);
        self.1.notify_all();
    }

    fn by(&self) -> usize {
        let unit = self.1.wait_while(self.0.lock().unwrap(), |unit| unit.is_none()).unwrap();
        unit.expect("the wait above ends when a unit is set")
    }
}

#[test]
fn idle_unit_steals_from_every_other_unit() {
    const UNITS: usize = 4;
    let _alone = alone();
    for thief in 0..UNITS {
        for victim in (0..UNITS).filter(|victim| *victim != thief) {
            watched(&format!("{thief} from {victim}"), move || {
                let rt = Arc::new(runtime(&format!("{UNITS}:CPU:1")));
                // All units meet at the barrier, so each of them is in one of these bodies. Then the victim submits a
                // task. Except for the thief, all units stay in their bodies until the task has run, so only the thief
                // can take it.
                let (everywhere, taken) = (Arc::new(Barrier::new(UNITS)), Arc::new(Taken::default()));
                for _ in 0..UNITS {
                    let (inner, everywhere, taken) = (Arc::downgrade(&rt), everywhere.clone(), taken.clone());
                    let body = move |at: &Context, ()| {
                        everywhere.wait();
                        if at.unit().index() == victim {
                            let (rt, taken) = (inner.upgrade().expect("the runtime's owner is waiting"), taken.clone());
                            rt.task("loot", ()).cpu(move |at, ()| taken.tell(at.unit().index())).submit().unwrap();
                        }
                        if at.unit().index() != thief {
                            assert_eq!(taken.by(), thief);
                        }
                    };
                    rt.task("unit", ()).cpu(body).submit().unwrap();
                }
                rt.wait().unwrap();
            });
        }
    }
}

#[test]
fn cores_of_a_unit_work_on_one_body_together() {
    let _alone = alone();
    for (units, cores) in [("1:CPU:3", 3), ("2:CPU:2", 2), ("1:CPU:2,1:EMU:1", 2)] {
        for hosts in [false, true] {
            watched(&format!("{units} hosts={hosts}"), move || {
                let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                let (seen, threads) = channel();
                for _ in 0..4 {
                    let seen = seen.clone();
                    // Every thread of the pool has to arrive before any of them continues, so with fewer threads the
                    // body would never end.
                    let body = move |at: &Context, ()| {
                        assert_eq!(at.inner_cores(), cores);
                        let all = Barrier::new(cores);
                        rayon::broadcast(|_| _ = all.wait());
                        seen.send(rayon::current_num_threads()).unwrap();
                    };
                    rt.task("team", ()).host(body).submit().unwrap();
                }
                drop(seen);
                rt.wait().unwrap();
                assert_eq!(threads.iter().collect::<Vec<_>>(), [cores; 4]);
            });
        }
    }
}

#[test]
fn unit_uses_all_of_its_devices() {
    let _alone = alone();
    watched("devices", || {
        let rt = runtime("1:EMU:3");
        let data: Vec<_> = (0..3).map(|_| rt.scalar(0u64)).collect();
        let ((open, wait), (begun, begins), (seen, devices)) = (gate(), channel(), channel());
        let first = rt.task("first", (data[0].inout(),));
        let tell = seen.clone();
        let body = move |at: &Context, _: (&mut [u64],)| {
            tell.send(at.device()).unwrap();
            begun.send(()).unwrap();
            wait();
        };
        first.emulated(body).submit().unwrap();
        begins.recv().unwrap();
        // While the first task occupies its device, the other tasks go to the devices with the least work.
        for x in &data[1..] {
            let tell = seen.clone();
            let body = move |at: &Context, _: (&mut [u64],)| tell.send(at.device()).unwrap();
            rt.task("next", (x.inout(),)).emulated(body).submit().unwrap();
        }
        drop((open, seen));
        rt.wait().unwrap();
        let mut devices: Vec<_> =
            devices.iter().map(|device| device.expect("an emulated body runs on a device").0).collect();
        devices.sort_unstable();
        assert_eq!(devices, [0, 1, 2]);
    });
}

#[test]
fn hosting_submitter_runs_tasks_beyond_its_window() {
    const TASKS: usize = 10_000;
    const WINDOW: usize = 64;
    let _alone = alone();
    for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let builder = Runtime::builder().compute_units(units).use_current_thread(true).max_pending_tasks(WINDOW);
            let (rt, ran) = (builder.build().unwrap(), Arc::new(AtomicUsize::new(0)));
            for submitted in 1..=TASKS {
                let counter = ran.clone();
                let body = move |_: &Context, ()| _ = counter.fetch_add(1, Ordering::Relaxed);
                // This thread hosts the only CPU unit, so no other thread can run these tasks.
                rt.task("count", ()).host(body).submit().unwrap();
                // The submitter does not check after every submission how far ahead it is.
                let pending = submitted - ran.load(Ordering::Relaxed);
                assert!(pending <= 2 * WINDOW, "{pending} tasks are pending after {submitted}");
            }
            rt.wait().unwrap();
            assert_eq!(ran.load(Ordering::Relaxed), TASKS);
        });
    }
}

#[cfg(target_os = "linux")]
mod linux {
    use super::*;
    use std::fs;

    /// Returns the cores that the calling thread may run on, in the operating system's notation.
    fn own_cores() -> String {
        let status = fs::read_to_string("/proc/thread-self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed_list:"));
        line.expect("the system lists the allowed cores").trim().to_owned()
    }

    #[test]
    fn threads_are_pinned_to_their_units_cores() {
        let _alone = alone();
        let cores: Vec<usize> = thalweg::machine::Topology::detect().core_ids().collect();
        let mut mixes = vec!["1:CPU:1".to_owned(), "1:CPU:1,1:EMU:1".to_owned()];
        mixes.extend((cores.len() > 1).then(|| "2:CPU:1".to_owned()));
        mixes.extend((cores.len() > 1).then(|| "1:CPU:2".to_owned()));
        for units in mixes {
            watched(&units.clone(), move || {
                let rt = Runtime::builder().compute_units(units.as_str()).pin_threads(true).build().unwrap();
                let all = Arc::new(Barrier::new(rt.machine().num_units()));
                let (seen, places): (Sender<(UnitId, Vec<String>)>, _) = channel();
                for unit in rt.machine().units() {
                    let (all, seen) = (all.clone(), seen.clone());
                    let body = move |at: &Context, ()| {
                        all.wait(); // there is one task per unit
                        let mut cores = rayon::broadcast(|_| own_cores());
                        cores.sort_unstable();
                        seen.send((at.unit(), cores)).unwrap();
                    };
                    let task = rt.task("where", ());
                    match unit.is_device() {
                        true => task.emulated(body).submit().unwrap(),
                        false => task.host(body).submit().unwrap(),
                    };
                }
                drop(seen);
                rt.wait().unwrap();
                for (unit, found) in places {
                    let unit = rt.machine().unit(unit);
                    let own = if unit.is_device() { &unit.cores[..1] } else { &unit.cores[..] };
                    let cores_in = |list: &String| -> Vec<usize> {
                        let range = |range: &str| {
                            let (first, last) = range.split_once('-').unwrap_or((range, range));
                            first.parse::<usize>().unwrap()..=last.parse().unwrap()
                        };
                        list.split(',').flat_map(range).collect()
                    };
                    let mut cores = unit.cores.clone();
                    cores.sort_unstable();
                    assert_eq!(found.len(), own.len(), "{} of {units}", unit.id);
                    assert!(found.iter().all(|list| cores_in(list) == cores), "{} of {units}: {found:?}", unit.id);
                }
            });
        }
    }

    /// Returns the states of this process's threads whose names begin with `name`.
    fn states(name: &str) -> Vec<char> {
        let tasks = fs::read_dir("/proc/self/task").unwrap().filter_map(|task| {
            let stat = fs::read_to_string(task.ok()?.path().join("stat")).ok()?;
            let (head, tail) = stat.rsplit_once(')')?;
            head.split_once('(')?.1.starts_with(name).then(|| tail.trim_start().chars().next())?
        });
        tasks.collect()
    }

    #[test]
    fn units_without_work_sleep() {
        let _alone = alone();
        for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
            for scheduler in ["stealing", "dynamic"] {
                watched(&format!("{units} {scheduler}"), move || {
                    let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
                    let x = rt.scalar(0u64);
                    rt.task("add", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).submit().unwrap();
                    rt.wait().unwrap();
                    // If a thread spins, the test never sees it asleep and does not end.
                    loop {
                        let states = states("thalweg-CU");
                        let states = if states.is_empty() { self::states("thalweg-") } else { states };
                        // Every unit has a thread, which may still be starting.
                        if states.len() >= 2 && states.iter().all(|state| *state == 'S') {
                            break;
                        }
                        std::thread::yield_now();
                    }
                    // The threads must wake up for work.
                    assert_eq!(rt.read(&x).unwrap()[0], 1);
                });
            }
        }
    }

    fn resident() -> usize {
        let statm = fs::read_to_string("/proc/self/statm").unwrap();
        statm.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 4096
    }

    #[test]
    fn ended_runtimes_leave_no_memory_behind() {
        let _alone = alone();
        watched("ended runtimes", || {
            let one_after_the_other = || {
                for _ in 0..300 {
                    let rt = Runtime::builder().compute_units("3:CPU:1,1:EMU:1").pin_threads(false).build().unwrap();
                    rt.task("t", ()).cpu(|_, ()| ()).submit().unwrap();
                }
                resident()
            };
            let before = one_after_the_other();
            // If rayon's data for every thread that has joined a pool were kept, it would amount to 8 MiB.
            let grown = one_after_the_other().saturating_sub(before);
            assert!(grown < 3 << 20, "{} KiB were kept", grown >> 10);
        });
    }

    #[test]
    fn memory_of_dropped_data_is_released() {
        const BYTES: usize = 8 << 20;
        const ROUNDS: usize = 64;
        let _alone = alone();
        for units in ["1:CPU:1", "1:CPU:1,1:EMU:1"] {
            for hosts in [false, true] {
                watched(&format!("{units} hosts={hosts}"), move || {
                    let rt = Runtime::builder().compute_units(units).use_current_thread(hosts).build().unwrap();
                    let before = resident();
                    for _ in 0..ROUNDS {
                        let x = rt.data(vec![1u8; BYTES]);
                        rt.task("fill", (x.inout(),)).cpu(|_, (x,)| x.fill(2)).submit().unwrap();
                        drop(x);
                        rt.wait().unwrap();
                    }
                    // At most two data objects, and their replicas on a device, exist at a time; all of them would be
                    // 512 MiB.
                    let grown = resident().saturating_sub(before);
                    assert!(grown < ROUNDS * BYTES / 4, "{} MiB were kept", grown >> 20);
                });
            }
        }
    }
}

#[test]
fn slow_link_delays_only_copies_that_use_it() {
    let _alone = alone();
    watched("link", || {
        // A copy takes an hour on the first device, and no time on the second.
        let device = |number| {
            let device = EmulatedDevice::new();
            if number == 0 { device.copy_delay(std::time::Duration::from_secs(3600), f64::INFINITY) } else { device }
        };
        let rt = Runtime::builder().compute_units("1:CPU:1,2:EMU:1").emulated_devices(device).build().unwrap();
        let (x, y, arrived) = (rt.scalar(1u64), rt.scalar(1u64), Arc::new(AtomicBool::new(false)));
        rt.prefetch(&x.all(), SpaceId(1)).unwrap();
        for _ in 0..2000 {
            rt.task("here", (y.inout(),)).host(|_, (y,)| y[0] += 1).submit().unwrap();
            rt.fetch(&y.all(), SpaceId(2)).unwrap();
            assert_eq!(y.all().valid_in(), [SpaceId::HOST, SpaceId(2)]);
            arrived.fetch_or(x.all().valid_in().contains(&SpaceId(1)), Ordering::Relaxed);
        }
        assert!(!arrived.load(Ordering::Relaxed), "a copy that takes an hour has arrived");
        // The test does not wait for an hour, because the process exits when all tests have ended.
        std::mem::forget((rt, x, y));
    });
}
