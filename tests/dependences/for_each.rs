//! Loops over partitions, which must have the same effect as their iterations submitted one by one; and loops that are
//! refused.

use crate::common::{MIXES, failed, for_each_mix, gate, runtime, watched};
use proptest::prelude::*;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::prelude::*;

const N: usize = 240;

/// One loop of a random program: its kind, its arrays and its block size.
#[derive(Debug, Clone)]
struct Loop {
    kind: usize,
    from: usize,
    to: usize,
    block: usize,
    seed: u64,
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ b
}

/// Submits a loop in one call, or its iterations one by one, with the same body.
macro_rules! either {
    ($rt:expr, $together:expr, $accesses:expr, |$part:ident| $single:expr, $body:expr) => {{
        if $together {
            $rt.for_each("step", $accesses).cpu($body).submit().unwrap();
        } else {
            for $part in 0..N.div_ceil($rt.1) {
                $rt.task("step", $single).cpu($body).submit().unwrap();
            }
        }
    }};
}

/// A runtime and the size of blocks.
struct Program<'r>(&'r Runtime, usize);

impl std::ops::Deref for Program<'_> {
    type Target = Runtime;

    fn deref(&self) -> &Runtime {
        self.0
    }
}

fn submit(rt: &Runtime, data: &[Data<u64>], sum: &Data<u64>, step: &Loop, together: bool) {
    let &Loop { kind, from, to, block, seed } = step;
    let (x, y, b) = (&data[from], &data[to], block);
    let rt = Program(rt, block);
    let p = |x: &Data<u64>, i: usize| -> std::ops::Range<usize> { i * b..((i + 1) * b).min(x.len()) };
    let halo = |x: &Data<u64>, i: usize| (i * b).saturating_sub(2)..((i + 1) * b + 2).min(x.len());
    match kind {
        0 => either!(rt, together, y.blocks(b).inout(), |i| y.slice(p(y, i)).inout(), move |_, y: &mut [u64]| y
            .iter_mut()
            .for_each(|y| *y = mix(*y, seed))),
        1 => either!(
            rt,
            together,
            (x.blocks(b).grow(2).input(), y.blocks(b).output()),
            |i| (x.slice(halo(x, i)).input(), y.slice(p(y, i)).output()),
            move |_, (x, y): (&[u64], &mut [u64])| {
                let h = x.iter().fold(seed, |h, x| mix(h, *x));
                y.iter_mut().for_each(|y| *y = h);
            }
        ),
        2 => either!(
            rt,
            together,
            (x.blocks(b).input(), sum.reduction(Sum)),
            |i| (x.slice(p(x, i)).input(), sum.reduction(Sum)),
            move |_, (x, sum): (&[u64], &mut [u64])| sum[0] =
                x.iter().fold(sum[0], |sum, x| sum.wrapping_add(mix(*x, seed)))
        ),
        3 => either!(
            rt,
            together,
            (x.blocks(b).commutative(), sum.commutative()),
            |i| (x.slice(p(x, i)).commutative(), sum.commutative()),
            move |_, (x, sum): (&mut [u64], &mut [u64])| {
                x.iter_mut().for_each(|x| *x = x.wrapping_add(seed));
                sum[0] = sum[0].wrapping_add(x.len() as u64);
            }
        ),
        4 => either!(
            rt,
            together,
            (0.., x.blocks(b).inout(), sum.input()),
            |i| (x.slice(p(x, i)).inout(), sum.input()),
            move |_, views| ignore_index(views, seed)
        ),
        _ => either!(
            rt,
            together,
            (x.blocks(b).reduction(Max), y.blocks(b).after()),
            |i| (x.slice(p(x, i)).reduction(Max), y.slice(p(y, i)).after()),
            move |_, (x, ()): (&mut [u64], ())| x.fill(seed)
        ),
    }
}

/// Views of a loop body, with or without the iteration index.
trait Views {
    fn split(&mut self) -> (&mut [u64], &[u64]);
}

impl Views for (usize, &mut [u64], &[u64]) {
    fn split(&mut self) -> (&mut [u64], &[u64]) {
        (self.1, self.2)
    }
}

impl Views for (&mut [u64], &[u64]) {
    fn split(&mut self) -> (&mut [u64], &[u64]) {
        (self.0, self.1)
    }
}

fn ignore_index(mut views: impl Views, seed: u64) {
    let (x, sum) = views.split();
    x.iter_mut().for_each(|x| *x = mix(*x, sum[0] ^ seed));
}

/// The outcome of a program: all data, and the edges of its graph.
type End = (Vec<Vec<u64>>, Vec<(usize, usize, bool)>);

fn run(units: &'static str, scheduler: &str, window: usize, program: &[Loop], together: bool) -> End {
    let builder = Runtime::builder().compute_units(units).scheduler(scheduler).max_pending_tasks(window);
    let rt = builder.detect_conflicts(true).record_graph(true).build().unwrap();
    let data: Vec<_> = (0..3).map(|d| rt.data((0..N as u64).map(|i| mix(d, i)).collect())).collect();
    let sum = rt.scalar(0u64);
    program.iter().for_each(|step| submit(&rt, &data, &sum, step, together));
    rt.wait().unwrap();
    let graph = rt.graph().unwrap().into_petgraph();
    let mut edges: Vec<_> = graph
        .edge_indices()
        .map(|edge| {
            let (a, b) = graph.edge_endpoints(edge).unwrap();
            (a.index(), b.index(), graph[edge].carries_value)
        })
        .collect();
    edges.sort_unstable();
    assert!(rt.statistics().conflicts.is_empty(), "{:?}", rt.statistics().conflicts);
    let values = data.into_iter().chain([sum]).map(|data| rt.take(data).unwrap()).collect();
    (values, edges)
}

fn program() -> impl Strategy<Value = Vec<Loop>> {
    let step = (0..6usize, 0..3usize, 0..3usize, 1..100usize, any::<u64>())
        .prop_map(|(kind, from, to, block, seed)| Loop { kind, from, to, block, seed })
        .prop_filter("two accesses to the same part", |step| ![1, 5].contains(&step.kind) || step.from != step.to);
    prop::collection::vec(step, 1..12)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn loop_equals_its_iterations_submitted_one_by_one(
        program in program(),
        (units, scheduler) in prop::sample::select(vec![
            ("1:CPU:1", "stealing"), ("2:CPU:1", "stealing"), ("2:CPU:1", "dynamic"), ("1:CPU:1,1:EMU:1", "eft"),
        ]),
        window in prop::sample::select(vec![1, 5, 100_000]),
    ) {
        let [together, single] = [true, false].map(|together| run(units, scheduler, window, &program, together));
        prop_assert_eq!(together.0, single.0);
        prop_assert_eq!(together.1, single.1);
    }
}

#[test]
fn iteration_runs_exactly_once_on_every_machine() {
    for_each_mix(|rt| {
        let x: Data<u64, Ix2> = rt.zeros([37, 23]);
        let space = IterationSpace::new("tiles", vec![1.0; 20]);
        for _ in 0..3 {
            space.begin();
            let tasks = rt
                .for_each("count", (0..20, x.tiles([8, 6]).inout()))
                .cpu(|_, (i, mut tile)| tile += i as u64 + 1)
                .cost(|i| i as f64)
                .at(&space)
                .submit();
            assert_eq!(tasks, Ok(20));
        }
        let found = rt.take(x).unwrap();
        assert!(found.indexed_iter().all(|((i, j), x)| *x == 3 * (4 * (i / 8) + j / 6 + 1) as u64), "{found}");
    });
}

#[test]
fn device_body_of_a_loop_is_shared_by_its_iterations() {
    for units in MIXES {
        let rt = runtime(units);
        let x = rt.data(vec![0u64; 100]);
        let (here, there) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
        let (on_cores, on_devices) = (here.clone(), there.clone());
        let add = |x: &mut [u64], calls: &AtomicUsize| {
            calls.fetch_add(1, Ordering::Relaxed);
            x.iter_mut().for_each(|x| *x += 1);
        };
        rt.for_each("add", (x.blocks(7).inout(),))
            .host(move |_, (x,)| add(x, &on_cores))
            .emulated(move |_, (x,)| add(x, &on_devices))
            .submit()
            .unwrap();
        assert_eq!(rt.take(x).unwrap(), [1; 100]);
        assert_eq!(here.load(Ordering::Relaxed) + there.load(Ordering::Relaxed), 15);
        drop(rt);
        assert_eq!(
            Arc::strong_count(&here) + Arc::strong_count(&there),
            2,
            "bodies must be dropped with the last iteration"
        );
    }
}

#[test]
fn loop_without_cpu_body_runs_on_devices() {
    let rt = runtime("1:CPU:1,1:EMU:1");
    let x = rt.data(vec![1u64; 64]);
    let task = |x: &Data<u64>| rt.for_each("negate", x.blocks(10).inout()).emulated(|_, x| x.fill(9)).submit();
    assert_eq!(task(&x), Ok(7));
    assert_eq!(rt.take(x).unwrap(), [9; 64]);
    let cores = runtime("1:CPU:1");
    let x = cores.data(vec![1u64; 64]);
    let refused = cores.for_each("negate", x.blocks(10).inout()).emulated(|_, x| x.fill(9)).submit();
    assert!(matches!(refused, Err(SubmitError::NoUnit { .. })), "{refused:?}");
    let refused = cores.for_each("negate", x.blocks(10).inout()).submit();
    assert!(matches!(refused, Err(SubmitError::NoBody { .. })), "{refused:?}");
}

#[test]
fn failing_iteration_poisons_only_its_part() {
    watched("failures", || {
        let rt = runtime("2:CPU:1");
        let x = rt.data(vec![0u64; 100]);
        let fails = |_: &Context, (i, x): (usize, &mut [u64])| {
            x.fill(i as u64);
            if i == 3 { Err("three") } else { Ok(()) }
        };
        rt.for_each("write", (0.., x.blocks(10).output())).cpu(fails).submit().unwrap();
        rt.for_each("read", x.blocks(10).inout()).cpu(|_, x| x[0] += 100).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["write"]);
        assert_eq!(rt.read(x.slice(20..21)).unwrap(), [102]);
        assert!(rt.read(x.slice(30..31)).is_err());
    });
}

#[test]
fn refused_loop_submits_nothing() {
    let (rt, other) = (runtime("1:CPU:1"), runtime("1:CPU:1"));
    let (x, y) = (rt.data(vec![0u64; 100]).named("x"), rt.data(vec![0u64; 100]).named("y"));
    let foreign = other.data(vec![0u64; 100]);
    let lengths = rt.for_each("loop", (x.blocks(10).inout(), y.blocks(9).input())).cpu(|_, _| ()).submit();
    assert!(matches!(lengths, Err(SubmitError::Lengths { first_len: 10, second_len: 12, .. })), "{lengths:?}");
    let lengths = rt.for_each("loop", (0..11, x.blocks(10).inout())).cpu(|_, _| ()).submit();
    assert!(matches!(lengths, Err(SubmitError::Lengths { first_len: 11, second_len: 10, .. })), "{lengths:?}");
    let endless = rt.for_each("loop", (0.., x.inout())).cpu(|_, _| ()).submit();
    assert!(matches!(endless, Err(SubmitError::NoLength { .. })), "{endless:?}");
    let overlap = rt.for_each("loop", (x.blocks(10).grow(1).input(), x.blocks(10).output())).cpu(|_, _| ()).submit();
    assert!(matches!(overlap, Err(SubmitError::OverlappingAccesses { .. })), "{overlap:?}");
    // The first iterations do not overlap, but the last ones do.
    let late = (x.slice(..60).blocks(10).input(), x.slice(40..).blocks(10).inout());
    rt.for_each("apart", (x.slice(..40).blocks(10).input(), x.slice(60..).blocks(10).inout()))
        .cpu(|_, _| ())
        .submit()
        .unwrap();
    assert!(
        rt.for_each("loop", late).cpu(|_, _| ()).submit().is_ok(),
        "40..50 and 0..10, and the later pairs, do not overlap"
    );
    let late = (x.slice(..50).blocks(10).input(), x.slice(30..50).blocks(4).inout());
    let overlap = rt.for_each("loop", late).cpu(|_, _| ()).submit();
    assert!(matches!(overlap, Err(SubmitError::OverlappingAccesses { .. })), "{overlap:?}");
    let elsewhere = rt.for_each("loop", foreign.blocks(10).input()).cpu(|_, _| panic!("the loop was refused")).submit();
    assert!(matches!(elsewhere, Err(SubmitError::ForeignData { .. })), "{elsewhere:?}");
    let space = IterationSpace::new("space", vec![1.0; 9]);
    let index =
        rt.for_each("loop", x.blocks(10).input()).cpu(|_, _| panic!("the loop was refused")).at(&space).submit();
    assert!(matches!(index, Err(SubmitError::Index { index: 9, len: 9, .. })), "{index:?}");
    rt.wait().unwrap();
    assert_eq!(rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), 10);
    rt.shutdown().unwrap();
    let ended = rt.for_each("loop", x.blocks(10).input()).cpu(|_, _| panic!("the loop was refused")).submit();
    assert!(matches!(ended, Err(SubmitError::ShutDown)), "{ended:?}");
}

#[test]
fn empty_loop_submits_nothing() {
    let rt = runtime("1:CPU:1");
    let x: Data<u64> = rt.data(vec![]);
    let never = |_: &Context, _: &mut [u64]| panic!("the loop has no iterations");
    assert_eq!(rt.for_each("none", x.blocks(10).inout()).cpu(never).submit(), Ok(0));
    assert_eq!(rt.for_each("none", 0..0).cpu(|_, _| panic!("the loop has no iterations")).submit(), Ok(0));
    rt.wait().unwrap();
}

#[test]
fn loop_takes_nested_accesses_lists_and_ranges() {
    for_each_mix(|rt| {
        let (x, bins) = (rt.data((0..1000u64).collect()), rt.data(vec![0u64; 10]));
        let tables: Vec<_> = (0..3u64).map(|n| rt.data(vec![n; 4])).collect();
        let tables: Vec<_> = tables.iter().map(|table| table.input()).collect();
        rt.for_each("count", ((5..15, x.blocks(100).input()), tables, bins.accumulate(Sum)))
            .cpu(|_, ((n, x), tables, bins)| {
                assert_eq!((n as u64 - 5) * 100, x[0]);
                bins[n - 5] += x.len() as u64 + tables[2][3];
            })
            .submit()
            .unwrap();
        assert_eq!(rt.take(bins).unwrap(), [102; 10]);
    });
}

#[test]
fn loop_inside_a_body_is_refused_on_data_the_body_holds() {
    watched("inside", || {
        let rt = Arc::new(runtime("2:CPU:1"));
        let (x, y) = (rt.data(vec![0u64; 100]), rt.data(vec![0u64; 100]));
        let (inner, held, free) = (rt.clone(), x.clone(), y.clone());
        let parent = rt.task("parent", (x.inout(),)).cpu(move |_, (x,)| {
            x.fill(1);
            inner.for_each("children", free.blocks(9).output()).cpu(|_, y| y.fill(2)).submit()?;
            let refused = inner.for_each("children", held.blocks(9).inout()).cpu(|_, _| ()).submit();
            assert!(matches!(refused, Err(SubmitError::Nested { .. })), "{refused:?}");
            Ok::<(), SubmitError>(())
        });
        parent.submit().unwrap();
        rt.wait().unwrap();
        assert_eq!((rt.read(&x).unwrap(), rt.read(&y).unwrap()), (vec![1; 100], vec![2; 100]));
    });
}

#[test]
fn every_iteration_waits_for_tasks_before_the_loop() {
    for hosts in [false, true] {
        watched("gate", move || {
            let rt = crate::common::builder("2:CPU:1", hosts).build().unwrap();
            let (open, wait) = gate();
            let x = rt.data(vec![0u64; 1000]);
            rt.task("gate", (x.output(),))
                .cpu(move |_, (x,)| {
                    wait();
                    x.fill(1);
                })
                .submit()
                .unwrap();
            rt.for_each("double", x.blocks(3).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
            rt.for_each("add", x.blocks(7).inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 3)).submit().unwrap();
            drop(open);
            assert_eq!(rt.take(x).unwrap(), [5; 1000]);
        });
    }
}

#[test]
fn loops_of_two_threads_over_the_same_data_lose_nothing() {
    watched("threads", || {
        let rt = Arc::new(runtime("2:CPU:1"));
        let (x, y) = (rt.data(vec![0u64; 2000]), rt.data(vec![0u64; 2000]));
        std::thread::scope(|scope| {
            for thread in 0..2 {
                let (x, y, rt) = (x.clone(), y.clone(), rt.clone());
                scope.spawn(move || {
                    for _ in 0..20 {
                        let both = match thread {
                            0 => (x.blocks(7).inout(), y.blocks(7).inout()),
                            _ => (y.blocks(7).inout(), x.blocks(7).inout()),
                        };
                        rt.for_each("add", both)
                            .cpu(|_, (x, y)| x.iter_mut().chain(y).for_each(|x| *x += 1))
                            .submit()
                            .unwrap();
                    }
                });
            }
        });
        rt.wait().unwrap();
        assert_eq!((rt.take(x).unwrap(), rt.take(y).unwrap()), (vec![40; 2000], vec![40; 2000]));
    });
}

/// Returns the iterations that have failed since the last wait. Checks the texts of the failures.
fn failed_iterations(waited: Result<(), RunError>) -> Vec<usize> {
    let Err(RunError::Failed(failures)) = waited else { panic!("{waited:?} names no failures") };
    let one = |failure: &Arc<thalweg::error::TaskFailure>| {
        let index = failure.iteration().expect("the task is an iteration");
        let (said, debug) = (failure.to_string(), format!("{failure:?}"));
        assert!(said.contains(&format!("`odd` (iteration {index}), submitted at ")), "{said}");
        assert!(debug.contains(&format!("iteration: {index}")), "{debug}");
        index
    };
    let mut indices: Vec<_> = failures.iter().map(one).collect();
    indices.sort_unstable();
    indices
}

#[test]
fn failure_of_a_loop_names_the_iteration() {
    for_each_mix(|rt| {
        let x = rt.data(vec![0_usize; 50]);
        let odd = |i: usize| match i {
            7 => panic!("seven"),
            33 => Err("thirty-three"),
            _ => Ok(()),
        };
        rt.for_each("odd", (0.., x.blocks(1).output()))
            .cpu(move |_, (i, x)| odd(i).map(|()| x[0] = i))
            .submit()
            .unwrap();
        assert_eq!(failed_iterations(rt.wait()), [7, 33], "in a loop");
        let group = rt.group();
        group
            .for_each("odd", (0.., x.blocks(1).output()))
            .cpu(move |_, (i, x)| odd(i).map(|()| x[0] = i))
            .submit()
            .unwrap();
        assert_eq!(failed_iterations(group.wait()), [7, 33], "in a loop of a group");
        // The failure names the iteration's index, regardless of where the range begins.
        let named = rt.scope(|s| s.for_each("odd", 5..50).cpu(move |_, i| odd(i)).submit().map(drop).unwrap());
        assert_eq!(failed_iterations(named), [2, 28], "in a loop of a scope");
        let mut step = rt
            .record(|r| {
                r.for_each("odd", (0.., x.blocks(1).output()))
                    .cpu(move |_, (i, x)| odd(i).map(|()| x[0] = i))
                    .submit()
                    .map(drop)
            })
            .unwrap();
        for _ in 0..2 {
            step.replay().unwrap();
            assert_eq!(failed_iterations(rt.wait()), [7, 33], "in a recorded loop");
        }
        rt.task("odd", ()).cpu(|_, ()| Err("no")).submit().unwrap();
        let Err(RunError::Failed(failures)) = rt.wait() else { panic!("a task has failed") };
        assert_eq!(failures[0].iteration(), None, "a single task is not an iteration");
    });
}
