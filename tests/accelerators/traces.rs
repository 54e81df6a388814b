//! Times of tasks and copies on devices, in traces. Devices note them on their own clocks.

use super::{AXPY, common};
use thalweg_trace::{Task, Trace};

const CHAINS: usize = 3;
const TASKS: usize = 40;
const NUMBERS: usize = 1 << 14;

/// Runs chains of kernels. Then the host, which has seen all of them end, submits the task `after`.
fn traced() -> Option<Trace> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("run.thw");
    let builder = common::accelerated("1:CPU:1,1:OPENCL:1")?;
    let rt = builder.scheduler("dynamic").trace(&path).build().unwrap();
    let x = rt.data(vec![1.0; NUMBERS]);
    let chains: Vec<_> = (0..CHAINS).map(|_| rt.data(vec![0.0; NUMBERS])).collect();
    for _ in 0..TASKS {
        for (name, y) in ["first", "second", "third"].into_iter().zip(&chains) {
            rt.task(name, (x.input(), y.inout()))
                .gpu(|k, (x, mut y)| k.launch(&AXPY, NUMBERS, (1.0, &x, &mut y, NUMBERS as i32)))
                .submit()
                .unwrap();
        }
    }
    rt.wait().unwrap();
    rt.task("after", ()).cpu(|_, ()| ()).submit().unwrap();
    for y in chains {
        assert_eq!(rt.take(y).unwrap(), [TASKS as f64; NUMBERS]);
    }
    drop((x, rt));
    Some(Trace::read(&path).unwrap())
}

fn of<'a>(trace: &'a Trace, name: &'a str) -> impl Iterator<Item = &'a Task> {
    (0..trace.tasks.len()).filter(move |task| trace.name(*task) == name).map(|task| &trace.tasks[task])
}

#[test]
fn device_runs_tasks_after_they_are_launched_and_before_the_host_sees_their_ends() {
    let Some(trace) = traced() else { return };
    let seen = of(&trace, "after").next().unwrap().submitted;
    for name in ["first", "second", "third"] {
        let mut free_from = 0;
        assert_eq!(of(&trace, name).count(), TASKS);
        for task in of(&trace, name) {
            let (launched, start, end) = (task.launched.unwrap(), task.start.unwrap(), task.end.unwrap());
            assert!(task.submitted <= launched && launched <= start && start <= end && end <= seen, "{task:?} {seen}");
            // The tasks may be on several streams, between which the offset of the clocks may have been corrected.
            assert!(free_from <= start + 1000, "a kernel runs before the one that it follows has ended: {task:?}");
            free_from = end;
        }
    }
}

#[test]
fn device_makes_copies_before_the_tasks_that_need_them() {
    let Some(trace) = traced() else { return };
    let into: Vec<_> = trace.copies.iter().filter(|copy| copy.to == 1).collect();
    assert_eq!(into.len(), 1 + CHAINS);
    for copy in into {
        let task = &trace.tasks[copy.task.unwrap()];
        assert!(task.placed.unwrap() <= copy.start && copy.start + copy.waited <= copy.end, "{copy:?} for {task:?}");
        assert!(copy.end <= task.start.unwrap(), "{copy:?} for {task:?}");
    }
}
