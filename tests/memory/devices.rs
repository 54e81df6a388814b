//! Devices with separate memories: which data is copied, kept and evicted. The results must not depend on any of this.
//!
//! The tests use emulated devices, so that all code paths are covered on any machine. Copies are counted and never
//! timed.

use crate::common::{poison, watched};
use ndarray::{Array2, Array3, Axis};
use std::collections::BTreeSet;
use std::sync::mpsc::channel;
use std::time::Duration;
use thalweg::prelude::*;
use thalweg::{Context, EmulatedDevice};

const HOST: SpaceId = SpaceId::HOST;
const FIRST: SpaceId = SpaceId(1);
const SECOND: SpaceId = SpaceId(2);

fn machine(units: &str, device: impl Fn(usize) -> EmulatedDevice + 'static) -> Runtime {
    Runtime::builder().compute_units(units).emulated_devices(device).detect_conflicts(true).build().unwrap()
}

/// Returns how many copies were made from one space to another so far, and how many bytes they moved.
fn moved(rt: &Runtime, from: SpaceId, to: SpaceId) -> (u64, u64) {
    let statistics = rt.statistics();
    let link = statistics.links.iter().find(|link| (link.from, link.to) == (from, to));
    link.map_or((0, 0), |link| (link.copies, link.bytes))
}

fn add_one(rt: &Runtime, region: Region<'_, u64>) {
    rt.task("add", (region.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
}

#[test]
fn data_comes_home_only_on_request() {
    watched("home", || {
        let rt = machine("1:EMU:1", |_| EmulatedDevice::new());
        let x = rt.data(vec![1u64; 100]);
        assert_eq!(x.all().valid_in(), [HOST]);
        add_one(&rt, x.slice(..50));
        add_one(&rt, x.slice(..50));
        rt.wait().unwrap();
        assert_eq!(x.slice(..50).valid_in(), [FIRST]);
        assert_eq!(x.slice(50..).valid_in(), [HOST]);
        assert_eq!(x.all().valid_in(), [], "no single space has all of it");
        assert_eq!((moved(&rt, HOST, FIRST), moved(&rt, FIRST, HOST)), ((1, 400), (0, 0)));
        assert_eq!(rt.read(&x.slice(10..60)).unwrap(), [vec![3; 40], vec![1; 10]].concat());
        assert_eq!(moved(&rt, FIRST, HOST), (1, 320), "only the requested region must be copied");
        assert_eq!(x.slice(10..50).valid_in(), [HOST, FIRST]);
        // A region that a task overwrites is not copied at all.
        let y = rt.data(vec![0u64; 100]);
        rt.task("fill", (y.output(),)).cpu(|_, (y,)| y.fill(7)).submit().unwrap();
        assert_eq!(rt.take(y).unwrap(), [7; 100]);
        assert_eq!(moved(&rt, HOST, FIRST), (1, 400));
    });
}

#[test]
fn prefetch_and_fetch_make_regions_valid() {
    watched("prefetch", || {
        let rt = machine("1:CPU:1,2:EMU:1", |_| EmulatedDevice::new());
        let x = rt.data(vec![1u64; 100]);
        rt.fetch(&x.slice(20..40), FIRST).unwrap();
        assert_eq!(x.slice(20..40).valid_in(), [HOST, FIRST]);
        rt.fetch(&x.slice(20..40), SECOND).unwrap();
        assert_eq!(x.slice(20..40).valid_in(), [HOST, FIRST, SECOND]);
        assert_eq!(moved(&rt, FIRST, SECOND), (1, 160), "the copy must come from the other device");
        rt.prefetch(&x.all(), FIRST).unwrap();
        rt.wait().unwrap();
        assert_eq!(x.all().valid_in(), [HOST, FIRST]);
        rt.task("here", (x.inout(),)).emulated(|_, (x,)| x.fill(5)).submit().unwrap();
        rt.wait().unwrap();
        assert_eq!(x.all().valid_in().len(), 1, "after a write there is one valid replica");
        rt.fetch(&x.all(), HOST).unwrap();
        assert!(x.all().valid_in().contains(&HOST));
        // The regions of a failed task cannot be copied.
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        assert_eq!(poison(rt.fetch(&x.all(), FIRST)).0, "fails");
    });
}

#[test]
fn devices_exchange_data_directly() {
    watched("peers", || {
        // The reader of `large` can run on the second device only, so `x` has to follow.
        let rt = machine("2:EMU:1", |device| EmulatedDevice::new().capacity_bytes([8000, 80_000][device]));
        let (x, large) = (rt.data(vec![0u64; 1000]), rt.data(vec![1u64; 5000]));
        for _ in 0..4 {
            rt.fetch(&x.all(), FIRST).unwrap();
            add_one(&rt, x.all()); // runs on the first device, which is preferred because both have the data
            rt.task("there", (x.inout(), large.input()))
                .cpu(|at, (x, large)| {
                    assert_eq!(at.device(), Some(DeviceId(1)));
                    x.iter_mut().for_each(|x| *x += large[0]);
                })
                .submit()
                .unwrap();
        }
        assert_eq!(rt.take(x).unwrap(), [8; 1000]);
        assert_eq!(moved(&rt, FIRST, SECOND), (4, 32_000));
        assert_eq!(moved(&rt, SECOND, FIRST), (3, 24_000));
        assert_eq!((moved(&rt, HOST, FIRST), moved(&rt, HOST, SECOND)), ((1, 8000), (1, 40_000)));
    });
}

const BLOCK: usize = 64;
const BLOCK_BYTES: u64 = 8 * BLOCK as u64;

#[test]
fn full_device_evicts_and_writes_back() {
    for scheduler in crate::common::SCHEDULERS {
        watched(scheduler, move || {
            let small = |_| EmulatedDevice::new().capacity_bytes(3 * BLOCK_BYTES);
            let builder = Runtime::builder().compute_units("1:EMU:1").scheduler(scheduler).emulated_devices(small);
            let rt = builder.build().unwrap();
            let x = rt.data((0..20 * BLOCK as u64).collect());
            for _ in 0..5 {
                for part in blocks(20 * BLOCK, BLOCK) {
                    add_one(&rt, x.slice(part));
                }
            }
            for part in blocks(19 * BLOCK, BLOCK) {
                let (from, to) = (x.slice(part.clone()), x.slice(part.start + BLOCK..part.end + BLOCK));
                rt.task("pass", (from.input(), to.inout()))
                    .cpu(|_, (from, to)| to.iter_mut().zip(from).for_each(|(to, from)| *to += from))
                    .submit()
                    .unwrap();
            }
            rt.wait().unwrap();
            assert!(rt.statistics().evictions > 0);
            let mut expected: Vec<u64> = (5..20 * BLOCK as u64 + 5).collect();
            (BLOCK..20 * BLOCK).for_each(|i| expected[i] += expected[i - BLOCK]);
            assert_eq!(rt.take(x).unwrap(), expected);
        });
    }
}

#[test]
fn task_too_large_for_the_device_runs_on_a_cpu_unit() {
    watched("large", || {
        let small = |_| EmulatedDevice::new().capacity_bytes(BLOCK_BYTES);
        let rt = machine("1:CPU:1,1:EMU:1", small);
        let x = rt.data(vec![0u64; 4 * BLOCK]);
        for _ in 0..10 {
            for part in blocks(4 * BLOCK, BLOCK) {
                add_one(&rt, x.slice(part));
            }
            let body = |context: &Context, (x,): (&mut [u64],)| {
                assert!(context.is_cpu());
                x.iter_mut().for_each(|x| *x += 1);
            };
            rt.task("large", (x.inout(),)).cpu(body).submit().unwrap();
        }
        let error = rt.task("never", (x.inout(),)).emulated(|_, _| ()).submit().unwrap_err();
        let (needed_bytes, capacity_bytes) = (4 * BLOCK_BYTES, BLOCK_BYTES);
        assert_eq!(error, SubmitError::WorkingSet { task: "never".into(), needed_bytes, capacity_bytes });
        assert_eq!(rt.take(x).unwrap(), [20; 4 * BLOCK]);
    });
}

#[test]
fn tasks_with_two_large_regions_do_not_starve() {
    for units in ["2:EMU:1", "1:CPU:1,2:EMU:1", "1:EMU:2,1:EMU:1"] {
        watched(units, move || {
            let rt = machine(units, |_| EmulatedDevice::new().capacity_bytes(5 * BLOCK_BYTES / 2));
            let data: Vec<_> = (0..6).map(|_| rt.data(vec![1u64; BLOCK])).collect();
            let mut model = vec![1u64; 6];
            for i in 0..600usize {
                let (from, to) = (i * 5 % 6, (i * 7 + 1 + i / 6) % 6);
                if from == to {
                    add_one(&rt, data[to].all());
                    model[to] += 1;
                } else {
                    rt.task("mix", (data[from].input(), data[to].inout()))
                        .cpu(|_, (from, to)| {
                            to.iter_mut().zip(from).for_each(|(to, from)| *to = to.wrapping_mul(3).wrapping_add(*from));
                        })
                        .submit()
                        .unwrap();
                    model[to] = model[to].wrapping_mul(3).wrapping_add(model[from]);
                }
            }
            rt.wait().unwrap();
            assert!(rt.statistics().conflicts.is_empty());
            for (x, expected) in data.into_iter().zip(model) {
                assert_eq!(rt.take(x).unwrap(), [expected; BLOCK]);
            }
        });
    }
}

#[test]
fn concurrent_evictions_lose_nothing() {
    watched("evictions", || {
        // Copies to the host are slow from the first device and fast from the second. While the first device is still
        // writing back data that only it has, the second device evicts the rest, whose only other replica is on the
        // first device.
        let slow = |device| {
            let new = EmulatedDevice::new().capacity_bytes(2 * BLOCK_BYTES);
            if device == 0 { new.copy_delay(Duration::from_millis(30), f64::INFINITY) } else { new }
        };
        let rt = machine("2:EMU:1", slow);
        let (x, y) = (rt.data(vec![1u64; 2 * BLOCK]), rt.data(vec![5u64; 2 * BLOCK]));
        for round in 1..=5 {
            rt.fetch(&x.all(), FIRST).unwrap();
            add_one(&rt, x.all());
            rt.wait().unwrap();
            let (at, other) = if x.all().valid_in() == [FIRST] { (FIRST, SECOND) } else { (SECOND, FIRST) };
            rt.fetch(&x.slice(..BLOCK), other).unwrap();
            rt.prefetch(&y.all(), at).unwrap();
            rt.fetch(&y.all(), other).unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.read(&x.all()).unwrap(), [round + 1; 2 * BLOCK]);
        }
    });
}

#[test]
fn blocks_with_halos_are_not_copied_repeatedly_on_their_device() {
    const BLOCKS: usize = 6;
    const SIDE: usize = 4 * BLOCKS;
    let edge = |n: usize| n * 4..(n + 1) * 4;
    let halo = |n: usize| (n * 4).saturating_sub(1)..((n + 1) * 4 + 1).min(SIDE);
    let run = |capacity_bytes: u64, sweeps: usize| {
        let rt = machine("1:EMU:1", move |_| EmulatedDevice::new().capacity_bytes(capacity_bytes));
        let mut arrays = [0, 1].map(|_| rt.array(Array2::from_shape_fn((SIDE, SIDE), |(j, i)| (j * i) as u64)));
        for _ in 0..sweeps {
            let [old, new] = &arrays;
            for (j, i) in (0..BLOCKS).flat_map(|j| (0..BLOCKS).map(move |i| (j, i))) {
                let accesses = (old.block((halo(j), halo(i))).input(), new.block((edge(j), edge(i))).output());
                let task = rt.task("sum", accesses).cpu(|_, (old, mut new)| new.fill(old.sum() % 1000));
                task.submit().unwrap();
            }
            arrays.swap(0, 1);
        }
        rt.wait().unwrap();
        let (_, bytes) = moved(&rt, SpaceId(1), SpaceId(1));
        let [result, _] = arrays;
        (bytes, rt.take(result).unwrap())
    };
    let (_, expected) = run(1 << 20, 2);
    // Regardless of the order of the sums, each element is copied at most once, into a replica of the whole array.
    let both_arrays = (2 * SIDE * SIDE * size_of::<u64>()) as u64;
    for sweeps in [2, 10, 40] {
        let (bytes, _) = run(1 << 20, sweeps);
        assert!(bytes <= both_arrays, "{bytes} bytes in {sweeps} sweeps");
    }
    let (tight, result) = run(6000, 2);
    assert!(tight > 0 && result == expected, "no room for the whole array");
}

#[test]
fn strided_boxes_survive_copies() {
    for units in ["1:EMU:1", "2:EMU:1", "1:CPU:1,2:EMU:1"] {
        watched(units, move || {
            let rt = machine(units, |_| EmulatedDevice::new().capacity_bytes(1 << 11));
            let start = Array2::from_shape_fn((12, 10), |(i, j)| (100 * i + j) as f64);
            let cube = Array3::from_shape_fn((4, 6, 8), |(i, j, k)| (100 * i + 10 * j + k) as u32);
            let (a, c) = (rt.array(start.clone()), rt.array(cube.clone()));
            let (mut a_model, mut c_model) = (start, cube);
            for (rows, columns) in [(0..12, 3..5), (2..7, 0..10), (5..6, 1..9), (0..12, 9..10), (1..12, 1..10)] {
                a_model.slice_mut(ndarray::s![rows.clone(), columns.clone()]).mapv_inplace(|x| x * 2.0 + 1.0);
                let body =
                    |_: &Context, (mut a,): (ndarray::ArrayViewMut2<'_, f64>,)| a.mapv_inplace(|x| x * 2.0 + 1.0);
                rt.task("scale", (a.block((rows, columns)).inout(),)).cpu(body).submit().unwrap();
            }
            for (i, j, k) in [(0..4, 1..2, 2..7), (1..3, 0..6, 0..8), (2..3, 2..5, 4..5), (0..4, 5..6, 7..8)] {
                c_model.slice_mut(ndarray::s![i.clone(), j.clone(), k.clone()]).mapv_inplace(|x| x + 7);
                let (down, mut seen) = (c.block((i.clone(), j.clone(), k.clone())), (i.len(), j.len(), k.len()));
                let body = move |_: &Context, (mut c,): (ndarray::ArrayViewMut3<'_, u32>,)| {
                    assert_eq!(c.dim(), std::mem::take(&mut seen));
                    c.mapv_inplace(|x| x + 7);
                };
                rt.task("shift", (down.inout(),)).cpu(body).submit().unwrap();
            }
            let part = rt.read(&c.block((1..3, 1..4, 2..5))).unwrap();
            assert_eq!(part, c_model.slice(ndarray::s![1..3, 1..4, 2..5]));
            let sums = rt.array(Array2::<u32>::zeros((6, 8)));
            for layer in 0..4 {
                rt.task("sum", (c.block((layer..layer + 1, 0..6, 0..8)).input(), sums.reduction(Sum)))
                    .cpu(|_, (c, mut sums)| sums += &c.index_axis(Axis(0), 0))
                    .submit()
                    .unwrap();
            }
            assert_eq!(rt.take(sums).unwrap(), c_model.sum_axis(Axis(0)));
            assert_eq!(rt.take(a).unwrap(), a_model);
            assert_eq!(rt.take(c).unwrap(), c_model);
        });
    }
}

#[test]
fn groups_combine_across_memories() {
    crate::common::for_each_mix(|rt| {
        let cpu = rt.machine().num_cpu_units() > 0;
        let x = rt.data((0..400u64).collect());
        let (sum, most, turns) = (rt.data(vec![1u64; 2]), rt.scalar(0u64), rt.data(vec![0u64; 4]));
        let bins = rt.data(vec![0u32; 10]);
        for part in blocks(400, 20) {
            rt.task("reduce", (x.slice(part.clone()).input(), sum.reduction(Sum), most.reduction(Max)))
                .cpu(|_, (x, sum, most)| {
                    sum[0] += x.iter().sum::<u64>();
                    sum[1] += x.len() as u64;
                    most[0] = x.iter().copied().max().unwrap_or(0);
                })
                .submit()
                .unwrap();
            let body = |_: &Context, (x, turns): (&[u64], &mut [u64])| turns[0] += x[0];
            rt.task("turn", (x.slice(part.clone()).input(), turns.commutative())).cpu(body).submit().unwrap();
            if cpu {
                rt.task("count", (x.slice(part).input(), bins.concurrent()))
                    .cpu(|_, (x, bins)| x.iter().for_each(|x| bins.update((x % 10) as usize, |n| n + 1)))
                    .submit()
                    .unwrap();
            }
        }
        // The values of the groups are used wherever the data are needed next.
        rt.task("use", (sum.input(), turns.inout())).cpu(|_, (sum, turns)| turns[1] = sum[0]).submit().unwrap();
        assert_eq!(rt.read(&turns.slice(..2)).unwrap(), [3800, 79801]);
        assert_eq!((rt.take(sum).unwrap(), rt.read(&most).unwrap()[0]), (vec![79801, 401], 399));
        assert_eq!(rt.take(bins).unwrap(), [if cpu { 40 } else { 0 }; 10]);
    });
}

#[test]
fn context_names_the_unit_and_device_of_the_body() {
    watched("context", || {
        let rt = machine("1:CPU:2,2:EMU:2", |_| EmulatedDevice::new());
        let (seen, contexts) = channel();
        for i in 0..200 {
            let (a, b, c) = (seen.clone(), seen.clone(), seen.clone());
            let x = rt.scalar(i);
            rt.task("host", (x.input(),)).host(move |at, _| a.send(("host", at.clone())).unwrap()).submit().unwrap();
            rt.task("device", (x.input(),))
                .emulated(move |at, _| b.send(("device", at.clone())).unwrap())
                .submit()
                .unwrap();
            let both = rt.task("both", (x.input(),)).cpu(|at, _| assert!(at.is_cpu()));
            both.emulated(move |at, _| c.send(("device", at.clone())).unwrap()).submit().unwrap();
        }
        rt.wait().unwrap();
        drop(seen);
        let mut devices = BTreeSet::new();
        for (body, at) in contexts {
            let unit = rt.machine().unit(at.unit());
            assert_eq!((at.kind(), at.inner_cores()), (unit.kind, unit.inner_cores()));
            match body {
                "host" => {
                    assert_eq!(
                        (at.unit(), at.kind(), at.device(), at.inner_cores()),
                        (UnitId(0), UnitKind::Cpu, None, 2)
                    )
                }
                _ => {
                    let device = at.device().expect("an emulated body runs on a device");
                    assert_eq!((at.kind(), rt.machine().unit_of_device(device)), (UnitKind::Emulated, at.unit()));
                    devices.insert(device);
                }
            }
        }
        assert!(devices.len() >= 2, "tasks must be spread over devices: {devices:?}");
    });
}

#[test]
fn slow_devices_and_links_do_not_change_results() {
    watched("slow", || {
        let slow =
            |n: usize| EmulatedDevice::new().speed([0.5, 1.0][n]).copy_delay(Duration::from_micros(50 * n as u64), 1e8);
        let rt = machine("1:CPU:1,2:EMU:1", slow);
        let x = rt.data(vec![0u64; 1000]);
        for _ in 0..10 {
            for part in blocks(1000, 100) {
                add_one(&rt, x.slice(part));
            }
            let body = |_: &Context, (x,): (&[u64],)| assert!(x.iter().all(|y| *y == x[0]));
            rt.task("look", (x.input(),)).cpu(body).submit().unwrap();
        }
        rt.wait().unwrap();
        assert_eq!(rt.take(x).unwrap(), [10; 1000]);
    });
}

#[test]
fn data_of_the_next_task_is_copied_while_a_task_runs() {
    watched("overlap", || {
        // With a delay, every copy is made asynchronously by the device's copy engine.
        let apart = |_| EmulatedDevice::new().copy_delay(Duration::from_nanos(1), f64::INFINITY);
        let rt = machine("1:EMU:1", apart);
        let (x, y) = (rt.data(vec![1u64; 10]), rt.data(vec![2u64; 20]));
        let (open, wait) = crate::common::gate();
        rt.task("first", (x.inout(),)).cpu(move |_, _| wait()).submit().unwrap();
        rt.task("next", (y.inout(),)).cpu(|_, (y,)| y.fill(3)).submit().unwrap();
        // The first body does not end before the data of the second task has arrived, so the test would hang if copies
        // and bodies did not overlap.
        while y.all().valid_in() != [HOST, FIRST] {
            std::thread::yield_now();
        }
        drop(open);
        assert_eq!(rt.take(y).unwrap(), [3; 20]);
    });
}

#[test]
fn discarded_data_is_not_written_back_when_evicted() {
    for discards in [false, true] {
        watched("discard", move || {
            let rt = Runtime::builder().compute_units("1:EMU:1").device_memory_bytes(1000);
            let rt = rt.detect_conflicts(true).build().unwrap();
            let (x, y) = (rt.data(vec![1u64; 100]), rt.data(vec![2u64; 100]));
            add_one(&rt, x.all());
            if discards {
                rt.discard(x.slice(20..)).unwrap();
            }
            rt.wait().unwrap(); // nothing else orders the discard before the task that needs the room
            add_one(&rt, y.all());
            rt.wait().unwrap();
            let expected = if discards { 160 } else { 800 };
            assert_eq!((moved(&rt, FIRST, HOST).1, rt.statistics().evictions), (expected, 1));
            assert_eq!(rt.read(&x.slice(..20)).unwrap(), [2; 20]);
            // The contents are now undefined; overwriting them makes them defined again.
            assert_eq!(rt.read(&x).unwrap().len(), 100);
            rt.task("fill", (x.output(),)).cpu(|_, (x,)| x.fill(7)).submit().unwrap();
            add_one(&rt, x.slice(50..));
            assert_eq!(rt.take(x).unwrap(), [[7; 50], [8; 50]].concat());
        });
    }
}

/// Regression test: a body with unsafe code that wrote outside its views damaged the heap, and the program failed much
/// later or hung.
#[cfg(debug_assertions)]
#[test]
fn write_outside_a_view_on_an_emulated_device_fails_naming_data_and_task() {
    #[allow(unsafe_code)]
    fn write_behind(x: &mut [f64]) {
        // SAFETY: this test writes out of bounds on purpose. The write goes to a guard zone, so it affects no other
        // memory.
        unsafe { x.as_mut_ptr().add(x.len()).write(1.0) };
    }
    let rt = Runtime::builder().compute_units("1:EMU:1").build().unwrap();
    let (x, y) = (rt.data(vec![1.0; 10]).named("x"), rt.data(vec![1.0; 10]).named("y"));
    rt.task("behind", (y.inout(), x.inout())).cpu(|_, (_, x)| write_behind(x)).submit().unwrap();
    let failures = rt.wait().unwrap_err().to_string();
    assert!(failures.contains("`behind`"), "{failures}");
    assert!(failures.contains("the body wrote outside of data `x` on "), "{failures}");
    assert!(failures.contains(": 8 bytes after its memory have changed"), "{failures}");
    rt.task("fine", (y.output(),)).cpu(|_, (y,)| y.fill(2.0)).submit().unwrap();
    assert_eq!(rt.take(y).unwrap(), [2.0; 10], "the next task must not be blamed");
}

/// Regression test: memory of emulated devices was zeroed, so an output that a body left unwritten looked right.
#[cfg(debug_assertions)]
#[test]
fn unwritten_output_on_an_emulated_device_is_not_zero() {
    let rt = Runtime::builder().compute_units("1:EMU:1").build().unwrap();
    let x = rt.zeros::<f64, _>(4);
    rt.task("half", (x.output(),)).cpu(|_, (x,)| x[..2].fill(1.0)).submit().unwrap();
    let x = rt.take(x).unwrap();
    assert!(x[0] == 1.0 && x[3].is_nan(), "{x:?}");
}
