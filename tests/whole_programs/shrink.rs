//! Reduction of failing programs, by variants that are slightly smaller.

use crate::program::{Act, Body, Program, Task};
use crate::steps::End;

impl Program {
    /// Returns programs with fewer acts, or with simpler ones.
    pub(crate) fn smaller(&self) -> Vec<Self> {
        smaller(&self.acts, true).into_iter().map(|acts| Self { acts, ..self.clone() }).collect()
    }
}

fn smaller(acts: &[Act], hoists: bool) -> Vec<Vec<Act>> {
    let mut all = Vec::new();
    let mut size = acts.len() / 2;
    while size > 1 {
        for at in (0..acts.len()).step_by(size) {
            all.push([&acts[..at], &acts[acts.len().min(at + size)..]].concat());
        }
        size /= 2;
    }
    for (at, act) in acts.iter().enumerate() {
        let with = |instead: Vec<Act>| [&acts[..at], &instead, &acts[at + 1..]].concat();
        all.push(with(vec![]));
        match act {
            Act::Task(task) => {
                if hoists && !task.acts.is_empty() {
                    all.push(with(task.acts.clone()));
                }
                all.extend(simpler(task).into_iter().map(|task| with(vec![Act::Task(task)])));
            }
            Act::Loop(of) => {
                let tasks = of.tasks().into_iter().map(|task| Task { name: task.n, ..task });
                all.push(with(tasks.map(Act::Task).collect()));
            }
            Act::Scope { n, lent, acts } => all.extend(
                smaller(acts, false).into_iter().map(|acts| with(vec![Act::Scope { n: *n, lent: lent.clone(), acts }])),
            ),
            Act::Aside(acts) => {
                all.push(with(acts.clone()));
                all.extend(smaller(acts, false).into_iter().map(|acts| with(vec![Act::Aside(acts)])));
            }
            _ => {}
        }
    }
    all
}

fn simpler(task: &Task) -> Vec<Task> {
    let mut all: Vec<_> = smaller(&task.acts, true).into_iter().map(|acts| Task { acts, ..task.clone() }).collect();
    if task.acts.is_empty() {
        all.extend((0..task.accesses.len()).map(|at| {
            let mut task = task.clone();
            task.accesses.remove(at);
            task
        }));
    }
    all.extend((0..task.results.len()).map(|at| {
        let mut task = task.clone();
        task.results.remove(at);
        task
    }));
    if task.body != Body::Plain {
        all.push(Task { body: Body::Plain, ..task.clone() });
    } else if task.end != End::Returns {
        all.push(Task { end: End::Returns, ..task.clone() });
    }
    if task.group.is_some() || task.watched || task.urgent {
        all.push(Task { group: None, watched: false, urgent: false, ..task.clone() });
    }
    all
}
