//! Programs with replays on a device, where the device's graphs must have the same effect as the recorded tasks.

use super::programs::{kind, nexts, runtime, with_units};
use super::random::{Random, variable};
use std::ops::Range;
use thalweg::Explanation;
use thalweg::kernel::{DeviceView, DeviceViewMut, Kernel, Launcher, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(16, 1, 1) absorb(IN(UINT64, a, [ar : as][ac]), INOUT(UINT64, t, [tr : ts][tc]), UINT64 salt, int keep,
                          int ar, int as, int ac, int tr, int ts, int tc)
    {
        REGION(a); REGION(t);
        int i = GLOBAL_ID(0);
        if (i < tr * tc) {
            UINT64 h = salt;
            for (int r = 0; r < ar; r++)
                for (int c = 0; c < ac; c++) h = h * 31 + a[r * as + c];
            int at = i / tc * ts + i % tc;
            t[at] = (keep ? t[at] * 7 : 0) + h + (UINT64)i;
        }
    }
    KERNEL(64, 1, 1) next(INOUT(UINT64, y, n), UINT64 salt, int n)
    {
        REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = y[i] * 31 + salt;
    }
    KERNEL(64, 1, 1) add(IN(UINT64, x, n), INOUT(UINT64, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] += x[i];
    }
";
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("graphs.cl", TEXT) };
type Numbers = (Read<u64>, Write<u64>, u64, i32, i32, i32, i32, i32, i32, i32);
static ABSORB: Kernel<Numbers> = Kernel::new(&PROGRAM, "absorb");
static NEXT: Kernel<(Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "next");
static ADD: Kernel<(Read<u64>, Write<u64>, i32)> = Kernel::new(&PROGRAM, "add");

fn next(k: &mut Launcher<'_>, mut y: DeviceViewMut<'_, u64>, salt: u64) -> Result<(), DeviceError> {
    let n = y.len();
    k.launch(&NEXT, n, (&mut y, salt, n as i32))
}

/// Returns the number of devices to use, at most two.
fn most_devices() -> usize {
    variable("STANDIN_DEVICES", 2).min(2) as usize
}

/// Returns the number of graphs, the number of tasks in them, and whether other tasks were submitted one by one.
fn graphs(recording: &Recording) -> (usize, usize, bool) {
    match recording.explain() {
        Explanation::Graphs { graphs, tasks, others } => (*graphs, *tasks, others.is_some()),
        other => panic!("{other}"),
    }
}

pub const CHAINS: u64 = 8;
pub const LENGTH: u64 = 25;
pub const REPLAYS: u64 = 40;

/// Independent chains whose results are added up at the end. On one device, they form a single graph.
#[test]
#[ignore = "run on a stand-in by another test"]
fn steady_replays_become_graphs() {
    let rt = runtime();
    let y: Vec<_> = (0..CHAINS).map(|n| rt.data(vec![n; 10])).collect();
    let sum = rt.data(vec![0u64; 10]);
    let mut recording = rt
        .record(|r| {
            for salt in 0..LENGTH {
                for y in &y {
                    r.task("next", y.inout()).gpu(move |k, y| next(k, y, salt)).submit()?;
                }
            }
            for y in &y {
                let task = r.task("add", (y.input(), sum.inout()));
                task.gpu(|k, (x, mut y)| k.launch(&ADD, x.len(), (&x, &mut y, x.len() as i32))).submit()?;
            }
            Ok(())
        })
        .unwrap();
    for _ in 0..REPLAYS {
        recording.replay().unwrap();
        assert_eq!(graphs(&recording), (1, (CHAINS * (LENGTH + 1)) as usize, false));
    }
    let (mut chains, mut expected): (Vec<u64>, u64) = ((0..CHAINS).collect(), 0);
    for _ in 0..REPLAYS {
        chains.iter_mut().for_each(|y| *y = nexts(*y, 0..LENGTH));
        expected = chains.iter().fold(expected, |sum, y| sum.wrapping_add(*y));
    }
    assert_eq!(rt.take(sum).unwrap(), [expected; 10]);
    for (y, expected) in y.into_iter().zip(chains) {
        assert_eq!(rt.take(y).unwrap(), [expected; 10]);
    }
}

/// A parameter that changes in every third replay, while graphs are in flight. The host runs a task between the two
/// halves.
#[test]
#[ignore = "run on a stand-in by another test"]
fn changing_arguments_update_graphs() {
    let rt = with_units(&format!("1:CPU:1,1:{}:1", kind()));
    let y = rt.data(vec![1u64; 10]);
    let mut salt = None;
    let mut recording = rt
        .record(|r| {
            let n = salt.insert(r.parameter("salt", 0u64));
            for _ in 0..5 {
                r.task("next", (n.input(), y.inout())).gpu(|k, (n, y)| next(k, y, *n)).submit()?;
            }
            r.task("host", y.inout()).host(|_, y| y.iter_mut().for_each(|y| *y ^= 5)).submit()?;
            for _ in 0..5 {
                r.task("next", (n.input(), y.inout())).gpu(|k, (n, y)| next(k, y, *n)).submit()?;
            }
            Ok(())
        })
        .unwrap();
    let mut expected = 1;
    for n in (0..60).map(|n| n / 3) {
        recording.set(salt.as_ref().unwrap(), n).unwrap();
        recording.replay().unwrap();
        assert_eq!(graphs(&recording), (2, 10, true), "{}", recording.explain());
        expected = (0..5).fold(expected, |y, _| nexts(y, n..n + 1)) ^ 5;
        expected = (0..5).fold(expected, |y, _| nexts(y, n..n + 1));
    }
    assert_eq!(rt.take(y).unwrap(), [expected; 10]);
}

/// With two devices, chains become graphs, but tasks that could run concurrently do not.
#[test]
#[ignore = "run on a stand-in by another test"]
fn chains_on_two_devices_become_graphs() {
    let rt = with_units(&format!("2:{}:1", kind()));
    let [a, b, c] = [1, 2, 3].map(|n| rt.data(vec![n; 10]));
    let mut recording = rt
        .record(|r| {
            for salt in 0..10 {
                r.task("a", a.inout()).gpu(move |k, y| next(k, y, salt)).submit()?;
                for part in b.blocks(5) {
                    r.task("b", part.inout()).gpu(move |k, y| next(k, y, salt)).submit()?;
                }
                r.task("b", (b.input(), c.inout()))
                    .gpu(|k, (x, mut y)| k.launch(&ADD, x.len(), (&x, &mut y, x.len() as i32)))
                    .submit()?;
            }
            Ok(())
        })
        .unwrap();
    let (mut expected_b, mut expected_c) = (2, 3u64);
    for _ in 0..20 {
        recording.replay().unwrap();
        assert_eq!(graphs(&recording), (1, 10, true), "{}", recording.explain());
        for salt in 0..10 {
            expected_b = nexts(expected_b, salt..salt + 1);
            expected_c = expected_c.wrapping_add(expected_b);
        }
    }
    assert_eq!(rt.take(a).unwrap(), [(0..20).fold(1, |a, _| nexts(a, 0..10)); 10]);
    assert_eq!((rt.take(b).unwrap()[9], rt.take(c).unwrap()[0]), (expected_b, expected_c));
}

/// Tasks that are bound to one device are launched there as a graph.
#[test]
#[ignore = "run on a stand-in by another test"]
fn tasks_for_one_device_become_graphs_there() {
    let rt = with_units(&format!("2:{}:1", kind()));
    let device = rt.machine().units()[1].devices[0];
    let y = rt.data(vec![1u64; 10]);
    let mut recording = rt
        .record(|r| {
            (0..5).try_for_each(|salt| {
                r.task("next", y.inout()).gpu(move |k, y| next(k, y, salt)).on_device(device).submit()
            })
        })
        .unwrap();
    for _ in 0..3 {
        recording.replay().unwrap();
        rt.wait().unwrap();
        assert_eq!(graphs(&recording), (1, 5, false));
    }
    assert_eq!(rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect::<Vec<_>>(), [0, 3]);
    assert_eq!(rt.take(y).unwrap(), [(0..3).fold(1, |y, _| nexts(y, 0..5)); 10]);
}

/// Loops that are spread over devices. Each device gets one graph, which ends before the first part that depends on a
/// part on another device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn spread_loops_become_one_graph_per_device() {
    for cores in ["", "1:CPU:1,"] {
        let rt = with_units(&format!("{cores}1:{}:2", kind()));
        let devices = rt.machine().units().last().unwrap().devices.clone();
        let (x, y) = (rt.data(vec![1u64; 40]), rt.data(vec![2u64; 40]));
        let mut recording = rt
            .record(|r| {
                for salt in 0..5 {
                    let next = r.for_each("next", y.blocks(10).inout()).gpu(move |k, y| next(k, y, salt));
                    let next = next.cpu(move |_, y| y.iter_mut().for_each(|y| *y = nexts(*y, salt..salt + 1)));
                    next.spread(&devices).submit()?;
                }
                // Each part is added to its neighbour, which is on the other device.
                (0..4).try_for_each(|part| {
                    let at = |part: usize| part * 10..part * 10 + 10;
                    let add = r.task("add", (y.slice(at(part ^ 1)).input(), x.slice(at(part)).inout()));
                    let add = add.gpu(|k, (x, mut y)| k.launch(&ADD, x.len(), (&x, &mut y, x.len() as i32)));
                    let add = add.cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y = y.wrapping_add(*x)));
                    add.on_device(devices[part % 2]).submit()
                })
            })
            .unwrap();
        for _ in 0..REPLAYS {
            recording.replay().unwrap();
            assert_eq!(graphs(&recording), (4, 24, false));
        }
        rt.wait().unwrap();
        for part in 0..4 {
            assert_eq!(x.slice(part * 10..part * 10 + 10).valid_in(), [devices[part % 2].space()]);
        }
        let (mut sum, mut next) = (1u64, 2u64);
        for _ in 0..REPLAYS {
            next = nexts(next, 0..5);
            sum = sum.wrapping_add(next);
        }
        assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (vec![sum; 40], vec![next; 40]));
    }
}

pub const ADDENDS: usize = 12;

/// Reductions between the tasks that reset and read their sum.
#[test]
#[ignore = "run on a stand-in by another test"]
fn groups_of_reductions_are_parts_of_graphs() {
    let rt = runtime();
    let x: Vec<_> = (0..ADDENDS as u64).map(|n| rt.data(vec![n; 200])).collect();
    let (sum, copy) = (rt.data(vec![0u64; 200]), rt.data(vec![0u64; 200]));
    let mut recording = rt
        .record(|r| {
            // The first array has zeros.
            let reset = r.task("reset", (x[0].input(), sum.output()));
            reset.gpu(|k, (a, mut t)| k.launch(&ABSORB, 200, (&a, &mut t, 0, 0, 1, 200, 1, 1, 200, 200))).submit()?;
            for x in &x {
                let task = r.task("add", (x.input(), sum.reduction(Sum)));
                task.gpu(|k, (x, mut sum)| k.launch(&ADD, 200, (&x, &mut sum, 200))).submit()?;
            }
            let task = r.task("read", (sum.input(), copy.inout()));
            task.gpu(|k, (sum, mut copy)| k.launch(&ADD, 200, (&sum, &mut copy, 200))).submit()
        })
        .unwrap();
    let replays = 20;
    for _ in 0..replays {
        recording.replay().unwrap();
        assert_eq!(graphs(&recording), (1, ADDENDS + 2, false));
    }
    let once: Vec<u64> = (0..200).map(|i| i + (0..ADDENDS as u64).sum::<u64>()).collect();
    assert_eq!(rt.take(copy).unwrap(), once.iter().map(|once| once * replays).collect::<Vec<_>>());
    assert_eq!(rt.take(sum).unwrap(), once);
}

/// Scratch memory, which concurrent tasks of a graph must not share.
#[test]
#[ignore = "run on a stand-in by another test"]
fn graphs_may_use_scratch_memory() {
    let rt = runtime();
    let y: Vec<_> = (0..6u64).map(|n| rt.data(vec![n; 200])).collect();
    let mut recording = rt
        .record(|r| {
            for y in &y {
                r.task("scratch", y.inout())
                    .gpu(|k, mut y| {
                        let mut between = k.scratch::<u64>(200)?;
                        k.launch(&ABSORB, 200, (&y, &mut between, 5, 0, 1, 200, 1, 1, 200, 200))?;
                        k.launch(&ADD, 200, (&between, &mut y, 200))
                    })
                    .submit()?;
            }
            Ok(())
        })
        .unwrap();
    (0..30).for_each(|_| recording.replay().unwrap());
    assert_eq!(graphs(&recording), (1, 6, false));
    for (n, y) in (0..).zip(y) {
        let mut expected: Vec<u64> = vec![n; 200];
        for _ in 0..30 {
            let h = 5u64.wrapping_mul(31).wrapping_add(expected[0]);
            expected.iter_mut().zip(0..).for_each(|(y, i)| *y = y.wrapping_add(h + i));
        }
        assert_eq!(rt.take(y).unwrap(), expected);
    }
}

/// Tasks at the indices of an iteration space, whose rows exchange their borders. On two devices, the tasks at each
/// index form a graph.
#[test]
#[ignore = "run on a stand-in by another test"]
fn graphs_of_indexed_loops_keep_results() {
    const INDICES: usize = 5;
    let devices = 1..=most_devices();
    for (devices, scheduler) in devices.flat_map(|n| ["dynamic", "static", "guided-sizes"].map(|s| (n, s))) {
        let units = format!("{devices}:{}:1", kind());
        let rt = Runtime::builder().compute_units(units).scheduler(scheduler).build().unwrap();
        let y: Vec<_> = (0..INDICES as u64).map(|n| rt.data(vec![n; 10])).collect();
        let space = IterationSpace::new("rows", vec![1.0; INDICES]);
        let mut recording = rt
            .record(|r| {
                r.begin(&space);
                for (n, y_n) in y.iter().enumerate() {
                    let neighbours = [(n + INDICES - 1) % INDICES, (n + 1) % INDICES];
                    for other in neighbours {
                        r.task("border", (y[other].slice(..2).input(), y_n.slice(8..).inout()))
                            .gpu(|k, (x, mut y)| k.launch(&ADD, 2, (&x, &mut y, 2)))
                            .near(&space, n)
                            .submit()?;
                    }
                }
                for (n, y) in y.iter().enumerate() {
                    for salt in 0..3 {
                        r.task("next", y.inout()).gpu(move |k, y| next(k, y, salt)).at(&space, n).submit()?;
                    }
                }
                Ok(())
            })
            .unwrap();
        let mut expected: Vec<Vec<u64>> = (0..INDICES as u64).map(|n| vec![n; 10]).collect();
        for _ in 0..12 {
            recording.replay().unwrap();
            let runs = if devices == 1 { 1 } else { 2 * INDICES };
            assert_eq!(graphs(&recording), (runs, 5 * INDICES, false), "{}", recording.explain());
            for n in 0..INDICES {
                for other in [(n + INDICES - 1) % INDICES, (n + 1) % INDICES] {
                    let border = [expected[other][0], expected[other][1]];
                    expected[n][8..].iter_mut().zip(border).for_each(|(y, x)| *y = y.wrapping_add(x));
                }
            }
            expected.iter_mut().flatten().for_each(|y| *y = nexts(*y, 0..3));
        }
        assert_eq!(space.instances(), 12);
        let found: Vec<_> = y.into_iter().map(|y| rt.take(y).unwrap()).collect();
        assert_eq!(found, expected, "{devices} {scheduler}");
        let tasks: u64 = rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).sum();
        assert_eq!(tasks, 12 * if devices == 1 { 1 } else { 2 * INDICES as u64 });
    }
}

/// Replicas are evicted between replays, because memory has room for only one of three recordings. A graph must not be
/// launched with memory that has been freed, even if the address has been reused since.
#[test]
#[ignore = "run on a stand-in by another test"]
fn eviction_between_replays_keeps_results() {
    const BYTES: usize = 80_000;
    let rt = Runtime::builder().compute_units(format!("1:{}:1", kind())).scheduler("dynamic");
    let rt = rt.device_memory_bytes(2 * BYTES as u64 + BYTES as u64 / 2).build().unwrap();
    let all: Vec<_> = (0..3u64).map(|n| rt.data(vec![n; BYTES / 8])).collect();
    let record = |y: &Data<u64>| {
        rt.record(|r| (0..4).try_for_each(|salt| r.task("next", y.inout()).gpu(move |k, y| next(k, y, salt)).submit()))
    };
    let mut recordings: Vec<_> = all.iter().map(|y| record(y).unwrap()).collect();
    for _ in 0..6 {
        for recording in &mut recordings {
            (0..4).for_each(|_| recording.replay().unwrap());
            assert_eq!(graphs(recording), (1, 4, false));
            rt.wait().unwrap();
        }
    }
    assert!(rt.statistics().evictions > 0);
    for (n, y) in (0..).zip(all) {
        let expected = (0..24).fold(n, |y, _| nexts(y, 0..4));
        assert!(rt.take(y).unwrap().iter().all(|y| *y == expected));
    }
}

/// One of two devices is lost during replays. Data that can be read is correct, all other data is reported as lost, and
/// replays continue on the other device.
#[test]
#[ignore = "run on a stand-in by another test"]
fn device_loss_during_replays_keeps_readable_data() {
    let rt = with_units(&format!("2:{}:1", kind()));
    let y: Vec<_> = (0..4u64).map(|n| rt.data(vec![n; 10])).collect();
    let mut recording = rt
        .record(|r| {
            for salt in 0..6 {
                for y in &y {
                    r.task("next", y.inout()).gpu(move |k, y| next(k, y, salt)).submit()?;
                }
            }
            Ok(())
        })
        .unwrap();
    let mut replay = |times: u64| {
        (0..times).for_each(|_| recording.replay().unwrap());
        assert_eq!(graphs(&recording), (4, 24, false));
        rt.wait()
    };
    let after = |n: u64, times: u64| (0..times).fold(n, |y, _| nexts(y, 0..6));
    let ended = replay(30);
    for (n, y) in (0..).zip(&y) {
        match rt.read(y) {
            Ok(found) => assert_eq!(found, [after(n, 30); 10]),
            Err(error) => assert!(error.to_string().contains("lost"), "{error} {ended:?}"),
        }
    }
    // Data that has been written again is available. If the loss is noticed only now, this takes a second attempt.
    let mut anew = || {
        y.iter().try_for_each(|y| rt.task("begin", y.output()).gpu(|k, y| next(k, y, 1)).submit().map(drop)).unwrap();
        replay(1)
    };
    if anew().is_err() {
        anew().unwrap();
    }
}

const ROWS: usize = 5;
const COLUMNS: usize = 7;

#[derive(Debug, Clone)]
struct Part {
    data: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Good,
    Refuses,
    RefusesLate,
    Panics,
}

#[derive(Debug, Clone)]
struct Step {
    reads: Part,
    writes: Part,
    keeps: bool,
    /// Whether the task is a reduction, which adds to what it writes.
    adds: bool,
    salt: u64,
    end: End,
    on_host: bool,
}

impl Part {
    fn draw(lot: &mut Random, data: usize) -> Self {
        Self { data: lot.below(data), rows: lot.range(ROWS), columns: lot.range(COLUMNS) }
    }

    fn overlaps(&self, other: &Self) -> bool {
        let meet = |a: &Range<usize>, b: &Range<usize>| a.start < b.end && b.start < a.end;
        self.data == other.data && meet(&self.rows, &other.rows) && meet(&self.columns, &other.columns)
    }

    fn places(&self) -> impl Iterator<Item = usize> {
        let columns = self.columns.clone();
        self.rows.clone().flat_map(move |row| columns.clone().map(move |column| row * COLUMNS + column))
    }
}

/// Expected memory contents if the tasks run one after the other; `None` for poisoned elements.
struct Oracle {
    memory: Vec<Vec<Option<u64>>>,
    /// The elements that are poisoned only because a member of an open group of reductions has failed. Later members
    /// do not fail with it.
    in_group: Vec<Vec<bool>>,
    failures: usize,
}

impl Oracle {
    /// Notes that a task uses a part in another way than by a reduction.
    fn close_groups(&mut self, part: &Part) {
        part.places().for_each(|at| self.in_group[part.data][at] = false);
    }

    fn apply(&mut self, step: &Step, more: u64) {
        let mut h = Some(step.salt.wrapping_add(more));
        for at in step.reads.places() {
            h = h.and_then(|h| Some(h.wrapping_mul(31).wrapping_add(self.memory[step.reads.data][at]?)));
        }
        self.close_groups(&step.reads);
        if !step.adds {
            self.close_groups(&step.writes);
        }
        let (target, in_group) = (&mut self.memory[step.writes.data], &mut self.in_group[step.writes.data]);
        let mut is_there = step.writes.places().map(|at| target[at].is_some() || step.adds && in_group[at]);
        let is_good = h.is_some() && (!(step.keeps || step.adds) || is_there.all(|is_there| is_there));
        self.failures += usize::from(is_good && step.end != End::Good);
        if step.adds {
            for (i, at) in (0..).zip(step.writes.places()) {
                if is_good && step.end == End::Good {
                    target[at] = target[at].zip(h).map(|(sum, h): (u64, u64)| sum.wrapping_add(h.wrapping_add(i)));
                } else if target[at].take().is_some() {
                    in_group[at] = true;
                }
            }
            return;
        }
        for (i, at) in (0..).zip(step.writes.places()) {
            let kept = if step.keeps { target[at].map(|kept| kept.wrapping_mul(7)) } else { Some(0) };
            let new = || Some(kept?.wrapping_add(h?).wrapping_add(i));
            target[at] = if is_good && step.end == End::Good { new() } else { None };
        }
    }
}

fn enqueue(
    k: &mut Launcher<'_>,
    a: &DeviceView<'_, u64>,
    t: &mut DeviceViewMut<'_, u64>,
    step: &Step,
    more: u64,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    match step.end {
        End::Refuses => return Err("it refuses".into()),
        End::Panics => panic!("it panics"),
        End::Good | End::RefusesLate => {}
    }
    let numbers = |extents: [usize; 4], strides: [usize; 4]| [extents[0], strides[0], extents[1]].map(|n| n as i32);
    let ([ar, a_stride, ac], [tr, ts, tc]) = (numbers(a.extents(), a.strides()), numbers(t.extents(), t.strides()));
    let salt = step.salt.wrapping_add(more);
    k.launch(&ABSORB, t.len(), (a, t, salt, i32::from(step.keeps), ar, a_stride, ac, tr, ts, tc))?;
    if step.end == End::RefusesLate { Err("it refuses late".into()) } else { Ok(()) }
}

macro_rules! describe {
    ($task:expr, $step:expr, $more:ident => $value:expr, $cores:expr) => {{
        let (step, cores) = ($step.clone(), $step.clone());
        let task = $task.gpu(move |k, ($more, a, mut t)| enqueue(k, &a, &mut t, &step, $value));
        if $cores || $step.on_host {
            let task = task.host(move |_, ($more, a, mut t)| {
                let h = a.iter().fold(cores.salt.wrapping_add($value), |h, a| h.wrapping_mul(31).wrapping_add(*a));
                for (i, t) in (0..).zip(t.iter_mut()) {
                    *t = if cores.keeps { t.wrapping_mul(7) } else { 0 }.wrapping_add(h).wrapping_add(i);
                }
                match cores.end {
                    End::Good => Ok(()),
                    End::Panics => panic!("it panics"),
                    End::Refuses | End::RefusesLate => Err("it refuses"),
                }
            });
            task.submit().map(drop)
        } else {
            task.submit().map(drop)
        }
    }};
}

/// Random programs with failures and with recorded parts that are replayed between the other tasks.
#[test]
#[ignore = "run on a stand-in by another test"]
fn random_replays_match_direct_execution() {
    let (cases, seed) = (variable("THALWEG_CASES", 60), variable("THALWEG_SEED", 1));
    std::panic::set_hook(Box::new(|panic| {
        if !panic.to_string().contains("it panics") {
            eprintln!("{panic}");
        }
    }));
    let mut launched = 0;
    for case in 0..cases {
        launched += random_program(&mut Random(seed.wrapping_mul(1000).wrapping_add(case)), case);
    }
    assert!(launched > 0, "no replay was submitted as a graph");
}

/// Runs a program and compares the result with the oracle. Returns the number of submitted graphs.
fn random_program(lot: &mut Random, case: u64) -> usize {
    let kind = kind();
    let units = lot.of(&["1:K:1", "1:K:1", "N:K:1", "1:CPU:1,1:K:1"]);
    let units = units.replace('N', &most_devices().to_string()).replace('K', &kind);
    let (with_cores, data) = (lot.one_in(3) && !units.contains("CPU"), 1 + lot.below(4));
    let (fails, with_reductions) = (lot.one_in(2), lot.one_in(2));
    let mut before: Option<Step> = None;
    let mut draw = || {
        let reads = Part::draw(lot, data);
        let mut writes = Part::draw(lot, data);
        while writes.overlaps(&reads) {
            writes = Part { columns: lot.range(COLUMNS), rows: lot.range(ROWS), data: lot.below(data.max(2)) % data };
            if data == 1 && lot.one_in(8) {
                return None;
            }
        }
        let end = match fails && lot.one_in(12) {
            true => lot.of(&[End::Refuses, End::RefusesLate, End::Panics]),
            false => End::Good,
        };
        let on_host = units.contains("CPU") && lot.one_in(5);
        let keeps = on_host || lot.one_in(2);
        let mut step = Step { reads, writes, keeps, adds: false, salt: lot.next(), end, on_host };
        // Reductions are part of a run only between other uses of their region.
        if let Some(Step { writes, adds, .. }) = before.clone() {
            if adds && lot.one_in(2) && !writes.overlaps(&step.writes) {
                step.reads = writes.clone();
            } else if with_reductions && lot.one_in(2) && !writes.overlaps(&step.reads) {
                (step.writes, step.keeps, step.adds, step.on_host) = (writes.clone(), false, true, false);
            }
        }
        before.insert(step).clone().into()
    };
    let steps: Vec<Step> = (0..24).filter_map(|_| draw()).collect();
    let parts: Vec<&[Step]> = steps.chunks(9).collect();
    let rt = with_units(&units);
    let values: Vec<Vec<u64>> =
        (0..data as u64).map(|d| (0..(ROWS * COLUMNS) as u64).map(|i| d * 1000 + i).collect()).collect();
    let arrays =
        values.iter().map(|values| rt.array(ndarray::Array2::from_shape_vec([ROWS, COLUMNS], values.clone()).unwrap()));
    let arrays: Vec<Data<u64, Ix2>> = arrays.collect();
    let cut = |part: &Part| arrays[part.data].block((part.rows.clone(), part.columns.clone()));
    let mut recordings = Vec::new();
    for steps in &parts[..parts.len().min(2)] {
        let mut more = None;
        let recording = rt.record(|r| {
            let more = more.insert(r.parameter("more", 0u64));
            for step in *steps {
                let (a, t) = (cut(&step.reads), cut(&step.writes));
                match (step.on_host, step.keeps) {
                    _ if step.adds => {
                        let task = r.task("sum", (more.input(), a.input(), t.reduction(Sum)));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (false, true) => {
                        let task = r.task("step", (more.input(), a.input(), t.inout()));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (false, false) => {
                        let task = r.task("step", (more.input(), a.input(), t.output()));
                        describe!(task, step, more => *more, with_cores)?;
                    }
                    (true, _) => {
                        let task = r.task("host", (more.input(), a.input(), t.inout()));
                        describe!(task, step, more => *more, true)?;
                    }
                }
            }
            Ok(())
        });
        recordings.push((recording.unwrap(), more.unwrap()));
    }
    let mut oracle = Oracle {
        memory: values.into_iter().map(|values| values.into_iter().map(Some).collect()).collect(),
        in_group: vec![vec![false; ROWS * COLUMNS]; data],
        failures: 0,
    };
    let (mut failed, mut launched) = (0, 0);
    let mut count = |ended: Result<(), RunError>| match ended {
        Ok(()) => {}
        Err(RunError::Failed(failures)) => {
            let is_ours = |failure: &&_| format!("{failure:?}").contains("it ");
            assert_eq!(failures.iter().filter(is_ours).count(), failures.iter().count(), "case {case}: {failures}");
            failed += failures.iter().count();
        }
        Err(other) => panic!("{other}"),
    };
    for _ in 0..12 {
        match lot.below(8) {
            0 => count(rt.wait()),
            1 => {
                let part = &steps[lot.below(steps.len())].writes;
                _ = rt.read(cut(part));
                oracle.close_groups(part);
            }
            2 => {
                for step in parts.get(2).copied().unwrap_or_default() {
                    let (a, t, none) = (cut(&step.reads), cut(&step.writes), rt.token());
                    let task = rt.task("step", (none.input(), a.input(), t.inout()));
                    let step = Step { keeps: true, adds: false, ..step.clone() };
                    describe!(task, step, _more => 0, with_cores).unwrap();
                    oracle.apply(&step, 0);
                }
            }
            _ => {
                let at = lot.below(recordings.len());
                let (recording, more) = &mut recordings[at];
                let value = lot.below(2) as u64;
                for _ in 0..1 + lot.below(4) {
                    recording.set(more, value).unwrap();
                    recording.replay().unwrap();
                    if let Explanation::Graphs { graphs, .. } = recording.explain() {
                        launched += graphs;
                    }
                    parts[at].iter().for_each(|step| oracle.apply(step, value));
                }
            }
        }
    }
    count(rt.wait());
    assert_eq!(failed, oracle.failures, "case {case}: {units} {steps:?}");
    for (array, expected) in arrays.iter().zip(&oracle.memory) {
        for (at, expected) in expected.iter().enumerate() {
            let found = rt.read(array.block((at / COLUMNS, at % COLUMNS)));
            let found = match found {
                Ok(found) => Some(found[[0, 0]]),
                Err(RunError::Poisoned(_)) => None,
                Err(other) => panic!("{other}"),
            };
            assert_eq!(found, *expected, "case {case}: {units} {at} {steps:?}");
        }
    }
    launched
}
