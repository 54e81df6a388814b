//! The figures that the progress display shows, computed from counts that are sampled periodically.
//!
//! Rates cover the recent past: about one second for units and links, which change quickly, and ten seconds for the
//! time left, which should not jump. A unit's busy share is computed from the measured times of its tasks or, if
//! nothing measures them (on the fast path), as the fraction of looks at the unit's thread that found the thread in a
//! body.
//!
//! Nothing in this module reads a clock or a counter, or writes anything.

use crate::driver::reasons::bytes;
use crate::ids::SpaceId;
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

/// The time window over which the rates of units and links are computed.
const SHORT: Duration = Duration::from_secs(1);
/// The time window over which the rate of tasks is computed.
const LONG: Duration = Duration::from_secs(10);
/// The maximum number of units and links that a line of text names.
const MOST_NAMED: usize = 8;

/// A snapshot of counts, all of which start when the runtime is built.
#[derive(Debug, Clone, Default)]
pub(super) struct Counts {
    /// The time since the runtime was built.
    pub(super) at: Duration,
    /// The same time on the driver's clock, which is virtual in a simulation.
    pub(super) driver_at: Duration,
    pub(super) done: u64,
    pub(super) submitted: u64,
    pub(super) units: Vec<UnitCounts>,
    /// The bytes that were copied between each pair of memories.
    pub(super) links: Vec<((SpaceId, SpaceId), u64)>,
    /// The number of looks at the units' threads.
    pub(super) looks: u64,
}

/// The counts of one unit.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct UnitCounts {
    pub(super) tasks: u64,
    /// How long the unit has been running tasks, if that is measured.
    pub(super) busy: Duration,
    /// The number of looks that found the unit's thread in a body.
    pub(super) found_busy: u64,
}

/// The recent counts.
#[derive(Debug, Default)]
pub(super) struct History(VecDeque<Counts>);

/// What is shown.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Figures {
    pub(super) done: u64,
    pub(super) submitted: u64,
    /// How long the tasks submitted so far will still take; `None` if no task has ended recently.
    pub(super) left: Option<Duration>,
    /// For each unit, its tasks and its busy share.
    pub(super) units: Vec<(u64, f64)>,
    /// For each pair of memories, the bytes copied so far, and the bytes copied per second.
    pub(super) links: Vec<((SpaceId, SpaceId), u64, f64)>,
}

impl History {
    /// Adds counts, and returns the figures at that moment.
    pub(super) fn add(&mut self, now: Counts) -> Figures {
        while self.0.get(1).is_some_and(|next| now.at - next.at >= LONG) {
            self.0.pop_front();
        }
        let zero = Counts { at: now.at, driver_at: now.driver_at, ..Counts::default() };
        let since = |age: Duration| self.0.iter().rev().find(|then| now.at - then.at >= age).or(self.0.front());
        let (short, long) = (since(SHORT).unwrap_or(&zero), since(LONG).unwrap_or(&zero));
        let figures = Figures::between(short, long, &now);
        self.0.push_back(now);
        figures
    }
}

impl Figures {
    fn between(short: &Counts, long: &Counts, now: &Counts) -> Self {
        let pending = now.submitted.saturating_sub(now.done);
        let rate = now.done.saturating_sub(long.done) as f64 / (now.at - long.at).as_secs_f64();
        let left = match pending {
            0 => Some(Duration::ZERO),
            pending => Duration::try_from_secs_f64(pending as f64 / rate).ok(),
        };
        let elapsed = (now.driver_at - short.driver_at).as_secs_f64();
        let looks = now.looks - short.looks;
        let share = |part: f64, whole: f64| if whole > 0.0 { (part / whole).clamp(0.0, 1.0) } else { 0.0 };
        let unit = |(n, unit): (usize, &UnitCounts)| {
            let then = short.units.get(n).copied().unwrap_or_default();
            let measured = share(unit.busy.saturating_sub(then.busy).as_secs_f64(), elapsed);
            let found = share((unit.found_busy - then.found_busy) as f64, looks as f64);
            (unit.tasks, measured.max(found))
        };
        let link = |&(between, bytes): &((SpaceId, SpaceId), u64)| {
            let then = short.links.iter().find(|(other, _)| *other == between).map_or(0, |(_, bytes)| *bytes);
            let per_second = if elapsed > 0.0 { (bytes - then) as f64 / elapsed } else { 0.0 };
            (between, bytes, per_second)
        };
        Self {
            done: now.done,
            submitted: now.submitted,
            left,
            units: now.units.iter().enumerate().map(unit).collect(),
            links: now.links.iter().map(link).collect(),
        }
    }

    /// Writes the time left.
    pub(super) fn time_left(&self) -> String {
        match self.left {
            Some(Duration::ZERO) => "none left".to_owned(),
            Some(left) if left >= Duration::from_secs(3600) => format!("{:.1} h left", left.as_secs_f64() / 3600.0),
            Some(left) if left >= Duration::from_secs(100) => format!("{:.0} min left", left.as_secs_f64() / 60.0),
            Some(left) => format!("{:.0} s left", left.as_secs_f64().ceil()),
            None => "none ended recently".to_owned(),
        }
    }
}

/// Writes the rate of a link.
pub(super) fn rate(per_second: f64) -> String {
    format!("{}/s", bytes(per_second as u64))
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} of {} tasks done, {}", self.done, self.submitted, self.time_left())?;
        let more = |f: &mut fmt::Formatter<'_>, all: usize| match all.saturating_sub(MOST_NAMED) {
            0 => Ok(()),
            more => write!(f, ", and {more} more"),
        };
        for (n, (_, busy)) in self.units.iter().enumerate().take(MOST_NAMED) {
            write!(f, "{} unit {n} {:.0} %", if n == 0 { "; busy:" } else { "," }, busy * 100.0)?;
        }
        more(f, self.units.len())?;
        for (n, ((from, to), _, per_second)) in self.links.iter().enumerate().take(MOST_NAMED) {
            write!(f, "{} {from} to {to} {}", if n == 0 { "; copies:" } else { "," }, rate(*per_second))?;
        }
        more(f, self.links.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the counts of two units after `ms` milliseconds. The first unit runs one task per millisecond.
    fn counts(ms: u64, busy_ms: u64, copied: u64) -> Counts {
        let at = Duration::from_millis(ms);
        let units = vec![
            UnitCounts { tasks: ms, busy: Duration::ZERO, found_busy: ms / 20 },
            UnitCounts { tasks: 0, busy: Duration::from_millis(busy_ms), found_busy: 0 },
        ];
        let links = if copied > 0 { vec![((SpaceId::HOST, SpaceId(1)), copied)] } else { Vec::new() };
        Counts { at, driver_at: at, done: ms, submitted: 40_000, units, links, looks: ms / 20 }
    }

    #[test]
    fn rates_are_those_of_the_recent_past() {
        let mut history = History::default();
        assert_eq!(history.add(counts(0, 0, 0)).left, None, "nothing has ended");
        for ms in (250..=20_000).step_by(250) {
            // The second unit is busy for half of the last five seconds, in which something is copied.
            let late = ms.max(15_000) - 15_000;
            let figures = history.add(counts(ms, late / 2, late * 1000));
            assert_eq!(figures.left, Some(Duration::from_millis(40_000 - ms)), "at {ms} ms");
            assert_eq!(figures.units[0], (ms, 1.0));
            let expected = if late >= 1000 { 0.5 } else { late as f64 / 2000.0 };
            assert!((figures.units[1].1 - expected).abs() < 1e-9, "{figures:?} at {ms} ms");
            if late >= 1000 {
                let link = ((SpaceId::HOST, SpaceId(1)), late * 1000, 1e6);
                assert_eq!(figures.links, [link]);
            }
        }
        assert!(history.0.len() <= 42, "old counts are dropped");
        let text =
            "20000 of 40000 tasks done, 20 s left; busy: unit 0 100 %, unit 1 50 %; copies: host to space 1 1.0 MB/s";
        assert_eq!(history.add(counts(20_000, 2_500, 5_000_000)).to_string(), text);
    }

    #[test]
    fn stalled_and_ended_programs_have_no_rate() {
        let mut history = History::default();
        let at =
            |s: u64, submitted: u64| Counts { at: Duration::from_secs(s), done: 7, submitted, ..Counts::default() };
        (0..30).for_each(|s| drop(history.add(at(s, 9))));
        assert_eq!(history.add(at(30, 9)).to_string(), "7 of 9 tasks done, none ended recently");
        assert_eq!(history.add(at(31, 7)).to_string(), "7 of 7 tasks done, none left");
    }

    #[test]
    fn many_units_are_cut() {
        let now = Counts { units: vec![UnitCounts::default(); 11], ..Counts::default() };
        let text = History::default().add(now).to_string();
        assert!(text.ends_with("unit 7 0 %, and 3 more"), "{text}");
    }
}
