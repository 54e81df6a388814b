//! Simulated makespans next to those of real runs of the same program on other units or under other schedulers.
//!
//! Runs on the same units under the same scheduler form a group, which is simulated once. A real run can only be
//! disturbed, so the shortest run of a group is the one nearest to an idle machine.
//!
//! This module never adapts a simulation to the runs that it is compared with.

use super::{makespan_ns, own_scheduler, time, units_of};
use std::collections::BTreeMap;
use std::path::PathBuf;
use thalweg_trace::Trace;

/// The makespans of real runs in nanoseconds, in ascending order, by units and scheduler.
pub(super) type Groups = BTreeMap<(String, String), Vec<u64>>;

/// Reads the traces and groups their makespans.
pub(super) fn read(paths: &[PathBuf]) -> Result<Groups, String> {
    let mut groups = Groups::new();
    for path in paths {
        let trace = Trace::read(path).map_err(|error| {
            format!("cannot compare with {}: {error}; try the trace of a run that has ended", path.display())
        })?;
        groups.entry((units_of(&trace), own_scheduler(&trace))).or_default().push(makespan_ns(&trace));
    }
    groups.values_mut().for_each(|runs| runs.sort_unstable());
    Ok(groups)
}

/// Describes a group and the ratios of the simulated makespan to the measured ones.
pub(super) fn line((units, scheduler): &(String, String), runs: &[u64], simulated: u64) -> String {
    let over = |measured: u64| simulated as f64 / measured.max(1) as f64;
    let quantile = |part: usize| runs[(runs.len() - 1) * part / 4];
    format!(
        "compare: {units} by {scheduler}, simulated {}, shortest of {} runs {}, ratio {:.3}; median {}, ratio {:.3}; \
         quartiles of the ratio {:.3} to {:.3}",
        time(simulated),
        runs.len(),
        time(runs[0]),
        over(runs[0]),
        time(quantile(2)),
        over(quantile(2)),
        over(quantile(3)),
        over(quantile(1)),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_has_the_ratios_to_the_shortest_and_the_median_run() {
        let group = ("2:CPU:1".to_owned(), "eft".to_owned());
        let expected = "compare: 2:CPU:1 by eft, simulated 1.100 ms, shortest of 5 runs 1.000 ms, ratio 1.100; median \
                        2.200 ms, ratio 0.500; quartiles of the ratio 0.250 to 1.000";
        assert_eq!(line(&group, &[1_000_000, 1_100_000, 2_200_000, 4_400_000, 9_000_000], 1_100_000), expected);
    }
}
