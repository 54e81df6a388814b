//! Programs with data in unified memory, which cores and devices use in place.

use super::programs::{kind, next, nexts, runtime, with_units};
use super::random::{Random, variable};
use thalweg::ids::{DeviceId, SpaceId};
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(64, 1, 1) add(IN(UINT64, x, n), INOUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 31 + x[i] + salt;
    }
    KERNEL(64, 1, 1) put(IN(UINT64, x, n), OUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = x[i] + salt;
    }
    KERNEL(64, 1, 1) sum(IN(UINT64, x, n), INOUT(UINT64, total, 1), int n)
    {
        REGION(x); REGION(total);
        if (GLOBAL_ID(0) == 0)
            for (int i = 0; i < n; i++) total[0] += x[i];
    }
";
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("unified.cl", TEXT) };
static ADD: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "add");
static PUT: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "put");
static SUM: Kernel<(Read<u64>, Write<u64>, i32)> = Kernel::new(&PROGRAM, "sum");

fn unified(rt: &Runtime, elements: &[u64]) -> Data<u64> {
    let x = rt.zeros_in::<u64, _>(MemoryKind::Unified, [elements.len()]);
    assert!(x.is_unified());
    let elements = elements.to_vec();
    rt.task("first", (x.output(),)).host(move |_, (x,)| x.copy_from_slice(&elements)).submit().unwrap();
    x
}

fn add(
    k: &mut Launcher<'_>,
    x: &DeviceView<'_, u64>,
    mut y: DeviceViewMut<'_, u64>,
    salt: u64,
) -> Result<(), DeviceError> {
    k.launch(&ADD, x.len(), (x, &mut y, salt, x.len() as i32))
}

fn added(x: u64, y: u64, salt: u64) -> u64 {
    y.wrapping_mul(31).wrapping_add(x).wrapping_add(salt)
}

fn copied_bytes(rt: &Runtime) -> u64 {
    rt.statistics().links.iter().map(|link| link.bytes).sum()
}

/// Number of elements in each array of the random programs, large enough that pages are prefetched for some tasks.
const LEN: usize = 10_000;

/// Operation that a task of a random program performs on a region `y`, given a region `x`.
#[derive(Debug, Clone, Copy)]
enum Act {
    Add,
    Put,
    Sum,
}

/// Tasks on cores and devices, on overlapping regions, compared with sequential execution.
#[test]
#[ignore = "run on a stand-in by another test"]
fn random_programs() {
    let devices = variable("STANDIN_DEVICES", 1);
    for seed in 0..variable("THALWEG_CASES", 6) {
        let mut random = Random(variable("THALWEG_SEED", 1) * 1000 + seed);
        let rt = with_units(&format!("1:CPU:1,{devices}:{}:1", kind()));
        // The last array is an ordinary one, which is copied.
        let mut expected: Vec<Vec<u64>> = (0..4).map(|n| (n..n + LEN as u64).collect()).collect();
        let mut data: Vec<_> = expected[..3].iter().map(|elements| unified(&rt, elements)).collect();
        data.push(rt.data(expected[3].clone()));
        for salt in 0..400u64 {
            let (from, to) = (random.below(4), random.below(4));
            let act = random.of(&[Act::Add, Act::Add, Act::Put, Act::Put, Act::Sum]);
            let len = if random.one_in(3) { random.below(LEN - 1) } else { random.below(500) } + 1;
            let at = random.below(LEN - len + 1);
            let len_to = if matches!(act, Act::Sum) { 1 } else { len };
            let mut at_to = random.below(LEN - len_to + 1);
            if from == to && at < at_to + len_to && at_to < at + len {
                match at {
                    at if at >= len => at_to = at - len,
                    at if at + 2 * len <= LEN => at_to = at + len,
                    _ => continue,
                }
            }
            let (x, y) = (data[from].slice(at..at + len), data[to].slice(at_to..at_to + len_to));
            let on_core = move |x: &[u64], y: &mut [u64]| match act {
                Act::Add => y.iter_mut().zip(x).for_each(|(y, x)| *y = added(*x, *y, salt)),
                Act::Put => y.iter_mut().zip(x).for_each(|(y, x)| *y = x.wrapping_add(salt)),
                Act::Sum => y[0] = x.iter().fold(y[0], |sum, x| sum.wrapping_add(*x)),
            };
            let n = len as i32;
            let device = random.below(devices as usize + 1);
            match (act, device) {
                (Act::Put, 0) => {
                    rt.task("put", (x.input(), y.output())).host(move |_, (x, y)| on_core(x, y)).submit().unwrap();
                }
                (Act::Sum, 0) => {
                    rt.task("sum", (x.input(), y.reduction(Sum)))
                        .host(move |_, (x, y)| on_core(x, y))
                        .submit()
                        .unwrap();
                }
                (Act::Add, 0) => {
                    rt.task("add", (x.input(), y.inout())).host(move |_, (x, y)| on_core(x, y)).submit().unwrap();
                }
                (Act::Put, device) => {
                    let put = rt.task("put", (x.input(), y.output()));
                    let put = put.gpu(move |k, (x, mut y)| k.launch(&PUT, len, (&x, &mut y, salt, n)));
                    put.on_device(DeviceId(device as u16 - 1)).submit().unwrap();
                }
                (Act::Sum, device) => {
                    let sum = rt.task("sum", (x.input(), y.reduction(Sum)));
                    let sum = sum.gpu(move |k, (x, mut y)| k.launch(&SUM, 1, (&x, &mut y, n)));
                    sum.on_device(DeviceId(device as u16 - 1)).submit().unwrap();
                }
                (Act::Add, device) => {
                    let add = rt.task("add", (x.input(), y.inout()));
                    let add = add.gpu(move |k, (x, mut y)| k.launch(&ADD, len, (&x, &mut y, salt, n)));
                    add.on_device(DeviceId(device as u16 - 1)).submit().unwrap();
                }
            }
            let x = expected[from][at..at + len].to_vec();
            on_core(&x, &mut expected[to][at_to..at_to + len_to]);
            if random.one_in(40) {
                let part = random.range(LEN);
                assert_eq!(rt.read(data[to].slice(part.clone())).unwrap(), expected[to][part], "{seed} {salt}");
            }
        }
        for (n, (data, expected)) in data.into_iter().zip(expected).enumerate() {
            assert!(rt.take(data).unwrap() == expected, "seed {seed}, data {n}");
        }
    }
}

/// A slow reader on a device, followed by a task on a core or on the other device that overwrites the region being
/// read.
#[test]
#[ignore = "run on a stand-in by another test"]
fn overwritten_behind_readers() {
    let rt = with_units(&format!("1:CPU:1,2:{}:1", kind()));
    let (x, y) = (unified(&rt, &[0; LEN]), rt.data(vec![0u64; LEN]));
    let zeros = rt.zeros_in::<u64, _>(MemoryKind::Unified, [LEN]);
    let (mut expected, n) = (0, LEN as i32);
    for salt in 1..200u64 {
        // The data is written on the first device, and the reader is queued there because on the second device the data
        // would have to be moved first.
        let put = rt.task("put", (zeros.input(), x.output()));
        let put = put.gpu(move |k, (z, mut x)| k.launch(&PUT, LEN, (&z, &mut x, salt, n)));
        put.on_device(DeviceId(0)).submit().unwrap();
        rt.task("add", (x.input(), y.inout()))
            .gpu(move |k, (x, mut y)| k.launch(&ADD, LEN, (&x, &mut y, 0, n)))
            .on_device(DeviceId(0))
            .submit()
            .unwrap();
        expected = nexts(expected, salt..salt + 1);
        if salt % 2 == 0 {
            rt.task("clear", (x.output(),)).cpu(|_, (x,)| x.fill(7)).submit().unwrap();
        } else {
            let put = rt.task("put", (zeros.input(), x.output()));
            let put = put.gpu(move |k, (z, mut x)| k.launch(&PUT, LEN, (&z, &mut x, 9, n)));
            put.on_device(DeviceId(1)).submit().unwrap();
        }
    }
    assert!(rt.take(y).unwrap() == [expected; LEN]);
    assert!(rt.take(x).unwrap() == [9; LEN]);
    assert!(rt.take(zeros).unwrap() == [0; LEN]);
}

/// Number of elements in an array that is larger than the memory of any device.
pub const LARGE: usize = 50_000;

/// Nothing is copied, and the array uses no device memory. Other data is still copied and evicted alongside it.
#[test]
#[ignore = "run on a stand-in by another test"]
fn larger_than_a_device() {
    let rt = runtime();
    let space = SpaceId(1);
    assert!(rt.machine().capacity_bytes(space) < 8 * LARGE as u64 / 4, "{}", rt.machine().capacity_bytes(space));
    let x = unified(&rt, &[3; LARGE]);
    assert_eq!(x.all().valid_in(), [SpaceId::HOST]);
    (0..20).for_each(|salt| next(&rt, &x, salt));
    rt.wait().unwrap();
    assert_eq!((x.all().valid_in(), copied_bytes(&rt)), (vec![space], 0));
    assert_eq!(rt.read(x.slice(100..102)).unwrap(), [nexts(3, 0..20); 2]);
    assert!(!x.pin_memory());
    x.home_bytes();
    let y: Vec<_> = (0..9).map(|n| rt.data(vec![n; 900])).collect();
    for salt in 0..10 {
        y.iter().for_each(|y| next(&rt, y, salt));
        next(&rt, &x, 20 + salt);
        rt.task("one", (x.slice(..1).inout(),)).host(|_, (x,)| x[0] += 1).submit().unwrap();
        rt.wait().unwrap(); // otherwise all steps of one array run in succession and nothing is evicted
    }
    assert!(rt.statistics().evictions > 10);
    let lent = rt.to_dlpack(x.slice(5..9).input(), space).unwrap();
    assert_eq!(lent.shape(), [4]);
    drop(lent);
    for (n, y) in (0..).zip(y) {
        assert_eq!(rt.take(y).unwrap(), [nexts(n, 0..10); 900]);
    }
    let first = (20..30).fold(nexts(3, 0..20), |y, salt| nexts(y, salt..salt + 1) + 1);
    let taken = rt.take(x).unwrap();
    assert_eq!(taken[0], first);
    assert!(taken[1..] == [nexts(3, 0..30); LARGE - 1]);
}

/// An array is dropped by its owner, or together with the runtime, while tasks use it.
#[test]
#[ignore = "run on a stand-in by another test"]
fn dropped() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let y = rt.data(vec![0u64; LEN]);
    for round in 0..20 {
        let x = unified(&rt, &[round; LEN]);
        next(&rt, &x, 5);
        let add = rt.task("add", (x.input(), y.inout()));
        add.gpu(|k, (x, mut y)| k.launch(&ADD, LEN, (&x, &mut y, 0, LEN as i32))).submit().unwrap();
        drop(x);
    }
    let expected = (0..20).fold(0u64, |y, round| y.wrapping_mul(31).wrapping_add(nexts(round, 5..6)));
    assert!(rt.take(y).unwrap() == [expected; LEN]);
    let (taken, kept) = (unified(&rt, &[1; LEN]), unified(&rt, &[2; LEN]));
    (0..50).for_each(|salt| next(&rt, &taken, salt));
    assert!(rt.take(taken).unwrap() == [nexts(1, 0..50); LEN]);
    let (empty, small) =
        (rt.zeros_in::<u64, _>(MemoryKind::Unified, [0]), rt.zeros_in::<u8, _>(MemoryKind::Unified, [3, 1]));
    assert!(!empty.is_unified() && small.is_unified());
    assert!(rt.take(empty).unwrap().is_empty());
    // Devices that do not use unified memory need replicas, so the array must have a host copy.
    let mixed = with_units(&format!("1:{}:1,1:EMU:1", kind()));
    assert!(!mixed.zeros_in::<u64, _>(MemoryKind::Unified, [LEN]).is_unified());
    (0..50).for_each(|salt| next(&rt, &kept, salt));
    drop(rt);
    drop((kept, small));
}

/// Replays as device graphs, together with a core.
#[test]
#[ignore = "run on a stand-in by another test"]
fn replayed() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let (x, y) = (unified(&rt, &[1; LEN]), unified(&rt, &[2; LEN]));
    let mut recording = rt
        .record(|r| {
            for salt in 0..5 {
                r.task("add", (x.input(), y.inout())).gpu(move |k, (x, y)| add(k, &x, y, salt)).submit()?;
                r.task("back", (y.input(), x.inout())).gpu(move |k, (y, x)| add(k, &y, x, salt)).submit()?;
            }
            r.task("one", (x.slice(..1).inout(),)).cpu(|_, (x,)| x[0] += 1).submit()
        })
        .unwrap();
    let (mut a, mut b) = ([1u64; 2], [2u64; 2]);
    let step = |a: &mut [u64; 2], b: &mut [u64; 2]| {
        for salt in 0..5 {
            (0..2).for_each(|i| b[i] = added(a[i], b[i], salt));
            (0..2).for_each(|i| a[i] = added(b[i], a[i], salt));
        }
        a[0] += 1;
    };
    for _ in 0..20 {
        recording.replay().unwrap();
        step(&mut a, &mut b);
    }
    drop(recording);
    assert_eq!(rt.read(x.slice(..2)).unwrap(), a);
    assert_eq!(rt.read(y.slice(..2)).unwrap(), b);
    assert_eq!(copied_bytes(&rt), 0);
}

/// Tasks across two devices. Each device can access the parts of the other, but a kernel must not be given parts that
/// the task writes on the other device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn across_devices() {
    let rt = with_units(&format!("1:{}:2", kind()));
    let (x, y) = (unified(&rt, &[5; LEN]), unified(&rt, &[6; LEN]));
    let half = LEN / 2;
    for salt in 0..20u64 {
        let parts: Vec<_> = x.blocks(half).iter().zip(&y.blocks(half)).map(|(x, y)| (x.input(), y.inout())).collect();
        let task = rt.task("across", parts).gpu(move |k, parts| {
            let (x, mut y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
            for part in 0..2 {
                let k = k.on_part(part)?;
                assert!(k.reaches(&x[part]) && k.reaches(&x[1 - part]));
                assert!(k.launch(&ADD, half, (&x[0], &mut y[1 - part], 0, half as i32)).is_err());
                k.launch(&ADD, half, (&x[1 - part], &mut y[part], salt, half as i32))?;
            }
            Ok::<(), DeviceError>(())
        });
        task.across_devices().submit().unwrap();
    }
    let expected = (0..20).fold(6u64, |y, salt| y.wrapping_mul(31).wrapping_add(5 + salt));
    assert!(rt.take(y).unwrap() == [expected; LEN]);
    assert!(rt.take(x).unwrap() == [5; LEN]);
    assert_eq!(copied_bytes(&rt), 0);
}

/// A device is lost: the data that it used last is lost, and the array can be used again afterwards.
#[test]
#[ignore = "run on a stand-in by another test"]
fn lost() {
    let rt = with_units(&format!("1:CPU:1,2:{}:1", kind()));
    let (x, y) = (unified(&rt, &[1; LEN]), unified(&rt, &[2; LEN]));
    for salt in 0..100 {
        rt.task("next", (x.inout(),))
            .gpu(move |k, (mut x,)| k.launch(&super::programs::NEXT, LEN, (&mut x, salt, LEN as i32)))
            .on_device(DeviceId(0))
            .submit()
            .unwrap();
    }
    assert!(rt.wait().is_err());
    let x = match rt.take(x) {
        Err(failed) => {
            assert!(matches!(failed.error(), RunError::Poisoned(_)), "{failed}");
            failed.into_data()
        }
        Ok(x) => {
            // The device was lost before any task had begun on it, and the other device ran everything.
            assert!(std::env::var("STANDIN_LOSE").unwrap() == "0:0" && x == [nexts(1, 0..100); LEN]);
            unified(&rt, &x)
        }
    };
    rt.task("fill", (x.output(),)).host(|_, (x,)| x.fill(9)).submit().unwrap();
    // The other device keeps working, with existing and with new data.
    let z = unified(&rt, &[3; LEN]);
    for data in [&x, &y, &z] {
        (0..10).for_each(|salt| next(&rt, data, salt));
    }
    for (data, first) in [(x, 9), (y, 2), (z, 3)] {
        assert!(rt.take(data).unwrap() == [nexts(first, 0..10); LEN]);
    }
}

/// The array is an ordinary one if there is no unified memory, no concurrent access to it, or not enough of it.
#[test]
#[ignore = "run on a stand-in by another test"]
fn ordinary() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let x = rt.zeros_in::<u64, _>(MemoryKind::Unified, [LEN]);
    assert!(!x.is_unified());
    for salt in 0..20 {
        next(&rt, &x, salt);
        rt.task("add", (x.slice(5..500).inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
    }
    let expected = (0..20).fold(0, |y, salt| nexts(y, salt..salt + 1) + 1);
    let taken = rt.take(x).unwrap();
    assert_eq!((taken[0], taken[499]), (nexts(0, 0..20), expected));
}
