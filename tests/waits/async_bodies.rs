//! Bodies that are futures: the units' threads poll them, any thread may wake them, and the task ends when the future
//! is ready.

use crate::common::{failed, for_each_free_mix, for_each_mix, runtime, watched};
use std::future::poll_fn;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use thalweg::prelude::*;

/// A future that becomes ready when the other end sends a value.
struct Later<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

/// The sending end of a [`Later`].
struct Say<T>(Arc<Mutex<(Option<T>, Option<Waker>)>>);

fn later<T>() -> (Say<T>, Later<T>) {
    let shared = Arc::new(Mutex::new((None, None)));
    (Say(shared.clone()), Later(shared))
}

impl<T> Say<T> {
    fn say(self, value: T) {
        let waker = {
            let mut shared = self.0.lock().unwrap();
            shared.0 = Some(value);
            shared.1.take()
        };
        waker.into_iter().for_each(Waker::wake);
    }
}

impl<T> Future for Later<T> {
    type Output = T;

    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<T> {
        let mut shared = self.0.lock().unwrap();
        match shared.0.take() {
            Some(value) => Poll::Ready(value),
            None => {
                shared.1 = Some(cx.waker().clone());
                Poll::Pending
            }
        }
    }
}

/// Lets other tasks run first.
async fn yield_now() {
    let mut yielded = false;
    poll_fn(|cx| {
        if std::mem::replace(&mut yielded, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    })
    .await;
}

/// Starts a thread that forwards the values it is given to their [`Later`]s, one after the other.
fn speaker() -> (Sender<(Say<u64>, u64)>, thread::JoinHandle<()>) {
    let (send, sayings): (_, Receiver<(Say<u64>, u64)>) = channel();
    (send, thread::spawn(move || sayings.into_iter().for_each(|(say, value)| say.say(value))))
}

#[test]
fn task_ends_when_its_future_is_ready() {
    for_each_mix(|rt| {
        let (x, y) = (rt.data(vec![1u64, 2]), rt.data(vec![0u64; 2]));
        let (say, heard) = later();
        rt.task("add", (x.input(), y.output()))
            .host_async(|cx, (x, mut y)| async move {
                assert!(cx.is_cpu());
                let more: u64 = heard.await;
                for (y, x) in y.iter_mut().zip(x.iter()) {
                    *y = x + more;
                }
            })
            .submit()
            .unwrap();
        rt.task("double", (y.inout(),)).cpu(|_, (y,)| y.iter_mut().for_each(|y| *y *= 2)).submit().unwrap();
        thread::scope(|scope| {
            scope.spawn(move || say.say(10));
            rt.wait().unwrap();
        });
        assert_eq!(rt.read(&y).unwrap(), [22, 24]);
        assert_eq!(rt.statistics().tasks.iter().map(|(_, tasks)| tasks).sum::<u64>(), 2);
    });
}

#[test]
fn more_futures_than_units_may_wait() {
    for_each_mix(|rt| {
        const TASKS: usize = 30;
        let sum = rt.scalar(0u64);
        let (says, hears): (Vec<_>, Vec<_>) = (0..TASKS).map(|_| later::<u64>()).unzip();
        let begun = Arc::new(AtomicUsize::new(0));
        for heard in hears {
            let begun = begun.clone();
            rt.task("waits", (sum.reduction(Sum),))
                .host_async(move |_, (mut sum,)| async move {
                    begun.fetch_add(1, Ordering::SeqCst);
                    sum[0] += heard.await;
                })
                .submit()
                .unwrap();
        }
        thread::scope(|scope| {
            scope.spawn(move || says.into_iter().rev().zip(0..).for_each(|(say, n)| say.say(n)));
            rt.wait().unwrap();
        });
        assert_eq!(rt.read(&sum).unwrap()[0], (0..TASKS as u64).sum());
    });
}

#[test]
fn future_that_wakes_itself_lets_other_tasks_run() {
    for_each_mix(|rt| {
        let ended = Arc::new(AtomicUsize::new(0));
        let x = rt.scalar(0u64);
        let seen = ended.clone();
        rt.task("spins", (x.output(),))
            .host_async(move |_, (mut x,)| async move {
                while seen.load(Ordering::SeqCst) < 20 {
                    yield_now().await;
                    x[0] += 1;
                }
            })
            .submit()
            .unwrap();
        for _ in 0..20 {
            let ended = ended.clone();
            rt.task("other", ()).cpu(move |_, ()| _ = ended.fetch_add(1, Ordering::SeqCst)).submit().unwrap();
        }
        rt.wait().unwrap();
    });
}

#[test]
fn wake_during_or_after_a_poll_is_handled() {
    watched("wakes", || {
        for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
            let rt = runtime(units);
            let kept: Arc<Mutex<Vec<Waker>>> = Arc::default();
            let polls = Arc::new(AtomicUsize::new(0));
            let (count, wakers) = (polls.clone(), kept.clone());
            rt.task("woken", ())
                .host_async(move |_, ()| {
                    poll_fn(move |cx| {
                        wakers.lock().unwrap().push(cx.waker().clone());
                        let polled = count.fetch_add(1, Ordering::SeqCst) + 1;
                        if polled <= 3 {
                            // The task is woken during the poll, several times and by several threads, so at least one
                            // further poll must follow.
                            cx.waker().wake_by_ref();
                            let waker = cx.waker().clone();
                            thread::spawn(move || waker.wake()).join().unwrap();
                            return Poll::Pending;
                        }
                        Poll::Ready(())
                    })
                })
                .submit()
                .unwrap();
            rt.wait().unwrap();
            assert_eq!(polls.load(Ordering::SeqCst), 4, "one poll must follow each of three rounds of waking");
            // Wake the task after it has ended and after the runtime has ended.
            kept.lock().unwrap().iter().for_each(Waker::wake_by_ref);
            rt.wait().unwrap();
            drop(rt);
            kept.lock().unwrap().drain(..).for_each(Waker::wake);
            assert_eq!(
                (polls.load(Ordering::SeqCst), Arc::strong_count(&polls)),
                (4, 1),
                "the future must be dropped and not polled again"
            );
        }
    });
}

#[test]
fn error_or_panic_in_a_future_fails_its_task() {
    for_each_mix(|rt| {
        for (way, reason) in
            ["panicked: at once", "panicked: later", "failed: an error", "failed: given back"].into_iter().enumerate()
        {
            let x = rt.scalar(0u64);
            let (say, heard) = later::<()>();
            let body = async move |mut x: Lent<[u64]>| {
                heard.await;
                x[0] = 1;
                match way {
                    1 => panic!("later"),
                    2 => return Err("an error"),
                    _ => x.fail("given back"),
                }
                Ok(())
            };
            let make = move |_, (x,): (Lent<[u64]>,)| {
                assert!(way != 0, "at once");
                async move { body(x).await }
            };
            rt.task("fails", (x.inout(),)).host_async(make).submit().unwrap();
            rt.task("skipped", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
            thread::scope(|scope| {
                scope.spawn(move || say.say(()));
                match rt.wait() {
                    Err(RunError::Failed(failures)) => assert_eq!(failures[0].reason().to_string(), reason),
                    other => panic!("{reason}: {other:?}"),
                }
            });
            assert!(rt.read(&x).is_err());
        }
    });
}

#[test]
fn guard_given_away_by_a_future_keeps_its_task_alive() {
    for_each_mix(|rt| {
        let x = rt.data(vec![0u64; 2]);
        let (send, guards) = channel();
        rt.task("gives away", (x.slice(..1).output(), x.slice(1..).output()))
            .host_async(|_, (mut first, second)| async move {
                first[0] = 1;
                send.send(second).unwrap();
            })
            .submit()
            .unwrap();
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut second = guards.recv().unwrap();
                second[0] = 2;
            });
            assert_eq!(rt.read(&x).unwrap(), [1, 2]);
        });
        rt.wait().unwrap();
    });
}

#[test]
fn unwinding_runtime_waits_for_begun_futures() {
    watched("unwinds", || {
        let (say, heard) = later::<u64>();
        let (begin, begun) = channel();
        let polled = Arc::new(AtomicUsize::new(0));
        let ended = polled.clone();
        let program = thread::spawn(move || {
            let rt = runtime("1:CPU:1");
            rt.task("begun", ())
                .host_async(move |_, ()| async move {
                    begin.send(()).unwrap();
                    ended.fetch_add(heard.await as usize, Ordering::SeqCst);
                })
                .submit()
                .unwrap();
            begun.recv().unwrap();
            panic!("the program fails");
        });
        say.say(3);
        assert!(program.join().is_err());
        assert_eq!(polled.load(Ordering::SeqCst), 3);
    });
}

#[test]
fn future_that_never_began_is_dropped() {
    for_each_mix(|rt| {
        let captured = Arc::new(());
        let x = rt.scalar(0u64);
        rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        let held = captured.clone();
        rt.task("skipped", (x.inout(),)).host_async(move |_, _x| async move { drop(held) }).submit().unwrap();
        assert_eq!(failed(rt.wait()), ["fails"]);
        assert_eq!(Arc::strong_count(&captured), 1);
    });
}

#[test]
fn future_may_wait_for_a_message_from_a_task_it_submitted() {
    watched("children", || {
        for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
            let rt = Arc::new(runtime(units));
            let (x, y) = (rt.scalar(0u64), rt.scalar(20u64));
            let (inner, input) = (rt.clone(), y.clone());
            rt.task("parent", (x.output(),))
                .host_async(move |_, (mut x,)| async move {
                    let (say, heard) = later();
                    // The only unit is free while the future waits for its child.
                    inner.task("child", (input.input(),)).cpu(move |_, (y,)| say.say(y[0] + 1)).submit()?;
                    x[0] = heard.await;
                    Ok::<(), SubmitError>(())
                })
                .submit()
                .unwrap();
            assert_eq!(rt.read(&x).unwrap()[0], 21);
            rt.wait().unwrap();
        }
    });
}

#[test]
fn many_futures_may_be_woken_from_many_threads() {
    for_each_mix(|rt| {
        const TASKS: usize = 100;
        let x = rt.data(vec![0u64; 4]);
        let speakers = [speaker(), speaker(), speaker()];
        for n in 0..TASKS {
            let talk: Vec<_> = speakers.iter().map(|(send, _)| send.clone()).collect();
            rt.task("talks", (x.slice(n % 4).inout(),))
                .host_async(move |_, (mut x,)| async move {
                    for send in talk {
                        let (say, heard) = later();
                        send.send((say, n as u64)).unwrap();
                        x[0] += heard.await;
                    }
                })
                .submit()
                .unwrap();
        }
        let expected = |i: usize| (i..TASKS).step_by(4).map(|n| 3 * n as u64).sum::<u64>();
        assert_eq!(rt.read(&x).unwrap(), [expected(0), expected(1), expected(2), expected(3)]);
        speakers.into_iter().for_each(|(send, thread)| {
            drop(send);
            thread.join().unwrap();
        });
    });
}

/// Reports its drop on a channel.
struct Dropped(Sender<&'static str>, &'static str);

impl Drop for Dropped {
    fn drop(&mut self) {
        self.0.send(self.1).unwrap();
    }
}

#[test]
fn cancelled_group_drops_begun_futures_and_ends() {
    for_each_free_mix(|rt| {
        let (x, all) = (rt.data(vec![1u64; 4]), rt.group());
        let (part, (dropped, drops), (begins, begun)) = (all.group(), channel(), channel());
        let task = part.task("waits", (x.inout(),)).host_async(move |cx, (mut x,)| {
            let dropped = Dropped(dropped, "future");
            async move {
                begins.send(cx.clone()).unwrap();
                std::future::pending::<()>().await;
                x[0] = 2;
                drop(dropped);
            }
        });
        let task = task.submit_handle().unwrap();
        let context = begun.recv().unwrap();
        assert!(!context.is_cancelled());
        all.cancel();
        assert!(context.is_cancelled(), "a clone of the context must see the cancellation of an enclosing group");
        assert_eq!(failed(part.wait()), ["waits"]);
        assert_eq!(drops.try_recv(), Ok("future"), "the future must be dropped before the group ends");
        assert!(task.failure().unwrap().to_string().contains("cancelled"));
        rt.accept(&x).unwrap();
        assert_eq!(rt.take(x).unwrap(), [1; 4]);
    });
}

#[test]
fn future_cancelled_during_its_poll_is_dropped_after_the_poll() {
    for_each_free_mix(|rt| {
        let (group, other) = (rt.group(), rt.group());
        let ((begins, begun), (go_on, gone_on)) = (channel(), channel::<()>());
        let first_poll = move || {
            begins.send(()).unwrap();
            gone_on.recv().unwrap();
        };
        let body = group.task("waits", ()).host_async(move |_, ()| async move {
            first_poll();
            std::future::pending::<()>().await;
        });
        body.submit().unwrap();
        let ends = other.task("ends", ()).host_async(|_, ()| std::future::ready(()));
        ends.submit().unwrap();
        begun.recv().unwrap();
        group.cancel();
        go_on.send(()).unwrap();
        assert_eq!(failed(group.wait()), ["waits"]);
        other.wait().unwrap();
    });
}

#[test]
fn cancelled_future_ends_when_its_guards_are_returned() {
    for_each_free_mix(|rt| {
        let (x, group, (lend, lent)) = (rt.data(vec![1u64; 4]), rt.group(), channel());
        let body = group.task("lends", (x.inout(),)).host_async(move |_, (x,)| async move {
            lend.send(x).unwrap();
            std::future::pending::<()>().await;
        });
        body.submit().unwrap();
        let mut guard = lent.recv().unwrap();
        group.cancel();
        guard[3] = 7; // still valid
        assert_eq!(group.pending(), 1);
        guard.finish();
        assert_eq!(failed(group.wait()), ["lends"]);
        rt.accept(&x).unwrap();
        assert_eq!(rt.take(x).unwrap(), [1, 1, 1, 7]);
    });
}

#[test]
fn future_of_a_scope_borrows_until_it_is_dropped() {
    for_each_mix(|rt| {
        struct Tells<'a>(&'a AtomicUsize);
        impl Drop for Tells<'_> {
            fn drop(&mut self) {
                self.0.fetch_add(1, Ordering::SeqCst);
            }
        }
        let (mut x, names, dropped) = (vec![1u64; 4], ["one".to_owned(), "three".to_owned()], AtomicUsize::new(0));
        let (says, hears): (Vec<_>, Vec<_>) = (0..2).map(|_| later::<u64>()).unzip();
        let scoped = thread::scope(|threads| {
            threads.spawn(move || says.into_iter().rev().for_each(|say| say.say(10)));
            rt.scope(|s| {
                let x = s.borrow_mut(&mut x);
                for ((part, name), heard) in blocks(4, 2).zip(&names).zip(hears) {
                    let tells = Tells(&dropped);
                    s.task(name.clone(), x.slice(part).inout())
                        .host_async(move |_, mut x| async move {
                            let _tells = tells;
                            x[1] += heard.await + name.len() as u64;
                            if name == "one" { Ok(()) } else { Err("it counts to three") }
                        })
                        .submit()
                        .unwrap();
                }
            })
        });
        assert_eq!((dropped.load(Ordering::SeqCst), &x[..2]), (2, &[1, 14][..]));
        assert_eq!(failed(scoped), ["three"]);
        assert_eq!(x[3], 16, "a failed body's partial write must stay");
        // A cancelled scope drops its futures, even a future that is never woken.
        let scoped = rt.scope(|s| {
            let tells = Tells(&dropped);
            s.task("waits", ())
                .host_async(move |_, ()| async move {
                    let _tells = tells;
                    std::future::pending::<()>().await;
                })
                .submit()
                .unwrap();
            s.group().cancel();
        });
        assert!(scoped.is_err());
        assert_eq!(dropped.load(Ordering::SeqCst), 3);
    });
}
