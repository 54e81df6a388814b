//! Graphs in rounds that are so wide that they have starters and gatherers: in each round each task runs exactly once,
//! after its predecessors, and the last task ends the round.

use super::atomic::Mutex;
use super::owned::OwnedTask;
use super::queues::Queues;
use super::rounds::{Helper, Rounds};
use super::schedules;
use super::submitting::Submitting;
use super::task::{Flow, Kind, TaskRef};
use shuttle::rand::{Rng, thread_rng};
use shuttle::thread;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

/// More tasks without predecessors than one starter makes ready, and, whatever the edges, more tasks without successors
/// than one gatherer waits for.
const ROOTS: usize = 44;
const TASKS: usize = 48;
const THREADS: usize = 3;
const ROUNDS: usize = 2;

struct Modelled;

impl Kind for Modelled {
    type Shared = Part;
    type Owned = ();
    type Body = ();
    type Cause = ();

    fn is_bare(_: &()) -> bool {
        true
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Task(usize),
    Helper(Helper),
}

struct World {
    /// The predecessors of each task.
    edges: Vec<Vec<usize>>,
    /// How often each task has run. These accesses are no steps of the schedule.
    ran: [AtomicUsize; TASKS],
    last: Mutex<Option<OwnedTask<Modelled>>>,
}

fn made(part: Part) -> Submitting<Modelled> {
    Submitting::new(|| part, (), (), 1, |body| body)
}

impl World {
    fn new() -> Self {
        let mut random = thread_rng();
        let edges = |n: usize| match n {
            ..ROOTS => Vec::new(),
            _ => {
                (0..3).map(|_| random.gen_range(0..n)).collect::<std::collections::BTreeSet<_>>().into_iter().collect()
            }
        };
        let edges = (0..TASKS).map(edges).collect();
        Self { edges, ran: [const { AtomicUsize::new(0) }; TASKS], last: Mutex::new(None) }
    }

    /// Returns the graph and the number of tasks that run in a round.
    fn graph(&self) -> (Rounds<Modelled>, usize) {
        let (mut ready, mut all) = (Vec::new(), Vec::<TaskRef<Modelled>>::new());
        for (n, edges) in self.edges.iter().enumerate() {
            let mut task = made(Part::Task(n));
            edges.iter().for_each(|before| task.wait_for(&all[*before], Flow::Order).unwrap());
            all.push(task.share());
            ready.extend(task.commit());
        }
        let mut helpers = Vec::new();
        let rounds = Rounds::new(all, ready, |helper| {
            helpers.push(helper);
            made(Part::Helper(helper))
        });
        assert!(helpers.contains(&Helper::Starter) && helpers.contains(&Helper::Gatherer), "{helpers:?}");
        (rounds, TASKS + helpers.len())
    }

    fn run(&self, round: usize, own: usize, task: OwnedTask<Modelled>, queues: &Queues<Modelled>) {
        let mut next = Some(task);
        while let Some(task) = next.take() {
            match *task.shared() {
                Part::Helper(Helper::Last) => *self.last.lock().unwrap() = Some(task),
                part => {
                    if let Part::Task(n) = part {
                        self.edges[n].iter().for_each(|n| assert_eq!(self.ran[*n].load(Relaxed), round + 1));
                        assert_eq!(self.ran[n].fetch_add(1, Relaxed), round, "each task runs once in a round");
                    }
                    let mut others = 0;
                    task.end_round(|ready| match next {
                        None => next = Some(ready),
                        Some(_) => {
                            queues.push(own, ready);
                            others += 1;
                        }
                    });
                    queues.wake(others);
                }
            }
            queues.has_run();
        }
    }

    fn run_rounds(self: &Arc<Self>) {
        let (mut rounds, tasks) = self.graph();
        for round in 0..ROUNDS {
            let queues = Arc::new(Queues::new(THREADS, tasks));
            let threads: Vec<_> = (0..THREADS)
                .map(|own| {
                    let (world, queues) = (self.clone(), queues.clone());
                    thread::spawn(move || queues.work(own, |task| world.run(round, own, task, &queues)))
                })
                .collect();
            assert!(rounds.begin(|task| {
                queues.push(0, task);
                queues.wake(1);
            }));
            threads.into_iter().for_each(|thread| thread.join().unwrap());
            assert!(self.ran.iter().all(|ran| ran.load(Relaxed) == round + 1));
            rounds.end(self.last.lock().unwrap().take().expect("the last task is ready when all others have run"));
        }
    }
}

#[test]
fn wide_graph_runs_every_task_once_per_round() {
    schedules(500, 4, || {
        let world = Arc::new(World::new());
        thread::spawn(move || world.run_rounds()).join().unwrap();
    });
}
