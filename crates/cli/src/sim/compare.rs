//! Simulated makespans next to those of real runs of the same program on other units or under other schedulers.
//!
//! Runs on the same units under the same scheduler form a group, which is simulated once. A real run can only be
//! disturbed, so the shortest run of a group is the one nearest to an idle machine. *Work* is the sum of the times of
//! all tasks; if that of a run is not that of the recorded one, tasks slowed each other down, or were slowed down.
//!
//! This module never adapts a simulation to the runs that it is compared with.

use super::measured::Measured;
use super::{makespan_ns, own_scheduler, time, units_of};
use std::collections::BTreeMap;
use std::path::PathBuf;
use thalweg_trace::Trace;

/// The makespan of a real run and its work, in nanoseconds. Runs are ordered by makespan.
#[derive(Debug, Clone, Copy, PartialEq, PartialOrd)]
pub(super) struct Real {
    makespan_ns: u64,
    work_ns: f64,
}

/// Real runs in ascending order, by units and scheduler.
pub(super) type Groups = BTreeMap<(String, String), Vec<Real>>;

/// Reads the traces and groups them.
pub(super) fn read(paths: &[PathBuf]) -> Result<Groups, String> {
    let mut groups = Groups::new();
    for path in paths {
        let trace = Trace::read(path).map_err(|error| {
            format!("cannot compare with {}: {error}; try the trace of a run that has ended", path.display())
        })?;
        let real = Real { makespan_ns: makespan_ns(&trace), work_ns: Measured::of(&trace).work_ns() };
        groups.entry((units_of(&trace), own_scheduler(&trace))).or_default().push(real);
    }
    groups.values_mut().for_each(|runs| runs.sort_by_key(|run| run.makespan_ns));
    Ok(groups)
}

/// Describes a group and the ratios of the simulated makespan to the measured ones. `work_ns` is the recorded work.
pub(super) fn line((units, scheduler): &(String, String), runs: &[Real], simulated: u64, work_ns: f64) -> String {
    let quantile = |part: usize| runs[(runs.len() - 1) * part / 4].makespan_ns;
    let over = |part: usize| simulated as f64 / quantile(part).max(1) as f64;
    format!(
        "compare: {units} by {scheduler}, simulated {}, shortest of {} runs {}, ratio {:.3}, work {:.3}; median {}, \
         ratio {:.3}, quartiles {:.3} to {:.3}",
        time(simulated),
        runs.len(),
        time(quantile(0)),
        over(0),
        runs[0].work_ns / work_ns,
        time(quantile(2)),
        over(2),
        over(3),
        over(1),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_ratios_to_the_shortest_and_the_median_run() {
        let group = ("2:CPU:1".to_owned(), "eft".to_owned());
        let expected = "compare: 2:CPU:1 by eft, simulated 1.100 ms, shortest of 5 runs 1.000 ms, ratio 1.100, work \
                        1.500; median 2.200 ms, ratio 0.500, quartiles 0.250 to 1.000";
        let real = |makespan_ns| Real { makespan_ns, work_ns: 1.5 * makespan_ns as f64 };
        let runs = [1_000_000, 1_100_000, 2_200_000, 4_400_000, 9_000_000].map(real);
        assert_eq!(line(&group, &runs, 1_100_000, 1e6), expected);
    }
}
