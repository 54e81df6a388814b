//! Measurement of time steps: how long an instance takes under each policy that has been in charge.
//!
//! Simulated times can be wrong; measured time steps are not. So in a program with time steps, every policy that looks
//! good in simulation is watched for a few instances, and the fastest one stays. In a graph without an iteration space
//! nothing recurs, so there is nothing to compare.
//!
//! Times come from the samples' clock, without the intervals in which no task was open, because the policy is not
//! responsible for what a program does between its time steps.

use crate::sched::Sample;

/// Number of instances ignored after a change of policy, because data are still being moved.
const MOVING: usize = 1;
/// Minimum number of instances for which a policy is watched, and the maximum number while each instance is notably
/// faster than the previous ones.
const WATCHED: (usize, usize) = (3, 12);
/// Minimum fraction by which a notably faster instance is faster.
const NOTABLE: f64 = 0.03;
/// Maximum fraction by which the best policy may be faster than the present policy without replacing it.
const ALIKE: f64 = 0.01;
/// Watching a policy ends early if its instances take more than this many times as long as those of another policy.
const HOPELESS: f64 = 3.0;
/// A chosen policy is abandoned if its instances take longer than those of another policy did by more than this
/// fraction.
const WORSE: f64 = 0.05;
/// Another policy is tried if its expected time is less than this many times the best policy's time.
const PROMISING: f64 = 1.25;

/// Measured instances of each policy; see the module documentation.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// Number of tasks per instance; 0 if nothing recurs.
    per_instance: usize,
    /// Number of tasks of the present instance that have ended.
    ended: usize,
    began_ns: u64,
    /// Times of the instances run under the policy in charge.
    instances: Vec<f64>,
    /// Whether the policy in charge has been judged. After that it is still watched, but always for the maximum number
    /// of instances.
    is_over: bool,
    /// The measured time of an instance under each watched policy.
    seen: Vec<(&'static str, f64)>,
    clock: Clock,
}

impl Watch {
    /// Sets the number of tasks per instance of the recorded program. If the number differs because the program has
    /// changed, discards the measurements and returns true.
    pub(super) fn recurs(&mut self, per_instance: usize) -> bool {
        let is_another = std::mem::replace(&mut self.per_instance, per_instance) != per_instance;
        if is_another {
            self.seen.clear();
            self.begin();
        }
        is_another
    }

    /// Notes that another policy has taken charge.
    pub(super) fn begin(&mut self) {
        self.instances.clear();
        (self.ended, self.began_ns, self.is_over) = (0, self.clock.now_ns, false);
    }

    /// Notes that a task has ended under this policy, and whether it was the last open task. Returns whether the policy
    /// has been watched long enough to choose again.
    pub(super) fn ended(&mut self, sample: &Sample, policy: &'static str, was_last: bool) -> bool {
        self.clock.ended(sample, was_last);
        self.ended += 1;
        if self.ended != self.per_instance {
            return false;
        }
        let ns = (self.clock.now_ns - self.began_ns) as f64;
        (self.ended, self.began_ns) = (0, self.clock.now_ns);
        self.instances.push(ns);
        let watched = self.instances.get(MOVING..).unwrap_or_default();
        let Some((last, before)) = watched.split_last().filter(|(_, before)| !before.is_empty()) else { return false };
        let others = self.seen.iter().filter(|(name, _)| *name != policy);
        let least = others.map(|(_, ns)| *ns).fold(f64::INFINITY, f64::min);
        let least_before = before.iter().copied().fold(f64::INFINITY, f64::min);
        let improves = *last < least_before * (1.0 - NOTABLE);
        let enough = !self.is_over && watched.len() >= WATCHED.0 && !improves;
        if !(enough || watched.len() >= WATCHED.1 || *last > HOPELESS * least) {
            return false;
        }
        let latest = match self.is_over {
            true => watched,
            false => &watched[watched.len() - 2..],
        };
        let mean = latest.iter().sum::<f64>() / latest.len() as f64;
        if mean <= 0.0 {
            return false; // the source of the samples has no clock
        }
        match self.seen.iter_mut().find(|(name, _)| *name == policy) {
            Some((_, ns)) => *ns = mean,
            None => self.seen.push((policy, mean)),
        }
        self.instances.truncate(MOVING);
        !std::mem::replace(&mut self.is_over, true) || mean > least * (1.0 + WORSE)
    }

    /// Returns whether more than one policy has been watched.
    pub(super) fn is_experienced(&self) -> bool {
        self.seen.len() > 1
    }

    /// Returns the policy to continue with: the most promising unwatched policy by the [`PROMISING`] limit, or else the
    /// best watched policy (or `present`, if that is about as fast). Returns `None` if no policy was watched.
    pub(super) fn next(&self, expected: &[(&'static str, f64)], present: &'static str) -> Option<&'static str> {
        let (best, best_ns) = self.best()?;
        let is_new = |name: &str| self.seen.iter().all(|(seen, _)| *seen != name);
        // If the simulation overestimated the best policy's time, it probably overestimated the others' as well.
        let of_best = expected.iter().find(|(name, _)| *name == best).map_or(0.0, |(_, ns)| *ns);
        let limit = PROMISING * best_ns.max(of_best);
        let promising = expected.iter().filter(|(name, ns)| is_new(name) && *ns < limit);
        let promising = promising.min_by(|one, other| one.1.total_cmp(&other.1));
        let present_ns = self.seen.iter().find(|(name, _)| *name == present).map_or(f64::INFINITY, |(_, ns)| *ns);
        let stays = if present_ns < best_ns * (1.0 + ALIKE) { present } else { best };
        Some(promising.map_or(stays, |(name, _)| *name))
    }

    fn best(&self) -> Option<(&'static str, f64)> {
        self.seen.iter().copied().min_by(|one, other| one.1.total_cmp(&other.1))
    }

    /// Returns the time of an instance under each watched policy, rounded to whole nanoseconds.
    pub(super) fn seen_ns(&self) -> Vec<(&'static str, u64)> {
        self.seen.iter().map(|(name, ns)| (*name, *ns as u64)).collect()
    }

    /// Returns the total time during which at least one task was open.
    pub(super) fn now_ns(&self) -> u64 {
        self.clock.now_ns
    }
}

/// A clock that runs only while at least one task is open.
#[derive(Debug, Default)]
struct Clock {
    now_ns: u64,
    /// Reading of the samples' clock when the last task ended.
    ended_ns: u64,
    /// Whether no task has been open since then.
    rests: bool,
}

impl Clock {
    fn ended(&mut self, sample: &Sample, was_last: bool) {
        let since = match std::mem::replace(&mut self.rests, was_last) {
            true => self.ended_ns.max(sample.ended_ns.saturating_sub(sample.elapsed_ns)),
            false => self.ended_ns,
        };
        self.now_ns += sample.ended_ns.saturating_sub(since);
        self.ended_ns = self.ended_ns.max(sample.ended_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::{TaskId, UnitId};

    /// Runs instances of two consecutive tasks on one unit, with the given times in nanoseconds. Returns how often the
    /// policy was judged.
    fn run(watch: &mut Watch, policy: &'static str, at: &mut u64, instances: &[u64]) -> usize {
        let mut judged = 0;
        for ns in instances {
            *at += 1000; // the program does other work
            for task in 0..2 {
                *at += ns / 2;
                let sample = Sample {
                    task: TaskId(task),
                    name: "t".into(),
                    bytes: 0,
                    unit: UnitId(0),
                    elapsed_ns: ns / 2,
                    ended_ns: *at,
                    energy_j: None,
                    position: None,
                };
                judged += usize::from(watch.ended(&sample, policy, task == 1));
            }
        }
        judged
    }

    #[test]
    fn promising_policies_are_tried_and_the_fastest_stays() {
        let (mut watch, mut at) = (Watch::default(), 0);
        assert!(watch.recurs(2) && !watch.recurs(2));
        let expected = [("a", 100.0), ("b", 60.0), ("c", 80.0), ("d", 400.0)];
        assert_eq!(watch.next(&expected, "a"), None, "nothing is known");
        assert_eq!(run(&mut watch, "a", &mut at, &[900, 100, 100, 100]), 1, "the first does not count");
        assert_eq!((watch.next(&expected, "a"), watch.is_experienced()), (Some("b"), false));
        watch.begin();
        assert_eq!(run(&mut watch, "b", &mut at, &[150, 150, 150, 150]), 1);
        assert_eq!((watch.next(&expected, "b"), watch.is_experienced()), (Some("c"), true));
        watch.begin();
        assert_eq!(run(&mut watch, "c", &mut at, &[200, 120, 110, 104, 100, 98, 98]), 1, "it became faster");
        assert_eq!(watch.next(&expected, "c"), Some("c"), "as good as the best, and d promises nothing");
        assert_eq!(watch.seen_ns(), [("a", 100), ("b", 150), ("c", 99)]);
        // The machine changes.
        assert_eq!(run(&mut watch, "c", &mut at, &[98; 40]), 0);
        assert!(run(&mut watch, "c", &mut at, &[130; 40]) > 0);
        assert_eq!(watch.next(&expected, "c"), Some("a"));
        assert!(watch.recurs(3) && watch.seen_ns().is_empty(), "another program");
    }

    #[test]
    fn hopeless_policy_is_abandoned_at_once() {
        let (mut watch, mut at) = (Watch::default(), 0);
        watch.recurs(2);
        assert_eq!(run(&mut watch, "a", &mut at, &[100; 4]), 1);
        watch.begin();
        assert_eq!(run(&mut watch, "b", &mut at, &[900; 3]), 1);
        assert_eq!(watch.next(&[("a", 50.0), ("b", 40.0)], "b"), Some("a"));
    }

    #[test]
    fn policy_stays_without_a_clock() {
        let mut watch = Watch::default();
        watch.recurs(2);
        let sample = |task| Sample {
            task: TaskId(task),
            name: "t".into(),
            bytes: 0,
            unit: UnitId(0),
            elapsed_ns: 5,
            ended_ns: 0,
            energy_j: None,
            position: None,
        };
        (0..20).for_each(|task| _ = watch.ended(&sample(task), "a", task % 2 == 1));
        assert_eq!(watch.next(&[("a", 50.0), ("b", 40.0)], "a"), None);
    }
}
