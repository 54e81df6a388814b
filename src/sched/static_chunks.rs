//! `static`: equal numbers of indices for all units, in consecutive chunks (González Tallada 2024 (slides), "STATIC
//! scheduler"; González Tallada & Morancho 2024, §4.1).
//!
//! It considers neither the size of the indices nor the speed of the units.

use super::{Assignment, Chunks, Distribution, Times, Workload};

/// Cuts `0..len` into `units` chunks of equal length. The remainder goes to the first units, one index each (González
/// Tallada 2024 (slides)).
///
/// ```
/// use thalweg::sched::static_chunks;
/// assert_eq!(static_chunks(16, 4), [0..4, 4..8, 8..12, 12..16]); // the slides' <0,3> <4,7> <8,11> <12,15>
/// assert_eq!(static_chunks(5, 3), [0..2, 2..4, 4..5]);
/// ```
pub fn static_chunks(len: usize, units: usize) -> Chunks {
    chunks_from(0, len, units)
}

/// Like [`static_chunks`], for `len` indices starting at `first`.
pub(crate) fn chunks_from(first: usize, len: usize, units: usize) -> Chunks {
    let (each, over) = (len / units.max(1), len % units.max(1));
    let start = |unit: usize| first + unit * each + unit.min(over);
    (0..units).map(|unit| start(unit)..start(unit + 1)).collect()
}

/// Returns chunks for two clusters. The CPU units divide the first `cpu_tasks` indices, and the devices divide the
/// others, each by `static`.
pub(crate) fn clustered_chunks(len: usize, cpu_tasks: usize, workload: &Workload<'_>) -> Chunks {
    let mut chunks = chunks_from(0, cpu_tasks, workload.team.cpus);
    chunks.extend(chunks_from(cpu_tasks, len - cpu_tasks, workload.team.devices));
    chunks
}

/// The distribution based on [`static_chunks`].
///
/// ```
/// use thalweg::sched::{Distribution, Static, Team, Workload};
/// let workload = Workload { team: Team { cpus: 2, devices: 0 }, weights: &[1.0; 5], neighbours: None };
/// assert_eq!(Static.assign(&workload, None).slots(), [0, 0, 0, 1, 1]);
/// ```
#[derive(Debug, Clone, Default)]
pub struct Static;

impl Distribution for Static {
    fn name(&self) -> &'static str {
        "static"
    }

    fn assign(&mut self, workload: &Workload<'_>, _: Option<&Times>) -> Assignment {
        static_chunks(workload.len(), workload.team.len()).into()
    }

    fn is_steady(&self) -> bool {
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_or_no_indices_leave_units_empty() {
        assert_eq!(static_chunks(2, 4), [0..1, 1..2, 2..2, 2..2]);
        assert_eq!(static_chunks(0, 2), [0..0, 0..0]);
        assert_eq!(chunks_from(5, 11, 2), [5..11, 11..16]);
    }
}
