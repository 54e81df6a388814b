//! Graphs that run in rounds: in each round, every task is owned exactly once, after all its predecessors, and their
//! writes are visible.

use super::owned::OwnedTask;
use super::rounds::{Helper, Rounds};
use super::submitting::Submitting;
use super::task::{Flow, TaskRef};
use super::tasks::{Common, Modelled};
use super::{Traced, model};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// Mark that identifies the last task.
const LAST: u32 = 9;

fn made(mark: u32) -> Submitting<Modelled> {
    Submitting::new(|| Common(Traced::new(mark)), 0, Traced::new(0), 1, |body| body)
}

/// Returns a graph of two tasks, a third task after both, and the last task.
fn graph() -> Rounds<Modelled> {
    let (mut ready, mut all): (Vec<OwnedTask<Modelled>>, Vec<TaskRef<Modelled>>) = (vec![], vec![]);
    for mark in 1..=3 {
        let mut task = made(mark);
        if mark == 3 {
            all.iter().for_each(|before| task.wait_for(before, Flow::Value).unwrap());
        }
        all.push(task.share());
        ready.extend(task.commit());
    }
    Rounds::new(all, ready, |helper| {
        assert_eq!(helper, Helper::Last, "so few tasks need no other helper");
        made(LAST)
    })
}

/// Runs a task and all tasks that it makes ready.
fn run(task: OwnedTask<Modelled>, round: u32, written: &[Traced; 2], last: &Mutex<Option<OwnedTask<Modelled>>>) {
    let mut next = Some(task);
    while let Some(task) = next.take() {
        match task.shared().0.read() {
            LAST => *last.lock().unwrap() = Some(task),
            mark => {
                assert_eq!(task.body().read(), round, "the task must have run once in each earlier round");
                task.body().write(round + 1);
                match mark {
                    3 => assert_eq!(
                        [0, 1].map(|n| written[n].read()),
                        [round + 1; 2],
                        "both predecessors must have ended"
                    ),
                    _ => written[mark as usize - 1].write(round + 1),
                }
                task.end_round(|ready| assert!(next.replace(ready).is_none()));
            }
        }
    }
}

#[test]
fn round_ends_after_all_its_tasks_and_the_next_sees_their_writes() {
    model(3, || {
        let mut rounds = graph();
        let written = Arc::new([Traced::new(0), Traced::new(0)]);
        for round in 0..2 {
            let last = Arc::new(Mutex::new(None));
            let mut ready = vec![];
            assert!(rounds.begin(|task| ready.push(task)));
            let (one, two) = (ready.pop().unwrap(), ready.pop().unwrap());
            let (there, found) = (written.clone(), last.clone());
            let other = thread::spawn(move || run(one, round, &there, &found));
            run(two, round, &written, &last);
            other.join().unwrap();
            let back = last.lock().unwrap().take().expect("the second thread to arrive ran the last task");
            rounds.end(back);
        }
        drop(rounds);
    });
}
