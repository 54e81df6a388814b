//! Traces: low-overhead records of what a runtime did, made while it runs, for trace viewers and analysis tools.
//!
//! A [`Tracer`] takes events from all threads of one runtime. Each thread appends binary records
//! ([`thalweg_trace::record`]) to its own chunk ([`lane`]). The tracer's own thread writes the records to the file
//! ([`writer`]) four times a second, so a program that is killed loses at most a quarter of a second. The name of each
//! task and data object is written only once ([`names`]).
//!
//! A thread that records an event never waits for the file. It waits for another thread only during the few
//! instructions in which the tracer's thread reads the list of its chunks. This module does not know what a task is.
//!
//! Without a trace, the rest of the library pays for one test of an empty option per event.

mod clock;
mod lane;
mod names;
mod writer;

use crate::ids::{DataId, DeviceId, SpaceId, TaskId, UnitId};
use crate::region::Block;
use crate::sync::CallSite;
use clock::Clock;
#[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
pub(crate) use clock::HostClock;
use lane::Local;
use names::Names;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::borrow::Cow;
use std::cell::RefCell;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
pub(crate) use thalweg_trace::frame::BorderPart;
use thalweg_trace::frame::{RecordedDependence, Recording};
use thalweg_trace::record::{self, NO_POLICY, NO_TASK, NO_UNIT, UNKNOWN, first, long, of_unit};
pub(crate) use thalweg_trace::record::{Between, Dropped, End, GateRole, Happened, Mode, Stage, Why};
use writer::Writer;

/// Environment variable that names the trace file.
pub(crate) const VARIABLE: &str = "THALWEG_TRACE";

/// Configuration of a trace.
#[derive(Debug, Clone, Default)]
pub(crate) struct Order {
    pub(crate) path: PathBuf,
    /// If set, only the records of this most recent period are kept.
    pub(crate) latest: Option<Duration>,
    /// Whether to record the accesses of tasks too.
    pub(crate) accesses: bool,
}

/// Receives the events of one runtime; see the module documentation.
pub(crate) struct Tracer {
    /// Process-wide unique ID of this tracer.
    number: u64,
    clock: Clock,
    names: Arc<Names>,
    writer: Writer,
    accesses: bool,
}

static NEXT_TRACER: AtomicU64 = AtomicU64::new(0);

/// A thread's chunks, one for each tracer for which the thread has recorded something.
struct Locals {
    latest: Option<Local>,
    others: Vec<Local>,
}

thread_local! {
    static LOCALS: RefCell<Locals> = const { RefCell::new(Locals { latest: None, others: Vec::new() }) };
}

/// Returns the text as a value of a fact, which ends with its line.
pub(crate) fn fact(text: &str) -> String {
    text.replace(['\n', '\t'], " ")
}

impl Tracer {
    /// Creates the file and starts tracing. `facts` consists of lines `key TAB value` about the run.
    ///
    /// # Errors
    /// Fails if the file cannot be created or the system cannot start a thread.
    pub(crate) fn start(order: Order, facts: &str, is_virtual: bool) -> std::io::Result<Arc<Self>> {
        let clock = Clock::start(is_virtual);
        let names = Arc::new(Names::default());
        let facts = format!("{facts}ticks_per_ns\t{}\nsimulated\t{is_virtual}\n", clock.ticks_per_ns());
        let accesses = order.accesses;
        let writer = Writer::start(order, names.clone(), &facts)?;
        let number = NEXT_TRACER.fetch_add(1, Ordering::Relaxed);
        Ok(Arc::new(Self { number, clock, names, writer, accesses }))
    }

    /// Returns the number of ticks since the trace began.
    #[inline]
    pub(crate) fn now(&self) -> u64 {
        self.clock.now()
    }

    /// Returns a function that returns the nanoseconds since the trace began; `None` in a simulation.
    pub(crate) fn clock(&self) -> Option<impl Fn() -> u64 + Send + use<>> {
        self.clock.reader()
    }

    /// Returns the trace time of the moment `ns` nanoseconds after the runtime was built.
    pub(crate) fn at_ns(&self, ns: u64) -> u64 {
        self.clock.at_ns(ns)
    }

    /// Returns the trace time of a time of [`HostClock`].
    pub(crate) fn at_host(&self, ns: u64) -> u64 {
        self.clock.at_host(ns)
    }

    /// Converts `ns` nanoseconds to ticks.
    pub(crate) fn ticks(&self, ns: u64) -> u64 {
        self.clock.ticks(ns)
    }

    /// Notes that the runtime's clock now shows `ns` nanoseconds.
    pub(crate) fn set_clock(&self, ns: u64) {
        self.clock.set(ns);
    }

    /// Appends a record; `time` is written relative to the thread's base.
    #[inline]
    fn push<const N: usize>(&self, time: u64, record: impl FnOnce(&mut Local, u32) -> [u64; N]) {
        self.with_local(|local| {
            let relative = local.begin(N, &self.writer, time);
            let words = record(local, relative);
            local.store(words);
        });
    }

    #[inline(always)] // on the path of every traced task
    fn with_local(&self, record: impl FnOnce(&mut Local)) {
        // A thread that is exiting no longer records anything.
        let _ = LOCALS.try_with(|locals| {
            let Ok(mut locals) = locals.try_borrow_mut() else { return };
            if locals.latest.as_ref().is_none_or(|local| local.tracer != self.number) {
                self.enter(&mut locals);
            }
            if let Some(local) = &mut locals.latest {
                record(local);
            }
        });
    }

    /// Makes this thread's chunks for this tracer the latest. Drops its chunks of tracers that have ended.
    #[cold]
    fn enter(&self, locals: &mut Locals) {
        locals.others.extend(locals.latest.take());
        locals.others.retain(|local| !local.is_abandoned());
        let known = locals.others.iter().position(|local| local.tracer == self.number);
        let local = known.map(|at| locals.others.swap_remove(at));
        locals.latest = Some(local.unwrap_or_else(|| Local::new(self.number, &self.writer)));
    }

    /// Records that a task was submitted, possibly in the body of its parent.
    #[allow(clippy::ptr_arg)] // a borrowed name is recognised by its address
    #[inline]
    pub(crate) fn submitted(&self, task: TaskId, name: &Cow<'static, str>, location: CallSite, parent: Option<TaskId>) {
        self.with_local(|local| {
            let site = local.site(name, location, &self.names);
            let time = local.begin(3, &self.writer, self.now());
            match local.submit(task) {
                true => local.store([first(record::NEXT, site, time)]),
                false => local.store([first(record::SUBMITTED, site, time), task.0]),
            }
            if let Some(parent) = parent {
                local.store([long(record::PARENT, parent.0)]);
            }
        });
    }

    /// Returns whether [`access`](Self::access) has to be called for each access of a submitted task.
    pub(crate) fn wants_accesses(&self) -> bool {
        self.accesses
    }

    /// Records that a task accesses a region. `describe` returns the region's size in bytes and its ranges as text.
    pub(crate) fn access(
        &self,
        task: TaskId,
        (data, known): (DataId, &dyn Describe),
        block: &Block,
        mode: Mode,
        describe: impl FnOnce() -> (u64, String),
    ) {
        self.know(data, known);
        self.with_local(|local| {
            let region = local.region(data, block, &self.names, describe);
            local.begin(2, &self.writer, local.last_time());
            local.speak_of(task);
            local.store([first(record::ACCESS, region, mode as u32)]);
        });
    }

    /// Records that a task or join depends on another one, possibly because of a data object.
    #[inline]
    pub(crate) fn dependence(
        &self,
        from: TaskId,
        to: TaskId,
        carries_value: bool,
        data: Option<(DataId, &dyn Describe)>,
    ) {
        self.with_local(|local| {
            let small = match data {
                Some((data, describe)) if data.0 < u64::from(UNKNOWN) => {
                    local.know_data(data, || self.names.add_data(data, describe));
                    data.0 as u32
                }
                _ => UNKNOWN,
            };
            local.begin(3, &self.writer, local.last_time());
            let [from, to] = [from, to].map(number_of);
            local.speak_of(to);
            match (u32::try_from(to.0.wrapping_sub(from.0)), record::node(from.0, carries_value)) {
                (Ok(distance), _) => {
                    let kind = if carries_value { record::VALUE } else { record::ORDER };
                    local.store([first(kind, small, distance)]);
                }
                (Err(_), Some(node)) => local.store([first(record::NODE, small, node)]),
                (Err(_), None) => local.store([first(record::FAR, small, carries_value.into()), from.0]),
            }
        });
    }

    /// Records that a body which began at time `since` has returned without an error on a unit without devices.
    #[inline]
    pub(crate) fn done(&self, task: TaskId, unit: UnitId, since: u64) {
        let now = self.now();
        let duration = now.saturating_sub(since);
        if !record::fits_done(task.0, duration) {
            return self.ran(task, Some(unit), None, (now, duration), End::Done);
        }
        self.push(now, |_, time| {
            [first(record::DONE, of_unit(unit.0.into(), End::Done as u8), time), record::done(task.0, duration)]
        });
    }

    /// Records that a body ended at time `ended` after running for `duration`, both in ticks.
    pub(crate) fn ran(
        &self,
        task: TaskId,
        unit: Option<UnitId>,
        device: Option<DeviceId>,
        (ended, duration): (u64, u64),
        end: End,
    ) {
        self.ran_in(task, unit, (device, None), (ended, duration), end);
    }

    /// Like [`Self::ran`], for a body on a device that may have streams.
    pub(crate) fn ran_in(
        &self,
        task: TaskId,
        unit: Option<UnitId>,
        (device, stream): (Option<DeviceId>, Option<u16>),
        (ended, duration): (u64, u64),
        end: End,
    ) {
        let small = of_unit(number(unit), end as u8);
        let device = device.map_or(0, |device| u64::from(device.0) + 1) << 48;
        let took = duration.min((1 << 48) - 1) | device;
        match stream {
            None => self.push(ended, |_, time| [first(record::RAN, small, time), task.0, took]),
            Some(stream) => {
                self.push(ended, |_, time| [first(record::RAN_IN_STREAM, small, time), task.0, took, stream.into()])
            }
        }
    }

    /// Appends a record about a task, with the present time.
    fn push_about<const N: usize>(&self, task: TaskId, record: impl FnOnce(u32) -> [u64; N]) {
        self.with_local(|local| {
            let time = local.begin(N + 1, &self.writer, self.now());
            local.speak_of(task);
            local.store(record(time));
        });
    }

    /// Records that a placed task has reached a stage.
    pub(crate) fn stage(&self, task: TaskId, stage: Stage) {
        self.push_about(task, |time| [first(record::STAGE, stage as u32, time)]);
    }

    /// Records that a unit was chosen for a task: by a policy, which expects the task's body to take some time and to
    /// end some time after the decision (in nanoseconds), or for want of another unit.
    pub(crate) fn placed(&self, task: TaskId, unit: UnitId, by: Option<(&'static str, [Option<f64>; 2])>) {
        let policy = by.map_or(NO_POLICY, |(policy, _)| self.names.policy(policy));
        let small = of_unit(unit.0.into(), policy);
        match by.map_or([None; 2], |(_, expected)| expected) {
            [None, None] => self.push_about(task, |time| [first(record::PLACED, small, time)]),
            expected => self.push_about(task, |time| {
                let [body, end] = expected.map(|ns| ns.map_or(f32::NAN, |ns| ns as f32));
                [first(record::ESTIMATED, small, time), record::estimate(body, end)]
            }),
        }
    }

    /// Records that a replica was dropped.
    pub(crate) fn dropped(&self, data: DataId, space: SpaceId, bytes: u64, why: Dropped) {
        let small = u32::from(space.0) | (why as u32) << 16;
        self.push(self.now(), |_, time| [first(record::DROPPED, small, time), bytes, data.0]);
    }

    /// Records that something happened to a task.
    pub(crate) fn note(&self, task: TaskId, what: Happened) {
        self.push(self.now(), |_, time| [first(record::NOTE, what as u32, time), task.0]);
    }

    /// Records that a thread, which may lead a unit, was in a state between two times.
    pub(crate) fn state(&self, unit: Option<UnitId>, what: Between, (from, to): (u64, u64)) {
        self.push(to, |_, time| {
            [first(record::STATE, of_unit(number(unit), what as u8), time), to.saturating_sub(from)]
        });
    }

    /// Records that a replay of a recording was submitted at a time, possibly directly after the replay before. The
    /// arguments are the first tasks of both.
    pub(crate) fn replayed(&self, recording: TaskId, replay: TaskId, follows: bool, at: u64) {
        self.push(at, |_, time| [first(record::REPLAYED, follows.into(), time), recording.0, replay.0]);
    }

    /// Records that a join stands for the tasks that use a part of a recording's border, in consecutive replays of
    /// which `replay` is one.
    pub(crate) fn gate(&self, join: TaskId, (recording, replay): (TaskId, TaskId), part: usize, role: GateRole) {
        self.push(self.now(), |_, time| {
            [first(record::GATE, role as u32, time), number_of(join).0, recording.0, replay.0, part as u64]
        });
    }

    /// Records that a replay has begun.
    pub(crate) fn begun(&self, recording: TaskId, replay: TaskId) {
        self.push(self.now(), |_, time| [first(record::BEGUN, 0, time), recording.0, replay.0]);
    }

    /// Records that a copy of `bytes` bytes was ordered, began and ended at these times, possibly in a stream of its
    /// device. `task` is the task that waited for the copy.
    pub(crate) fn copied(
        &self,
        data: DataId,
        (from, to): (SpaceId, SpaceId),
        bytes: u64,
        ([ordered, began, ended], stream): ([u64; 3], Option<u16>),
        (task, why): (Option<TaskId>, Why),
    ) {
        let elapsed = ended.saturating_sub(ordered);
        let waited = began.saturating_sub(ordered).min(u64::from(u32::MAX));
        self.push(ended, |_, time| {
            let between = u64::from(from.0) << 32 | u64::from(to.0) << 48;
            let task = task.map_or(NO_TASK, |task| task.0);
            let stream = stream.map_or(0, |stream| u32::from(stream) + 1);
            [first(record::COPY, of_unit(stream, why as u8), time), elapsed, waited | between, bytes, data.0, task]
        });
    }

    /// Writes the name of a data object to which copies may refer.
    pub(crate) fn know(&self, data: DataId, describe: &dyn Describe) {
        self.with_local(|local| local.know_data(data, || self.names.add_data(data, describe)));
    }

    /// Records that `bytes` bytes are now in use in a space.
    pub(crate) fn memory(&self, space: SpaceId, bytes: u64) {
        self.push(self.now(), |_, time| [first(record::MEMORY, space.0.into(), time), bytes]);
    }

    /// Records that a work distribution has decided on an instance of an iteration space: the state of its search, and
    /// the number of indices that CPU units get.
    pub(crate) fn decided(&self, space: u64, instance: u64, state: u8, pivot: usize) {
        self.push(self.now(), |local, time| {
            let site = local.find_site(&format!("space {space}"), CallSite::caller(), &self.names);
            let pivot = u32::try_from(pivot).unwrap_or(u32::MAX);
            [first(record::DECISION, site, time), instance, u64::from(state) | u64::from(pivot) << 8]
        });
    }

    /// Writes the remaining records and closes the trace. Later events are dropped.
    pub(crate) fn end(&self) {
        self.writer.end(self.now(), self.clock.ticks_per_ns());
    }
}

/// A recording whose tasks are being recorded. It is written when this is dropped.
pub(crate) struct InRecording {
    tracer: Arc<Tracer>,
    recording: Mutex<Recording>,
    /// For each join, the tasks that it stands for, and whether it passes on their values.
    joins: Mutex<FxHashMap<TaskId, Vec<(TaskId, bool)>>>,
}

impl InRecording {
    /// Begins a recording with this first task.
    pub(crate) fn begin(tracer: Arc<Tracer>, first: TaskId) -> Self {
        let recording = Mutex::new(Recording { first: first.0, ..Recording::default() });
        Self { tracer, recording, joins: Mutex::default() }
    }

    /// Adds the next task.
    #[allow(clippy::ptr_arg)] // a borrowed name is recognised by its address
    pub(crate) fn task(&self, name: &Cow<'static, str>, location: CallSite) {
        let Tracer { names, .. } = &*self.tracer;
        self.tracer.with_local(|local| self.recording.lock().sites.push(local.site(name, location, names)));
    }

    /// Adds a dependence between two of the tasks or their joins.
    pub(crate) fn dependence(
        &self,
        from: TaskId,
        to: TaskId,
        carries_value: bool,
        data: Option<(DataId, &dyn Describe)>,
    ) {
        let joins = &mut *self.joins.lock();
        let stands_for = joins.get(&from).cloned().unwrap_or_else(|| vec![(from, true)]);
        if to.0 >= TaskId::FIRST_INTERNAL {
            let passed = stands_for.into_iter().map(|(task, value)| (task, value && carries_value));
            return joins.entry(to).or_default().extend(passed);
        }
        let recording = &mut *self.recording.lock();
        let data = data.filter(|(data, _)| data.0 < u64::from(UNKNOWN)).map_or(UNKNOWN, |(data, describe)| {
            self.tracer.know(data, describe);
            data.0 as u32
        });
        recording.dependences.extend(stands_for.into_iter().map(|(from, value)| {
            let [from, to] = [from, to].map(|task| (task.0 - recording.first) as u32);
            RecordedDependence { from, to, data, carries_value: carries_value && value }
        }));
    }

    /// Adds the parts of the recording's border.
    pub(crate) fn border<'a>(&self, border: impl Iterator<Item = (BorderPart, (DataId, &'a dyn Describe))>) {
        let known = |(part, (data, describe)): (BorderPart, (DataId, &dyn Describe))| {
            self.tracer.know(data, describe);
            BorderPart { data: u32::try_from(data.0).unwrap_or(UNKNOWN).min(UNKNOWN), ..part }
        };
        self.recording.lock().border = border.map(known).collect();
    }

    /// Adds an access of the task that was added last.
    pub(crate) fn access(
        &self,
        (data, known): (DataId, &dyn Describe),
        block: &Block,
        mode: Mode,
        describe: impl FnOnce() -> (u64, String),
    ) {
        self.tracer.know(data, known);
        let Tracer { names, .. } = &*self.tracer;
        self.tracer.with_local(|local| {
            let recording = &mut *self.recording.lock();
            let task = recording.sites.len().saturating_sub(1) as u32;
            recording.accesses.push([task, local.region(data, block, names, describe), mode as u32]);
        });
    }
}

impl Drop for InRecording {
    fn drop(&mut self) {
        self.tracer.names.add_recording(self.recording.get_mut());
    }
}

/// Guard for a thread state that lasts until the guard is dropped.
pub(crate) struct InState {
    pub(crate) tracer: Arc<Tracer>,
    pub(crate) unit: Option<UnitId>,
    pub(crate) what: Between,
    pub(crate) since: u64,
}

impl Drop for InState {
    fn drop(&mut self) {
        self.tracer.state(self.unit, self.what, (self.since, self.tracer.now()));
    }
}

/// Name and size of a data object.
pub(crate) trait Describe {
    fn describe(&self) -> (String, u64);
}

/// Returns the number by which a trace refers to a task or a join.
fn number_of(task: TaskId) -> TaskId {
    TaskId(task.0.checked_sub(TaskId::FIRST_INTERNAL).map_or(task.0, |join| record::FIRST_JOIN + join))
}

fn number(unit: Option<UnitId>) -> u32 {
    unit.map_or(NO_UNIT, |unit| unit.0.into())
}
