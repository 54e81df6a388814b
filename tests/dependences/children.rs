//! Children of tasks: which accesses they may have, which tasks wait for them, and how deep they can nest.

use crate::common::{MIXES, builder, failed, gate, runtime, watched, words};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use thalweg::Context;
use thalweg::prelude::*;

/// Runs `test` on every mix of units, with and without a unit hosted by the submitter.
fn on_each(test: impl FnOnce(&Runtime) + Clone + Send + 'static) {
    [false, true].into_iter().for_each(|hosts| on_each_hosted(hosts, test.clone()));
}

/// Like [`on_each`], but the submitting thread hosts no unit.
fn on_each_apart(test: impl FnOnce(&Runtime) + Clone + Send + 'static) {
    on_each_hosted(false, test);
}

fn on_each_hosted(hosts: bool, test: impl FnOnce(&Runtime) + Clone + Send + 'static) {
    for units in MIXES.into_iter().chain(["1:CPU:1"]) {
        let test = test.clone();
        watched(&format!("{units} hosts={hosts}"), move || test(&builder(units, hosts).build().unwrap()));
    }
}

/// Returns the result of `act`, called in the body of a task with these accesses.
fn inside<A: thalweg::task::Accesses, R: Send + 'static>(
    rt: &Runtime,
    accesses: A,
    act: impl FnOnce(&Context) -> R + Send + 'static,
) -> R {
    let (said, hear) = channel();
    let parent = rt.task("parent", accesses).cpu(move |at, _| said.send(act(at)).unwrap()).submit_handle().unwrap();
    parent.wait().unwrap(); // the parent may only be able to run on this thread
    hear.recv().unwrap()
}

#[test]
fn child_outside_its_parents_regions_is_refused_naming_both() {
    on_each(|rt| {
        let x = rt.data(vec![0u64; 10]).named("x");
        let inner = x.clone();
        let refused = inside(rt, x.slice(2..6).weak_inout(), move |at| {
            at.task("child", inner.slice(4..7).inout()).cpu(|_, _| ()).submit().unwrap_err()
        });
        let said = "cannot submit child `child` of `parent`: its access to [4..7] (inout) of data `x` is outside the \
                    regions that `parent` has declared for its children ([2..6] (weak inout)); try declaring the \
                    region by `weak_inout` or `weak_input` in `parent`";
        assert_eq!(words(&refused), said);
        let inner = x.clone();
        let refused = inside(rt, (), move |at| at.task("child", inner.input()).cpu(|_, _| ()).submit().unwrap_err());
        assert!(refused.to_string().contains("(nothing of it)"), "{refused}");
        rt.wait().unwrap();
    });
}

#[test]
fn child_accesses_are_limited_by_the_parents_mode() {
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
        assert_eq!(
            inside(rt, x.input(), ask(x.clone())),
            [true, true, false, false],
            "children may read what the parent reads"
        );
        assert_eq!(inside(rt, x.inout(), ask(x.clone())), [false; 4], "the parent has a view that writes");
        assert_eq!(inside(rt, x.after(), ask(x.clone())), [false; 4]);
        let parts = (x.slice(..3).weak_inout(), x.slice(3..).weak_inout());
        assert_eq!(
            inside(rt, parts, ask(x.clone())),
            [true; 4],
            "a child's region may span several regions of the parent"
        );
        rt.wait().unwrap();
    });
}

#[test]
fn data_created_in_a_body_is_usable_by_its_children() {
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
            assert_eq!(rt.read(&total).unwrap()[0], 100);
            rt.wait().unwrap();
        });
    }
}

#[test]
fn region_of_a_finished_child_is_readable_before_its_sibling_ends() {
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
        assert_eq!(rt.read(x.slice(1)).unwrap(), [1], "the sibling is still blocked");
        drop(open);
        assert_eq!(rt.take(x).unwrap(), [1, 1]);
    });
}

#[test]
fn failed_child_is_reported_to_its_parent_once_and_poisons_only_its_output() {
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
        // On units whose bodies cannot wait, the parent itself fails, so all data that it declared is poisoned.
        if rt.machine().configuration().contains("CPU:1") {
            assert_eq!(values, [Some(5), None, Some(1)]);
            assert_eq!(failed(rt.wait()), ["bad"]);
        } else {
            assert_eq!(values[1], None);
            assert!(rt.wait().is_err());
        }
    });
}

#[test]
fn thread_outside_the_body_cannot_submit_children() {
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
fn ten_thousand_nested_waits_end_on_one_unit() {
    for hosts in [false, true] {
        watched(&format!("hosts={hosts}"), move || {
            let rt = builder("1:CPU:1", hosts).build().unwrap();
            let n = rt.scalar(0u64);
            let inner = n.clone();
            rt.task("level", n.weak_inout()).host(move |at, ()| descend(at, 9_999, &inner)).submit().unwrap();
            rt.wait().unwrap();
            assert_eq!(rt.read(&n).unwrap()[0], 10_000);
        });
    }
}

#[test]
fn many_parents_without_children_do_not_delay_readers() {
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
fn data_of_every_kind_created_in_a_body_is_usable_by_its_children() {
    // Bodies can wait only on units of one core.
    for (units, hosts) in [("1:CPU:1", false), ("1:CPU:1", true), ("2:CPU:1", false), ("1:CPU:1,1:EMU:1", false)] {
        watched(&format!("{units} hosts={hosts}"), move || {
            let rt = builder(units, hosts).detect_conflicts(true).build().unwrap();
            let body = |cx: &Context, ()| {
                let (names, order) = (cx.value(Vec::new()).named("names"), cx.token());
                let (x, one) = (cx.zeros([4, 6]), cx.scalar(1u64));
                let table = cx.array(ndarray::Array2::from_elem((4, 6), 2u64));
                cx.for_each("fill", (x.rows(1).output(), 0..))
                    .host(|_, (mut row, n)| row.fill(n as u64))
                    .submit()
                    .unwrap();
                let sum = cx
                    .task("sum", (x.input(), table.input(), one.input()))
                    .returns(|_, (x, table, one)| x.sum() + table.sum() + one[0])
                    .submit()?;
                for n in 0..5u64 {
                    let (inner, sum) = (names.clone(), sum.input());
                    // The child passes its part on to a grandchild.
                    cx.task("outer", (names.weak_inout(), order.inout(), sum))
                        .host(move |cx, ((), (), sum)| {
                            let name = format!("{n} {sum}");
                            cx.task("push", inner.inout()).host(move |_, names| names.push(name)).submit().map(drop)
                        })
                        .submit()?;
                }
                let foreign = cx.task("child", ()).host({
                    let names = names.clone();
                    move |cx, ()| {
                        assert!(matches!(
                            cx.task("grandchild", names.input()).host(|_, _| ()).submit(),
                            Err(SubmitError::Uncovered { .. })
                        ))
                    }
                });
                foreign.submit()?;
                let names = cx.take(names).map_err(RunError::from)?;
                Ok::<_, RunError>((names, sum.get()?))
            };
            let (names, sum) = rt.task("parent", ()).try_returns(body).submit().unwrap().get().unwrap();
            assert_eq!(sum, 6 * (1 + 2 + 3) + 48 + 1);
            assert_eq!(names, (0..5).map(|n| format!("{n} {sum}")).collect::<Vec<_>>());
            rt.wait().unwrap();
            assert!(rt.statistics().conflicts.is_empty(), "{:?}", rt.statistics().conflicts);
        });
    }
}

#[test]
fn weak_values_and_tokens_order_children_in_their_parents_place() {
    on_each(|rt| {
        if rt.machine().num_cpu_units() == 0 {
            return;
        }
        let (list, gate, order) = (rt.value(vec![0]), rt.token(), rt.value(Vec::new()));
        rt.task("before", (list.inout(), gate.inout())).cpu(|_, (list, ())| list.push(1)).submit().unwrap();
        let (inner, token) = (list.clone(), gate.clone());
        let body = move |cx: &Context, ((), ())| {
            for n in 2..5 {
                cx.task("push", (inner.inout(), token.inout())).cpu(move |_, (list, ())| list.push(n)).submit()?;
            }
            Ok::<_, SubmitError>(())
        };
        rt.task("parent", (list.weak_inout(), gate.weak_inout())).cpu(body).submit().unwrap();
        rt.task("after", (list.input(), gate.input(), order.inout()))
            .cpu(|_, (list, (), order)| order.extend_from_slice(list))
            .submit()
            .unwrap();
        let inner = list.clone();
        let refused = inside(rt, list.weak_input(), move |cx| {
            cx.task("read", inner.input()).cpu(|_, _| ()).submit().unwrap();
            cx.task("write", inner.inout()).cpu(|_, _| ()).submit().unwrap_err()
        });
        assert!(matches!(refused, SubmitError::Uncovered { .. }), "{refused}");
        assert_eq!(rt.take(order).unwrap(), [0, 1, 2, 3, 4]);
        assert_eq!(rt.take(list).unwrap(), [0, 1, 2, 3, 4]);
    });
}

#[test]
fn failed_child_affects_only_readers_of_its_result_and_value() {
    for units in ["1:CPU:1", "2:CPU:1"] {
        watched(units, move || {
            let rt = runtime(units);
            let body = |cx: &Context, ()| {
                let (lost, kept) = (cx.value(String::from("lost")), cx.value(String::from("kept")));
                let fails = cx.task("fails", lost.inout()).try_returns(|_, _| Err::<u8, _>("no")).submit()?;
                cx.task("skipped", (fails.input(), kept.inout())).cpu(|_, (_, kept)| kept.clear()).submit()?;
                let other = cx.task("other", ()).returns(|_, ()| 5).submit()?;
                assert!(matches!(fails.get(), Err(RunError::NoResult { task, .. }) if task == "fails"));
                assert!(cx.take(lost).is_err());
                let error = cx.take(kept).unwrap_err();
                assert!(error.to_string().contains("`fails`"), "{error}");
                other.get()
            };
            let five = rt.task("parent", ()).try_returns(body).submit().unwrap();
            assert_eq!(five.get().unwrap(), 5);
            rt.wait().unwrap(); // `fails.get` has reported the failure
        });
    }
}

#[test]
fn take_of_an_empty_array_waits_for_children_that_access_it() {
    watched("empty", || {
        // The thread that takes the array runs the tasks in the meantime.
        let rt = builder("1:CPU:1", true).build().unwrap();
        let x = rt.data(Vec::<u64>::new());
        let inner = x.clone();
        let body = move |cx: &Context, ()| {
            let innermost = inner.clone();
            let child =
                move |cx: &Context, ()| cx.task("last", innermost.inout()).cpu(|_, x| assert!(x.is_empty())).submit();
            cx.task("child", inner.weak_inout()).try_returns(child).submit()
        };
        let parent = rt.task("parent", x.weak_inout()).try_returns(body).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), [0; 0]);
        parent.get().unwrap().get().unwrap();
        rt.wait().unwrap();
    });
}

#[test]
fn result_is_available_when_the_body_ends_despite_pending_children() {
    // A hosting thread could run the child itself and deadlock, because the child waits for that thread.
    on_each_apart(|rt| {
        let (x, (open, wait)) = (rt.data(vec![0u64; 2]), gate());
        let inner = x.clone();
        let parent = rt.task("parent", x.slice(0).weak_inout()).returns(move |at, ()| {
            let child = at.task("child", inner.slice(0).inout());
            child.host(move |_, x| (wait(), x[0] += 1).1).submit().map_or(0, |_| 1u64)
        });
        let result = parent.submit().unwrap();
        result.task().wait().unwrap();
        // Two tasks submitted after the parent has ended: one accesses only the result, and the other accesses a region
        // as well.
        let alone = rt.task("alone", result.input()).returns(|_, one| *one).submit().unwrap();
        let with = rt.task("with", (result.input(), x.slice(1).inout())).host(|_, (one, x)| x[0] = *one);
        with.submit().unwrap();
        drop(open);
        assert_eq!((alone.get().unwrap(), rt.take(x).unwrap()), (1, vec![1, 1]));
        rt.wait().unwrap();
    });
}

/// The writer has to wait for every access that it shares with the parent, not only for the first.
#[test]
fn task_after_a_finished_parent_waits_for_its_children_at_each_access() {
    for read in [0, 1] {
        watched("2:CPU:1", move || {
            let rt = builder("2:CPU:1", false).build().unwrap();
            let data = [rt.data(vec![0u64]), rt.data(vec![0u64])];
            let (inner, (open, wait), (tell, told)) = (data[read].clone(), gate(), channel());
            inside(&rt, (data[0].input(), data[1].input()), move |at| {
                let child = at.task("child", inner.input());
                child.host(move |_, x| (wait(), tell.send(x[0]).unwrap()).1).submit().unwrap();
            });
            let writer = rt.task("writer", (data[0].inout(), data[1].inout()));
            let writer = writer.cpu(|_, (x, y)| (x[0], y[0]) = (1, 1)).submit_handle().unwrap();
            // This is long enough for the writer to run if nothing blocks it.
            (0..1000).take_while(|_| !writer.is_finished()).for_each(|_| std::thread::yield_now());
            drop(open);
            assert_eq!(told.recv().unwrap(), 0, "the child read before the writer wrote");
            rt.wait().unwrap();
        });
    }
}

#[test]
fn value_without_handles_lives_while_children_read_it() {
    struct Gone(Arc<AtomicBool>);
    impl Drop for Gone {
        fn drop(&mut self) {
            self.0.store(true, Ordering::SeqCst);
        }
    }
    on_each(|rt| {
        let (is_gone, (open, wait), (said, hear)) = (Arc::new(AtomicBool::new(false)), gate(), channel());
        let value = rt.value(Gone(is_gone.clone()));
        let (inner, look) = (value.clone(), is_gone.clone());
        let body = move |at: &Context, _: &Gone| {
            wait();
            let child = move |_: &Context, _: &Gone| said.send(look.load(Ordering::SeqCst)).unwrap();
            // The parent ends and drops the last handle before its only unit has run the child.
            at.task("child", inner.input()).host(child).submit().map(drop)
        };
        rt.task("parent", value.input()).host(body).submit().unwrap();
        drop(value);
        drop(open);
        rt.wait().unwrap();
        assert!(!hear.recv().unwrap(), "the destructor ran before the child read the value");
        assert!(is_gone.load(Ordering::SeqCst));
    });
}

#[test]
fn data_being_taken_is_available_to_children_of_an_earlier_parent() {
    for units in ["2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let rt = Arc::new(runtime(units));
            let (x, value) = (rt.data(vec![5u64; 4]), rt.value(6u64));
            let (taken, value_inside, inner, (said, hear)) = (x.clone(), value.clone(), rt.clone(), channel());
            let body = move |at: &Context, ((), _): ((), &u64)| {
                // Loops until the other thread has begun to take the data.
                while inner.task("probe", taken.slice(3).input()).cpu(|_, _| ()).submit().is_ok() {
                    std::thread::yield_now();
                }
                let sum = move |_: &Context, (x, y): (&[u64], &u64)| said.send(x.iter().sum::<u64>() + y).unwrap();
                at.task("child", (taken.slice(..3).input(), value_inside.input())).host(sum).submit().map(drop)
            };
            rt.task("parent", (x.weak_input(), value.input())).host(body).submit().unwrap();
            assert_eq!(rt.take(x).unwrap(), [5; 4]);
            assert_eq!((hear.recv().unwrap(), rt.take(value).unwrap()), (21, 6));
            rt.wait().unwrap();
        });
    }
}

#[test]
fn failure_in_a_weakly_held_region_does_not_reach_readers_of_the_parents_outputs() {
    on_each(|rt| {
        let (x, y, (open, wait)) = (rt.data(vec![1u64; 4]), rt.scalar(0u64), gate());
        rt.task("fails", x.slice(1..3).output()).cpu(|_, _| Err("no")).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["fails"]);
        let parent = rt.task("parent", (x.weak_input(), y.output()));
        let result = parent.returns(move |_, ((), y)| (wait(), y[0] = 2).1).submit().unwrap();
        rt.clear(&x).unwrap();
        // The task depends on the clear for `x`, and on the parent only for `y` and the result.
        let sum = |_: &Context, ((), x, y): (&(), &[u64], &[u64])| x.iter().sum::<u64>() + y[0];
        let sum = rt.task("sum", (result.input(), x.input(), y.input())).returns(sum).submit().unwrap();
        drop(open);
        assert_eq!(sum.get().unwrap(), 2);
        rt.wait().unwrap();
    });
}

#[test]
fn reduction_of_a_child_precedes_those_after_its_parent() {
    on_each(|rt| {
        let x = rt.data(vec![0f64; 6]);
        let add = |by: f64| move |_: &Context, (x,): (&mut [f64],)| x.iter_mut().for_each(|x| *x += by);
        rt.task("before", (x.reduction(Sum),)).cpu(add(1.0)).submit().unwrap();
        let (open, wait) = gate();
        let inner = x.clone();
        let parent = move |at: &Context, _: ((),)| {
            wait(); // until the reduction after this task may run
            at.task("child", (inner.slice(..1).reduction(Sum),)).cpu(add(10.0)).submit().unwrap();
        };
        rt.task("parent", (x.slice(..2).weak_inout(),)).cpu(parent).submit().unwrap();
        rt.task("behind", (x.reduction(Sum),)).cpu(add(100.0)).submit().unwrap();
        drop(open);
        assert_eq!(rt.read(&x).unwrap(), [111.0, 101.0, 101.0, 101.0, 101.0, 101.0]);
        rt.wait().unwrap();
    });
}

#[test]
fn region_that_a_grandchild_failed_to_write_heals_when_overwritten() {
    on_each(|rt| {
        let x = rt.data(vec![0f64; 24]);
        let (open, wait) = gate();
        let inner = x.clone();
        let parent = move |at: &Context, _: ((),)| {
            wait(); // until a later task waits for the whole array
            let innermost = inner.clone();
            let child = move |at: &Context, _: ((), &mut [f64])| {
                at.task("fails", (innermost.slice(18..20).output(),)).cpu(|_, _| Err("no")).submit().unwrap();
            };
            at.task("child", (inner.slice(18..21).weak_inout(), inner.slice(12..13).inout()))
                .cpu(child)
                .submit()
                .unwrap();
            at.task("writes", (inner.slice(14..23).output(),)).cpu(|_, (x,)| x.fill(1.0)).submit().unwrap();
        };
        rt.task("parent", (x.weak_inout(),)).cpu(parent).submit().unwrap();
        rt.task("adds", (x.reduction(Sum),)).cpu(|_, (x,)| x.fill(2.0)).submit().unwrap();
        drop(open);
        let expected: Vec<f64> = (0..24).map(|i| if (14..23).contains(&i) { 3.0 } else { 2.0 }).collect();
        assert_eq!(rt.read(&x).unwrap(), expected);
        assert_eq!(failed(rt.wait()), ["fails"]);
    });
}
