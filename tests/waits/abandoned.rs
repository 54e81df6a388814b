//! Bodies that never end: a time limit names them, and an abandoned runtime waits for nothing and frees nothing.

use crate::common::{builder, watched};
use crate::explained::held;
use std::sync::mpsc::channel;
use std::sync::{Arc, OnceLock, Weak};
use std::time::Duration;
use thalweg::error::RunError;
use thalweg::prelude::*;

#[track_caller]
fn assert_abandoned<T: std::fmt::Debug>(result: Result<T, RunError>) {
    assert!(matches!(result, Err(RunError::Refused(SubmitError::Abandoned))), "{result:?}");
}

#[test]
fn abandoned_runtime_ends_all_waits_and_leaves_the_body_its_data() {
    let hosts = [("1:CPU:1", false), ("2:CPU:1", false), ("2:CPU:1", true), ("1:CPU:2", false)];
    for (units, hosts) in hosts.into_iter().chain([("1:CPU:1,1:EMU:1", false)]) {
        watched(units, move || {
            let rt = builder(units, hosts).report_stalls_after(None).build().unwrap();
            let (x, y) = (rt.data(vec![1u64; 1000]), rt.data(vec![7u64; 1000]));
            let group = rt.group();
            let ((open, begun, body), (end, ended)) = (held(), channel());
            let endless = move |_: &thalweg::Context, x: &mut [u64]| {
                body();
                x.iter_mut().for_each(|x| *x += 1);
                end.send(x.iter().sum::<u64>()).unwrap();
            };
            group.task("endless", x.inout()).cpu(endless).submit().unwrap();
            begun.recv().unwrap();
            rt.task("after", x.inout()).cpu(|_, _| panic!("it must not begin")).submit().unwrap();
            if rt.machine().num_cpu_units() > 1 && !hosts {
                rt.task("other", y.inout()).cpu(|_, y| y.fill(8)).submit().unwrap();
                assert_eq!(rt.read(&y).unwrap(), [8; 1000], "the other unit works on");
            }
            std::thread::scope(|threads| {
                let waits: [Box<dyn FnOnce() -> Result<(), RunError> + Send>; 4] = [
                    Box::new(|| rt.wait()),
                    Box::new(|| rt.read(&x).map(drop)),
                    Box::new(|| group.wait()),
                    Box::new(|| rt.wait_timeout(Duration::MAX).map(drop)),
                ];
                let waits = waits.map(|wait| threads.spawn(wait));
                while !format!("{rt:?}").contains("waiting: 4") {
                    std::thread::yield_now();
                }
                rt.abandon().unwrap();
                waits.into_iter().for_each(|wait| assert_abandoned(wait.join().unwrap()));
            });
            assert_abandoned(rt.wait());
            assert_abandoned(rt.shutdown());
            assert_abandoned(rt.read(&y).map(drop));
            let refused = rt.task("late", y.inout()).cpu(|_, _| ()).submit().unwrap_err();
            assert_eq!(refused, SubmitError::Abandoned);
            drop((x, y, group));
            drop(rt);
            // The memory that the body uses is still its own.
            let others: Vec<_> = (0..100).map(|_| vec![3u64; 1000]).collect();
            drop(open);
            assert_eq!(ended.recv().unwrap(), 2000);
            drop(others);
        });
    }
}

#[test]
fn time_limit_names_the_task_while_others_finish_and_the_report_can_abandon_it() {
    watched("limit", || {
        let ((open, begun, body), (tell, told)) = (held(), channel());
        let known: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
        let own = known.clone();
        let builder = builder("2:CPU:1", false).report_stalls_after(None).report_tasks_after(Duration::from_millis(20));
        let builder = builder.on_stall(move |stall| {
            tell.send((stall.overdue.clone(), stall.to_string())).unwrap();
            own.get().and_then(Weak::upgrade).unwrap().abandon().unwrap();
        });
        let rt = Arc::new(builder.build().unwrap());
        known.set(Arc::downgrade(&rt)).unwrap();
        rt.task("endless", ()).cpu(move |_, ()| body()).submit().unwrap();
        begun.recv().unwrap();
        let other = rt.clone();
        let others = std::thread::spawn(move || while other.task("short", ()).cpu(|_, ()| ()).submit().is_ok() {});
        assert_abandoned(rt.wait());
        others.join().unwrap();
        let (overdue, report) = told.recv().unwrap();
        assert_eq!(overdue.iter().map(|task| task.name.as_str()).collect::<Vec<_>>(), ["endless"]);
        assert!(
            report.contains("beyond the time limit: task 0 `endless`, submitted at tests/waits/abandoned.rs:"),
            "{report}"
        );
        assert!(told.try_recv().is_err(), "it is reported once");
        drop(rt);
        drop(open);
    });
}

#[test]
fn runtime_with_an_open_scope_cannot_be_abandoned() {
    watched("scope", || {
        let rt = builder("1:CPU:1", false).build().unwrap();
        let mut lent = vec![1u64; 10];
        let refused = rt.scope(|scope| {
            let x = scope.borrow_mut(&mut lent);
            scope.task("t", x.inout()).cpu(|_, x| x.fill(2)).submit().unwrap();
            rt.abandon().unwrap_err()
        });
        assert!(refused.unwrap().to_string().starts_with("cannot `abandon` while a scope"));
        assert_eq!(lent, [2; 10]);
        rt.wait().unwrap();
    });
}
