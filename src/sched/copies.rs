//! Estimates of copy times: default link speeds until copies are measured, fitted lines afterwards.
//!
//! For each destination memory a straight line, with a minimum time and a time per byte, is fitted to the latest
//! copies. Queueing delay on a busy link is part of the measured time, and so of the fitted line, unless the caller
//! models queues itself and learns times without queueing.

use crate::ids::SpaceId;

/// Expected copy time over a link, as latency and bandwidth.
///
/// ```
/// use thalweg::sched::LinkEstimate;
/// let link = LinkEstimate { latency_ns: 1000.0, bytes_per_s: 1e9 };
/// assert_eq!((link.copy_ns(0), link.copy_ns(4000)), (0.0, 5000.0));
/// ```
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct LinkEstimate {
    /// Minimum time of a copy, in nanoseconds.
    pub latency_ns: f64,
    /// Bandwidth of the link, in bytes per second.
    pub bytes_per_s: f64,
}

impl Default for LinkEstimate {
    /// Returns 10 µs and 10 GB/s, the order of magnitude of a PCI Express link.
    fn default() -> Self {
        Self { latency_ns: 1e4, bytes_per_s: 1e10 }
    }
}

impl LinkEstimate {
    /// Returns the time to copy this many bytes; 0 for 0 bytes.
    pub fn copy_ns(&self, bytes: u64) -> f64 {
        if bytes == 0 { 0.0 } else { self.latency_ns + bytes as f64 / self.bytes_per_s * 1e9 }
    }
}

/// Measurements of one finished copy.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::sched::{CopySample, Eft, LinkEstimate, Model, Policy};
/// let mut policy = Eft::new(Model::default(), LinkEstimate::default());
/// policy.copied(&CopySample { from: SpaceId::HOST, to: SpaceId(1), bytes: 8000, elapsed_ns: 2000, waited_ns: 0 });
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopySample {
    /// The source memory.
    pub from: SpaceId,
    /// The destination memory.
    pub to: SpaceId,
    /// Number of bytes copied.
    pub bytes: u64,
    /// Duration in nanoseconds, including any wait for the link that was measured as part of it.
    pub elapsed_ns: u64,
    /// The part of `elapsed_ns` that was spent waiting for the link.
    pub waited_ns: u64,
}

/// Length of the running means: a copy weighs at least 1/`MEMORY`, so that an estimate follows a machine that changes.
const MEMORY: f64 = 64.0;

/// Estimates of copy times.
#[derive(Debug, Default)]
pub(super) struct Copies {
    unmeasured: LinkEstimate,
    /// One fitted line per destination memory.
    to: Vec<Line>,
}

/// Running means over the latest copies, with the variance of bytes and the covariance of bytes and times.
#[derive(Debug, Clone, Copy, Default)]
struct Line {
    copies: f64,
    bytes: f64,
    ns: f64,
    variance: f64,
    covariance: f64,
}

impl Copies {
    /// Creates the estimates before any copy is measured.
    pub(super) fn new(unmeasured: LinkEstimate) -> Self {
        Self { unmeasured, to: Vec::new() }
    }

    /// Learns from a finished copy.
    pub(super) fn learn(&mut self, copy: &CopySample) {
        if self.to.len() <= copy.to.index() {
            self.to.resize(copy.to.index() + 1, Line::default());
        }
        self.to[copy.to.index()].learn(copy.bytes as f64, copy.elapsed_ns as f64);
    }

    /// Learns from a finished copy, but ignores the time that it waited for other copies.
    pub(super) fn learn_alone(&mut self, copy: &CopySample) {
        self.learn(&CopySample { elapsed_ns: copy.elapsed_ns.saturating_sub(copy.waited_ns), ..*copy });
    }

    /// Returns the expected time of a copy of this many bytes to a memory.
    pub(super) fn copy_ns(&self, to: SpaceId, bytes: u64) -> f64 {
        match self.to.get(to.index()) {
            _ if bytes == 0 => 0.0,
            Some(line) if line.copies > 0.0 => line.at(bytes as f64),
            _ => self.unmeasured.copy_ns(bytes),
        }
    }
}

impl Line {
    fn learn(&mut self, bytes: f64, ns: f64) {
        self.copies = (self.copies + 1.0).min(MEMORY);
        let weight = 1.0 / self.copies;
        let (off_bytes, off_ns) = (bytes - self.bytes, ns - self.ns);
        self.bytes += weight * off_bytes;
        self.ns += weight * off_ns;
        self.variance = (1.0 - weight) * (self.variance + weight * off_bytes * off_bytes);
        self.covariance = (1.0 - weight) * (self.covariance + weight * off_bytes * off_ns);
    }

    /// Evaluates the line. If all copies had about the same size, the time per byte is unknown, so the time is taken to
    /// be proportional to the bytes.
    fn at(&self, bytes: f64) -> f64 {
        let in_proportion = self.ns / self.bytes.max(1.0);
        let varies = self.variance > 1e-4 * self.bytes * self.bytes;
        let per_byte = if varies { (self.covariance / self.variance).clamp(0.0, in_proportion) } else { in_proportion };
        self.ns + per_byte * (bytes - self.bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(to: u16, bytes: u64, elapsed_ns: u64) -> CopySample {
        CopySample { from: SpaceId::HOST, to: SpaceId(to), bytes, elapsed_ns, waited_ns: 0 }
    }

    #[test]
    fn fitted_line_replaces_the_default_estimate() {
        let mut copies = Copies::new(LinkEstimate { latency_ns: 100.0, bytes_per_s: 1e9 });
        assert_eq!((copies.copy_ns(SpaceId(1), 50), copies.copy_ns(SpaceId(1), 0)), (150.0, 0.0));
        for n in 0..200 {
            let bytes = 1000 * (1 + n % 5);
            copies.learn(&sample(1, bytes, 7000 + 2 * bytes));
        }
        for bytes in [500u64, 3000, 100_000] {
            let (found, expected) = (copies.copy_ns(SpaceId(1), bytes), (7000 + 2 * bytes) as f64);
            assert!((found / expected - 1.0).abs() < 1e-3, "{bytes}: {found} of {expected}");
        }
        assert_eq!(copies.copy_ns(SpaceId(2), 50), 150.0, "another memory");
    }

    #[test]
    fn copies_of_one_size_scale_and_old_ones_fade() {
        let mut copies = Copies::default();
        copies.learn(&sample(0, 1000, 4000));
        assert_eq!(copies.copy_ns(SpaceId::HOST, 2000), 8000.0);
        (0..1000).for_each(|_| copies.learn(&sample(0, 1000, 1000)));
        assert!((copies.copy_ns(SpaceId::HOST, 1000) - 1000.0).abs() < 1.0);
        copies.learn(&sample(3, 0, 0)); // a copy of 0 bytes in 0 ns
        assert!(copies.copy_ns(SpaceId(3), 10) >= 0.0);
    }
}
