//! The flags of one unit over time: running bodies, an idle thread, and waiting tasks that are placed on the unit.

use super::prepare::Prepared;
use super::spans::{Span, union};
use super::timeline::Activity;
use crate::StateKind;

/// Flag: the unit runs a body on a core or on a device.
const BODY: u8 = 1;
const DEVICE_BODY: u8 = 2;
/// Flag: the unit's thread searches or sleeps.
const IDLE: u8 = 4;
/// Flag: a thread leads the unit.
const LED: u8 = 8;
/// Flags: tasks placed on the unit are in its queue, wait for copies, or wait for memory.
const LAUNCHED: u8 = 16;
const RESERVED: u8 = 32;
const PLACED: u8 = 64;

/// What the unit's own flags reveal about its activity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// The activity is certain.
    Sure(Activity),
    /// The activity is [`Activity::Copy`] while copies are in progress, and the given one otherwise.
    UnlessCopying(Activity),
    /// The unit is idle, and only tasks placed elsewhere can tell why.
    Idle,
}

/// A walk over one unit's events in order of time.
pub(super) struct UnitWalk<'a> {
    prepared: &'a Prepared<'a>,
    pub(super) unit: usize,
    spans: Vec<(Span, u8)>,
}

impl<'a> UnitWalk<'a> {
    /// Returns the walks of all units, in unit order.
    pub(super) fn of_all(prepared: &'a Prepared<'a>) -> Vec<Self> {
        let walk = |unit| Self { prepared, unit, spans: Vec::new() };
        let mut units: Vec<Self> = (0..prepared.units).map(walk).collect();
        for (number, task) in prepared.trace.tasks.iter().enumerate() {
            let (Some(unit), Some(start)) = (task.unit, task.start) else { continue };
            let spans = &mut units[unit].spans;
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
                units[unit].spans.push(((state.start, state.end), IDLE));
            }
        }
        units
    }

    /// Calls `visit` for each span of the run in which the unit's flags do not change, in order.
    pub(super) fn run(&self, mut visit: impl FnMut(Span, Nature)) {
        let (begin, end) = (self.prepared.begin, self.prepared.end);
        let mut events: Vec<(u64, u8)> = Vec::new();
        for flag in [BODY, DEVICE_BODY, IDLE, LAUNCHED, RESERVED, PLACED] {
            let of_flag = self.spans.iter().filter(|(_, of)| *of == flag).map(|(span, _)| *span);
            events.extend(union(of_flag.collect()).iter().flat_map(|(start, end)| [(*start, flag), (*end, flag)]));
        }
        events.extend(self.when_led().iter().flat_map(|(start, end)| [(*start, LED), (*end, LED)]));
        // The stable sort is faster here, because the input consists of several sequences that are each sorted.
        events.sort();
        let (mut from, mut flags) = (begin, 0);
        for (at, flag) in events.into_iter().chain([(end, 0)]) {
            let until = at.clamp(begin, end);
            if from < until {
                visit((from, until), self.nature(flags));
                from = until;
            }
            flags ^= flag;
        }
    }

    /// Returns the spans in which a thread is known to lead the unit: between that thread's first and last record,
    /// or while the program waits.
    fn when_led(&self) -> Vec<Span> {
        let records = self.spans.iter().filter(|(_, flag)| *flag & (BODY | DEVICE_BODY | IDLE) != 0);
        let records = || records.clone().map(|(span, _)| *span);
        let first = records().map(|(start, _)| start).min();
        let last = records().map(|(_, end)| end).max();
        let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
        if self.prepared.has_thread[self.unit] {
            return union(vec![(first, last)]);
        }
        let rank = self.prepared.ranks.of_unit(self.unit);
        let mut led = [&self.prepared.waits[rank][..], &self.prepared.throttles[rank]].concat();
        // If the program was killed, its last wait is missing from the file, but the bodies that the thread ran
        // during that wait are present.
        let waited = led.iter().map(|(_, end)| *end).max().unwrap_or(0);
        let later = records().map(|(start, _)| start).filter(|start| *start > waited).min();
        led.extend(later.map(|later| (later, last)));
        union(led)
    }

    fn nature(&self, flags: u8) -> Nature {
        let is_at_work = !self.prepared.is_simulated && flags & IDLE == 0;
        let at_work = match () {
            () if flags & LED != 0 => Some(Activity::Runtime),
            () if !self.prepared.has_thread[self.unit] => Some(Activity::Program),
            () => None,
        };
        match () {
            () if flags & DEVICE_BODY != 0 || flags & (BODY | IDLE) == BODY => Nature::Sure(Activity::Computing),
            () if is_at_work && at_work.is_some() => {
                let activity = at_work.expect("it was just found");
                if flags & RESERVED != 0 { Nature::UnlessCopying(activity) } else { Nature::Sure(activity) }
            }
            () if is_at_work && flags & RESERVED != 0 && flags & LAUNCHED != 0 => {
                Nature::UnlessCopying(Activity::Runtime)
            }
            () if flags & LAUNCHED != 0 => Nature::Sure(Activity::Runtime),
            () if flags & RESERVED != 0 => Nature::Sure(Activity::Copy),
            () if flags & PLACED != 0 => Nature::Sure(Activity::Memory),
            () => Nature::Idle,
        }
    }
}
