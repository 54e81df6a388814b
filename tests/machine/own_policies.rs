//! Custom policies: their decisions are carried out. Their mistakes are reported with the policy's name, and never
//! cause a lost task or a hang.

use crate::common::watched;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, OnceLock, Weak};
use thalweg::error::{FailureReason, RunError, SubmitError};
use thalweg::ids::{TaskId, UnitId};
use thalweg::prelude::*;
use thalweg::sched::{
    Assignment, CopySample, Distributed, Distribution, Policy, ReadyTask, Sample, SubmittedTask, Times, UnitSet, View,
    Workload,
};

const MIXES: [&str; 4] = ["1:CPU:1", "3:CPU:1", "1:CPU:1,2:EMU:1", "2:EMU:1"];
const TASKS: usize = 24;

/// A policy whose `next` is a function.
struct Own<N> {
    tasks: Vec<ReadyTask>,
    next: N,
}

impl<N> Own<N>
where
    N: FnMut(&mut Vec<ReadyTask>, UnitId, &View<'_>) -> Option<TaskId> + Send,
{
    fn new(next: N) -> Self {
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
fn first(tasks: &mut Vec<ReadyTask>, unit: UnitId) -> Option<TaskId> {
    let position = tasks.iter().position(|task| task.runs_on(unit))?;
    Some(tasks.remove(position).id)
}

/// Submits chains of tasks whose results are correct only if the tasks run in order.
fn submit(rt: &Runtime) -> Vec<Data<u64>> {
    let data: Vec<_> = (0..4).map(|_| rt.scalar(1u64)).collect();
    for step in 0..TASKS {
        let body = move |x: &mut [u64]| x[0] = x[0] * 3 + step as u64;
        rt.task("step", (data[step % data.len()].inout(),)).cpu(move |_, (x,)| body(x)).submit().unwrap();
    }
    data
}

fn check(rt: &Runtime, data: &[Data<u64>]) {
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
fn reported(waited: Result<(), RunError>) -> String {
    match waited {
        Err(RunError::Failed(failures)) => {
            assert!(matches!(failures[0].reason(), FailureReason::Policy { policy: "own", .. }), "{failures}");
            assert_eq!(failures.len(), 1, "{failures}");
            RunError::Failed(failures).to_string()
        }
        other => panic!("the policy should have been reported: {other:?}"),
    }
}

/// Runs a program on all machines under a policy that breaks its contract. The report must contain all of `words`.
fn breaks<P: Policy + 'static>(policy: fn() -> P, words: &[&str]) {
    for units in MIXES {
        let words: Vec<String> = words.iter().map(|words| (*words).to_owned()).collect();
        watched(units, move || {
            let rt = Runtime::builder().compute_units(units).policy(policy()).build().unwrap();
            let data = submit(&rt);
            let report = reported(rt.wait());
            assert!(report.starts_with("cannot continue with policy `own`: "), "{report}");
            for words in &words {
                assert!(report.contains(words), "{units}: `{words}` is not in: {report}");
            }
            assert!(report.contains("; try ") && report.ends_with(". `stealing` has replaced it"), "{report}");
            check(&rt, &data);
            submit(&rt);
            rt.wait().unwrap();
        });
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
fn policy_that_returns_an_unknown_task_is_replaced() {
    let policy = || Own::new(|_, _, _| Some(TaskId(1 << 40)));
    breaks(policy, &["it gave unit 0 task 1099511627776, which is not in its charge", "each ready task once"]);
}

#[test]
fn policy_that_returns_a_task_twice_is_replaced() {
    // Assign the task a second time as soon as the policy is asked again, whether or not the task is still running.
    let policy = || {
        let mut given = None;
        Own::new(move |tasks, unit, _| {
            given = given.take().or_else(|| first(tasks, unit));
            given
        })
    };
    breaks(policy, &["task 0, which is not in its charge"]);
}

#[test]
fn policy_that_picks_an_unsuitable_unit_is_replaced() {
    watched("wrong unit", || {
        let own = Own::new(|tasks, _, _| tasks.pop().map(|task| task.id));
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").policy(own).build().unwrap();
        let x = rt.scalar(1u64);
        // Unit 0 is asked first.
        rt.task("device", (x.inout(),)).emulated(|_, (x,)| x[0] += 1).submit().unwrap();
        let report = reported(rt.wait());
        let words = "it gave unit 0 task 0 `device` (submitted at tests/machine/own_policies.rs:";
        assert!(report.contains(words) && report.contains("which cannot run there; try tasks for which "), "{report}");
        assert_eq!(rt.read(&x).unwrap()[0], 2);
    });
}

#[test]
fn policy_that_holds_back_a_task_forever_is_replaced() {
    breaks(
        || Own::new(|_, _, _| None),
        &["it holds back task 0 `step` (submitted at tests/machine/own_policies.rs:", "is_idle"],
    );
    let not_the_fifth = || {
        Own::new(|tasks, unit, _| {
            let other = tasks.iter().position(|task| task.id.0 != 5 && task.runs_on(unit))?;
            Some(tasks.remove(other).id)
        })
    };
    breaks(not_the_fifth, &["it holds back task 5 `step`", "though no unit has anything to do"]);
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

/// A policy that panics in one of its methods.
struct Panics(&'static str, Vec<ReadyTask>);

impl Panics {
    fn at(&self, method: &str) {
        assert!(self.0 != method, "no idea");
    }
}

impl Policy for Panics {
    fn name(&self) -> &'static str {
        "own"
    }
    fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
        self.at("ready");
        self.1.push(task);
    }
    fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
        self.at("next");
        first(&mut self.1, unit)
    }
    fn in_flight(&mut self, _: UnitId, _: usize) {
        self.at("in_flight");
    }
    fn finished(&mut self, _: &Sample) {
        self.at("finished");
    }
}

#[test]
fn policy_that_panics_is_replaced() {
    breaks(|| Panics("ready", Vec::new()), &["it panicked when it was notified that task 0 `step` is ready: no idea"]);
    breaks(|| Panics("next", Vec::new()), &["it panicked when it was asked for a task for unit 0: no idea"]);
    breaks(
        || Panics("in_flight", Vec::new()),
        &["it panicked when it was notified how many tasks unit 0 has: no idea"],
    );
    breaks(
        || Panics("finished", Vec::new()),
        &["it panicked when it was notified that task ", "`step` has run: no idea"],
    );
}

#[test]
fn submission_and_wait_inside_a_policy_are_refused() {
    for units in MIXES {
        watched(units, move || {
            let runtime: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
            let (used, said) = (runtime.clone(), Arc::new(Mutex::new(Vec::new())));
            let saying = said.clone();
            let own = Own::new(move |tasks, unit, _| {
                if let Some(rt) = used.get().and_then(Weak::upgrade)
                    && saying.lock().unwrap().is_empty()
                {
                    let submitted = rt.task("more", ()).cpu(|_, ()| ()).submit().map(|_| ());
                    let waited = rt.wait().map_err(|error| match error {
                        RunError::Refused(error) => error,
                        other => panic!("{other}"),
                    });
                    *saying.lock().unwrap() = vec![submitted, waited];
                }
                first(tasks, unit)
            });
            let rt = Arc::new(Runtime::builder().compute_units(units).policy(own).build().unwrap());
            runtime.set(Arc::downgrade(&rt)).unwrap();
            let data = submit(&rt);
            rt.wait().unwrap();
            check(&rt, &data);
            let refused = |call| Err(SubmitError::InsidePolicy { call });
            assert_eq!(*said.lock().unwrap(), [refused("submit"), refused("wait")]);
        });
    }
}

#[test]
fn policy_that_queries_its_runtime_is_replaced() {
    watched("statistics", || {
        let runtime: Arc<OnceLock<Weak<Runtime>>> = Arc::default();
        let used = runtime.clone();
        let own = Own::new(move |tasks, unit, _| {
            if let Some(rt) = used.get().and_then(Weak::upgrade) {
                rt.statistics();
            }
            first(tasks, unit)
        });
        let rt = Arc::new(Runtime::builder().compute_units("1:CPU:1").policy(own).build().unwrap());
        runtime.set(Arc::downgrade(&rt)).unwrap();
        let data = submit(&rt);
        let report = reported(rt.wait());
        assert!(report.contains("unit 0: cannot use the runtime in a call of its policy; try "), "{report}");
        check(&rt, &data);
    });
}

#[test]
fn data_dropped_by_a_policy_does_not_deadlock() {
    watched("drops data", || {
        let held: Arc<Mutex<Vec<Data<u64>>>> = Arc::default();
        let dropped = held.clone();
        let own = Own::new(move |tasks, unit, _| {
            drop(std::mem::take(&mut *dropped.lock().unwrap()));
            first(tasks, unit)
        });
        let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").policy(own).build().unwrap();
        held.lock().unwrap().push(rt.scalar(7));
        let data = submit(&rt);
        rt.wait().unwrap();
        check(&rt, &data);
        assert!(held.lock().unwrap().is_empty());
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

#[cfg(feature = "sim")]
mod simulated {
    use super::*;

    const MACHINE: &str = r#"
        name = "plain"
        [units.CPU]
        count = 2
        bytes_per_s = 1e9
        [[tasks]]
        name = "work"
        [tasks.time_ns]
        CPU = { 1 = 100 }
    "#;

    fn simulate(policy: impl Policy + 'static) -> (Runtime, Result<(), RunError>) {
        let machine: SimulatedMachine = MACHINE.parse().unwrap();
        let rt = Runtime::builder().simulate(machine).compute_units("2:CPU:1").policy(policy).build().unwrap();
        for _ in 0..10 {
            rt.task("work", ()).cpu(|_, ()| ()).submit().unwrap();
        }
        let waited = rt.wait();
        (rt, waited)
    }

    #[test]
    fn policy_decides_in_a_simulation() {
        watched("simulated", || {
            let (rt, waited) = simulate(Own::new(|tasks, unit, _| first(tasks, unit)));
            waited.unwrap();
            assert_eq!(rt.now().as_nanos(), 500);
            let only_one = Own::new(|tasks, unit, _| if unit == UnitId(1) { first(tasks, unit) } else { None });
            let (rt, waited) = simulate(only_one);
            waited.unwrap();
            assert_eq!(rt.now().as_nanos(), 1000);
        });
    }

    #[test]
    fn simulation_ends_under_a_broken_policy() {
        watched("simulated", || {
            for policy in [Panics("ready", Vec::new()), Panics("next", Vec::new()), Panics("finished", Vec::new())] {
                let (rt, waited) = simulate(policy);
                assert!(reported(waited).contains("no idea"));
                assert_eq!(rt.now().as_nanos(), 500);
            }
            let (rt, waited) = simulate(Own::new(|_, _, _| None));
            assert!(reported(waited).contains("it holds back task 0 `work`"));
            assert_eq!(rt.now().as_nanos(), 500);
        });
    }
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

#[test]
fn panicking_destructor_of_a_policy_or_stall_callback_is_contained() {
    struct Panics(Arc<AtomicUsize>);
    impl Drop for Panics {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
            panic!("on purpose");
        }
    }
    for breaks in [false, true] {
        let dropped = Arc::new(AtomicUsize::new(0));
        let counted = dropped.clone();
        watched(&format!("breaks={breaks}"), move || {
            let [of_policy, of_report] = [(); 2].map(|()| Panics(dropped.clone()));
            let policy = Own::new(move |tasks: &mut Vec<_>, unit, _: &View<'_>| {
                let _ = &of_policy;
                assert!(!breaks, "on purpose");
                first(tasks, unit)
            });
            let builder = Runtime::builder().compute_units("1:CPU:1").policy(policy);
            let rt = builder.on_stall(move |_| _ = &of_report).build().unwrap();
            rt.task("task", ()).cpu(|_, ()| ()).submit().unwrap();
            let _ = rt.wait();
            drop(rt);
        });
        assert_eq!(counted.load(Ordering::Relaxed), 2);
    }
}
