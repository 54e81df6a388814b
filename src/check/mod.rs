//! Exploration of a program's schedules: the program runs many times on one thread, each time in another order.
//!
//! A runtime on threads runs a program under whatever schedule the machine happens to produce, usually the same one.
//! A program whose tasks share something that they have not declared passes its tests for years. [`explore`] runs the
//! program under schedules that are drawn from seeds: which ready task begins next and on which unit, when copies to
//! and from emulated devices arrive, when a waiting body continues, whether tasks run between two submissions, and how
//! much memory the devices have, and therefore evictions and refusals. The same seed gives the same
//! schedule. A failing seed is reported together with the last steps and the setting that replays it.
//!
//! Bodies really run, so the program computes its usual results. A body runs undisturbed from one of its waits to the
//! next: two bodies never run at the same time, so data races between their instructions are not found. Threads that
//! the program starts, clocks and random numbers are not controlled.
//!
//! This module builds runtimes and judges their results. The decisions are made in `explore/`, and the steps are
//! performed by `driver/threads/explored.rs`.

mod policy;
mod schedule;

use crate::explore::{self, Record};
use crate::runtime::{Builder, Runtime, environment};
use policy::AnyUnit;
use rustc_hash::{FxHashSet, FxHasher};
use schedule::Schedule;
use std::fmt::{self, Debug};
use std::hash::{Hash, Hasher};

/// The environment variable that selects one schedule to replay.
const SCHEDULE: &str = "THALWEG_SCHEDULE";
/// The units, unless the program chooses others.
const UNITS: &str = "2:CPU:1";
/// Number of lines of the trace that a failure shows.
const LAST_STEPS: usize = 20;

/// Runs a program under one schedule per seed, with an [`Explorer`] in its default configuration.
///
/// Under every schedule, the program must return the same value and must not panic.
///
/// If the environment variable `THALWEG_SCHEDULE` is set to the name of a schedule that has failed, only that schedule
/// runs, and its steps are written to standard error.
///
/// # Panics
/// Panics if a schedule fails, and names it.
///
/// # Examples
/// ```
/// use thalweg::prelude::*;
/// let sum = thalweg::check::explore(0..100, |rt| {
///     let (x, y) = (rt.data(vec![1.0, 2.0]), rt.data(vec![0.0]));
///     rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit().unwrap();
///     rt.task("sum", (x.input(), y.output())).cpu(|_, (x, y)| y[0] = x[0] + x[1]).submit().unwrap();
///     rt.take(y).unwrap()
/// });
/// assert_eq!(sum.schedules, 100);
/// ```
///
/// A task that uses more than it declares is found:
/// ```should_panic
/// use std::sync::Arc;
/// use std::sync::atomic::{AtomicU64, Ordering};
/// thalweg::check::explore(0..100, |rt| {
///     let hidden = Arc::new(AtomicU64::new(0));
///     for factor in [2, 3] {
///         let hidden = hidden.clone();
///         let body = move |_: &thalweg::Context, ()| {
///             let before = hidden.load(Ordering::SeqCst);
///             hidden.store(before * factor + 1, Ordering::SeqCst);
///         };
///         rt.task("undeclared", ()).cpu(body).submit().unwrap();
///     }
///     rt.wait().unwrap();
///     hidden.load(Ordering::SeqCst)
/// });
/// ```
pub fn explore<T: PartialEq + Debug + Send>(
    seeds: impl IntoIterator<Item = u64>,
    program: impl Fn(&Runtime) -> T + Sync,
) -> Explored {
    Explorer::new().run(seeds, program).unwrap_or_else(|failure| panic!("{failure}"))
}

/// How schedules are chosen.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Strategy {
    /// Half of the seeds are [`Random`](Self::Random), the others [`Priorities`](Self::Priorities) with 2 changes.
    #[default]
    Mixed,
    /// Everything that can happen next is equally likely. Under most seeds, tasks also run between submissions.
    Random,
    /// Every possible step has a random priority, and the one with the highest priority happens next. At this number
    /// of random moments, that step loses its priority (Burckhardt et al., "A randomized scheduler with probabilistic
    /// guarantees of finding bugs", 2010). Of n tasks that are decided on in k steps, an error that needs a certain
    /// order of `changes` + 1 of them is found with a probability of at least 1 / (n · kᶜʰᵃⁿᵍᵉˢ) per seed.
    Priorities {
        /// The number of changes.
        changes: usize,
    },
    /// Every schedule once, in the order of a depth-first search; the seeds only limit their number. The program
    /// submits all of its tasks before any of them runs, unless it waits. Tasks are assigned to every unit in turn, so
    /// the number of schedules is least on one unit.
    Exhaustive,
}

/// Runs programs under many schedules.
///
/// ```
/// use thalweg::check::{Explorer, Strategy};
/// // Three tasks in any order, and one after all of them.
/// let explored = Explorer::new()
///     .runtime(|builder| builder.compute_units("1:CPU:1"))
///     .strategy(Strategy::Exhaustive)
///     .run(0..1000, |rt| {
///         let x = rt.data(vec![0u64; 4]);
///         for i in 0..3 {
///             rt.task("set", (x.slice(i..i + 1).output(),)).cpu(move |_, (x,)| x[0] = i as u64).submit().unwrap();
///         }
///         rt.task("sum", (x.inout(),)).cpu(|_, (x,)| x[3] = x[0] + x[1] + x[2]).submit().unwrap();
///         rt.take(x).unwrap()
///     })?;
/// assert_eq!((explored.schedules, explored.is_complete), (6, true));
/// # Ok::<(), thalweg::check::Failure>(())
/// ```
#[must_use = "an explorer does nothing before `run`"]
pub struct Explorer<'a> {
    configure: Box<dyn Fn(Builder) -> Builder + Sync + 'a>,
    strategy: Strategy,
    faults: bool,
}

/// The result of an exploration in which no schedule failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub struct Explored {
    /// Number of schedules that ran.
    pub schedules: u64,
    /// Number of different schedules among them.
    pub distinct: u64,
    /// Whether these are all schedules of the program. Only [`Strategy::Exhaustive`] knows.
    pub is_complete: bool,
}

/// A schedule under which a program failed.
///
/// Its text, also that of `Debug`, says how to replay the schedule, and shows its last steps.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Failure {
    /// The schedule's name, for the environment variable `THALWEG_SCHEDULE` and for [`Explorer::replay`].
    pub schedule: String,
    /// The reason: a panic, a task that failed without the program noticing, another result than under the first
    /// schedule, or a wait that never ends.
    pub message: String,
    /// All steps, one per line.
    pub trace: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { schedule, message, trace } = self;
        write!(f, "schedule {schedule} fails: {message}; try {SCHEDULE}={schedule} to replay it. Its last steps:")?;
        let steps = trace.lines().count();
        trace.lines().skip(steps.saturating_sub(LAST_STEPS)).try_for_each(|step| write!(f, "\n  {step}"))
    }
}

impl Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl std::error::Error for Failure {}

impl Debug for Explorer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { strategy, faults, .. } = self;
        f.debug_struct("Explorer").field("strategy", strategy).field("faults", faults).finish_non_exhaustive()
    }
}

impl Default for Explorer<'_> {
    fn default() -> Self {
        Self::new()
    }
}

impl<'a> Explorer<'a> {
    /// Creates an explorer with two CPU units and the strategy [`Mixed`](Strategy::Mixed).
    pub fn new() -> Self {
        Self { configure: Box::new(|builder| builder), strategy: Strategy::default(), faults: false }
    }

    /// Sets how the runtime of each schedule is configured. Its units may be CPU units and emulated devices. The
    /// exploration replaces the scheduler and the settings of threads; devices have no delays.
    ///
    /// ```
    /// use thalweg::check::Explorer;
    /// let on_devices = Explorer::new().runtime(|builder| builder.compute_units("1:CPU:1,2:EMU:1"));
    /// on_devices.run(0..50, |rt| {
    ///     let x = rt.data(vec![1u64; 100]);
    ///     for _ in 0..5 {
    ///         rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2)).submit().unwrap();
    ///     }
    ///     assert_eq!(rt.take(x).unwrap(), [32; 100]);
    /// })?;
    /// # Ok::<(), thalweg::check::Failure>(())
    /// ```
    pub fn runtime(self, configure: impl Fn(Builder) -> Builder + Sync + 'a) -> Self {
        Self { configure: Box::new(configure), ..self }
    }

    /// Sets how schedules are chosen.
    pub fn strategy(self, strategy: Strategy) -> Self {
        Self { strategy, ..self }
    }

    /// Sets whether emulated devices also fail: under some seeds, a device is lost, a copy fails, or an allocation is
    /// refused even though nothing else could be evicted. The program then has to handle errors, and tasks that fail
    /// without the program noticing are not a failure of the schedule. The default is `false`.
    pub fn faults(self, faults: bool) -> Self {
        Self { faults, ..self }
    }

    /// Runs the program once in the order of submission, and then under one schedule per seed. The program has to
    /// return the same value each time.
    ///
    /// The memory of devices is unlimited at first. Under some seeds it is as small as the largest task of the first
    /// run allows. So the sizes of tasks must not depend on the schedule.
    ///
    /// # Errors
    /// Fails with the first schedule under which the program panics, returns another value, leaves a failed
    /// task without noticing, or waits forever.
    ///
    /// # Panics
    /// Panics if the environment variable `THALWEG_SCHEDULE` is set to something other than a schedule's name. An empty
    /// variable counts as not set.
    pub fn run<T: PartialEq + Debug + Send>(
        &self,
        seeds: impl IntoIterator<Item = u64>,
        program: impl Fn(&Runtime) -> T + Sync,
    ) -> Result<Explored, Failure> {
        if let Some(name) = environment::text(SCHEDULE) {
            let trace = self.replayed(&format!("{SCHEDULE}="), &name, &program)?;
            eprintln!("schedule {name}:\n{trace}");
            return Ok(Explored { schedules: 1, distinct: 1, is_complete: false });
        }
        let (first, record) = self.judged(&Schedule::Listed(Vec::new()), &Record::default(), None, &program)?;
        let mut explored = Explored { schedules: 0, distinct: 0, is_complete: false };
        let mut seen = FxHashSet::default();
        let mut count = |record: &Record, explored: &mut Explored| {
            let mut hasher = FxHasher::default();
            record.trace.hash(&mut hasher);
            explored.schedules += 1;
            explored.distinct += u64::from(seen.insert(hasher.finish()));
        };
        let mut seeds = seeds.into_iter();
        if self.strategy != Strategy::Exhaustive {
            for seed in seeds {
                let (_, ran) = self.judged(&Schedule::Seed(seed), &record, Some(&first), &program)?;
                count(&ran, &mut explored);
            }
            return Ok(explored);
        }
        let mut ran = record.clone();
        while seeds.next().is_some() {
            count(&ran, &mut explored);
            match explore::after(std::mem::take(&mut ran.decided)) {
                None => {
                    explored.is_complete = true;
                    break;
                }
                Some(next) => (_, ran) = self.judged(&Schedule::Listed(next), &record, Some(&first), &program)?,
            }
        }
        Ok(explored)
    }

    /// Runs the program under the schedule with this name, and returns its steps, one per line.
    ///
    /// # Errors
    /// Fails if the program does.
    ///
    /// # Panics
    /// Panics if this is not the name of a schedule.
    ///
    /// ```
    /// use thalweg::check::Explorer;
    /// let program = |rt: &thalweg::Runtime| {
    ///     rt.task("hello", ()).cpu(|_, ()| ()).submit().unwrap();
    ///     rt.wait().unwrap();
    /// };
    /// let trace = Explorer::new().replay("17", program)?;
    /// assert!(trace.contains("`hello` on unit "), "{trace}");
    /// assert_eq!(trace, Explorer::new().replay("17", program)?);
    /// # Ok::<(), thalweg::check::Failure>(())
    /// ```
    pub fn replay<T: PartialEq + Debug + Send>(
        &self,
        schedule: &str,
        program: impl Fn(&Runtime) -> T + Sync,
    ) -> Result<String, Failure> {
        self.replayed("", schedule, program)
    }

    /// Replays the schedule with this name; `origin` precedes the name in the text of a panic.
    fn replayed<T: PartialEq + Debug + Send>(
        &self,
        origin: &str,
        name: &str,
        program: impl Fn(&Runtime) -> T + Sync,
    ) -> Result<String, Failure> {
        let schedule: Schedule = name.parse().unwrap_or_else(|problem| {
            panic!("cannot replay {origin}`{name}`: {problem}; try the name from the report of a failure")
        });
        // Later schedules depend on figures of the first one.
        let (first, record) = self.judged(&Schedule::Listed(Vec::new()), &Record::default(), None, &program)?;
        let (_, ran) = self.judged(&schedule, &record, Some(&first), &program)?;
        Ok(ran.trace)
    }

    /// Runs the program under one schedule, and compares its value with that of the `first` one.
    fn judged<T: PartialEq + Debug + Send>(
        &self,
        schedule: &Schedule,
        reference: &Record,
        first: Option<&T>,
        program: &(impl Fn(&Runtime) -> T + Sync),
    ) -> Result<(T, Record), Failure> {
        let plan = schedule.plan(self.strategy, reference);
        let memory = schedule.memory(reference, self.faults);
        let (value, record) = schedule::run(&self.configure, plan, memory, self.faults, program);
        let value = value.and_then(|value| match first.filter(|first| **first != value) {
            None => Ok(value),
            Some(first) => {
                Err(format!("the program returns {value:?}, but {first:?} if the tasks run in the order of submission"))
            }
        });
        match value {
            Ok(value) => Ok((value, record)),
            Err(message) => Err(Failure { schedule: schedule.to_string(), message, trace: record.trace }),
        }
    }
}
