//! Circular waits: they are detected immediately and refused with the path of the cycle, and other waits are not
//! affected.

use crate::common::{SCHEDULERS, builder, watched};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex};
use thalweg::Context;
use thalweg::prelude::*;

/// Runs `test` on machines with CPU units, under all schedulers, with and without a unit hosted by the submitter.
fn on_each(test: impl FnOnce(Arc<Runtime>) + Clone + Send + 'static) {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        for scheduler in SCHEDULERS {
            for hosts in [false, true] {
                let test = test.clone();
                watched(&format!("{units} {scheduler} hosts={hosts}"), move || {
                    test(Arc::new(builder(units, hosts).scheduler(scheduler).build().unwrap()));
                });
            }
        }
    }
}

/// Submits a task whose body calls `act` to wait for the object that is sent on the returned channel. The returned
/// receiver gets the result of the wait.
fn waits<A: thalweg::task::Accesses, T: Send + 'static>(
    rt: &Runtime,
    accesses: A,
    act: impl FnOnce(&Context, T) -> Result<(), RunError> + Send + 'static,
) -> (TaskHandle, Sender<T>, Receiver<Result<(), RunError>>) {
    let ((send, given), (said, hear)) = (channel(), channel());
    let body = move |cx: &Context, _: <A::Stored as thalweg::memory::AccessList>::Views<'_>| {
        said.send(act(cx, given.recv().unwrap())).unwrap();
    };
    let task = rt.task("waits", accesses).host(body).submit_handle().unwrap();
    (task, send, hear)
}

/// Returns the text of the refusal of a circular wait.
#[track_caller]
fn words(refused: Result<(), RunError>) -> String {
    match refused {
        Err(RunError::Refused(error @ SubmitError::Circular { .. })) => error.to_string(),
        other => panic!("the wait should have been refused: {other:?}"),
    }
}

#[test]
fn body_cannot_wait_for_its_own_task() {
    on_each(|rt| {
        let (task, send, said) = waits(&rt, (), move |_, own: TaskHandle| own.wait());
        send.send(task).unwrap();
        rt.wait().unwrap();
        let words = words(said.recv().unwrap());
        let begins = "cannot `TaskHandle::wait` inside task `waits`, submitted at tests/waits/circles.rs:";
        assert!(words.starts_with(begins) && words.contains("as this call waits for `waits`; try "), "{words}");
    });
}

#[test]
fn body_cannot_wait_for_its_successor() {
    on_each(|rt| {
        let (x, y) = (rt.data(vec![0u64; 8]).named("x"), rt.data(vec![0u64; 8]).named("y"));
        let (inner, result) = (rt.clone(), y.clone());
        let (_, send, said) = waits(&rt, x.slice(2..6).inout(), move |_, last: TaskHandle| {
            let by_handle = words(last.wait());
            assert!(by_handle.contains("as `first`, submitted at tests/waits/circles.rs:"), "{by_handle}");
            let way = "comes after `waits` by its access to [4..8] (in) of data `x`, and `last`, submitted at ";
            let rest =
                "comes after `first` by its access to [0..8] (inout) of data `y`, and this call waits for `last`";
            assert!(by_handle.contains(way) && by_handle.contains(rest), "{by_handle}");
            let by_value = words(inner.read(&result).map(drop));
            assert!(by_value.contains("the request of `read` comes after `last` by its access to"), "{by_value}");
            assert_eq!(inner.read(result.slice(..0))?, [0; 0], "an empty region depends on no task");
            last.wait()
        });
        rt.task("first", (x.slice(4..).input(), y.output())).host(|_, _| ()).submit().unwrap();
        send.send(rt.task("last", y.inout()).host(|_, _| ()).submit_handle().unwrap()).unwrap();
        rt.wait().unwrap();
        words(said.recv().unwrap());
    });
}

#[test]
fn circular_wait_over_many_tasks_is_refused() {
    on_each(|rt| {
        let (x, order) = (rt.data(vec![0u64; 8]).named("x"), rt.token().named("order"));
        let inner = rt.clone();
        let (_, send, said) = waits(&rt, x.input(), move |_, result: Pending<u64>| result.get().map(drop));
        for _ in 0..40 {
            rt.task("reads", x.input()).host(|_, _| ()).submit().unwrap(); // this many readers are combined into a join
        }
        rt.task("writes", (x.inout(), order.inout())).host(|_, _| ()).submit().unwrap();
        for _ in 0..200 {
            // Fewer tasks than the window, because the submitting thread may host the unit.
            rt.task("row", order.inout()).host(|_, ()| ()).submit().unwrap();
        }
        let result = rt.task("result", order.input()).returns(|_, ()| 1u64).submit().unwrap();
        drop(inner);
        send.send(result).unwrap();
        rt.wait().unwrap();
        let words = words(said.recv().unwrap());
        assert!(words.contains("`writes`, submitted at") && words.contains("(inout) of data `x`"), "{words}");
        assert!(words.contains("(inout) of token `order`"), "{words}");
    });
}

#[test]
fn mutual_wait_is_refused_for_one_task() {
    on_each(|rt| {
        let ends: Arc<Mutex<Vec<bool>>> = Arc::default();
        let (one, to_one, said_one) = waits(&rt, (), move |_, other: TaskHandle| other.wait());
        let (other, to_other, said_other) = waits(&rt, (), move |_, one: TaskHandle| one.wait());
        to_one.send(other).unwrap();
        to_other.send(one).unwrap();
        rt.wait().unwrap();
        for said in [said_one, said_other] {
            let said = said.recv().unwrap();
            ends.lock().unwrap().push(said.is_err());
            if said.is_err() {
                let words = words(said);
                assert!(words.contains("`waits`, submitted at tests/waits/circles.rs:"), "{words}");
                assert!(words.contains("waits for `waits`"), "{words}");
            }
        }
        assert_eq!(ends.lock().unwrap().iter().filter(|refused| **refused).count(), 1);
    });
}

#[test]
fn grandchild_cannot_wait_for_its_waiting_ancestor() {
    on_each(|rt| {
        // The grandchild waits either for a task that depends on the parent's children, or for a reader that comes
        // after the parent.
        for behind in [false, true] {
            let x = rt.data(vec![0u64; 4]).named("x");
            let (said, hear) = channel();
            let (_, send, parent_said) = waits(&rt, x.weak_inout(), move |cx, awaited: TaskHandle| {
                let told = said.clone();
                cx.task("child", ())
                    .host(move |cx, ()| {
                        let grandchild = move |_: &Context, ()| told.send(awaited.wait()).unwrap();
                        cx.task("grandchild", ()).host(grandchild).submit().map(drop)
                    })
                    .submit()?;
                drop(said);
                cx.wait()
            });
            let after = rt.task("after", x.input()).host(|_, _| ()).submit_handle().unwrap();
            let awaited =
                if behind { after } else { rt.task("also", x.inout()).host(|_, _| ()).submit_handle().unwrap() };
            send.send(awaited).unwrap();
            rt.wait().unwrap();
            let ends = [hear.recv().unwrap(), parent_said.recv().unwrap()];
            let refused: Vec<_> = ends.into_iter().filter(|end| end.is_err()).map(words).collect();
            assert_eq!(refused.len(), 1, "{refused:?}");
            assert!(refused[0].contains("of data `x`"), "{refused:?}");
        }
    });
}

#[test]
fn body_may_wait_for_a_group_independent_of_its_held_data() {
    on_each(|rt| {
        let x = rt.data(vec![0u64; 4]).named("x");
        let (send, given) = channel::<()>();
        let (inner, held) = (rt.clone(), x.clone());
        let body = move |_: &Context, _: &mut [u64]| {
            given.recv().unwrap();
            let (group, free) = (inner.group(), inner.data(vec![1u64; 4]));
            group.task("free", free.inout()).host(|_, x| x[0] = 2).submit().unwrap();
            group.wait().unwrap();
            let part = group.group();
            let late = inner.task("late", held.after());
            assert!(matches!(late.host(|_, _| ()).submit(), Err(SubmitError::Nested { .. })));
            part.task("fine", free.inout()).host(|_, x| x[0] += 1).submit().unwrap();
            group.wait().unwrap();
            inner.take(free).unwrap()[0]
        };
        let three = rt.task("waits", x.inout()).returns(body).submit().unwrap();
        send.send(()).unwrap();
        assert_eq!(three.get().unwrap(), 3);
    });
}

#[test]
fn refused_take_leaves_the_data_in_place() {
    on_each(|rt| {
        let (order, y, list) = (rt.token(), rt.data(vec![7u64; 4]).named("y"), rt.value(vec![7u64]));
        let (inner, kept) = (rt.clone(), (y.clone(), list.clone()));
        let (_, send, said) = waits(&rt, order.inout(), move |_, (y, list): (Data<u64>, Value<Vec<u64>>)| {
            let refused = inner.take(y).map(drop).map_err(RunError::from);
            assert!(words(refused).contains("the request of `take` comes after `reads`"));
            inner.take(list).map(drop).map_err(RunError::from)
        });
        let reads = (order.input(), y.input(), list.input());
        rt.task("reads", reads)
            .host(|_, ((), y, list)| assert_eq!((y, &list[..]), (&[7; 4][..], &[7][..])))
            .submit()
            .unwrap();
        send.send((y, list)).unwrap();
        rt.wait().unwrap();
        words(said.recv().unwrap());
        let (y, list) = kept;
        rt.task("more", (y.inout(), list.inout())).host(|_, (y, list)| list.extend_from_slice(y)).submit().unwrap();
        assert_eq!((rt.take(y).unwrap(), rt.take(list).unwrap()), (vec![7; 4], vec![7; 5]));
    });
}
