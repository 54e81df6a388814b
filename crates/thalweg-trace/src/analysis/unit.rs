//! The flags of one unit by time: running bodies, an idle thread, and tasks placed on it that wait.

use super::prepare::Prepared;
use super::spans::{Span, union};
use super::timeline::Activity;
use crate::StateKind;

/// Flags of a unit: it runs a body on a core, or on a device.
const BODY: u8 = 1;
const DEVICE_BODY: u8 = 2;
/// Its thread searches or sleeps.
const IDLE: u8 = 4;
/// A thread leads it.
const LED: u8 = 8;
/// Tasks placed on it are in its queue, wait for copies, or wait for memory.
const LAUNCHED: u8 = 16;
const RESERVED: u8 = 32;
const PLACED: u8 = 64;

/// The activity of a unit as far as its own flags tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Nature {
    /// It is this one.
    Sure(Activity),
    /// It is [`Activity::Copy`] while copies are under way, and otherwise this one.
    UnlessCopying(Activity),
    /// The unit is idle; the tasks of others say why.
    Idle,
}

/// One unit's way through time.
pub(super) struct UnitWalk<'a> {
    prepared: &'a Prepared<'a>,
    pub(super) unit: usize,
    spans: Vec<(Span, u8)>,
}

impl<'a> UnitWalk<'a> {
    /// Returns the walks of all units in order.
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
        // Stable, since that is quicker on sequences which are sorted each.
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

    /// Returns when a thread leads the unit, as far as it is known: between its first record and its last one, or while
    /// the program waits.
    fn when_led(&self) -> Vec<Span> {
        let records = self.spans.iter().filter(|(_, flag)| *flag & (BODY | DEVICE_BODY | IDLE) != 0);
        let records = || records.clone().map(|(span, _)| *span);
        let first = records().map(|(start, _)| start).min();
        let last = records().map(|(_, end)| end).max();
        let (Some(first), Some(last)) = (first, last) else { return Vec::new() };
        if self.prepared.has_thread[self.unit] {
            return union(vec![(first, last)]);
        }
        let mut led = [&self.prepared.waits[..], &self.prepared.throttles].concat();
        // The last wait of a program that was killed is not in the file, but bodies that the thread ran in it are.
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
