//! Correct programs pass under all schedules, and schedules repeat to the byte.

use crate::{on, task};
use std::collections::BTreeSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Runtime;
use thalweg::check::{Explorer, Strategy};
use thalweg::prelude::*;

/// A program with most kinds of accesses and waits. Returns its result.
fn program(rt: &Runtime) -> (Vec<u64>, u64, u64) {
    let x = rt.data((0..64).collect::<Vec<u64>>());
    let (y, sum) = (rt.data(vec![0u64; 64]), rt.scalar(0u64));
    for step in 0..3 {
        for part in 0..4 {
            let range = part * 16..part * 16 + 16;
            let scale = move |_: &thalweg::Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x = *x * 3 + step);
            rt.task("scale", (x.slice(range.clone()).inout(),)).cpu(scale).submit().unwrap();
            let copy = |_: &thalweg::Context, (x, y): (&[u64], &mut [u64])| y.copy_from_slice(x);
            rt.task("copy", (x.slice(range.clone()).input(), y.slice(range.clone()).output()))
                .cpu(copy)
                .submit()
                .unwrap();
            let add = |_: &thalweg::Context, (y, sum): (&[u64], &mut [u64])| sum[0] += y.iter().sum::<u64>();
            rt.task("add", (y.slice(range).input(), sum.commutative())).host(add).submit().unwrap();
        }
        if step == 1 {
            assert_eq!(rt.read(x.slice(3..4)).unwrap(), [3 * 3 * 3 + 1]);
        }
    }
    let inner = x.clone();
    let body = move |at: &thalweg::Context, ()| {
        for half in [0..32, 32..64] {
            at.task("child", (inner.slice(half).inout(),)).cpu(|_, (x,)| x.reverse()).submit()?;
        }
        at.wait()?;
        at.task("last", (inner.inout(),)).cpu(|_, (x,)| x.reverse()).submit().map(drop)?;
        at.wait_isolated()
    };
    rt.task("parent", x.weak_inout()).host(body).submit().unwrap();
    let fibonacci = rt.task("fibonacci", ()).try_returns(|at, ()| fibonacci(at, 6)).submit().unwrap();
    (rt.take(x).unwrap(), rt.read(&sum).unwrap()[0], fibonacci.get().unwrap())
}

fn fibonacci(at: &thalweg::Context, n: u32) -> Result<u64, RunError> {
    if n < 2 {
        return Ok(n.into());
    }
    let left = at.task("fibonacci", ()).try_returns(move |at, ()| fibonacci(at, n - 1)).submit()?;
    let right = at.task("fibonacci", ()).try_returns(move |at, ()| fibonacci(at, n - 2)).submit()?;
    Ok(left.get()? + right.get()?)
}

#[test]
fn correct_program_passes_on_cores_and_devices() {
    for units in ["1:CPU:1", "3:CPU:1", "1:CPU:1,1:EMU:1", "2:CPU:2,2:EMU:1", "1:EMU:2"] {
        let explored = on(units).run(0..40, program).unwrap_or_else(|failure| panic!("{units}: {failure}"));
        assert_eq!(explored.schedules, 40);
        assert!(explored.distinct >= 38, "{units}: {explored:?}");
    }
}

#[test]
fn same_seed_gives_the_same_trace_and_others_differ() {
    for units in ["2:CPU:1", "1:CPU:1,2:EMU:1"] {
        let traces: Vec<String> = (0..20).map(|seed| on(units).replay(&seed.to_string(), program).unwrap()).collect();
        let again: Vec<String> =
            (0..20).rev().map(|seed| on(units).replay(&seed.to_string(), program).unwrap()).collect();
        assert!(traces.iter().eq(again.iter().rev()));
        assert!(traces.iter().collect::<BTreeSet<_>>().len() >= 19);
        assert!(traces.iter().all(|trace| trace.contains("`fibonacci` on unit ") && trace.contains("resume body ")));
    }
    let trace = on("1:CPU:1,2:EMU:1").replay("0", program).unwrap();
    assert!(trace.contains(" arrives at "), "{trace}");
}

#[test]
fn devices_run_short_of_memory_without_changing_results() {
    let evictions = AtomicU64::new(0);
    let explored = on("1:CPU:1,2:EMU:1").run(0..100, |rt| {
        let data: Vec<_> = (0..6).map(|n| rt.data(vec![n as u64; 50])).collect();
        for n in 0..30 {
            let (x, y) = (data[n % 6].input(), data[(n * 5 + 1) % 6].inout());
            if n % 6 == (n * 5 + 1) % 6 {
                continue;
            }
            let add = |_: &thalweg::Context, (x, y): (&[u64], &mut [u64])| (0..50).for_each(|i| y[i] = y[i] * 3 + x[i]);
            rt.task("add", (x, y)).cpu(add).submit().unwrap();
        }
        let all: Vec<_> = data.into_iter().map(|x| rt.take(x).unwrap()).collect();
        evictions.fetch_add(rt.statistics().evictions, Ordering::Relaxed);
        all
    });
    assert_eq!(explored.unwrap().schedules, 100);
    assert!(evictions.into_inner() > 100);
}

#[test]
fn faults_are_drawn_and_reach_the_program() {
    let failed = Mutex::new(BTreeSet::new());
    let explorer = on("1:CPU:1,2:EMU:1").faults(true);
    let explored = explorer.run(0..200, |rt| {
        let data: Vec<_> = (0..4).map(|n| rt.data(vec![n as u64; 50])).collect();
        for n in 0..12 {
            let double = |_: &thalweg::Context, (x,): (&mut [u64],)| x.iter_mut().for_each(|x| *x *= 2);
            rt.task("double", (data[n % 4].inout(),)).cpu(double).submit().unwrap();
        }
        if let Err(error) = rt.wait() {
            let words = ["lost", "copy", "memory"].into_iter().filter(|word| error.to_string().contains(word));
            failed.lock().unwrap().extend(words);
        }
        // The memory is as if the tasks had run one after the other.
        for (n, x) in data.into_iter().enumerate() {
            if let Ok(x) = rt.take(x) {
                assert_eq!(x, [n as u64 * 8; 50]);
            }
        }
    });
    explored.unwrap();
    assert!(failed.lock().unwrap().contains("lost"), "{failed:?}");
}

#[test]
fn many_tasks_and_small_windows_pass() {
    let explorer = Explorer::new().runtime(|builder| builder.compute_units("1:CPU:1").max_pending_tasks(8));
    explorer
        .run(0..10, |rt| {
            let (x, ran) = (rt.data(vec![0u64]), Arc::new(AtomicU64::new(0)));
            for n in 0..2000 {
                let ran = ran.clone();
                rt.task("next", (x.inout(),)).cpu(move |_, (x,)| x[0] = x[0].wrapping_mul(31) + n).submit().unwrap();
                task(rt, "other", move || _ = ran.fetch_add(1, Ordering::Relaxed));
            }
            assert!(2000 - ran.load(Ordering::Relaxed) <= 10, "the window is kept");
            rt.take(x).unwrap()
        })
        .unwrap();
}

#[test]
fn recordings_loops_and_scopes_pass() {
    let program = |rt: &Runtime| {
        let x = rt.data((0..32).collect::<Vec<u64>>());
        let add = |_: &thalweg::Context, x: &mut [u64]| x.iter_mut().for_each(|x| *x += 1);
        let recorded = rt.record(|record| {
            record.for_each("add", x.blocks(8).inout()).cpu(add).submit()?;
            record.task("turn", (x.inout(),)).cpu(|_, (x,)| x.rotate_left(3)).submit().map(drop)
        });
        let mut step = recorded.unwrap();
        (0..5).for_each(|_| step.replay().unwrap());
        drop(step);
        let mut own = vec![1u64; 16];
        rt.scope(|scope| {
            for part in own.chunks_mut(4) {
                let part = scope.borrow_mut(part);
                scope.task("own", (part.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x += 1)).submit().unwrap();
            }
        })
        .unwrap();
        (rt.take(x).unwrap(), own)
    };
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        on(units).run(0..50, program).unwrap();
    }
}

#[test]
fn strategies_print_their_settings() {
    let explorer = Explorer::default().strategy(Strategy::Priorities { changes: 3 });
    assert_eq!(format!("{explorer:?}"), "Explorer { strategy: Priorities { changes: 3 }, faults: false, .. }");
}
