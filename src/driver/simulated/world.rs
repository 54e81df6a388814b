//! The simulated world: a virtual clock, units and links, and the tasks and copies under way on them.
//!
//! Time advances only when [`World::next`] is called. The model is as follows: a unit runs its tasks one at a time in
//! the order in which it received them. A task's time depends on the machine file, the task's cost or bytes, the
//! unit's cores and its speed at the time, the load ([`super::progress`]) and seeded noise. Copies queue on links
//! ([`super::links`]). The runtime's own time, the combining of reductions, and a hosting core's work for its device
//! are not modelled.
//!
//! Invariants:
//! 1. Time never goes backwards, and ties are resolved by the order in which events began. So for one seed and one
//!    submitting thread, the result is always the same, to the nanosecond.
//! 2. Policies learn only from samples of tasks that have run. No other module reads the figures of the machine file.

use super::links::{Leg, Links};
use super::progress::{ClassId, Progress};
use crate::coherence::CopyId;
use crate::depend::{Kinds, OwnedTask};
use crate::engine::{CopyOrder, CopyTime, Event, Launch, Nanos, Outcome, Span};
use crate::ids::UnitId;
use crate::machine::{ComputeUnit, Machine, UnitKind};
use crate::sim::{SimulatedMachine, SpeedChange, Times, Work};
use rustc_hash::FxHashMap;
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};

/// Number of unit kinds.
const KINDS: usize = UnitKind::ALL.len();

/// State of a simulated machine at some moment.
pub(super) struct World {
    model: SimulatedMachine,
    /// The groups of tasks by machine-file entry, and the index of the group for each task name.
    tasks: Vec<Entry>,
    named: FxHashMap<String, usize>,
    now: Nanos,
    units: Vec<Unit>,
    progress: Progress,
    links: Links,
    copies: BinaryHeap<Reverse<Arrival>>,
    sent: u64,
    /// Number of speed changes that have happened.
    changed: usize,
}

/// The tasks that share one entry of the machine file.
struct Entry {
    /// Index of the entry; `None` if the machine file does not name these tasks.
    entry: Option<usize>,
    /// The unit kinds for which the machine file specifies a time.
    timed: Kinds,
    /// For each unit kind that has run one of these tasks, the class that models their progress on that kind.
    classes: [Option<ClassId>; KINDS],
    /// The classes on units whose speed changes.
    own_classes: FxHashMap<usize, ClassId>,
}

struct Unit {
    id: UnitId,
    kind: UnitKind,
    /// Number of the unit among those of its kind.
    number: usize,
    /// Number of the unit's cores, or 1 for a device.
    load: f64,
    cores: usize,
    launch_ns: f64,
    /// Relative to the machine's figures; `None` if it never changes.
    speed: Option<f64>,
    inbox: VecDeque<Timed>,
    running: Option<(OwnedTask, Nanos)>,
}

/// A task with the time that it would take if no other unit were busy.
struct Timed {
    task: OwnedTask,
    class: ClassId,
    work_ns: f64,
}

/// A copy that comes to its next lane, or arrives. Copies are ordered by that time, then by the order in which they
/// were sent.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Arrival {
    at: Nanos,
    sent: u64,
    copy: CopyId,
    bytes: u64,
    /// Time at which the copy was ordered.
    since: Nanos,
    /// Total past and future time that the copy spends waiting for links.
    waited: Nanos,
    /// The leg, the number of its lanes that the copy has passed or begun, and when the last of these has carried it.
    leg: Leg,
    lane: usize,
    carried: Nanos,
    /// Second leg of the copy's route, if it has one.
    then: Option<Leg>,
}

impl Arrival {
    /// Returns the time that the copy has taken until now.
    fn time(&self, now: Nanos) -> CopyTime {
        CopyTime { elapsed_ns: now - self.since, waited_ns: self.waited, on_device: None, stream: None }
    }
}

impl World {
    /// Creates a world of `model` with the units of `machine`, all of which `model` must contain.
    pub(super) fn new(model: SimulatedMachine, machine: &Machine) -> Self {
        let mut counts = [0; KINDS];
        let unit = |unit: &ComputeUnit| {
            let load = if unit.is_cpu() { unit.inner_cores() as f64 } else { 1.0 };
            let (id, kind, cores) = (unit.id, unit.kind, unit.inner_cores());
            let launch_ns = model.units(kind).map_or(0.0, |units| units.launch_ns);
            let number = counts[kind as usize];
            counts[kind as usize] += 1;
            let speed = model.speeds().iter().any(|change| change.affects(kind, number)).then_some(1.0);
            Unit { id, kind, number, load, cores, launch_ns, speed, inbox: VecDeque::new(), running: None }
        };
        Self {
            tasks: Vec::new(),
            named: FxHashMap::default(),
            now: 0,
            units: machine.units().iter().map(unit).collect(),
            progress: Progress::new(KINDS),
            links: Links::new(&model, machine),
            copies: BinaryHeap::new(),
            sent: 0,
            changed: 0,
            model,
        }
    }

    /// Returns the virtual time.
    pub(super) fn now(&self) -> Nanos {
        self.now
    }

    /// Returns the unit kinds that can run a task with this name and these bodies. With a `portable` body, these are
    /// all kinds for which the machine file specifies a time.
    pub(super) fn kinds(&mut self, name: &str, bodies: Kinds, portable: bool) -> Kinds {
        let at = self.named(name);
        let timed = self.tasks[at].timed;
        let runs = |kind: &UnitKind| (bodies.has(*kind) || portable && kind.is_device()) && timed.has(*kind);
        UnitKind::ALL.into_iter().filter(runs).fold(Kinds::NONE, Kinds::with)
    }

    /// Returns the index in `tasks` for a task name.
    fn named(&mut self, name: &str) -> usize {
        if let Some(at) = self.named.get(name) {
            return *at;
        }
        let entry = self.model.entry(name);
        let at = self.tasks.iter().position(|known| known.entry == entry).unwrap_or_else(|| {
            let is_timed = |kind: &UnitKind| self.model.times(entry, *kind).is_some();
            let timed = UnitKind::ALL.into_iter().filter(is_timed).fold(Kinds::NONE, Kinds::with);
            self.tasks.push(Entry { entry, timed, classes: [None; KINDS], own_classes: FxHashMap::default() });
            self.tasks.len() - 1
        });
        self.named.insert(name.to_owned(), at);
        at
    }

    /// Calls `see` with each task on a unit and, if the unit has begun the task, how long it has been running.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, UnitId, Option<Nanos>)) {
        for unit in &self.units {
            unit.running.iter().for_each(|(task, since)| see(task, unit.id, Some(self.now - since)));
            unit.inbox.iter().for_each(|timed| see(&timed.task, unit.id, None));
        }
    }

    /// Gives a task to its unit, which begins the task after the unit's earlier tasks have ended.
    pub(super) fn launch(&mut self, Launch { task, unit, .. }: Launch) {
        let (at, unit) = (self.named(&task.shared().name), unit.index());
        let Unit { kind, cores, launch_ns, speed, .. } = self.units[unit];
        let known = &mut self.tasks[at];
        let times = self.model.times(known.entry, kind).expect("tasks are placed only where there is a time for them");
        let noise = self.model.noise(task.shared().id.0);
        let work_ns = launch_ns + times.alone_ns(&task, if kind == UnitKind::Cpu { cores } else { 1 }) * noise;
        let mut add_class = |speed| self.progress.add_class(kind as usize, times.slowdown.clone(), speed);
        let class = match speed {
            None => *known.classes[kind as usize].get_or_insert_with(|| add_class(1.0)),
            Some(speed) => *known.own_classes.entry(unit).or_insert_with(|| add_class(speed)),
        };
        self.units[unit].inbox.push_back(Timed { task, class, work_ns });
        self.start(unit);
    }

    /// Makes an idle unit begin its next task.
    fn start(&mut self, unit: usize) {
        let Unit { kind, load, inbox, running, .. } = &mut self.units[unit];
        if running.is_some() {
            return;
        }
        let Some(Timed { task, class, work_ns }) = inbox.pop_front() else { return };
        *running = Some((task, self.now));
        self.progress.load(self.now, *kind as usize, *load);
        self.progress.begin(self.now, class, work_ns, unit);
    }

    /// Sends off a copy.
    pub(super) fn copy(&mut self, order: &CopyOrder) {
        let bytes = (order.block.volume() * order.element_bytes) as u64;
        let (first, then) = self.links.route(order.from.space, order.to.space);
        let (copy, now) = (order.copy, self.now);
        let way =
            Arrival { at: now, sent: 0, copy, bytes, since: now, waited: 0, leg: first, lane: 0, carried: 0, then };
        self.send(way);
    }

    /// Sends a copy over the next lane of its leg, and over the following lanes that it reaches now.
    fn send(&mut self, mut copy: Arrival) {
        copy.at = self.now;
        while copy.at == self.now && copy.lane < copy.leg.len() {
            let (begins, ends) = self.links.send(self.now, &copy.leg, copy.lane, copy.bytes);
            copy.waited += begins - self.now;
            copy.carried = copy.carried.max(ends);
            (copy.at, copy.lane) = (begins, copy.lane + 1);
        }
        if copy.lane == copy.leg.len() {
            copy.at = copy.carried.saturating_add(copy.leg.latency_ns());
        }
        self.sent += 1;
        copy.sent = self.sent;
        self.copies.push(Reverse(copy));
    }

    /// Advances time to the next event and returns that event; if a task has ended, also returns its unit. Returns
    /// `None` if nothing is under way.
    pub(super) fn next(&mut self) -> Option<(Event<'static>, Option<UnitId>)> {
        loop {
            let ends = self.progress.next_end();
            let arrives = self.copies.peek().map(|Reverse(arrival)| arrival.at);
            let next = arrives.into_iter().chain(ends.map(|(at, _)| at)).min();
            let change = self.model.speeds().get(self.changed).copied();
            if let Some(change) = change.filter(|change| next.is_some_and(|next| change.at_ns <= next)) {
                self.change_speed(change);
                continue;
            }
            match (arrives, ends) {
                (None, None) => return None,
                (Some(at), ends) if ends.is_none_or(|(end, _)| at <= end) => {
                    let Reverse(mut arrival) = self.copies.pop()?;
                    self.now = at;
                    if arrival.lane < arrival.leg.len() {
                        self.send(arrival);
                        continue;
                    }
                    match arrival.then.take() {
                        Some(leg) => self.send(Arrival { leg, lane: 0, ..arrival }),
                        None => return Some((Event::Copied(arrival.copy, Some(arrival.time(at))), None)),
                    }
                }
                (_, Some((at, class))) => {
                    self.now = at;
                    let (task, unit, elapsed_ns) = self.end(class);
                    return Some((Event::Finished(task, Outcome::Done(Span { elapsed_ns, ended_ns: at })), Some(unit)));
                }
                (Some(_), None) => unreachable!("a copy arrives before no task ends"),
            }
        }
    }

    /// Changes the speed of units. A change that lies in the past happens now, since nothing ran in between.
    fn change_speed(&mut self, change: SpeedChange) {
        self.changed += 1;
        self.now = self.now.max(change.at_ns);
        let affected = self.units.iter_mut().enumerate().filter(|(_, unit)| change.affects(unit.kind, unit.number));
        for (at, unit) in affected {
            unit.speed = Some(change.speed);
            for class in self.tasks.iter().filter_map(|entry| entry.own_classes.get(&at)) {
                self.progress.set_speed(self.now, *class, change.speed);
            }
        }
    }

    fn end(&mut self, class: ClassId) -> (OwnedTask, UnitId, Nanos) {
        let number = self.progress.end(self.now, class);
        let unit = &mut self.units[number];
        self.progress.load(self.now, unit.kind as usize, -unit.load);
        let (task, since) = unit.running.take().expect("a unit whose task ends runs it");
        let id = unit.id;
        self.start(number);
        (task, id, self.now - since)
    }
}

impl Times {
    /// Returns the time that a task takes on a unit with `cores` cores while no other unit is busy.
    fn alone_ns(&self, task: &OwnedTask, cores: usize) -> f64 {
        let work = match self.work {
            Work::Task => 1.0,
            Work::Cost { otherwise } => task.owned().as_ref().and_then(|side| side.cost).unwrap_or(otherwise),
            Work::Bytes => {
                let mut bytes = 0;
                task.body().accesses(&mut |access| bytes += access.bytes());
                bytes as f64
            }
        };
        let cores = cores as f64;
        // The reference is always a single core, regardless of the curve's first point.
        let speed_up = match &self.speed_up {
            Some(curve) if cores > 1.0 => curve.at(cores),
            _ => cores,
        };
        self.ns * work.max(0.0) / speed_up
    }
}
