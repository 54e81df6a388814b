//! The pivot search: halves a bracket around the pivot and keeps the best layout so far.

use super::limit;
use crate::sched::balance::balanced_chunks;
use crate::sched::static_chunks::clustered_chunks;
use crate::sched::{Chunks, Times, Workload};

/// If the balanced times of the two clusters differ by more than this fraction, the pivot moves without balancing
/// first.
const WRONG_ANYWAY: f64 = 0.05;
/// Times that differ by less than this fraction count as equal.
const EQUAL: f64 = 0.01;

/// The chunks on both sides of a pivot.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Layout {
    pub(super) pivot: usize,
    pub(super) chunks: Chunks,
}

impl Layout {
    /// Creates equal chunks in both clusters.
    pub(super) fn equal(workload: &Workload<'_>, pivot: usize) -> Self {
        let pivot = clamp(workload, pivot);
        Self { pivot, chunks: clustered_chunks(workload.len(), pivot, workload) }
    }

    /// Returns the optimal chunks for the given times, and the longest time of each cluster.
    fn balanced(workload: &Workload<'_>, pivot: usize, times: &Times, speeds: &[f64]) -> (Self, [f64; 2]) {
        let work: Vec<f64> = times.index_ns.iter().zip(&times.slot).map(|(ns, slot)| ns * speeds[*slot]).collect();
        let (cpus, devices) = speeds.split_at(workload.team.cpus);
        let mut chunks = balanced_chunks(&work[..pivot], cpus);
        let right = balanced_chunks(&work[pivot..], devices);
        chunks.extend(right.into_iter().map(|chunk| chunk.start + pivot..chunk.end + pivot));
        let took = chunks.iter().zip(speeds).map(|(chunk, speed)| work[chunk.clone()].iter().sum::<f64>() / speed);
        let took = Times { index_ns: Vec::new(), slot: Vec::new(), slot_ns: took.collect(), slot_j: None };
        (Self { pivot, chunks }, took.longest(workload.team))
    }
}

/// Limits the pivot so that a cluster without units gets no index.
fn clamp(workload: &Workload<'_>, pivot: usize) -> usize {
    match (workload.team.cpus, workload.team.devices) {
        (0, _) => 0,
        (_, 0) => workload.len(),
        _ => pivot,
    }
}

/// The result of evaluating a probe.
pub(super) enum Found {
    Balance(Layout),
    Move(usize),
    Best(Layout),
}

fn least(seen: &[(f64, Layout)]) -> Option<&(f64, Layout)> {
    seen.iter().min_by(|one, other| one.0.total_cmp(&other.0))
}

#[derive(Debug, Clone)]
pub(super) struct Search {
    left: usize,
    right: usize,
    tried: Vec<usize>,
    /// The measured time of each layout.
    measured: Vec<(f64, Layout)>,
    /// Expected times of other layouts, computed from times of the same indices on the same unit kind.
    computed: Vec<(f64, Layout)>,
    /// Whether no pivot is left to try. Layouts that are expected to be better than all measured ones are then
    /// measured.
    closing: bool,
    instances: u32,
    limit: u32,
}

impl Search {
    /// Starts a search over all pivots, when this many instances have already been assigned.
    pub(super) fn new(workload: &Workload<'_>, instances: u32) -> Self {
        let (left, right) = (clamp(workload, 0), clamp(workload, workload.len()));
        let (measured, computed) = (Vec::new(), Vec::new());
        Self { left, right, tried: Vec::new(), measured, computed, closing: false, instances, limit: limit(workload) }
    }

    /// Counts one more assigned instance.
    pub(super) fn count(&mut self) {
        self.instances += 1;
    }

    /// Returns whether 4·log₂(N) instances have been assigned.
    pub(super) fn is_spent(&self) -> bool {
        self.instances > self.limit
    }

    /// Returns the best measured layout, ignoring expected times.
    pub(super) fn best(&self) -> Option<Layout> {
        least(&self.measured).map(|(_, layout)| layout.clone())
    }

    /// Records a measured time, replacing the expected time if there is one.
    fn measure(&mut self, longest: f64, layout: &Layout) {
        for seen in [&mut self.measured, &mut self.computed] {
            seen.retain(|(_, other)| other != layout);
        }
        self.measured.push((longest, layout.clone()));
    }

    /// Records an expected time.
    fn expect(&mut self, longest: f64, layout: &Layout) {
        if self.measured.iter().all(|(_, other)| other != layout) {
            self.computed.retain(|(_, other)| other != layout);
            self.computed.push((longest, layout.clone()));
        }
    }

    /// Ends the search when no pivot is left. Returns the best layout, or first a layout to measure because it is
    /// expected to be better.
    fn close(&mut self) -> Found {
        let best = least(&self.measured).cloned().unwrap_or_default();
        match least(&self.computed) {
            Some((expected, layout)) if *expected < best.0 * (1.0 - EQUAL) && self.instances + 2 <= self.limit => {
                self.closing = true;
                Found::Balance(layout.clone())
            }
            _ => Found::Best(best.1),
        }
    }

    /// Evaluates a probed layout.
    pub(super) fn judge(
        &mut self,
        workload: &Workload<'_>,
        times: &Times,
        layout: &Layout,
        speeds: &[f64],
        balanced: bool,
    ) -> Found {
        let pivot = layout.pivot;
        let longest = |[cpus, devices]: [f64; 2]| cpus.max(devices);
        let mut took = times.longest(workload.team);
        self.measure(longest(took), layout);
        if self.closing {
            return self.close();
        }
        if !balanced {
            let (better, expected) = Layout::balanced(workload, pivot, times, speeds);
            let apart = (expected[0] - expected[1]).abs() > longest(expected) * WRONG_ANYWAY;
            let one_cluster = self.left == self.right;
            if longest(expected) < longest(took) * (1.0 - EQUAL) && (!apart || one_cluster) {
                self.expect(longest(expected), &better);
                return Found::Balance(better);
            }
            self.expect(longest(expected), &better);
            took = expected;
        }
        self.tried.push(pivot);
        let [cpus, devices] = took;
        if (cpus - devices).abs() <= longest(took) * EQUAL || self.left == self.right {
            return self.close();
        }
        if cpus > devices {
            self.right = pivot
        } else {
            self.left = pivot
        }
        let middle = self.left + (self.right - self.left) / 2;
        let untried = [middle, self.left, self.right].into_iter().find(|pivot| !self.tried.contains(pivot));
        match untried.filter(|_| self.left < self.right) {
            Some(next) => Found::Move(next),
            None => self.close(),
        }
    }
}
