//! Long and fragmented histories: nothing is lost, reordered, or freed too early.

#![forbid(unsafe_code)]

use crate::common::{failed, for_each_mix, gate, poison, watched};
use ndarray::{Array2, Array3, Ix3};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

#[test]
fn take_and_release_wait_for_tasks_with_empty_regions() {
    for release in [false, true] {
        for_each_mix(move |rt| {
            let (matrix, vector) = (rt.array(Array2::from_elem((3, 4), 7u64)), rt.data(vec![1u64; 8]));
            let (held, ran) = (rt.scalar(0u64), Arc::new(AtomicUsize::new(0)));
            let (open, wait) = gate();
            rt.task("gate", (held.inout(),)).host(move |_, _| wait()).submit().unwrap();
            for _ in 0..40 {
                let ran = ran.clone();
                rt.task("late", (matrix.block((1..1, 0..4)).input(), held.inout(), vector.slice(8..8).output()))
                    .cpu(move |_, (matrix, held, vector)| {
                        assert_eq!((matrix.shape(), vector.len()), (&[0, 4][..], 0));
                        held[0] += 1;
                        ran.fetch_add(1, Ordering::SeqCst);
                    })
                    .submit()
                    .unwrap();
            }
            if release {
                drop((matrix, vector));
                drop(open);
            } else {
                std::thread::spawn(move || drop(open)); // this thread waits in `take`
                assert_eq!(rt.take(matrix).unwrap(), Array2::from_elem((3, 4), 7));
                assert_eq!(ran.load(Ordering::SeqCst), 40, "taken before all tasks that refer to it had ended");
                assert_eq!(rt.take(vector).unwrap(), [1; 8]);
            }
            rt.wait().unwrap();
            assert_eq!((ran.load(Ordering::SeqCst), rt.read(&held).unwrap()[0]), (40, 40));
        });
    }
}

#[test]
fn take_does_not_return_while_a_task_with_an_empty_region_is_pending() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = Runtime::builder().compute_units(units).use_current_thread(false).build().unwrap();
            let (x, held, ran) = (rt.data(vec![1u64; 8]), rt.scalar(0u64), Arc::new(AtomicUsize::new(0)));
            let (open, wait) = gate();
            rt.task("gate", (held.inout(),)).host(move |_, _| wait()).submit().unwrap();
            let late = ran.clone();
            rt.task("late", (x.slice(4..4).input(), held.inout()))
                .cpu(move |_, _| _ = late.fetch_add(1, Ordering::SeqCst))
                .submit()
                .unwrap();
            std::thread::scope(|scope| {
                let (rt, handle) = (&rt, x.clone());
                scope.spawn(move || {
                    // The take usually waits by the time of the last call. Earlier calls may be refused.
                    let look = || rt.task("look", (handle.slice(0..0).input(),)).cpu(|_, _| ()).submit();
                    (0..1000).take_while(|_| look().is_ok()).for_each(|_| std::thread::yield_now());
                    drop(open);
                });
                assert_eq!(rt.take(x).unwrap(), [1; 8]);
                assert_eq!(ran.load(Ordering::SeqCst), 1, "taken before the task that refers to it had ended");
            });
            rt.wait().unwrap();
        });
    }
}

#[test]
fn empty_region_of_a_blocked_task_does_not_delay_writers() {
    watched("beside a gate", || {
        let rt = Runtime::builder().compute_units("2:CPU:1").use_current_thread(false).build().unwrap();
        let (x, held) = (rt.data(vec![1u64; 8]), rt.scalar(0u64));
        let (open, wait) = gate();
        rt.task("gate", (held.inout(),)).cpu(move |_, _| wait()).submit().unwrap();
        rt.task("late", (x.slice(4..4).inout(), held.inout())).cpu(|_, _| ()).submit().unwrap();
        // All of this happens while the gate is closed.
        rt.task("writer", (x.inout(),)).cpu(|_, (x,)| x.fill(5)).submit().unwrap();
        assert_eq!(rt.read(&x.all()).unwrap(), [5; 8]);
        assert!(rt.read(&x.slice(4..4)).unwrap().is_empty());
        drop(open);
        rt.wait().unwrap();
    });
}

#[test]
fn data_without_elements_or_bytes_is_used_taken_and_released() {
    for_each_mix(|rt| {
        let hollow: Data<f64, Ix3> = rt.array(Array3::zeros((4, 0, 2)));
        let units = rt.data(vec![(); 9]);
        let nothings: Data<[f64; 0]> = rt.data(vec![[]; 5]);
        let (held, ran) = (rt.scalar(0u64), Arc::new(AtomicUsize::new(0)));
        let (open, wait) = gate();
        rt.task("gate", (held.inout(),)).host(move |_, _| wait()).submit().unwrap();
        for k in 0..6 {
            let ran = ran.clone();
            rt.task("use", (hollow.inout(), units.slice(k..k + 3).inout(), nothings.input(), held.inout()))
                .cpu(move |_, (hollow, units, nothings, _)| {
                    assert_eq!((hollow.len(), units.len(), nothings.len()), (0, 3, 5));
                    ran.fetch_add(1, Ordering::SeqCst);
                })
                .submit()
                .unwrap();
        }
        std::thread::spawn(move || drop(open));
        assert_eq!(rt.take(hollow).unwrap().shape(), [4, 0, 2]);
        assert_eq!(ran.load(Ordering::SeqCst), 6);
        assert_eq!(rt.read(&nothings.all()).unwrap().len(), 5);
        drop(nothings);
        assert_eq!(rt.take(units).unwrap().len(), 9);
        rt.wait().unwrap();
    });
}

#[test]
fn large_groups_and_many_readers_alternate_in_order() {
    const N: u64 = 60;
    for_each_mix(|rt| {
        let (sum, out) = (rt.scalar(0u64), rt.data(vec![0u64; N as usize]));
        let (open, wait) = gate();
        rt.task("gate", (sum.inout(),)).host(move |_, _| wait()).submit().unwrap();
        for round in 1..4 {
            for _ in 0..N {
                rt.task("add", (sum.reduction(Sum),)).cpu(|_, (sum,)| sum[0] += 1).submit().unwrap();
            }
            for i in 0..N as usize {
                rt.task("use", (sum.input(), out.slice(i..i + 1).inout()))
                    .cpu(move |_, (sum, out)| {
                        assert_eq!(sum[0], round * N);
                        out[0] += sum[0];
                    })
                    .submit()
                    .unwrap();
            }
        }
        drop(open);
        rt.wait().unwrap();
        assert_eq!(rt.take(out).unwrap(), [6 * N; N as usize]);
    });
}

#[test]
fn failure_in_a_large_group_reaches_its_readers() {
    for_each_mix(|rt| {
        let (x, y) = (rt.scalar(0u64), rt.data(vec![0u64; 50]));
        let (open, wait) = gate();
        rt.task("gate", (x.inout(),)).host(move |_, _| wait()).submit().unwrap();
        for member in 0..50 {
            rt.task(format!("member {member}"), (x.commutative(),))
                .cpu(move |_, _| if member == 20 { Err("no") } else { Ok(()) })
                .submit()
                .unwrap();
        }
        for i in 0..50 {
            let accesses = (x.input(), y.slice(i..i + 1).output());
            rt.task("user", accesses).cpu(|_, (_, y)| y[0] = 1).submit().unwrap();
        }
        rt.task("overwriter", (x.output(),)).cpu(|_, (x,)| x[0] = 3).submit().unwrap();
        drop(open);
        assert_eq!(failed(rt.wait()), ["member 20"]);
        assert_eq!(rt.read(&x).unwrap()[0], 3);
        for i in 0..50 {
            assert_eq!(poison(rt.read(&y.slice(i..i + 1))).0, "member 20");
        }
    });
}

#[test]
fn recorded_graph_has_edges_of_declared_accesses_without_joins() {
    const N: usize = 40;
    let rt = Runtime::builder().compute_units("1:CPU:1").record_graph(true).build().unwrap();
    let x = rt.scalar(0u64);
    for _ in 0..N {
        rt.task("member", (x.concurrent(),)).cpu(|_, (x,)| x.update(0, |x| x + 1)).submit().unwrap();
    }
    for _ in 0..N {
        rt.task("reader", (x.input(),)).cpu(|_, _| ()).submit().unwrap();
    }
    rt.task("writer", (x.output(),)).cpu(|_, _| ()).submit().unwrap();
    rt.wait().unwrap();
    let graph = rt.graph().unwrap().into_petgraph();
    assert_eq!((graph.node_count(), graph.edge_count()), (2 * N + 1, N * N + N));
}

#[test]
fn blocks_of_very_different_sizes_in_one_array_are_ordered() {
    for_each_mix(|rt| {
        let x: Data<u32, ndarray::Ix4> = rt.zeros([12, 12, 12, 12]);
        for round in 1..3u32 {
            for i in 0..12 {
                let element = x.block((i..i + 1, 11 - i..12 - i, i..i + 1, 0..1)).reduction(Sum);
                rt.task("element", (element,)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
                rt.task("slab", (x.block((0..12, i..i + 1, 0..12, 0..12)).inout(),))
                    .cpu(|_, (mut x,)| x += 10)
                    .submit()
                    .unwrap();
            }
            rt.task("all", (x.inout(),)).cpu(move |_, (mut x,)| x += 100 * round).submit().unwrap();
        }
        let x = rt.take(x).unwrap();
        let sum: u64 = x.iter().map(|x| u64::from(*x)).sum();
        assert_eq!(sum, 12u64.pow(4) * 320 + 24);
        assert!((0..12).all(|i| x[[i, 11 - i, i, 0]] == 322));
    });
}
