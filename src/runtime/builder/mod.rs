//! Builder that configures a runtime.
//!
//! Settings of threads ([`execution`]), reports ([`reports`]) and devices ([`devices`]) are in separate files.

mod devices;
mod execution;
mod reports;

use super::runtime::Runtime;
use crate::coherence::Eviction;
use crate::device::EmulatedDevice;
use crate::driver::threads::Poll;
use crate::driver::watch::{REPORT_AFTER, Tell};
use crate::energy::{EnergyMeter, Power};
use crate::engine::failures;
use crate::explore::Choices;
use crate::machine::UnitKind;
use crate::sched::Policy;
use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

impl Runtime {
    /// Begins the configuration of a runtime.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

/// Configuration of a [`Runtime`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:2,1:EMU:1").scheduler("dynamic").build()?;
/// assert_eq!((rt.machine().cpu_units().len(), rt.machine().device_units().len()), (1, 1));
///
/// let error = Runtime::builder().scheduler("fastest").build().unwrap_err();
/// let words = "cannot find scheduler `fastest`; try one of stealing, dynamic, ";
/// assert!(error.to_string().starts_with(words));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "a runtime starts only when built"]
pub struct Builder {
    pub(in crate::runtime) name: Option<String>,
    pub(in crate::runtime) units: Option<String>,
    pub(in crate::runtime) places: Option<String>,
    pub(in crate::runtime) scheduler: Option<Choice>,
    #[cfg(feature = "sim")]
    pub(in crate::runtime) model_file: Option<PathBuf>,
    pub(in crate::runtime) use_current_thread: bool,
    pub(in crate::runtime) window: Option<usize>,
    pub(in crate::runtime) window_bytes: Option<u64>,
    pub(in crate::runtime) host_bytes: Option<u64>,
    pub(in crate::runtime) spill: Option<std::path::PathBuf>,
    pub(in crate::runtime) eviction: Eviction,
    pub(in crate::runtime) throttle_submissions: bool,
    pub(in crate::runtime) pin_threads: Option<bool>,
    pub(in crate::runtime) while_idle: Vec<Poll>,
    pub(in crate::runtime) stack_bytes: Option<usize>,
    pub(in crate::runtime) report_stalls_after: Option<Duration>,
    pub(in crate::runtime) report_tasks_after: Option<Duration>,
    pub(in crate::runtime) on_stall: Option<Tell>,
    pub(in crate::runtime) on_failure: Option<failures::Tell>,
    pub(in crate::runtime) record_graph: bool,
    pub(in crate::runtime) trace: Option<crate::trace::Order>,
    pub(in crate::runtime) trace_accesses: Option<bool>,
    #[cfg(all(unix, feature = "signals"))]
    pub(in crate::runtime) explain_on_signal: Option<bool>,
    #[cfg(feature = "progress")]
    pub(in crate::runtime) progress: bool,
    pub(in crate::runtime) detect_conflicts: bool,
    pub(in crate::runtime) sanitize: Option<bool>,
    pub(in crate::runtime) emulated: Box<dyn Fn(usize) -> EmulatedDevice>,
    pub(in crate::runtime) device_memory_bytes: u64,
    pub(in crate::runtime) powers: Vec<(UnitKind, Power)>,
    pub(in crate::runtime) meters: Vec<(Box<dyn EnergyMeter>, Option<f64>)>,
    pub(in crate::runtime) find_meters: bool,
    /// The decisions of an exploration, whose runtime has no threads.
    pub(in crate::runtime) explored: Option<Arc<Choices>>,
    #[cfg(feature = "sim")]
    pub(in crate::runtime) simulated: Option<crate::sim::SimulatedMachine>,
}

/// The policy that a builder was given.
pub(in crate::runtime) enum Choice {
    Named(String),
    Own(Box<dyn Policy>),
}

impl Choice {
    fn name(&self) -> &str {
        match self {
            Self::Named(name) => name,
            Self::Own(policy) => policy.name(),
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut fields = f.debug_struct("Builder");
        fields
            .field("name", &self.name)
            .field("compute_units", &self.units)
            .field("places", &self.places)
            .field("scheduler", &self.scheduler.as_ref().map(Choice::name))
            .field("window", &self.window)
            .field("window_bytes", &self.window_bytes);
        #[cfg(feature = "sim")]
        fields.field("simulated", &self.simulated.as_ref().map(crate::sim::SimulatedMachine::name));
        fields.finish_non_exhaustive()
    }
}

impl Builder {
    fn new() -> Self {
        Self {
            name: None,
            units: None,
            places: None,
            scheduler: None,
            #[cfg(feature = "sim")]
            model_file: None,
            use_current_thread: false,
            window: None,
            window_bytes: None,
            host_bytes: None,
            spill: None,
            eviction: Eviction::default(),
            throttle_submissions: true,
            pin_threads: None,
            while_idle: Vec::new(),
            stack_bytes: None,
            report_stalls_after: Some(REPORT_AFTER),
            report_tasks_after: None,
            on_stall: None,
            on_failure: None,
            record_graph: false,
            trace: None,
            trace_accesses: None,
            #[cfg(all(unix, feature = "signals"))]
            explain_on_signal: None,
            #[cfg(feature = "progress")]
            progress: false,
            detect_conflicts: false,
            sanitize: None,
            emulated: Box::new(|_| EmulatedDevice::new()),
            device_memory_bytes: u64::MAX,
            powers: Vec::new(),
            meters: Vec::new(),
            find_meters: false,
            explored: None,
            #[cfg(feature = "sim")]
            simulated: None,
        }
    }

    /// Sets a name that distinguishes this runtime from others. Unit threads and copy threads carry the name in their
    /// own names, and stall reports begin with it. Operating systems show only 15 bytes of a thread name, so a long
    /// name is truncated to make room for the unit's index. Without a name, threads are called `thalweg`.
    ///
    /// Building the runtime fails if the name is empty or contains a NUL byte.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().name("preprocessing").compute_units("1:CPU:1").build()?;
    /// let name = rt.task("ask", ()).returns(|_, ()| std::thread::current().name().map(str::to_owned)).submit()?;
    /// assert_eq!(name.get()?.as_deref(), Some("preproces-unit0"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = Some(name.into());
        self
    }

    /// Sets the compute units, for instance `"4:CPU:4,2:EMU:1"`: four CPU units of four cores each and two device
    /// units of one emulated device each. See [`UnitConfig`](crate::machine::UnitConfig) for the notation. The
    /// default is the value of the environment variable `THALWEG_UNITS`, or one CPU unit per core.
    pub fn compute_units(mut self, units: impl Into<String>) -> Self {
        self.units = Some(units.into());
        self
    }

    /// Sets the cores of the units, in the notation of `OMP_PLACES`, for instance `"{0:4}:3:4,{12}:4:1"`: the n-th
    /// place belongs to the n-th unit. The default is the value of the environment variable `OMP_PLACES` if it fits
    /// the units (otherwise there is a [warning](crate::machine::Machine::warnings)); without it, consecutive cores.
    ///
    /// An abstract name (`threads`, `cores`, `ll_caches`, `numa_domains`, `sockets`) leaves the choice of cores to the
    /// runtime. The name states how far a thread may move from its unit's cores: `cores` adds the other hardware
    /// threads of the same physical cores, and `sockets` adds all cores of the same sockets. With a number of places,
    /// as in `cores(4)` or `sockets(1)`, units use only the cores of the first places of that sort.
    ///
    /// Setting places also binds the threads, unless [`pin_threads`](Self::pin_threads) says otherwise.
    pub fn places(mut self, places: impl Into<String>) -> Self {
        self.places = Some(places.into());
        self
    }

    /// Sets the scheduler by name ([`sched::NAMES`](crate::sched::NAMES)), with its parameters after a colon. If both
    /// this method and [`policy`](Self::policy) are called, the last call wins. Without a call, the environment
    /// variable `THALWEG_SCHEDULER` names the scheduler.
    ///
    /// | name | which unit gets a task | parameters |
    /// | --- | --- | --- |
    /// | `stealing` (the default) | the one that has its data; idle units steal | |
    /// | `dynamic` | a free unit takes the next block of indices | `chunk=1`, `memo=3` |
    /// | `static` | each unit gets equally many indices, in chunks | |
    /// | `static-pcf`, `pcf-static` | devices get more, by a factor | `pcf=4`, `file=PATH`, or `profile` |
    /// | `pcf-guided` | chunks balanced by times and that factor | as above |
    /// | `guided-sizes`, `guided-runtime` | chunks balanced by the weights; by measured times | |
    /// | `clustered-guided` | CPU units left of a pivot, devices right of it | `threshold=0.25` |
    /// | `adjacency` | the same balance, with few bytes between memories | `slack=0.05` |
    /// | `certified` | near the optimum of the measured times, with a bound | `slack=0.01` |
    /// | `fpm` | shares from functional performance models, best in time or energy | `objective=pareto,budget=1.5x`, `file=PATH` |
    /// | `eft` | where it is expected to finish earliest, copies included | `latency_ns=1e4`, `bytes_per_s=1e10` |
    /// | `bottom-level` | the task with the longest path first, where it finishes earliest | as above |
    /// | `auto` | tasks of iteration spaces as `eft`, others as `bottom-level` | as above |
    /// | `priority` | a free unit takes the most urgent task | |
    ///
    /// After `memo` instances, `dynamic` remembers where every index ran; if `memo` is 0, it never does. The factor is
    /// the *performance conversion factor* (PCF): how many times longer a CPU unit takes than a device unit. The factor
    /// is given as a parameter, measured (`profile`), or read from a file whose keys are CPU unit configurations, as in
    /// `"16:CPU:1" = 21.91`.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let build = |scheduler: &str| Runtime::builder().compute_units("1:CPU:1,1:EMU:1").scheduler(scheduler).build();
    /// let rt = build("static-pcf:pcf=3")?;
    /// let data: Vec<_> = (0..8).map(|_| rt.scalar(1.0)).collect();
    /// let zones = IterationSpace::new("zones", vec![1.0; 8]);
    /// for _ in 0..10 {
    ///     zones.begin();
    ///     for (index, x) in data.iter().enumerate() {
    ///         rt.task("double", (x.inout(),)).cpu(|_, (x,)| x[0] *= 2.0).at(&zones, index).submit()?;
    ///     }
    /// }
    /// assert_eq!(rt.read(&data[7])?[0], 1024.0);
    /// assert_eq!(rt.statistics().tasks[1].1, 60); // the device has six of the eight indices
    ///
    /// let error = build("static-pcf:pcf=-1").unwrap_err();
    /// assert_eq!(error.to_string(), "scheduler `static-pcf`: pcf: `-1` is not a number above 0");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn scheduler(mut self, name: impl Into<String>) -> Self {
        self.scheduler = Some(Choice::Named(name.into()));
        self
    }

    /// Sets a custom scheduler, which also works in a simulation. It replaces a scheduler named by
    /// [`scheduler`](Self::scheduler), and vice versa. [`Policy`](crate::sched::Policy) documents the contract of a
    /// policy and the consequences of breaking it.
    ///
    /// [`Distributed`](crate::sched::Distributed) turns a custom work distribution into a policy.
    ///
    /// ```
    /// use thalweg::ids::{TaskId, UnitId};
    /// use thalweg::prelude::*;
    /// use thalweg::sched::{Policy, ReadyTask, View};
    ///
    /// /// The task that became ready last goes first: its data may still be in the cache.
    /// #[derive(Default)]
    /// struct NewestFirst(Vec<ReadyTask>);
    ///
    /// impl Policy for NewestFirst {
    ///     fn name(&self) -> &'static str {
    ///         "newest-first"
    ///     }
    ///     fn ready(&mut self, task: ReadyTask, _: &View<'_>) {
    ///         self.0.push(task);
    ///     }
    ///     fn next(&mut self, unit: UnitId, _: &View<'_>) -> Option<TaskId> {
    ///         let newest = self.0.iter().rposition(|task| task.runs_on(unit))?;
    ///         Some(self.0.remove(newest).id)
    ///     }
    /// }
    ///
    /// let rt = Runtime::builder().compute_units("2:CPU:1").policy(NewestFirst::default()).build()?;
    /// let x = rt.data(vec![1.0; 100]);
    /// for part in blocks(100, 10) {
    ///     rt.task("double", (x.slice(part).inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// }
    /// assert_eq!(rt.take(x)?, [2.0; 100]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn policy(mut self, policy: impl Policy + 'static) -> Self {
        self.scheduler = Some(Choice::Own(Box::new(policy)));
        self
    }

    /// Saves the execution times that the scheduler learns to a file, so that the next run can use them. The file, if
    /// it exists, is read when the runtime is built; it is written when the runtime is dropped. Only `eft`,
    /// `bottom-level`, `auto` and `fpm` learn; with other schedulers the call has no effect. If the file cannot be
    /// written, the runtime logs a warning. The file has the format of
    /// [`Model::to_text`](crate::sched::Model::to_text); with `fpm`, whose weights are integers, it has the format of
    /// [`Known::to_text`](crate::sched::fpm::Known::to_text).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("model.toml");
    /// let builder = || Runtime::builder().compute_units("1:CPU:1").scheduler("eft").model_file(&path);
    /// let rt = builder().build()?;
    /// let x = rt.data(vec![1.0; 100]);
    /// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// drop((x, rt));
    /// assert!(std::fs::read_to_string(&path)?.contains("task = \"double\""));
    /// builder().build()?; // knows `double` from the start
    ///
    /// std::fs::write(&path, "nonsense")?;
    /// assert!(builder().build().unwrap_err().to_string().contains("not a performance model"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "sim")]
    pub fn model_file(mut self, path: impl Into<PathBuf>) -> Self {
        self.model_file = Some(path.into());
        self
    }
}
