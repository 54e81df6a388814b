//! The handle of a counted resource.

use crate::depend::Line;
use std::fmt;
use std::sync::Arc;

/// Parts that an amount of 1 is counted in, so that decimal fractions add up exactly.
const PARTS: f64 = 1e6;
/// Largest amount. Its parts, and the parts of any smaller amount, are exact in an `f64`.
const MOST: f64 = 9e9;

/// A limited resource, such as licenses, connections or bandwidth, that tasks use in given amounts. Clones are
/// handles of the same resource.
///
/// Made by [`Runtime::resource`](crate::Runtime::resource); [`TaskBuilder::uses`](crate::TaskBuilder::uses) says how
/// much of it a task uses.
#[derive(Clone)]
pub struct Resource {
    line: Arc<Line>,
    runtime: u64,
}

impl Resource {
    pub(crate) fn new(runtime: u64, name: &str, total: f64) -> Option<Self> {
        let total = parts(total).filter(|total| *total > 0)?;
        Some(Self { line: Line::of_resource(name, total), runtime })
    }

    /// Returns the resource's name.
    pub fn name(&self) -> &str {
        self.line.name()
    }

    /// Returns the amount that tasks can use at a time.
    pub fn total(&self) -> f64 {
        amount(self.line.capacity())
    }

    pub(crate) fn line(&self) -> &Arc<Line> {
        &self.line
    }

    pub(crate) fn runtime(&self) -> u64 {
        self.runtime
    }
}

impl fmt::Debug for Resource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Resource({} of `{}`)", self.total(), self.name())
    }
}

/// Returns an amount in parts; `None` if it is negative, too large, or not a number.
pub(crate) fn parts(amount: f64) -> Option<u64> {
    let is_amount = (0.0..=MOST).contains(&amount);
    // An amount such as 0.3 is not exact in binary: its parts are rounded to the nearest number, unless that is 0.
    is_amount.then(|| (amount * PARTS).round().max(if amount > 0.0 { 1.0 } else { 0.0 }) as u64)
}

/// Returns the amount that consists of this number of parts.
pub(crate) fn amount(parts: u64) -> f64 {
    parts as f64 / PARTS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decimal_fractions_add_up() {
        assert_eq!(parts(0.1).map(|part| 3 * part), parts(0.3));
        assert_eq!((parts(1e-9), parts(0.0), parts(MOST)), (Some(1), Some(0), Some(9_000_000_000_000_000)));
        assert_eq!([-0.1, f64::NAN, f64::INFINITY, 1e10].map(parts), [None; 4]);
        assert_eq!(amount(parts(2.5).unwrap()), 2.5);
    }
}
