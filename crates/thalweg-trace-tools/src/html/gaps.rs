//! The gaps between each unit's bodies, with their causes, limited to gaps that are long enough to be visible.
//!
//! A run of a million tasks has millions of gaps, most of them shorter than a pixel at any useful scale. Gaps below a
//! threshold are left out, and the threshold rises until at most 200 000 gaps remain.

use super::columns::Columns;
use crate::analysis::{Activity, Analysis, Stretch};

/// Maximum number of gaps to keep.
const LIMIT: usize = 200_000;
/// Divisor for the initial threshold: gaps shorter than the run divided by this are left out.
const FINEST: u64 = 100_000;

/// A gap: unit, start, end, and the index of its activity in [`Activity::ALL`].
type Gap = (usize, u64, u64, u64);

/// Collects gaps.
pub(super) struct Gaps {
    shortest: u64,
    units: usize,
    kept: Vec<Gap>,
}

impl Gaps {
    pub(super) fn new(analysis: &Analysis) -> Self {
        Self { shortest: analysis.makespan() / FINEST, units: analysis.units.len(), kept: Vec::new() }
    }

    /// Adds a stretch of a unit's time. Stretches must be added unit by unit, in order of time within a unit.
    pub(super) fn add(&mut self, stretch: &Stretch) {
        let Stretch { unit, start, end, activity, .. } = *stretch;
        let length = end.saturating_sub(start);
        let Some(activity) = Activity::ALL.iter().position(|known| *known == activity) else { return };
        if activity == 0 || length == 0 || length < self.shortest {
            return;
        }
        match self.kept.last_mut() {
            // Adjacent stretches that differ only in the program's state count as one gap.
            Some((last, _, until, same)) if (*last, *until, *same) == (unit, start, activity as u64) => *until = end,
            _ => self.kept.push((unit, start, end, activity as u64)),
        }
        while self.kept.len() > LIMIT {
            self.shortest = (self.shortest * 2).max(1);
            let shortest = self.shortest;
            self.kept.retain(|(_, start, end, _)| end - start >= shortest);
        }
    }

    /// Appends the columns: the number of gaps of each unit, then the start, duration and activity of each gap.
    pub(super) fn encode(&self, columns: &mut Columns) {
        let mut counts = vec![0_u64; self.units];
        for (unit, ..) in &self.kept {
            counts[*unit] += 1;
        }
        columns.plain("gap.rows", counts);
        columns.deltas("gap.start", self.kept.iter().map(|(_, start, ..)| *start));
        columns.plain("gap.duration", self.kept.iter().map(|(_, start, end, _)| end - start));
        columns.plain("gap.activity", self.kept.iter().map(|(.., activity)| *activity));
    }
}
