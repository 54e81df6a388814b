//! Children: what they may access, who waits for them, and how deep they go.

mod common;

use common::{MIXES, builder, failed, gate, runtime, watched};
use std::sync::Arc;
use std::sync::mpsc::channel;
use thalweg::Context;
use thalweg::prelude::*;

/// Runs `test` on machines of all sorts, whoever hosts.
fn on_each(test: impl FnOnce(&Runtime) + Clone + Send + 'static) {
    for units in MIXES {
        for hosts in [false, true] {
            let test = test.clone();
            watched(&format!("{units} hosts={hosts}"), move || test(&builder(units, hosts).build().unwrap()));
        }
    }
}

/// What `act` says in the body of a task with these accesses.
fn inside<A: thalweg::task::Accesses, R: Send + 'static>(
    rt: &Runtime,
    accesses: A,
    act: impl FnOnce(&Context) -> R + Send + 'static,
) -> R {
    let (said, hear) = channel();
    let parent = rt.task("parent", accesses).cpu(move |at, _| said.send(act(at)).unwrap()).submit_handle().unwrap();
    rt.wait_for(&parent).unwrap(); // this thread may be the one that runs it
    hear.recv().unwrap()
}

#[test]
fn a_child_outside_its_parents_regions_is_refused_with_both_named() {
    on_each(|rt| {
        let x = rt.data(vec![0u64; 10]).named("x");
        let inner = x.clone();
        let refused = inside(rt, x.slice(2..6).weak_inout(), move |at| {
            at.task("child", inner.slice(4..7).inout()).cpu(|_, _| ()).submit().unwrap_err()
        });
        let said = "cannot submit child `child` of `parent`: its access to [4..7] (inout) of data `x` is outside what \
                    `parent` has declared for its children ([2..6] (weak inout)); try declaring the region by \
                    `weak_inout` or `weak_input` in `parent`";
        assert_eq!(refused.to_string(), said);
        let inner = x.clone();
        let refused = inside(rt, (), move |at| at.task("child", inner.input()).cpu(|_, _| ()).submit().unwrap_err());
        assert!(refused.to_string().contains("(nothing of it)"), "{refused}");
        rt.wait().unwrap();
    });
}

#[test]
fn children_do_what_their_parents_accesses_allow() {
    on_each(|rt| {
        let x = rt.data(vec![0u64; 10]);
        let submit = |at: &Context, access: &str, x: &Data<u64>| match access {
            "in" => at.task("child", x.slice(..5).input()).cpu(|_, _| ()).submit().is_ok(),
            "weak in" => at.task("child", x.slice(..5).weak_input()).cpu(|_, ()| ()).submit().is_ok(),
            "inout" => at.task("child", x.slice(..5).inout()).cpu(|_, _| ()).submit().is_ok(),
            _ => at.task("child", x.slice(..5).weak_inout()).cpu(|_, ()| ()).submit().is_ok(),
        };
        let all = move |at: &Context, x: &Data<u64>| ["in", "weak in", "inout", "weak"].map(|how| submit(at, how, x));
        let ask = |inner: Data<u64>| move |at: &Context| all(at, &inner);
        assert_eq!(inside(rt, x.weak_inout(), ask(x.clone())), [true; 4]);
        assert_eq!(inside(rt, x.weak_input(), ask(x.clone())), [true, true, false, false]);
        assert_eq!(inside(rt, x.input(), ask(x.clone())), [true, true, false, false], "all may read");
        assert_eq!(inside(rt, x.inout(), ask(x.clone())), [false; 4], "there is a view of it");
        assert_eq!(inside(rt, x.after(), ask(x.clone())), [false; 4]);
        let parts = (x.slice(..3).weak_inout(), x.slice(3..).weak_inout());
        assert_eq!(inside(rt, parts, ask(x.clone())), [true; 4], "both of its regions together");
        rt.wait().unwrap();
    });
}

#[test]
fn data_made_in_a_body_are_for_its_children() {
    for units in ["1:CPU:1", "2:CPU:1"] {
        watched(units, move || {
            let rt = Arc::new(runtime(units));
            let (total, inner) = (rt.scalar(0u64), rt.clone());
            let out = total.clone();
            rt.task("parent", total.weak_inout())
                .cpu(move |at, ()| {
                    let own = inner.data(vec![0u64; 100]);
                    for part in blocks(100, 10) {
                        at.task("fill", own.slice(part).output()).cpu(|_, x| x.fill(1)).submit()?;
                    }
                    let sum = |_: &Context, (x, out): (&[u64], &mut [u64])| out[0] = x.iter().sum();
                    at.task("sum", (own.input(), out.output())).cpu(sum).submit().map(drop)
                })
                .submit()
                .unwrap();
            assert_eq!(rt.read_scalar(&total).unwrap(), 100);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn what_a_child_has_finished_is_there_though_its_sibling_has_not() {
    watched("pieces", || {
        let rt = builder("2:CPU:1", false).build().unwrap();
        let x = rt.data(vec![0u64; 2]);
        let ((open, wait), inner) = (gate(), x.clone());
        rt.task("parent", x.weak_inout())
            .cpu(move |at, ()| {
                at.task("slow", inner.slice(0).inout()).cpu(move |_, x| (wait(), x[0] += 1).1).submit()?;
                at.task("fast", inner.slice(1).inout()).cpu(|_, x| x[0] += 1).submit().map(drop)
            })
            .submit()
            .unwrap();
        assert_eq!(rt.read(x.slice(1)).unwrap(), [1], "the gate of the other is closed");
        drop(open);
        assert_eq!(rt.take(x).unwrap(), [1, 1]);
    });
}

#[test]
fn failures_of_children_are_told_to_their_parent_once_and_poison_no_more_than_they_wrote() {
    on_each(|rt| {
        let x = rt.data(vec![1u64; 3]);
        let inner = x.clone();
        let body = move |at: &Context, ()| {
            at.task("good", inner.slice(0).inout()).cpu(|_, x| x[0] = 5).submit().unwrap();
            at.task("bad", inner.slice(1).inout()).cpu(|_, _| Err("no")).submit().unwrap();
            assert_eq!(failed(at.wait()), ["bad"]);
            at.wait().unwrap();
        };
        rt.task("parent", x.weak_inout()).host(body).submit().unwrap();
        let values = [0, 1, 2].map(|i| rt.read(x.slice(i)).ok().map(|x| x[0]));
        // Where bodies do not wait, the parent has failed, and so all that it declared is missing.
        if rt.configuration().contains("CPU:1") {
            assert_eq!(values, [Some(5), None, Some(1)]);
            assert_eq!(failed(rt.wait()), ["bad"]);
        } else {
            assert_eq!(values[1], None);
            assert!(rt.wait().is_err());
        }
    });
}

#[test]
fn threads_that_are_no_part_of_a_body_submit_no_children() {
    watched("strangers", || {
        let rt = runtime("1:CPU:1");
        let refused = inside(&rt, (), |at| {
            std::thread::scope(|s| s.spawn(|| at.task("child", ()).cpu(|_, ()| ()).submit()).join().unwrap())
        });
        assert!(matches!(refused, Err(SubmitError::NoParent { task }) if task == "child"));
        rt.wait().unwrap();
    });
}

fn descend(at: &Context, levels: u32, path: &Data<u64>) -> Result<(), RunError> {
    let inner = path.clone();
    at.task("count", path.inout()).cpu(|_, n| n[0] += 1).submit()?;
    if levels > 0 {
        at.task("level", path.weak_inout()).host(move |at, ()| descend(at, levels - 1, &inner)).submit()?;
    }
    at.wait()
}

#[test]
fn ten_thousand_levels_that_wait_end_on_one_unit() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("1:CPU:1", hosts).build().unwrap();
            let n = rt.scalar(0u64);
            let inner = n.clone();
            rt.task("level", n.weak_inout()).host(move |at, ()| descend(at, 9_999, &inner)).submit().unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.read_scalar(&n).unwrap(), 10_000);
        });
    }
}

#[test]
fn a_long_row_of_parents_without_children_holds_nobody_up() {
    watched("row", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let x = rt.data(vec![7u64; 4]);
        for _ in 0..20_000 {
            rt.task("idle", x.weak_inout()).cpu(|_, ()| ()).submit().unwrap();
        }
        assert_eq!(rt.read(&x).unwrap(), [7; 4]);
        assert_eq!(rt.take(x).unwrap(), [7; 4]);
    });
}

#[test]
fn a_result_is_there_when_its_body_has_ended_whatever_children_do() {
    on_each(|rt| {
        let (x, (open, wait)) = (rt.data(vec![0u64; 2]), gate());
        let inner = x.clone();
        let parent = rt.task("parent", x.slice(0).weak_inout()).returns(move |at, ()| {
            let child = at.task("child", inner.slice(0).inout());
            child.host(move |_, x| (wait(), x[0] += 1).1).submit().map_or(0, |_| 1u64)
        });
        let result = parent.submit().unwrap();
        rt.wait_for(&result.task()).unwrap();
        // Tasks with nothing but the result, and with a region besides, that come when the parent has ended.
        let alone = rt.task("alone", result.input()).returns(|_, one| *one).submit().unwrap();
        let with = rt.task("with", (result.input(), x.slice(1).inout())).host(|_, (one, x)| x[0] = *one);
        with.submit().unwrap();
        drop(open);
        assert_eq!((alone.get().unwrap(), rt.take(x).unwrap()), (1, vec![1, 1]));
        rt.wait().unwrap();
    });
}
