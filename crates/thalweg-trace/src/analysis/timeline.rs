//! The division of each unit's time into activities.
//!
//! Two sequences of flags are merged: those of all units ([`steps`]), and those of one unit, which say when it runs
//! bodies, when its thread is idle, and when tasks placed on it wait for what.

use super::prepare::Prepared;
use super::spans::{Span, union};
use super::steps::{COPYING, Kinds, Step, THROTTLE, WAIT, steps};
use crate::StateKind;

/// What a unit's time goes to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Activity {
    /// A body runs. A body that waits, while its thread searches or sleeps, does not count.
    Computing,
    /// Between bodies, without a recorded search or sleep; or a task is in the unit's queue and was not yet begun.
    Runtime,
    /// The unit is led by a thread of the program, which is in the program: it submits tasks, or does other work.
    Program,
    /// Idle; each submitted task that the unit could run waits for a predecessor.
    Dependence,
    /// Idle; tasks placed here wait for copies.
    Copy,
    /// Idle; tasks placed here wait for memory.
    Memory,
    /// Idle although a task was ready, which another unit got or which was held back.
    Unit,
    /// Idle; no task was submitted that this unit could run and that had not started.
    Submission,
}

impl Activity {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::Computing,
        Self::Runtime,
        Self::Program,
        Self::Dependence,
        Self::Copy,
        Self::Memory,
        Self::Unit,
        Self::Submission,
    ];

    /// A word for it: `computing`, `runtime`, `program`, `dependence`, `copy`, `memory`, `unit`, `submission`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Runtime => "runtime",
            Self::Program => "program",
            Self::Dependence => "dependence",
            Self::Copy => "copy",
            Self::Memory => "memory",
            Self::Unit => "unit",
            Self::Submission => "submission",
        }
    }

    /// The words to show for it, such as `waiting for a dependence`.
    pub const fn title(self) -> &'static str {
        match self {
            Self::Computing => "computing",
            Self::Runtime => "runtime",
            Self::Program => "in the program",
            Self::Dependence => "waiting for a dependence",
            Self::Copy => "waiting for a copy",
            Self::Memory => "waiting for memory",
            Self::Unit => "task ready elsewhere",
            Self::Submission => "nothing submitted",
        }
    }

    /// Whether the unit has nothing to do.
    pub const fn is_idle(self) -> bool {
        !matches!(self, Self::Computing | Self::Runtime | Self::Program)
    }
}

/// What the program does at a time, outside of bodies.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Program {
    /// It submits tasks, or does other work.
    Works,
    /// It waits for tasks.
    Waits,
    /// It is held back, because too many tasks are pending.
    Throttled,
    /// It has submitted its last task.
    HasSubmittedAll,
}

/// A stretch of one unit's time with one activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Stretch {
    /// The unit.
    pub unit: usize,
    /// From then on.
    pub start: u64,
    /// Until then.
    pub end: u64,
    /// What the unit does.
    pub activity: Activity,
    /// What the program does meanwhile.
    pub program: Program,
    /// For [`Activity::Unit`]: what all ready tasks wait for elsewhere, if it is [`Activity::Copy`] or
    /// [`Activity::Memory`].
    pub elsewhere: Option<Activity>,
}

/// Flags of a unit.
const BODY: u8 = 1;
const DEVICE_BODY: u8 = 2;
const IDLE: u8 = 4;
const LED: u8 = 8;
const LAUNCHED: u8 = 16;
const RESERVED: u8 = 32;
const PLACED: u8 = 64;

/// Divides the time of all units.
pub(super) fn walk(prepared: &Prepared<'_>, mut visit: impl FnMut(&Stretch)) {
    let kinds = Kinds::new(prepared.trace);
    let steps = steps(prepared, &kinds);
    for (unit, spans) in of_units(prepared).into_iter().enumerate() {
        let mut pending: Option<Stretch> = None;
        let mut merge = |next: Stretch| match &mut pending {
            Some(last) if *last == (Stretch { start: last.start, end: last.end, ..next }) => last.end = next.end,
            last => last.replace(next).iter().for_each(&mut visit),
        };
        let unit_walk = UnitWalk { prepared, steps: &steps, unit, kind: 1 << kinds.of_unit(unit) };
        unit_walk.run(spans, &mut merge);
        pending.iter().for_each(&mut visit);
    }
}

/// Per unit, spans with flags.
fn of_units(prepared: &Prepared<'_>) -> Vec<Vec<(Span, u8)>> {
    let mut units: Vec<Vec<(Span, u8)>> = vec![Vec::new(); prepared.units];
    for (number, task) in prepared.trace.tasks.iter().enumerate() {
        let (Some(unit), Some(start)) = (task.unit, task.start) else { continue };
        let spans = &mut units[unit];
        let body = if task.device.is_some() { DEVICE_BODY } else { BODY };
        spans.push(((start, task.end.unwrap_or(start)), body));
        if let Some([placed, reserved, launched, start]) = prepared.stages(number) {
            let stages =
                [((placed, reserved), PLACED), ((reserved, launched), RESERVED), ((launched, start), LAUNCHED)];
            spans.extend(stages.into_iter().filter(|((start, end), _)| start < end));
        }
    }
    for state in &prepared.trace.states {
        if let (Some(unit), StateKind::Search | StateKind::Sleep) = (state.unit, state.kind) {
            units[unit].push(((state.start, state.end), IDLE));
        }
    }
    units
}

/// One unit's way through time.
struct UnitWalk<'a> {
    prepared: &'a Prepared<'a>,
    steps: &'a [Step],
    unit: usize,
    /// The bit of its kind.
    kind: u64,
}

impl UnitWalk<'_> {
    fn run(&self, spans: Vec<(Span, u8)>, visit: &mut impl FnMut(Stretch)) {
        let (begin, end) = (self.prepared.begin, self.prepared.end);
        let known = self.when_known(&spans);
        let mut events: Vec<(u64, u8)> = Vec::new();
        for flag in [BODY, DEVICE_BODY, IDLE, LAUNCHED, RESERVED, PLACED] {
            let of_flag = spans.iter().filter(|(_, of)| *of == flag).map(|(span, _)| *span);
            events.extend(union(of_flag.collect()).iter().flat_map(|(start, end)| [(*start, flag), (*end, flag)]));
        }
        events.extend(known.iter().flat_map(|(start, end)| [(*start, LED), (*end, LED)]));
        events.sort_unstable();
        let (mut from, mut flags, mut step) = (begin, 0, 0);
        for (at, flag) in events.into_iter().chain([(end, 0)]) {
            let until = at.clamp(begin, end);
            if from < until {
                self.divide((from, until), flags, &mut step, visit);
                from = until;
            }
            flags ^= flag;
        }
    }

    /// When a thread leads the unit, as far as it is known: between its first record and its last one, or while the
    /// program waits.
    fn when_known(&self, spans: &[(Span, u8)]) -> Vec<Span> {
        let own = || spans.iter().filter(|(_, flag)| *flag & (BODY | DEVICE_BODY | IDLE) != 0).map(|(span, _)| *span);
        let first = own().map(|(start, _)| start).min();
        let last = own().map(|(_, end)| end).max();
        let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
        if self.prepared.has_thread[self.unit] {
            return vec![(first, last)];
        }
        let mut led = [&self.prepared.waits[..], &self.prepared.throttles].concat();
        // The last wait of a program that was killed is not in the file, but bodies that the thread ran in it are.
        let waited = led.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let later = own().map(|(start, _)| start).filter(|start| *start > waited).min();
        led.extend(later.map(|later| (later, last)));
        union(led)
    }

    /// Divides a span in which the unit's flags do not change. `step` is a step at or before its start.
    fn divide(&self, (from, until): Span, flags: u8, step: &mut usize, visit: &mut impl FnMut(Stretch)) {
        let ahead = &self.steps[*step..];
        let near = ahead.iter().take(8).take_while(|step| step.at <= from).count();
        let past = if near < 8 { near } else { ahead.partition_point(|step| step.at <= from) };
        *step += past.saturating_sub(1);
        let mut start = from;
        while start < until {
            let end = self.steps.get(*step + 1).map_or(until, |next| next.at.min(until));
            let now = &self.steps[*step];
            let program = match () {
                () if now.flags & WAIT != 0 => Program::Waits,
                () if now.flags & THROTTLE != 0 => Program::Throttled,
                () if self.prepared.submissions.last().is_none_or(|last| *last <= start) => Program::HasSubmittedAll,
                () => Program::Works,
            };
            let activity = self.activity(flags, now);
            let elsewhere = match () {
                () if activity != Activity::Unit || now.ready & self.kind != 0 => None,
                () if now.copy & self.kind != 0 => Some(Activity::Copy),
                () => Some(Activity::Memory),
            };
            visit(Stretch { unit: self.unit, start, end, activity, program, elsewhere });
            start = end;
            if start < until {
                *step += 1;
            }
        }
    }

    fn activity(&self, flags: u8, now: &Step) -> Activity {
        let is_waiting_for_copy = flags & RESERVED != 0;
        match () {
            () if flags & DEVICE_BODY != 0 || flags & (BODY | IDLE) == BODY => return Activity::Computing,
            () if self.prepared.is_simulated || flags & IDLE != 0 => {}
            () if is_waiting_for_copy && now.flags & COPYING != 0 => return Activity::Copy,
            () if flags & LED != 0 => return Activity::Runtime,
            () if !self.prepared.has_thread[self.unit] => return Activity::Program,
            () => {}
        }
        match () {
            () if flags & LAUNCHED != 0 => Activity::Runtime,
            () if is_waiting_for_copy => Activity::Copy,
            () if flags & PLACED != 0 => Activity::Memory,
            () if (now.ready | now.memory | now.copy) & self.kind != 0 => Activity::Unit,
            () if now.waiting & self.kind != 0 => Activity::Dependence,
            () => Activity::Submission,
        }
    }
}
