//! `guided-sizes` and `guided-runtime`: chunks of consecutive indices whose ends move until all units have equal work
//! (González Tallada & Morancho 2024, §4.4, figures 6 and 7).
//!
//! The figure specifies a single step; it does not say when to stop, and the article measures while the steps continue.
//! Here the search ends when a step changes nothing, or when the longest time of any unit has not fallen for twice as
//! many steps as there are units. Then the best chunks seen so far are kept. The factor of two is needed because an
//! imbalance passes from unit to unit, one unit per step: an imbalance at the last unit needs one sweep through all
//! units to reach that unit, and a second sweep to be absorbed. If units slow each other down, the first gain often
//! comes only after more steps than there are units (see the tests).

use super::static_chunks::static_chunks;
use super::{Assignment, Chunks, Distribution, Times, Workload};

/// Minimum fraction by which a step must lower the longest time; a smaller gain counts as noise.
const PROGRESS: f64 = 0.01;

/// Performs one step of González Tallada & Morancho 2024, figure 7: every unit but the last moves the end of its
/// chunk to bring its work close to the mean.
///
/// `work_done` is each unit's work under `chunks`, and `work` is the work at each index. As in the figure, a unit's
/// work is not corrected when its first index moves in the same step (line 5), so an imbalance passes from unit to
/// unit, one unit per step. Two misprints are corrected: `WorkTask` in line 24 means `WorkZone`, and line 17 must leave
/// one index for every following unit, not only for the last. If there are fewer indices than units, the first units
/// get one each.
///
/// ```
/// use thalweg::sched::guided_step;
/// let work = [4.0, 4.0, 1.0, 1.0, 1.0, 1.0];
/// assert_eq!(guided_step(&vec![0..3, 3..6], &[9.0, 3.0], &work), [0..2, 2..6]); // 8 is nearer to 6 than 9
/// ```
pub fn guided_step(chunks: &Chunks, work_done: &[f64], work: &[f64]) -> Chunks {
    let (len, units) = (work.len(), chunks.len());
    if len <= units {
        return static_chunks(len, units);
    }
    let mean = work_done.iter().sum::<f64>() / units as f64; // lines 0 to 3
    let mut next = Chunks::with_capacity(units);
    let mut first = 0;
    for (unit, chunk) in chunks[..units - 1].iter().enumerate() {
        let most = len - (units - 1 - unit);
        let mut end = chunk.end.clamp(first + 1, most); // lines 29 to 31 of the previous unit
        let mut done = work_done[unit];
        while done < mean && end < most {
            let more = done + work[end]; // lines 9 to 17
            if (mean - more).abs() >= mean - done {
                break;
            }
            (end, done) = (end + 1, more);
        }
        while done > mean && work_done[unit] > mean && end > first + 1 {
            let less = done - work[end - 1]; // lines 18 to 27
            if (mean - less).abs() >= done - mean {
                break;
            }
            (end, done) = (end - 1, less);
        }
        next.push(first..end);
        first = end;
    }
    next.push(first..len);
    next
}

/// A descent from chunks to chunks that keeps the best and stops after a number of steps without progress.
#[derive(Debug, Clone, Default)]
pub(crate) struct Descent {
    pub(crate) chunks: Chunks,
    best: Option<(f64, Chunks)>,
    in_vain: usize,
    patience: usize,
    pub(crate) steady: bool,
}

impl Descent {
    /// Starts from these chunks; stops after `patience` steps without progress.
    pub(crate) fn from(chunks: Chunks, patience: usize) -> Self {
        Self { chunks, patience, ..Self::default() }
    }

    /// Records that the chunks took `longest` and that `next` follows from them. Returns the chunks to use.
    pub(crate) fn go(&mut self, longest: f64, next: Chunks) -> &Chunks {
        if self.best.as_ref().is_none_or(|(best, _)| longest < best * (1.0 - PROGRESS)) {
            self.best = Some((longest, self.chunks.clone()));
            self.in_vain = 0;
        } else {
            self.in_vain += 1;
        }
        self.steady = next == self.chunks || self.in_vain >= self.patience;
        self.chunks = match &self.best {
            Some((_, best)) if self.steady => best.clone(),
            _ => next,
        };
        &self.chunks
    }
}

/// Returns the initial state of both distributions, with their patience; see the module documentation.
fn begin(workload: &Workload<'_>) -> Descent {
    let units = workload.team.len();
    Descent::from(static_chunks(workload.len(), units), 2 * units)
}

fn longest(loads: &[f64]) -> f64 {
    loads.iter().copied().fold(0.0, f64::max)
}

/// The `guided-sizes` distribution, which takes the work from the user's weights. All steps are made before the first
/// instance, because running an instance would provide no further information.
///
/// ```
/// use thalweg::sched::{Distribution, GuidedSizes, Team, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[3.0, 1.0, 1.0, 1.0], neighbours: None };
/// assert_eq!(GuidedSizes.assign(&workload, None).slots(), [0, 1, 1, 1]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct GuidedSizes;

impl Distribution for GuidedSizes {
    fn name(&self) -> &'static str {
        "guided-sizes"
    }

    fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
        let mut descent = begin(workload);
        while !descent.steady {
            let done = Assignment::from(descent.chunks.clone()).loads(workload.team.len(), workload.weights);
            let next = guided_step(&descent.chunks, &done, workload.weights);
            descent.go(longest(&done), next);
        }
        descent.chunks.into()
    }

    fn is_steady(&self) -> bool {
        true
    }
}

/// The `guided-runtime` distribution, which takes the work from the time of each index on its unit. It makes one step
/// per instance.
///
/// ```
/// use thalweg::sched::{Distribution, GuidedRuntime, Team, Times, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[1.0; 4], neighbours: None };
/// let mut distribution = GuidedRuntime::default();
/// let first = distribution.assign(&workload, None);
/// assert_eq!(first.slots(), [0, 0, 1, 1]);
/// let times = Times::of(&first, 2, vec![30.0, 10.0, 10.0, 10.0]);
/// assert_eq!(distribution.assign(&workload, Some(&times)).slots(), [0, 1, 1, 1]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct GuidedRuntime {
    descent: Descent,
}

impl Distribution for GuidedRuntime {
    fn name(&self) -> &'static str {
        "guided-runtime"
    }

    fn assign(&mut self, workload: &Workload<'_>, measured: Option<&Times>) -> Assignment {
        match measured {
            Some(times) if !self.descent.chunks.is_empty() => {
                let next = guided_step(&self.descent.chunks, &times.slot_ns, &times.index_ns);
                self.descent.go(longest(&times.slot_ns), next);
            }
            _ => self.descent = begin(workload),
        }
        self.descent.chunks.clone().into()
    }

    fn is_steady(&self) -> bool {
        self.descent.steady
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sched::Team;
    use proptest::prelude::*;

    #[test]
    fn imbalance_passes_on_by_one_unit_per_step() {
        let mut work = vec![2.0; 12];
        work.extend([6.0; 4]);
        let mut chunks = static_chunks(16, 4);
        let mut steps = Vec::new();
        for _ in 0..4 {
            let done = Assignment::from(chunks.clone()).loads(4, &work);
            chunks = guided_step(&chunks, &done, &work);
            steps.push(chunks.iter().map(|chunk| chunk.end).collect::<Vec<_>>());
        }
        // The mean is 12. In the first step each unit appends two indices of work 2, regardless of how its first index
        // moves.
        assert_eq!(steps[0], [6, 10, 13, 16]);
        assert_eq!(steps[1], [6, 12, 13, 16]);
        assert_eq!(steps[2], [6, 12, 14, 16], "12 each");
        assert_eq!(steps[3], steps[2]);
    }

    #[test]
    fn every_unit_keeps_an_index_if_there_are_enough() {
        let heavy_end = [1.0, 1.0, 1.0, 1.0, 1.0, 100.0];
        let chunks = guided_step(&vec![0..2, 2..4, 4..6], &[2.0, 2.0, 101.0], &heavy_end);
        assert_eq!(chunks, [0..4, 4..5, 5..6]);
        let heavy_start = [100.0, 1.0, 1.0, 1.0, 1.0, 1.0];
        let chunks = guided_step(&vec![0..2, 2..4, 4..6], &[101.0, 2.0, 2.0], &heavy_start);
        assert_eq!(chunks[0], 0..1);
        assert_eq!(guided_step(&vec![0..1, 1..2, 2..2], &[1.0, 1.0, 0.0], &[1.0, 1.0]), [0..1, 1..2, 2..2]);
    }

    /// Returns the times of indices on 16 units that share a memory. An index takes twice as long while all units are
    /// busy as it does alone, and its time falls as other units end.
    /// shorter as others end.
    fn contended(chunks: &Chunks, work: &[f64]) -> Vec<f64> {
        let mut ends: Vec<f64> = chunks.iter().map(|chunk| work[chunk.clone()].iter().sum()).collect();
        ends.sort_by(f64::total_cmp);
        let at = |service: f64| {
            let (mut time, mut from) = (0.0, 0.0);
            for (ended, end) in ends.iter().enumerate() {
                let slowdown = 1.0 + (ends.len() - ended - 1) as f64 / (ends.len() - 1) as f64;
                time += (end.min(service) - from).max(0.0) * slowdown;
                from = *end;
            }
            time
        };
        let of_chunk = |chunk: &std::ops::Range<usize>| {
            let mut service = 0.0;
            let mut next = |index: usize| {
                let before = service;
                service += work[index];
                at(service) - at(before)
            };
            chunk.clone().map(&mut next).collect::<Vec<_>>()
        };
        chunks.iter().flat_map(of_chunk).collect()
    }

    #[test]
    fn search_continues_until_the_imbalance_has_passed_all_units() {
        let (units, indices) = (16, 256);
        let weights: Vec<f64> = (0..indices).map(|index| 20f64.powf(index as f64 / indices as f64)).collect();
        let workload = Workload { team: Team { cpus: units, devices: 0 }, weights: &weights, neighbours: None };
        let mut distribution = GuidedRuntime::default();
        let mut assignment = distribution.assign(&workload, None);
        let mut took: Vec<f64> = Vec::new();
        while !distribution.is_steady() {
            let times = Times::of(&assignment, units, contended(&distribution.descent.chunks, &weights));
            took.push(longest(&times.slot_ns));
            assignment = distribution.assign(&workload, Some(&times));
        }
        let first_gain = took.iter().position(|took_now| *took_now < 0.99 * took[0]);
        assert!(first_gain > Some(units), "a patience of one step per unit would not suffice: {first_gain:?}");
        let found = longest(&Times::of(&assignment, units, contended(&distribution.descent.chunks, &weights)).slot_ns);
        assert!(found < 0.65 * took[0], "{found} after {}", took[0]);
    }

    proptest! {
        #[test]
        fn both_end_with_chunks_no_worse_than_equal_chunks(
            weights in prop::collection::vec(0.1..10.0f64, 1..80),
            (cpus, devices) in (1..6usize, 0..3usize),
            pcf in 0.5..20.0f64,
        ) {
            let team = Team { cpus, devices };
            let workload = Workload { team, weights: &weights, neighbours: None };
            let take = |assignment: &Assignment| {
                let time = |(index, slot): (usize, &usize)| weights[index] / if team.is_device(*slot) { pcf } else { 1.0 };
                Times::of(assignment, team.len(), assignment.slots().iter().enumerate().map(time).collect())
            };
            let equal = Assignment::from(static_chunks(weights.len(), team.len()));
            let mut runtime = GuidedRuntime::default();
            let mut assignment = runtime.assign(&workload, None);
            let mut instances = 1;
            while !runtime.is_steady() {
                assignment = runtime.assign(&workload, Some(&take(&assignment)));
                prop_assert!(assignment.slots().is_sorted() && assignment.slots().len() == weights.len());
                instances += 1;
                prop_assert!(instances < 1000, "does not end");
            }
            prop_assert!(longest(&take(&assignment).slot_ns) <= longest(&take(&equal).slot_ns) * 1.0001);
            let sizes = GuidedSizes.assign(&workload, None);
            prop_assert!(sizes.slots().is_sorted());
            prop_assert!(longest(&sizes.loads(team.len(), &weights)) <= longest(&equal.loads(team.len(), &weights)) * 1.0001);
        }
    }
}
