//! The amount of queued work that is at least as urgent as a task: the work it would have to wait for.
//!
//! Sums over urgency in steps of an eighth of an octave, in a binary indexed tree (Fenwick 1994): adding, removing
//! and querying take as long for ten tasks as for a hundred thousand.

/// Steps per octave of levels, as a power of 2.
const BITS: u32 = 3;
/// Up to 2⁴⁸ ns, which is three days.
const STEPS: usize = 48 << BITS;

/// Queued work by urgency; see the module documentation.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Partial sums, in nanoseconds.
    tree: Vec<u64>,
    total_ns: u64,
}

impl Default for Ahead {
    fn default() -> Self {
        Self { tree: vec![0; STEPS + 1], total_ns: 0 }
    }
}

/// Returns the step of a level: exponent and leading digits.
fn step(level_ns: f64) -> usize {
    let bits = level_ns.max(1.0).to_bits() >> (52 - BITS);
    ((bits - (1023 << BITS)) as usize).min(STEPS - 1)
}

impl Ahead {
    /// Adds a queued task of this level and time.
    pub(super) fn add(&mut self, level_ns: f64, ns: u64) {
        self.total_ns += ns;
        self.each(level_ns, |sum| *sum += ns);
    }

    /// Removes such a task.
    pub(super) fn take(&mut self, level_ns: f64, ns: u64) {
        self.total_ns -= ns;
        self.each(level_ns, |sum| *sum -= ns);
    }

    fn each(&mut self, level_ns: f64, change: impl Fn(&mut u64)) {
        let mut at = step(level_ns) + 1;
        while at <= STEPS {
            change(&mut self.tree[at]);
            at += at & at.wrapping_neg();
        }
    }

    /// Returns the time of all tasks that are at least as urgent as this level.
    pub(super) fn of(&self, level_ns: f64) -> u64 {
        let (mut below, mut at) = (0, step(level_ns));
        while at > 0 {
            below += self.tree[at];
            at -= at & at.wrapping_neg();
        }
        self.total_ns - below
    }

    /// Returns the time of all tasks.
    pub(super) fn total_ns(&self) -> u64 {
        self.total_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn query_is_the_sum_of_more_urgent_tasks(tasks in prop::collection::vec((0.0..1e16f64, 0..1000u64), 0..50), level in 0.0..1e16f64) {
            let mut ahead = Ahead::default();
            tasks.iter().for_each(|(level, ns)| ahead.add(*level, *ns));
            for (gone, (level_of_it, ns)) in tasks.iter().enumerate() {
                let left = &tasks[gone..];
                let urgent = left.iter().filter(|(other, _)| step(*other) >= step(level));
                prop_assert_eq!(ahead.of(level), urgent.map(|(_, ns)| ns).sum::<u64>());
                ahead.take(*level_of_it, *ns);
            }
            prop_assert_eq!(ahead.total_ns(), 0);
        }
    }

    #[test]
    fn steps_are_an_eighth_of_an_octave() {
        assert_eq!([0.0, 1.0, 2.0, 1e30].map(step), [0, 0, 1 << BITS, STEPS - 1]);
        assert!(step(1000.0) < step(1130.0) && step(1000.0) == step(1001.0));
    }
}
