//! Order of ready tasks. The tests measure how many pieces of memory are alive at once if each piece is produced by one
//! task and consumed by the next. They also check that long chains do not starve other tasks, although the scheduler
//! prefers the next task of a chain as it prefers consumers.

use crate::common::{gate, watched};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

const PIECES: usize = 120;

/// The number of pieces that have been produced but not consumed, and the maximum of this number so far.
#[derive(Default)]
struct Alive(AtomicUsize, AtomicUsize);

impl Alive {
    fn produced(&self) {
        let alive = self.0.fetch_add(1, Ordering::SeqCst) + 1;
        self.1.fetch_max(alive, Ordering::SeqCst);
    }

    fn consumed(&self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Submits all pieces before the first task can run. Returns the largest number of pieces alive at once.
fn most_alive(units: &str, scheduler: &str, hosts: bool) -> usize {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).use_current_thread(hosts);
    let rt = builder.build().unwrap();
    let alive = Arc::new(Alive::default());
    let count = rt.machine().num_units();
    // Every unit is blocked until all tasks are submitted, so that producers queue up in the policy.
    let mut gates = Vec::new();
    for _ in 0..count * usize::from(!hosts) {
        let (open, wait) = gate();
        gates.push(open);
        rt.task("hold", ()).cpu(move |_, ()| wait()).submit().unwrap();
    }
    for _ in 0..PIECES {
        let piece = rt.zeros::<f64, _>(1024);
        let (producer, consumer) = (alive.clone(), alive.clone());
        let load = rt.task("load", (piece.output(),)).cpu(move |_, (piece,)| {
            producer.produced();
            piece.fill(1.0);
        });
        load.submit().unwrap();
        let sum = rt.task("sum", (piece.input(),)).cpu(move |_, (piece,)| {
            assert_eq!(piece.iter().sum::<f64>(), 1024.0);
            consumer.consumed();
        });
        sum.submit().unwrap();
    }
    drop(gates);
    rt.wait().unwrap();
    assert_eq!(alive.0.load(Ordering::SeqCst), 0);
    alive.1.load(Ordering::SeqCst)
}

#[test]
fn consumers_run_before_further_producers() {
    for scheduler in ["stealing", "dynamic", "eft", "priority", "static"] {
        for units in ["1:CPU:1", "1:EMU:1", "2:CPU:1", "4:CPU:1", "1:CPU:1,1:EMU:1"] {
            // These policies never move a task that they have assigned to a unit. If the system suspends this unit's
            // thread, its consumers wait while other units keep producing, so the order of tasks alone cannot bound the
            // number of live pieces.
            let stays = matches!(scheduler, "eft" | "static");
            if stays && (!units.starts_with("1:") || units.contains(',')) {
                continue;
            }
            for hosts in [false, true] {
                watched(&format!("{units} {scheduler} hosts={hosts}"), move || {
                    let most = most_alive(units, scheduler, hosts);
                    println!("{units} {scheduler} hosts={hosts}: {most}");
                    assert!(most <= 16, "{units} {scheduler} hosts={hosts}: {most} of {PIECES} pieces alive at once");
                });
            }
        }
    }
}

#[test]
fn long_chains_let_other_tasks_run() {
    const LINKS: usize = 900;
    // After 256 links of a chain, the next link has to wait for its turn. This can happen to each of the three chains.
    const MOST: usize = 3 * 257;
    for scheduler in ["stealing", "dynamic", "eft", "static"] {
        for units in ["1:CPU:1", "1:EMU:1"] {
            watched(&format!("{units} {scheduler}"), move || {
                let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
                let (open, wait) = gate();
                let (links, last) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
                // When a link ends, the next links of the other chains are already ready.
                let [x, y, z] = [0u64; 3].map(|zero| rt.scalar(zero));
                rt.task("first", (x.inout(), y.inout(), z.inout())).cpu(move |_, _| wait()).submit().unwrap();
                for n in 0..LINKS {
                    let links = links.clone();
                    let link = rt
                        .task("link", [&x, &y, &z][n % 3].inout())
                        .cpu(move |_, _| _ = links.fetch_add(1, Ordering::SeqCst));
                    link.submit().unwrap();
                }
                // Submit more tasks than a unit is given in advance.
                for _ in 0..8 {
                    let (links, last) = (links.clone(), last.clone());
                    let other = move |_: &thalweg::Context, ()| {
                        last.fetch_max(links.load(Ordering::SeqCst), Ordering::SeqCst);
                    };
                    rt.task("other", ()).cpu(other).submit().unwrap();
                }
                drop(open);
                rt.wait().unwrap();
                let (links, last) = (links.load(Ordering::SeqCst), last.load(Ordering::SeqCst));
                assert_eq!(links, LINKS);
                assert!(last <= MOST, "{units} {scheduler}: the last other task ran after {last} of {LINKS} links");
            });
        }
    }
}
