//! Replays and the bodies of their tasks: replays started in bodies, children of recorded tasks, and waits.

use super::replay::{Outcome, UNITS, on};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::Explanation;
use thalweg::prelude::*;

/// Opens a gate when it is dropped, so that a failing test does not hang.
struct Open(Option<std::sync::mpsc::Sender<()>>);

impl Open {
    fn new() -> (Self, std::sync::mpsc::Receiver<()>) {
        let (open, opened) = std::sync::mpsc::channel();
        (Self(Some(open)), opened)
    }

    fn open(&mut self) {
        self.0 = None;
    }
}

/// Reads `data` repeatedly and returns whether every element always equals `value`.
fn stays(data: &[u64], value: u64) -> bool {
    (0..500).all(|_| {
        std::thread::yield_now();
        std::hint::black_box(data).iter().all(|x| *x == value)
    })
}

#[test]
fn replay_in_a_body_is_checked_like_a_submission() -> Outcome {
    for units in UNITS {
        let rt = Arc::new(on(units));
        let (x, y) = (rt.scalar(0), rt.scalar(0));
        let step = Arc::new(Mutex::new(rt.record(|r| r.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit())?));
        let (in_body, other) = (step.clone(), step.clone());
        rt.task("holds", x.inout())
            .host(move |_, _| assert!(matches!(in_body.lock().unwrap().replay(), Err(SubmitError::Nested { .. }))))
            .submit()?;
        rt.task("beside", y.inout()).host(move |_, _| other.lock().unwrap().replay()).submit()?;
        rt.wait()?;
        step.lock().unwrap().replay()?;
        assert_eq!(rt.read(&x)?[0], 2, "{units}");
        drop(step);
    }
    Ok(())
}

#[test]
fn body_in_a_frozen_replay_may_only_have_and_wait_for_children() -> Outcome {
    let rt = Arc::new(on("2:CPU:1"));
    let (x, y, seen) = (rt.data(vec![1u64; 8]), rt.scalar(0u64), Arc::new(Mutex::new(Vec::new())));
    let (inner, held, noted) = (rt.clone(), x.clone(), seen.clone());
    let mut step = rt.record(|r| {
        let inner = inner.clone();
        r.task("add", x.inout()).cpu(|_, x| x[0] += 1).submit()?;
        r.task("parent", (x.input(), y.inout()))
            .host(move |cx, (x, y)| {
                let refused = inner.read(&held).unwrap_err();
                assert!(matches!(refused, RunError::Refused(SubmitError::InsideReplay { .. })), "{refused}");
                let (held, noted) = (held.clone(), noted.clone());
                cx.task("child", held.input()).cpu(move |_, x| noted.lock().unwrap().push(x[0])).submit().unwrap();
                y[0] += x[0];
            })
            .submit()?;
        r.task("after", x.inout()).cpu(|_, x| x[0] += 1).submit()
    })?;
    (0..3).try_for_each(|_| step.replay())?;
    assert_eq!(step.explain(), &Explanation::Frozen);
    assert_eq!(rt.read(&y)?[0], 2 + 4 + 6);
    assert_eq!(*seen.lock().unwrap(), [2, 4, 6], "children must read before the tasks after their parent");
    drop(step); // the recording keeps the runtime alive
    Ok(())
}

#[test]
fn replay_refused_in_a_body_submits_nothing() -> Outcome {
    for units in UNITS {
        let rt = Arc::new(on(units));
        let (x, y) = (rt.scalar(0), rt.scalar(0));
        let mut step = rt.record(|r| {
            r.task("free", y.inout()).cpu(|_, y| y[0] += 1).submit()?;
            r.task("held", x.inout()).cpu(|_, x| x[0] += 1).submit()
        })?;
        let refused = rt.task("holds", x.inout()).returns(move |_, _| step.replay().unwrap_err()).submit()?.get()?;
        assert!(matches!(refused, SubmitError::Nested { .. }), "{refused}");
        assert_eq!((rt.read(&x)?[0], rt.read(&y)?[0]), (0, 0), "{units}");
    }
    Ok(())
}

/// Parents that read, with children that keep reading after the parents have ended. A long list of parents is combined
/// into a join.
#[test]
fn replay_waits_for_children_of_earlier_readers() -> Outcome {
    for parents in [1, 3, 40] {
        for part in [8..24, 0..64] {
            let rt = on("2:CPU:1");
            let (x, begins) = (rt.data(vec![0u64; 64]), rt.token());
            let mut write =
                rt.record(|r| r.task("writer", x.inout()).cpu(|_, x| x.iter_mut().for_each(|x| *x += 1)).submit())?;
            let (torn, (mut gate, opened)) = (Arc::new(AtomicUsize::new(0)), Open::new());
            rt.task("gate", begins.output()).cpu(move |_, _| _ = opened.recv()).submit()?;
            for _ in 0..parents {
                let (y, torn, part) = (x.clone(), torn.clone(), part.clone());
                rt.task("parent", (x.slice(part.clone()).input(), begins.input()))
                    .cpu(move |cx, _| {
                        let child = cx.task("child", y.slice(part).input());
                        let child =
                            child.cpu(move |_, y| _ = torn.fetch_add(usize::from(!stays(y, 0)), Ordering::Relaxed));
                        child.submit().map(drop)
                    })
                    .submit()?;
            }
            write.replay()?; // no parent has begun yet
            assert_eq!(write.explain(), &Explanation::Frozen);
            gate.open();
            rt.wait()?;
            assert_eq!(torn.load(Ordering::Relaxed), 0, "{parents} parents of {part:?}");
            assert_eq!(rt.read(&x)?, [1; 64]);
        }
    }
    Ok(())
}

/// The children of a recorded task that fails or panics are treated like those of one that succeeds: a successor inside
/// the recording, a task after the replay and the release of the data all come after the children.
#[test]
fn failed_recorded_task_is_followed_after_its_children() -> Outcome {
    for panics in [false, true] {
        for successor_inside in [false, true] {
            let rt = on("2:CPU:1");
            let x = rt.data(vec![7u64; 64]);
            let wrong = Arc::new(AtomicUsize::new(0));
            let (mut gate, opened) = Open::new();
            let (begun, begins) = std::sync::mpsc::channel();
            let (opened, begun) = (Arc::new(Mutex::new(opened)), Mutex::new(begun));
            let (y, counted) = (x.clone(), wrong.clone());
            let mut step = rt.record(|r| {
                r.task("parent", y.clone().input())
                    .cpu(move |cx, _| {
                        let (wrong, begun, opened) = (counted.clone(), begun.lock().unwrap().clone(), opened.clone());
                        cx.task("child", y.input())
                            .cpu(move |_, y| {
                                begun.send(()).unwrap();
                                let _ = opened.lock().unwrap().recv(); // until a successor is submitted
                                wrong.fetch_add(usize::from(!stays(y, 7)), Ordering::Relaxed);
                            })
                            .submit()?;
                        assert!(!panics, "as it was told");
                        Err::<(), Box<dyn std::error::Error + Send + Sync>>("as it was told".into())
                    })
                    .submit()?;
                match successor_inside {
                    true => r.task("writer", x.output()).cpu(|_, x| x.fill(8)).submit(),
                    false => Ok(()),
                }
            })?;
            step.replay()?;
            assert_eq!(step.explain(), &Explanation::Frozen);
            begins.recv()?;
            if !successor_inside {
                rt.task("writer", x.output()).cpu(|_, x| x.fill(8)).submit()?;
            }
            gate.open();
            assert!(rt.wait().is_err());
            assert_eq!(wrong.load(Ordering::Relaxed), 0);
            assert_eq!(rt.read(&x)?, [8; 64]);
        }
    }
    Ok(())
}

/// A task builder that outlives the body in which it was made.
#[test]
fn child_submitted_after_the_body_of_a_recorded_task_is_refused() -> Outcome {
    let rt = on("2:CPU:1");
    let x: &'static Data<u64> = Box::leak(Box::new(rt.data(vec![1u64; 8])));
    let (send, late) = std::sync::mpsc::channel();
    let send = Mutex::new(send);
    let mut step = rt.record(|r| {
        r.task("parent", x.input())
            .cpu(move |cx, _| {
                cx.task("child", x.input()).cpu(|_, _| ()).submit().unwrap();
                let late: &'static Context = Box::leak(Box::new(cx.clone()));
                send.lock().unwrap().send(late.task("late", x.input())).unwrap();
            })
            .submit()
    })?;
    for _ in 0..3 {
        step.replay()?;
        rt.wait()?;
        let refused = late.recv()?.cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(refused, SubmitError::NoParent { .. }), "{refused}");
    }
    Ok(())
}

/// In a replay, the body of a recorded task or of its child must not wait for a later task of the round or for a task
/// after the replay, so every kind of such wait is refused. If the same tasks are submitted one by one, these waits
/// succeed. Waits for descendants of the same recorded task are allowed in both cases.
#[test]
fn waits_inside_a_replay_are_refused_except_for_own_children() {
    crate::common::watched("waits inside a replay", || wait_inside_replays().unwrap());
}

fn wait_inside_replays() -> Outcome {
    for in_child in [false, true] {
        for frozen in [false, true] {
            let rt = Arc::new(if frozen {
                on("2:CPU:1")
            } else {
                Runtime::builder().compute_units("2:CPU:1").scheduler("dynamic").build()?
            });
            let (x, y, value) = (rt.scalar(1u64), rt.scalar(0u64), rt.value(0u64));
            // This task comes after the replay because of its input.
            let (send, receive) = std::sync::mpsc::channel::<(TaskHandle, Pending<u64>, Pending<u64>)>();
            let (receive, seen) = (Arc::new(Mutex::new(receive)), Arc::new(Mutex::new(Vec::new())));
            let (inner, held, later, later_value) = (rt.clone(), x.clone(), y.clone(), value.clone());
            let noted = seen.clone();
            let mut step = rt.record(|r| {
                let waits = move |cx: &Context| {
                    let (handle, result, used) = receive.lock().unwrap().recv().unwrap();
                    let refused = |error: RunError| match error {
                        RunError::Refused(SubmitError::InsideReplay { call }) => call.to_owned(),
                        other => other.to_string(),
                    };
                    let mut all = vec![
                        inner.read(&later).map_or_else(refused, |y| y[0].to_string()),
                        inner.read_value(&later_value, |y| *y).map_or_else(refused, |y| y.to_string()),
                        inner.fetch(&later, SpaceId::HOST).map_or_else(refused, |()| "done".into()),
                        handle.wait().map_or_else(refused, |()| "done".into()),
                        inner.scope(|_| 3).map_or_else(refused, |three| three.to_string()),
                        inner.group().wait().map_or_else(refused, |()| "done".into()),
                        result.get().map_or_else(refused, |y| y.to_string()),
                    ];
                    let child = cx.task("uses", used.input()).cpu(|_, _| ()).submit();
                    all.push(child.map_or_else(|error| refused(error.into()), |_| "done".into()));
                    // Descendants of the same recorded task.
                    let own = cx.task("own", ()).returns(|_, ()| 5u64).submit().unwrap();
                    let next = cx.task("next", own.input()).returns(|_, own| own + 1).submit().unwrap();
                    let third = cx.task("third", ()).cpu(|_, ()| ()).submit_handle().unwrap();
                    third.wait().unwrap();
                    all.push((next.get().unwrap() + own.get().unwrap()).to_string());
                    cx.wait().unwrap();
                    noted.lock().unwrap().push(all);
                };
                let waits = Arc::new(waits);
                r.task("parent", x.input())
                    .cpu(move |cx, _| match in_child {
                        false => waits(cx),
                        true => {
                            let waits = waits.clone();
                            cx.task("child", held.input()).cpu(move |cx, _| waits(cx)).submit().unwrap();
                        }
                    })
                    .submit()?;
                r.task("later", (y.inout(), value.inout()))
                    .cpu(|_, (y, value)| {
                        y[0] += 1;
                        *value += 1;
                    })
                    .submit()
            })?;
            for _ in 0..2 {
                step.replay()?;
                assert_eq!(step.explain() == &Explanation::Frozen, frozen);
                let after = rt.task("after", y.input()).cpu(|_, _| ()).submit_handle()?;
                let results = [0, 1].map(|_| rt.task("after", y.input()).returns(|_, y| y[0]).submit());
                let [first, second] = results;
                send.send((after, first?, second?))?;
                rt.wait()?;
            }
            let calls = ["read", "read_value", "fetch", "TaskHandle::wait", "scope", "wait", "get", "submit", "11"];
            for (round, found) in (1..).zip(&*seen.lock().unwrap()) {
                let n = round.to_string();
                let values = [&n, &n, "done", "done", "3", "done", &n, "done", "11"];
                assert_eq!(found, if frozen { &calls } else { &values });
            }
            assert_eq!(seen.lock().unwrap().len(), 2);
            drop(step); // the recording keeps the runtime alive
        }
    }
    Ok(())
}
