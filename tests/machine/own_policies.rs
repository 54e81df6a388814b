//! Custom policies: their decisions are carried out. Their mistakes are reported with the policy's name, and never
//! cause a lost task or a hang.

use crate::common::watched;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use thalweg::error::{FailureReason, RunError};
use thalweg::ids::{TaskId, UnitId};
use thalweg::prelude::*;
use thalweg::sched::{
    Assignment, CopySample, Distributed, Distribution, Policy, ReadyTask, Sample, SubmittedTask, Times, UnitSet, View,
    Workload,
};

pub(crate) const MIXES: [&str; 4] = ["1:CPU:1", "3:CPU:1", "1:CPU:1,2:EMU:1", "2:EMU:1"];
pub(crate) const TASKS: usize = 24;

/// A policy whose `next` is a function.
pub(crate) struct Own<N> {
    tasks: Vec<ReadyTask>,
    next: N,
}

impl<N> Own<N>
where
    N: FnMut(&mut Vec<ReadyTask>, UnitId, &View<'_>) -> Option<TaskId> + Send,
{
    pub(crate) fn new(next: N) -> Self {
        Self { tasks: Vec::new(), next }
    }
}

impl<N> Policy for Own<N>
where
    N: FnMut(&mut Vec<ReadyTask>, UnitId, &View<'_>) -> Option<TaskId> + Send,
{
    fn name(&self) -> &'static str {
        "own"
    }

    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.tasks.push(task);
    }

    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        (self.next)(&mut self.tasks, unit, view)
    }
}

/// Takes the first task that runs on a unit.
pub(crate) fn first(tasks: &mut Vec<ReadyTask>, unit: UnitId) -> Option<TaskId> {
    let position = tasks.iter().position(|task| task.runs_on(unit))?;
    Some(tasks.remove(position).id)
}

/// Submits chains of tasks whose results are correct only if the tasks run in order.
pub(crate) fn submit(rt: &Runtime) -> Vec<Data<u64>> {
    let data: Vec<_> = (0..4).map(|_| rt.scalar(1u64)).collect();
    for step in 0..TASKS {
        let body = move |x: &mut [u64]| x[0] = x[0] * 3 + step as u64;
        rt.task("step", (data[step % data.len()].inout(),)).cpu(move |_, (x,)| body(x)).submit().unwrap();
    }
    data
}

pub(crate) fn check(rt: &Runtime, data: &[Data<u64>]) {
    for (start, x) in data.iter().enumerate() {
        let steps = (start..TASKS).step_by(data.len());
        assert_eq!(
            rt.read(x).unwrap()[0],
            steps.fold(1, |x, step| x * 3 + step as u64),
            "a task was lost or ran out of order"
        );
    }
}

/// Returns the text of the only failure of a run.
pub(crate) fn reported(waited: Result<(), RunError>) -> String {
    match waited {
        Err(RunError::Failed(failures)) => {
            assert!(matches!(failures[0].reason(), FailureReason::Policy { policy: "own", .. }), "{failures}");
            assert_eq!(failures.len(), 1, "{failures}");
            RunError::Failed(failures).to_string()
        }
        other => panic!("the policy should have been reported: {other:?}"),
    }
}

#[test]
fn policy_decides_which_unit_gets_which_task() {
    watched("last", || {
        let own = Own::new(|tasks, unit, _| if unit == UnitId(2) { first(tasks, unit) } else { None });
        let rt = Runtime::builder().compute_units("3:CPU:1").policy(own).build().unwrap();
        let data = submit(&rt);
        rt.wait().unwrap();
        check(&rt, &data);
        let tasks: Vec<u64> = rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect();
        assert_eq!(tasks, [0, 0, TASKS as u64]);
    });
}

#[test]
fn policy_is_notified_of_finished_and_failed_tasks() {
    #[derive(Default)]
    struct Learns(Vec<ReadyTask>, Arc<Mutex<Vec<String>>>);
    impl Policy for Learns {
        fn name(&self) -> &'static str {
            "learns"
        }
        fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
            self.0.push(task);
        }
        fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
            first(&mut self.0, unit)
        }
        fn finished(&mut self, sample: &Sample) {
            self.1.lock().unwrap().push(format!("{} ran, {} bytes, {}", sample.name, sample.bytes, sample.unit));
        }
        fn failed(&mut self, sample: &Sample) {
            self.1.lock().unwrap().push(format!("{} failed, {} ns", sample.name, sample.elapsed_ns));
        }
    }
    watched("learns", || {
        let told = Arc::new(Mutex::new(Vec::new()));
        let policy = Learns(Vec::new(), told.clone());
        let rt = Runtime::builder().compute_units("1:CPU:1").policy(policy).build().unwrap();
        let x = rt.data(vec![0u8; 100]);
        rt.task("good", (x.slice(..70).inout(),)).cpu(|_, _| ()).submit().unwrap();
        rt.task("bad", (x.slice(70..).inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
        assert!(rt.wait().unwrap_err().to_string().starts_with("tasks failed: task 1 `bad`"));
        assert_eq!(*told.lock().unwrap(), ["good ran, 70 bytes, unit 0", "bad failed, 0 ns"]);
    });
}

#[test]
fn last_call_of_scheduler_and_policy_takes_effect() {
    watched("last wins", || {
        let asked = Arc::new(AtomicUsize::new(0));
        let own = |asked: &Arc<AtomicUsize>| {
            let asked = asked.clone();
            Own::new(move |tasks, unit, _| {
                asked.fetch_add(1, Ordering::Relaxed);
                first(tasks, unit)
            })
        };
        let builder = || Runtime::builder().compute_units("1:CPU:1");
        let rt = builder().policy(own(&asked)).scheduler("dynamic").build().unwrap();
        check(&rt, &submit(&rt));
        assert_eq!(asked.load(Ordering::Relaxed), 0);
        let rt = builder().scheduler("there is none").policy(own(&asked)).build().unwrap();
        check(&rt, &submit(&rt));
        assert!(asked.load(Ordering::Relaxed) >= TASKS);
    });
}

#[test]
fn policy_may_hold_back_tasks_while_a_unit_is_busy() {
    watched("batches", || {
        let own = Own::new(|tasks, unit, view| match view.is_idle() {
            true => first(tasks, unit),
            false => None,
        });
        let rt = Runtime::builder().compute_units("2:CPU:1,1:EMU:1").policy(own).build().unwrap();
        let data = submit(&rt);
        rt.wait().unwrap();
        check(&rt, &data);
    });
}

/// A distribution that assigns what its function returns.
#[derive(Clone)]
struct Assigns(fn(&Workload<'_>) -> Vec<usize>);

impl Distribution for Assigns {
    fn name(&self) -> &'static str {
        "own"
    }
    fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
        Assignment::new((self.0)(workload))
    }
    fn is_steady(&self) -> bool {
        true
    }
}

fn distribute(assigns: Assigns) -> (Result<(), RunError>, Vec<u64>) {
    let rt = Runtime::builder().compute_units("2:CPU:1").policy(Distributed::new(assigns)).build().unwrap();
    let data: Vec<_> = (0..6).map(|_| rt.scalar(0u64)).collect();
    let zones = IterationSpace::new("zones", vec![1.0; data.len()]);
    zones.begin();
    for (index, x) in data.iter().enumerate() {
        rt.task("zone", (x.inout(),)).cpu(|_, (x,)| x[0] += 1).at(&zones, index).submit().unwrap();
    }
    let waited = rt.wait();
    data.iter().for_each(|x| assert_eq!(rt.read(x).unwrap()[0], 1));
    (waited, rt.statistics().tasks.iter().map(|(_, tasks)| *tasks).collect())
}

#[test]
fn custom_distribution_is_used_and_its_mistakes_are_reported() {
    watched("distributions", || {
        let (waited, tasks) =
            distribute(Assigns(|workload| (0..workload.len()).map(|i| usize::from(i == 2)).collect()));
        waited.unwrap();
        assert_eq!(tasks, [5, 1]);
        let too_few = distribute(Assigns(|_| vec![0; 5])).0;
        let words = "distribution `own` assigned 5 indices of a space of 6; try one slot for each";
        assert!(reported(too_few).contains(words));
        let outside = distribute(Assigns(|_| vec![0, 1, 0, 2, 1, 9])).0;
        let words = "distribution `own` assigned index 3 to a slot outside its team of 2 units; try slots below that";
        assert!(reported(outside).contains(words));
    });
}

/// Notifications that a look-ahead policy has received, in order.
#[derive(Default)]
struct Told {
    submitted: Vec<(TaskId, String, Vec<TaskId>)>,
    ready: Vec<TaskId>,
    skipped: Vec<TaskId>,
    copied: Vec<(SpaceId, SpaceId, u64)>,
}

/// A first-come-first-served policy with look-ahead.
struct LooksAhead(Vec<ReadyTask>, Arc<Mutex<Told>>);

impl Policy for LooksAhead {
    fn name(&self) -> &'static str {
        "looks-ahead"
    }
    fn looks_ahead(&self) -> bool {
        true
    }
    fn submitted(&mut self, task: &SubmittedTask<'_>) {
        self.1.lock().unwrap().submitted.push((task.id, task.name.to_string(), task.after.to_vec()));
    }
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.1.lock().unwrap().ready.push(task.id);
        self.0.push(task);
    }
    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        first(&mut self.0, unit)
    }
    fn skipped(&mut self, task: TaskId) {
        self.1.lock().unwrap().skipped.push(task);
    }
    fn copied(&mut self, copy: &CopySample) {
        self.1.lock().unwrap().copied.push((copy.from, copy.to, copy.bytes));
    }
}

#[test]
fn lookahead_policy_is_notified_of_submitted_and_skipped_tasks() {
    for units in ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1"] {
        watched(units, move || {
            let told: Arc<Mutex<Told>> = Arc::default();
            let rt =
                Runtime::builder().compute_units(units).policy(LooksAhead(Vec::new(), told.clone())).build().unwrap();
            let (gate, x) = (Arc::new(std::sync::Barrier::new(2)), rt.data(vec![1u64; 100]));
            let waits = gate.clone();
            rt.task("fails", (x.inout(),))
                .host(move |_, _: (&mut [u64],)| {
                    waits.wait(); // until all tasks are submitted, so that none has ended
                    Err::<(), _>("broken")
                })
                .submit()
                .unwrap();
            let (left, right) = (x.slice(..50), x.slice(50..));
            rt.task("left", (left.inout(),)).cpu(|_, _| ()).submit().unwrap();
            rt.task("right", (right.inout(),)).cpu(|_, _| ()).submit().unwrap();
            rt.task("both", (x.inout(),)).cpu(|_, _| ()).submit().unwrap();
            // If there is only one unit, the submitter hosts it, so another thread has to open the gate.
            std::thread::spawn(move || _ = gate.wait());
            assert!(rt.wait().is_err());
            let told = told.lock().unwrap();
            let [fails, left, right, both] = &told.submitted[..] else { panic!("{:?}", told.submitted) };
            assert_eq!([&fails.1, &left.1, &right.1, &both.1], ["fails", "left", "right", "both"]);
            assert_eq!((&fails.2[..], &left.2[..], &right.2[..]), (&[][..], &[fails.0][..], &[fails.0][..]));
            assert_eq!(both.2.iter().collect::<std::collections::BTreeSet<_>>(), [&left.0, &right.0].into());
            assert_eq!(told.ready, [fails.0]);
            let skipped: std::collections::BTreeSet<_> = told.skipped.iter().copied().collect();
            assert_eq!(skipped, [left.0, right.0, both.0].into());
        });
    }
}

#[test]
fn policy_is_notified_of_copies() {
    watched("copies", || {
        let told: Arc<Mutex<Told>> = Arc::default();
        let rt =
            Runtime::builder().compute_units("1:EMU:1").policy(LooksAhead(Vec::new(), told.clone())).build().unwrap();
        let x = rt.data(vec![1u64; 100]);
        rt.task("there", (x.inout(),)).cpu(|_, (x,)| x.fill(2)).submit().unwrap();
        assert_eq!(rt.take(x).unwrap(), [2; 100]);
        let copied = &told.lock().unwrap().copied;
        assert_eq!(copied[..], [(SpaceId::HOST, SpaceId(1), 800), (SpaceId(1), SpaceId::HOST, 800)]);
    });
}

/// A policy that has tasks for certain units and says for which ones. It counts how often it is asked for other units
/// while a task runs.
struct Wants(Vec<(UnitId, TaskId)>, Arc<AtomicUsize>);

impl Policy for Wants {
    fn name(&self) -> &'static str {
        "wants"
    }
    fn ready(&mut self, task: ReadyTask, view: &View<'_>) {
        let unit = UnitId((task.id.0 % view.units.len() as u64) as u16);
        self.0.push((unit, task.id));
    }
    fn wanted(&self) -> Option<UnitSet> {
        let mut wanted = UnitSet::default();
        self.0.iter().for_each(|(unit, _)| wanted.insert(*unit));
        Some(wanted)
    }
    fn next(&mut self, unit: UnitId, view: &View<'_>) -> Option<TaskId> {
        let at = self.0.iter().position(|(of, _)| *of == unit);
        if at.is_none() && !view.is_idle() {
            self.1.fetch_add(1, Ordering::Relaxed);
        }
        at.map(|at| self.0.remove(at).1)
    }
}

#[test]
fn policy_is_asked_only_for_wanted_units_while_something_runs() {
    watched("wanted", || {
        let in_vain: Arc<AtomicUsize> = Arc::default();
        let rt =
            Runtime::builder().compute_units("4:CPU:1").policy(Wants(Vec::new(), in_vain.clone())).build().unwrap();
        let data = submit(&rt);
        rt.wait().unwrap();
        drop(data);
        assert_eq!(in_vain.load(Ordering::Relaxed), 0);
    });
}
