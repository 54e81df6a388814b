//! Sums of idle time by reason between two points in time, computed without visiting each step. A million tasks
//! that become ready and start produce a million steps, and otherwise each of many idle units would walk through
//! all of them.

use super::spans::{Span, past};
use super::steps::{ALL_SUBMITTED, FOR_COPIES, READY, Step, THROTTLE, WAIT, idle};
use super::timeline::Activity;

/// The reason why a unit is idle, in more detail than [`Activity`].
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
pub(super) enum Idle {
    /// A task is ready.
    Unit,
    /// The only ready tasks wait for copies, on other units.
    CopyElsewhere,
    /// The only ready tasks wait for memory, on other units.
    MemoryElsewhere,
    /// Tasks wait for predecessors.
    Dependence,
    /// Tasks wait for predecessors, and the program is throttled.
    Throttled,
    /// There is no task.
    Submission,
    /// There is no task, because the program waits for tasks or has submitted all.
    AtWait,
}

/// Idle nanoseconds, indexed by [`Idle`].
pub(super) type IdleTimes = [u64; 7];

/// The number of steps between two stored sums.
const EVERY: usize = 16;

/// The steps of a kind of unit, prepared for sums.
pub(super) struct Sums<'a> {
    pub(super) steps: &'a [Step],
    reasons: Vec<Idle>,
    /// For every [`EVERY`]-th step, its time and the sums up to it.
    kept: Vec<(u64, IdleTimes)>,
}

impl<'a> Sums<'a> {
    /// Prepares the sums for `steps`. `submissions` must be sorted.
    pub(super) fn new(steps: &'a [Step], submissions: &[u64]) -> Self {
        let mut reasons: Vec<Idle> = steps.iter().map(|step| reason(step.flags)).collect();
        // A body may submit tasks while the program waits. In that case the program's wait is not the reason why
        // the unit is idle.
        let (mut next, mut last) = (0, 0);
        while next < reasons.len() {
            let reason = reasons[next];
            let same = reasons[next..].iter().take_while(|other| **other == reason).count();
            let end = steps.get(next + same).map(|step| step.at);
            if reason == Idle::AtWait
                && let Some(end) = end
            {
                last += past(&submissions[last..], |at| *at < end);
                if submissions.get(last) == Some(&end) {
                    reasons[next..next + same].fill(Idle::Submission);
                }
            }
            next += same;
        }
        let (mut kept, mut times) = (Vec::new(), IdleTimes::default());
        for (number, step) in steps.iter().enumerate() {
            if number % EVERY == 0 {
                kept.push((step.at, times));
            }
            let end = steps.get(number + 1).map_or(step.at, |next| next.at);
            times[reasons[number] as usize] += end - step.at;
        }
        Self { steps, reasons, kept }
    }

    /// Adds the idle times within a span to `times`. On entry, `step` is the index of a step at or before the
    /// span's start; on return, of a step at or before its end.
    pub(super) fn add(&self, (from, until): Span, step: &mut usize, times: &mut IdleTimes) {
        *step += past(&self.steps[*step..], |step| step.at <= from).saturating_sub(1);
        let mut start = from;
        while start < until {
            if start == self.steps[*step].at && step.is_multiple_of(EVERY) {
                let first = *step / EVERY;
                let jump = past(&self.kept[first..], |(at, _)| *at <= until).saturating_sub(1);
                let ((_, before), (at, after)) = (&self.kept[first], &self.kept[first + jump]);
                for (time, (before, after)) in times.iter_mut().zip(before.iter().zip(after)) {
                    *time += after - before;
                }
                (start, *step) = (*at, *step + jump * EVERY);
            }
            let end = self.steps.get(*step + 1).map_or(until, |next| next.at.min(until));
            times[self.reasons[*step] as usize] += end - start;
            start = end;
            if start < until {
                *step += 1;
            }
        }
    }
}

fn reason(flags: u8) -> Idle {
    match idle(flags) {
        Activity::Unit if flags & READY != 0 => Idle::Unit,
        Activity::Unit if flags & FOR_COPIES != 0 => Idle::CopyElsewhere,
        Activity::Unit => Idle::MemoryElsewhere,
        Activity::Dependence if flags & (WAIT | THROTTLE) == THROTTLE => Idle::Throttled,
        Activity::Dependence => Idle::Dependence,
        _ if flags & WAIT != 0 || flags & (THROTTLE | ALL_SUBMITTED) == ALL_SUBMITTED => Idle::AtWait,
        _ => Idle::Submission,
    }
}
