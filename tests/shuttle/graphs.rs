//! Random graphs that a thread submits while others run them: each task runs exactly once, after its predecessors, and
//! inherits exactly their failures; each block is freed.

use super::owned::OwnedTask;
use super::queues::Queues;
use super::schedules;
use super::submitting::Submitting;
use super::task::{Flow, Kind, TaskRef};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

const TASKS: usize = 16;
const THREADS: usize = 3;
/// A task has edges from some of this many tasks before it.
const WINDOW: usize = 6;
/// Each task has one of these numbers of edges. Most have a single one, so that many become ready at once.
const EDGES: [usize; 8] = [0, 1, 1, 1, 1, 2, 2, 5];

struct Modelled;

impl Kind for Modelled {
    /// The task's number.
    type Shared = usize;
    type Owned = Option<Arc<AtomicUsize>>;
    type Body = Counted;
    type Cause = usize;

    fn is_bare(owned: &Self::Owned) -> bool {
        owned.is_none()
    }
}

/// Counts its drop.
struct Counted(Arc<AtomicUsize>);

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.fetch_add(1, Relaxed);
    }
}

struct Planned {
    edges: Vec<(usize, Flow)>,
    fails: bool,
    /// Whether it fails or inherits a failure.
    is_poisoned: bool,
}

struct World {
    plan: Vec<Planned>,
    queues: Queues<Modelled>,
    /// How often each task has run. These accesses are no steps of the schedule.
    ran: [AtomicUsize; TASKS],
    dropped: Arc<AtomicUsize>,
}

fn plan() -> Vec<Planned> {
    let mut random = thread_rng();
    let mut plan: Vec<Planned> = Vec::new();
    for n in 0..TASKS {
        let mut before: Vec<usize> = (n.saturating_sub(WINDOW)..n).collect();
        let edges = EDGES[random.gen_range(0..EDGES.len())];
        while before.len() > edges {
            before.swap_remove(random.gen_range(0..before.len()));
        }
        let edges = before.into_iter().map(|n| (n, if random.gen_bool(0.5) { Flow::Value } else { Flow::Order }));
        let (edges, fails) = (edges.collect::<Vec<_>>(), random.gen_bool(0.15));
        let inherits = edges.iter().any(|(n, flow)| *flow == Flow::Value && plan[*n].is_poisoned);
        plan.push(Planned { edges, fails, is_poisoned: fails || inherits });
    }
    plan
}

impl World {
    fn submit(&self) {
        let mut latest: Vec<TaskRef<Modelled>> = Vec::new();
        for (n, Planned { edges, .. }) in self.plan.iter().enumerate() {
            let body = Counted(self.dropped.clone());
            let mut task = Submitting::<Modelled>::new(|| n, Some(self.dropped.clone()), body, 2, |body| body);
            for (before, flow) in edges {
                let before = latest.iter().find(|task| *task.shared() == *before).unwrap();
                if task.wait_for(before, *flow).is_err() {
                    assert_eq!(self.ran[*before.shared()].load(Relaxed), 1, "only an ended task has a closed list");
                    before.pass_poison(*flow, &task);
                }
            }
            if latest.len() == WINDOW {
                latest.remove(0);
            }
            latest.push(task.share());
            if let Some(ready) = task.commit() {
                self.queues.push(0, ready);
                self.queues.wake(1);
            }
        }
    }

    /// Runs a task and one of those that it makes ready, and so on. Some successors run while the task still releases
    /// others, so their blocks may be freed, and reused by the submitter, before the next edge is read.
    fn run(&self, own: usize, task: OwnedTask<Modelled>) {
        let mut next = Some(task);
        while let Some(task) = next.take() {
            let (n, mut others) = (*task.shared(), 0);
            let Planned { edges, fails, is_poisoned } = &self.plan[n];
            edges.iter().for_each(|(n, _)| assert_eq!(self.ran[*n].load(Relaxed), 1, "predecessors have run"));
            assert_eq!(self.ran[n].fetch_add(1, Relaxed), 0, "the task has not run yet");
            if *fails {
                task.set_poison(Arc::new(n));
            }
            assert_eq!(task.is_poisoned(), *is_poisoned);
            task.finish(|ready| match next {
                _ if thread_rng().gen_bool(0.25) => self.run(own, ready),
                None => next = Some(ready),
                Some(_) => {
                    self.queues.push(own, ready);
                    others += 1;
                }
            });
            self.queues.wake(others);
            self.queues.has_run();
        }
    }
}

#[test]
fn tasks_run_once_in_order_while_others_are_submitted() {
    schedules(2_000, 4, || {
        let (queues, dropped) = (Queues::new(THREADS, TASKS), Arc::default());
        let world = Arc::new(World { plan: plan(), queues, ran: [const { AtomicUsize::new(0) }; TASKS], dropped });
        let mut threads: Vec<_> = (0..THREADS)
            .map(|own| {
                let world = world.clone();
                thread::spawn(move || world.queues.work(own, |task| world.run(own, task)))
            })
            .collect();
        let submits = world.clone();
        threads.push(thread::spawn(move || submits.submit()));
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        assert!(world.ran.iter().all(|ran| ran.load(Relaxed) == 1));
        assert_eq!(world.dropped.load(Relaxed), TASKS);
        assert_eq!(Arc::strong_count(&world.dropped), 1, "each block's contents are dropped");
    });
}
