//! Builder that configures a runtime.

use super::Runtime;
use crate::device::EmulatedDevice;
use crate::driver::watch::{REPORT_AFTER, Stall, Tell};
use crate::energy::{EnergyMeter, Power};
use crate::engine::failures;
use crate::machine::UnitKind;
use crate::sched::Policy;
use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

impl Runtime {
    /// Begins the description of a runtime.
    pub fn builder() -> Builder {
        Builder::new()
    }
}

/// The description of a [`Runtime`].
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
    pub(super) name: Option<String>,
    pub(super) units: Option<String>,
    pub(super) places: Option<String>,
    pub(super) scheduler: Option<Choice>,
    #[cfg(feature = "sim")]
    pub(super) model_file: Option<PathBuf>,
    pub(super) use_current_thread: bool,
    pub(super) window: Option<usize>,
    pub(super) pin_threads: Option<bool>,
    pub(super) stack_bytes: Option<usize>,
    pub(super) report_stalls_after: Option<Duration>,
    pub(super) on_stall: Option<Tell>,
    pub(super) on_failure: Option<failures::Tell>,
    pub(super) record_graph: bool,
    pub(super) trace: Option<crate::trace::Order>,
    pub(super) trace_accesses: bool,
    #[cfg(all(unix, feature = "signals"))]
    pub(super) explain_on_signal: Option<bool>,
    #[cfg(feature = "progress")]
    pub(super) progress: bool,
    pub(super) detect_conflicts: bool,
    pub(super) emulated: Box<dyn Fn(usize) -> EmulatedDevice>,
    pub(super) device_memory_bytes: u64,
    pub(super) powers: Vec<(UnitKind, Power)>,
    pub(super) meters: Vec<(Box<dyn EnergyMeter>, Option<f64>)>,
    pub(super) find_meters: bool,
    #[cfg(feature = "sim")]
    pub(super) simulated: Option<crate::sim::SimulatedMachine>,
}

/// The policy that a builder was given.
pub(super) enum Choice {
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
            .field("window", &self.window);
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
            pin_threads: None,
            stack_bytes: None,
            report_stalls_after: Some(REPORT_AFTER),
            on_stall: None,
            on_failure: None,
            record_graph: false,
            trace: None,
            trace_accesses: false,
            #[cfg(all(unix, feature = "signals"))]
            explain_on_signal: None,
            #[cfg(feature = "progress")]
            progress: false,
            detect_conflicts: false,
            emulated: Box::new(|_| EmulatedDevice::new()),
            device_memory_bytes: u64::MAX,
            powers: Vec::new(),
            meters: Vec::new(),
            find_meters: false,
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
    /// threads of the same physical cores, and `sockets` adds all cores of the same sockets.
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
    /// | `fpm` | shares from functional performance models, best in time or energy | `objective=pareto,budget=1.5x`, `file=PATH` |
    /// | `eft` | where it is expected to finish earliest, copies included | `latency_ns=1e4`, `bytes_per_s=1e10` |
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
    /// it exists, is read when the runtime is built; it is written when the runtime is dropped. Only `eft` and `fpm`
    /// learn; with other schedulers the call has no effect. If the file cannot be written, the runtime logs a warning.
    /// The file has the format of [`Model::to_text`](crate::sched::Model::to_text); with `fpm`, whose weights are
    /// integers, it has the format of [`Known::to_text`](crate::sched::fpm::Known::to_text).
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

    /// Lets the thread that builds the runtime execute tasks as CPU unit 0 whenever it waits, instead of starting a
    /// thread for that unit.
    ///
    /// This way a machine with as many units as cores is not oversubscribed. While the building thread neither waits
    /// nor submits, other units take the tasks queued at unit 0; if there is only one unit, no task runs during that
    /// time. If threads are bound, the building thread is moved to the unit's core once, but is not bound to it. The
    /// call has no effect on a machine without CPU units.
    ///
    /// Executing tasks prolongs a wait of that thread only while a body is computing on the thread. If such a body
    /// itself waits, it is left suspended, and continues when the same thread waits again or ends. The body runs on a
    /// stack of [`stack_bytes`](Self::stack_bytes). If another thread waits in the meantime, it executes the tasks of
    /// unit 0 instead, and does not return from its wait before the bodies that it has begun have ended.
    pub fn use_current_thread(mut self, yes: bool) -> Self {
        self.use_current_thread = yes;
        self
    }

    /// Sets whether the units' threads are bound to their cores. A bound thread may run on all cores of its unit, and
    /// so may the threads that a body starts. A thread that hosts a unit because of
    /// [`use_current_thread`](Self::use_current_thread) is never bound.
    ///
    /// | the first of these that is set | threads are bound |
    /// | --- | --- |
    /// | `pin_threads(yes)` | if `yes` |
    /// | [`places`](Self::places) | always |
    /// | the variable `OMP_PROC_BIND` | unless it is `false` |
    /// | the variable `OMP_PLACES` | always |
    /// | none of them | if the units use each core of the process once, and no other runtime has bound threads to one of them |
    ///
    /// "Other runtimes" means runtimes of this process and, on Linux, of other processes. If this runtime still shares
    /// cores with another one, there is a [warning](crate::machine::Machine::warnings); the first such warning is also written to
    /// standard error.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").pin_threads(false).build()?; // the system places it
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn pin_threads(mut self, yes: bool) -> Self {
        self.pin_threads = Some(yes);
        self
    }

    /// Sets the size in bytes of the stacks that bodies run on. The stack of a thread that hosts a unit because of
    /// [`use_current_thread`](Self::use_current_thread) does not change. The default is 8 MiB, or the value of the
    /// environment variable `RUST_MIN_STACK` if that is larger. The minimum is 64 KiB; with a smaller size, building
    /// the runtime fails.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").stack_bytes(64 << 20).build()?;
    /// let body = |_: &thalweg::Context, ()| assert_eq!(std::hint::black_box(&[0u8; 16 << 20])[99], 0);
    /// rt.task("deep", ()).cpu(body).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn stack_bytes(mut self, bytes: usize) -> Self {
        self.stack_bytes = Some(bytes);
        self
    }

    /// Sets how many tasks may be pending before a submission waits until half of them have finished. A submitter that
    /// hosts a unit executes pending tasks while it waits. The default is 512 per unit and at least 1024, which is
    /// enough for the scheduler to look ahead and small enough for the caches. Submissions inside bodies do not wait.
    ///
    /// A body that such a submitter executes must not wait for anything that the same thread does after the submission,
    /// because it would wait forever. A program with such bodies needs a window large enough for all tasks that it
    /// submits before the awaited action, or a submitter that hosts no unit.
    ///
    /// This is not a hard limit, because a thread checks it only at least once every 32 submissions. If nothing
    /// finishes because every task waits for tasks that are yet to be submitted, the submission stops waiting after a
    /// while: after four times the recent duration of a task, and at least 50 ms while a body computes. If the body
    /// sleeps, it may be waiting for the submitter, so the submission waits only half as long.
    pub fn max_pending_tasks(mut self, tasks: usize) -> Self {
        self.window = Some(tasks);
        self
    }

    /// Sets how long no task may finish before the waiting threads report what the units are doing. Each stall is
    /// reported once; the next report requires that a task has finished since. The default is 30 seconds; `None` turns
    /// reports off. Reports go to the log, and either to standard error or to [`on_stall`](Self::on_stall).
    ///
    /// A body that blocks on something only another task can provide occupies its unit, so the program may deadlock. A
    /// body that joins a thread which is itself waiting for the runtime can deadlock in the same way. Without reports,
    /// such a program would hang silently.
    pub fn report_stalls_after(mut self, time: impl Into<Option<Duration>>) -> Self {
        self.report_stalls_after = time.into();
        self
    }

    /// Passes stall reports to `tell` instead of writing them to standard error. A thread that is waiting for the
    /// runtime makes the call, so `tell` must not wait for the runtime.
    ///
    /// ```
    /// use std::{sync::mpsc::channel, time::Duration};
    /// use thalweg::prelude::*;
    ///
    /// let (report, reports) = channel();
    /// let (open, opened) = channel::<()>();
    /// let builder = Runtime::builder().compute_units("1:CPU:1").report_stalls_after(Duration::from_millis(10));
    /// let rt = builder.on_stall(move |stall| report.send(stall.to_string()).unwrap()).build()?;
    /// rt.task("patient", ()).cpu(move |_, ()| opened.recv().unwrap()).submit()?;
    /// std::thread::spawn(move || {
    ///     let report = reports.recv().unwrap();
    ///     assert!(report.contains("`patient`, submitted at "), "{report}");
    ///     open.send(()).unwrap();
    /// });
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_stall(mut self, tell: impl Fn(&Stall) + Send + Sync + 'static) -> Self {
        self.on_stall = Some(Box::new(tell));
        self
    }

    /// Calls `tell` once for each task that itself fails, but not for tasks that are skipped because of that failure or
    /// for cancelled tasks. The thread that ends the task makes the call and holds no lock; a panic in `tell` is caught
    /// and does no harm. Waiting calls report failures as usual, but unreported failures are not written to stderr at
    /// the end.
    ///
    /// ```
    /// use std::sync::mpsc::channel;
    /// use thalweg::prelude::*;
    /// let (failed, failures) = channel();
    /// let tell = move |failure: &thalweg::error::TaskFailure| _ = failed.send(failure.to_string());
    /// let rt = Runtime::builder().compute_units("1:CPU:1").on_failure(tell).build()?;
    /// rt.task("fails", ()).cpu(|_, ()| Err("no")).submit()?;
    /// rt.wait().unwrap_err();
    /// assert!(failures.recv()?.contains("`fails`"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn on_failure(mut self, tell: impl Fn(&crate::error::TaskFailure) + Send + Sync + 'static) -> Self {
        self.on_failure = Some(Box::new(tell));
        self
    }

    /// Limits the bytes of each device's memory that are used for replicas of data. The default is all of the device's
    /// memory except a reserve for scratch memory and other uses.
    pub fn device_memory_bytes(mut self, bytes: u64) -> Self {
        self.device_memory_bytes = bytes;
        self
    }

    /// Sets the power draw of a core or device of this kind. From the power and the busy time of the units, the runtime
    /// computes the energy in [`Runtime::statistics`] and in the profiles of the `fpm` scheduler. In a simulation, this
    /// value overrides the figures in the machine file.
    ///
    /// ```
    /// use thalweg::energy::Power;
    /// use thalweg::prelude::*;
    /// let (core, device) = (Power { idle_w: 0.5, busy_w: 4.0 }, Power { idle_w: 20.0, busy_w: 150.0 });
    /// let rt = Runtime::builder()
    ///     .compute_units("1:CPU:1,1:EMU:1")
    ///     .power(UnitKind::Cpu, core)
    ///     .power(UnitKind::Emulated, device)
    ///     .scheduler("fpm:objective=energy")
    ///     .build()?;
    /// assert_eq!(rt.statistics().energy.len(), 2);
    ///
    /// let odd = Power { idle_w: 9.0, busy_w: 4.0 };
    /// let error = Runtime::builder().power(UnitKind::Cpu, odd).build().unwrap_err();
    /// assert!(error.to_string().contains("CPU units use 9 W idle and 4 W busy"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn power(mut self, kind: UnitKind, power: Power) -> Self {
        self.powers.push((kind, power));
        self
    }

    /// Adds an energy meter for [`Runtime::statistics`]. It is read when the runtime is built and at each call of that
    /// method. `static_w` is the idle power that the meter shows, in watts; if it is `None`, the dynamic energy is
    /// unknown.
    ///
    /// If a meter can no longer be read, the runtime logs that, and reports its energy as unknown from then on.
    ///
    /// ```
    /// use thalweg::energy::FileMeter;
    /// use thalweg::prelude::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("wall.log");
    /// std::fs::write(&path, "1000.0")?;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").energy_meter(FileMeter::new(&path), None).build()?;
    /// std::fs::write(&path, "1250.0")?;
    /// assert_eq!(rt.statistics().energy[0].total_j, Some(250.0));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn energy_meter(mut self, meter: impl EnergyMeter + 'static, static_w: impl Into<Option<f64>>) -> Self {
        self.meters.push((Box::new(meter), static_w.into()));
        self
    }

    /// Sets whether to search for energy meters of this machine: meters of its processors
    /// ([`energy::meters`](crate::energy::meters)), and of the GPUs that belong to units (through NVML or ROCm SMI). If
    /// no meter can be read, there is a [warning](crate::machine::Machine::warnings).
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").find_energy_meters(true).build()?;
    /// assert!(!rt.statistics().energy.is_empty() || rt.machine().warnings()[0].to_string().starts_with("no energy meter"));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn find_energy_meters(mut self, yes: bool) -> Self {
        self.find_meters = yes;
        self
    }

    /// Records all tasks and dependences for [`Runtime::graph`]. Memory use grows with every task.
    #[cfg(feature = "graph")]
    pub fn record_graph(mut self, yes: bool) -> Self {
        self.record_graph = yes;
        self
    }

    /// Writes a trace of the run to a file. The trace contains tasks with their source locations, dependences, where
    /// and when each task ran, copies, and what units did between tasks. To view it, use `thalweg trace FILE` (crate
    /// `thalweg-cli`).
    ///
    /// The file is created when the runtime is built, and is complete once the runtime is dropped. If the program is
    /// killed, the last quarter of a second is missing. Without a call, the environment variable `THALWEG_TRACE` names
    /// the file; each further runtime in the process then writes a separate file whose name ends with the runtime's
    /// number, as in `run-2.thw`.
    ///
    /// While a trace is being written, each replay of a recording submits its tasks individually instead of replaying
    /// the recording as a whole.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// # let folder = tempfile::tempdir()?;
    /// # let path = folder.path().join("run.thw");
    /// let rt = Runtime::builder().compute_units("1:CPU:1").trace(&path).build()?;
    /// let x = rt.data(vec![1.0; 100]).named("x");
    /// rt.task("double", (x.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0)).submit()?;
    /// drop((x, rt));
    /// assert!(std::fs::metadata(&path)?.len() > 100);
    ///
    /// let error = Runtime::builder().compute_units("1:CPU:1").trace("no/such/folder/run.thw").build().unwrap_err();
    /// assert!(error.to_string().starts_with("trace: cannot create no/such/folder/run.thw: "));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn trace(mut self, path: impl Into<PathBuf>) -> Self {
        self.trace = Some(crate::trace::Order { path: path.into(), ..Default::default() });
        self
    }

    /// Like [`trace`](Self::trace), but keeps only the most recent records in memory, those of the last `latest` of the
    /// run, and writes them when the runtime is dropped. It is meant for programs that run for days.
    pub fn trace_latest(mut self, path: impl Into<PathBuf>, latest: Duration) -> Self {
        self.trace = Some(crate::trace::Order { path: path.into(), latest: Some(latest), ..Default::default() });
        self
    }

    /// Also records the regions and modes of task accesses in the trace, at 8 bytes per access. `thalweg sim` needs
    /// these records. The environment variable `THALWEG_TRACE_ACCESSES=1` does the same.
    pub fn trace_accesses(mut self, yes: bool) -> Self {
        self.trace_accesses = yes;
        self
    }

    /// Sets whether, on SIGUSR1, the runtime writes to standard error what its tasks are doing and what they are
    /// waiting for ([`Runtime::explain`]). Without a call, the environment variable `THALWEG_EXPLAIN` decides: 1
    /// means yes.
    ///
    /// A dedicated thread waits for the signal. It also samples the running tasks a few times a second, so that
    /// explanations can say how long each task has been running. Once the first such runtime is built, the signal no
    /// longer terminates the process. Handlers that the program installs with the crate `signal-hook` are called as
    /// well.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").explain_on_signal(true).build()?;
    /// // `kill -USR1` now writes, for instance: thalweg: runtime 1: 0 tasks are pending
    /// # drop(rt);
    /// # Ok::<(), BuildError>(())
    /// ```
    #[cfg(all(unix, feature = "signals"))]
    pub fn explain_on_signal(mut self, yes: bool) -> Self {
        self.explain_on_signal = Some(yes);
        self
    }

    /// Sets whether progress is displayed on standard error while the runtime exists.
    ///
    /// On a terminal, the display has a progress bar that shows how many of the tasks submitted so far have finished
    /// and how long the rest will take; a line for each unit, with its tasks and how busy it was in the last second;
    /// and a line for each pair of memories between which data are copied, with the bytes per second. The bars appear
    /// once tasks have been pending for half a second, and disappear when a wait finds that nothing is pending, so a
    /// program can print its results after [`Runtime::wait`]. To print while tasks are pending, use
    /// [`Runtime::without_progress`]. If standard error is not a terminal, a line with the same figures is written
    /// every few seconds.
    ///
    /// A separate thread reads counters that the runtime maintains anyway, so the display adds no cost to tasks.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").progress(true).build()?;
    /// rt.task("quick", ()).cpu(|_, ()| ()).submit()?;
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[cfg(feature = "progress")]
    pub fn progress(mut self, yes: bool) -> Self {
        self.progress = yes;
        self
    }

    /// Sets whether to check running tasks for conflicts
    /// ([`Statistics::conflicts`](crate::Statistics::conflicts)). This mode is meant for tests.
    pub fn detect_conflicts(mut self, yes: bool) -> Self {
        self.detect_conflicts = yes;
        self
    }

    /// Sets the behavior of each emulated device: `device` is called with the device's index. The default is
    /// [`EmulatedDevice::new`] for all devices.
    pub fn emulated_devices(mut self, device: impl Fn(usize) -> EmulatedDevice + 'static) -> Self {
        self.emulated = Box::new(device);
        self
    }

    /// Runs the program on a simulated machine: nothing is computed and nothing takes real time, but tasks are placed
    /// and data moved as on the real machine, on a virtual clock ([`Runtime::now`]).
    ///
    /// Bodies are dropped instead of run. Data objects made with [`Runtime::zeros`] have no memory; others keep the
    /// values that they were registered with. Virtual time passes only while the program waits, or has submitted more
    /// tasks than the window holds. With a single submitting thread, all times are the same in every run, to the
    /// nanosecond. The units can be of any kind that the machine has; the default is the whole machine. Thread pinning
    /// and [`use_current_thread`](Self::use_current_thread) have no effect.
    #[cfg(feature = "sim")]
    pub fn simulate(mut self, machine: crate::SimulatedMachine) -> Self {
        self.simulated = Some(machine);
        self
    }
}
