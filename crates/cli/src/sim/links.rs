//! Links and memories of a recorded machine, derived from the copies in a trace.
//!
//! A link's latency and rate are fitted to its copies by least squares. A link without copies takes no time,
//! because nothing is known about it.

use std::collections::BTreeSet;
use thalweg::machine::UnitKind;
use thalweg_trace::{Copy, Trace};
use toml::{Table, Value};

/// The rate, in bytes per second, of a link or a unit's memory that effectively takes no time.
pub(super) const FAST: f64 = 1e15;

/// Returns the links between the host and the devices of these kinds, and between devices that copied to each
/// other.
pub(super) fn fitted(trace: &Trace, kinds: impl Iterator<Item = UnitKind>) -> Vec<Value> {
    let kind_of = |space: usize| {
        let word = trace.spaces.get(space)?.split(' ').next()?;
        UnitKind::from_keyword(word)
    };
    let between = |copy: &Copy| {
        let (a, b) = (kind_of(copy.from), kind_of(copy.to));
        (a.min(b), a.max(b))
    };
    let mut pairs: BTreeSet<_> = kinds.filter(|kind| kind.is_device()).map(|kind| (None, Some(kind))).collect();
    pairs.extend(trace.copies.iter().filter(|copy| copy.from != copy.to).map(between));
    let link = |(a, b): (Option<UnitKind>, Option<UnitKind>)| {
        let copies = trace.copies.iter().filter(|copy| copy.from != copy.to && between(copy) == (a, b));
        let time = |copy: &Copy| copy.end.saturating_sub(copy.start).saturating_sub(copy.waited);
        let (latency_ns, bytes_per_s) = fit(copies.map(|copy| (copy.bytes as f64, time(copy) as f64)));
        let end = |kind: Option<UnitKind>| Value::String(kind.map_or("host", |kind| kind.keyword()).to_owned());
        Value::Table(Table::from_iter([
            ("between".to_owned(), Value::Array(vec![end(a), end(b)])),
            ("latency_ns".to_owned(), Value::Float(latency_ns)),
            ("bytes_per_s".to_owned(), Value::Float(bytes_per_s)),
        ]))
    };
    pairs.into_iter().filter(|pair| *pair != (None, None)).map(link).collect()
}

/// Returns the memory size of each device of a kind, which is estimated as the maximum in use; `None` unless copies
/// made room in that memory.
pub(super) fn memory_bytes(trace: &Trace, kind: UnitKind) -> Option<u64> {
    let is_of_kind = |space: usize| {
        let name = trace.spaces.get(space).and_then(|name| name.split(' ').next());
        name.and_then(UnitKind::from_keyword) == Some(kind)
    };
    let was_short = trace.copies.iter().any(|copy| copy.evicts && is_of_kind(copy.from));
    let used = trace.memory.iter().filter(|memory| is_of_kind(memory.space)).map(|memory| memory.bytes);
    used.max().filter(|bytes| was_short && *bytes > 0)
}

/// Returns the latency in nanoseconds and the rate in bytes per second that best fit these sizes and times.
fn fit(samples: impl Iterator<Item = (f64, f64)>) -> (f64, f64) {
    let (mut n, mut x, mut y, mut xx, mut xy) = (0.0, 0.0, 0.0, 0.0, 0.0);
    for (bytes, ns) in samples {
        (n, x, y, xx, xy) = (n + 1.0, x + bytes, y + ns, xx + bytes * bytes, xy + bytes * ns);
    }
    if n == 0.0 {
        return (0.0, FAST);
    }
    let spread = n * xx - x * x;
    let slope = if spread > 1e-9 * n * xx { (n * xy - x * y) / spread } else { 0.0 };
    let latency_ns = (y - slope * x) / n;
    if slope > 0.0 && latency_ns >= 0.0 {
        return (latency_ns, (1e9 / slope).clamp(1.0, FAST));
    }
    // If all copies have the same size, or the noise is too large, use the mean rate.
    (0.0, if y > 0.0 { (1e9 * x / y).clamp(1.0, FAST) } else { FAST })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fit_finds_latency_and_rate() {
        let (latency, rate) = fit([1000.0, 5000.0, 100.0].into_iter().map(|bytes| (bytes, 700.0 + 2.0 * bytes)));
        assert!((latency - 700.0).abs() < 1e-6 && (rate - 5e8).abs() < 1.0, "{latency} {rate}");
        assert_eq!(fit([(100.0, 50.0), (100.0, 150.0)].into_iter()), (0.0, 1e9));
        assert_eq!(fit([(100.0, 50.0), (200.0, 10.0)].into_iter()), (0.0, 5e9));
        assert_eq!(fit(std::iter::empty()), (0.0, FAST));
    }
}
