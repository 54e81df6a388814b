//! Whether iterations touch elements of their own, by what their indices are made of.
//!
//! An index is a sum of multiples of loops' variables and a rest with bounds. If a variable's multiple is at least as large
//! as all that the others and the rest can make, then two values of it never give the same index: as digits of a number.

use super::form::{Interval, Known};

/// A loop whose iterations run at once: the number of its variable, and how many there are.
pub(super) type Loop = (usize, i128);

/// Whether different iterations of these loops never touch the same element, if these are the indices of all that they
/// touch, per access one for each dimension.
pub(super) fn are_apart(loops: &[Loop], accesses: &[Vec<Known>], ranges: &[Interval]) -> bool {
    let loops: Vec<Loop> = loops.iter().copied().filter(|(_, trips)| *trips > 1).collect();
    let Some(first) = accesses.first() else { return true };
    let mut found = vec![false; loops.len()];
    for dimension in 0..first.len() {
        let of: Vec<&Known> = accesses.iter().map(|access| &access[dimension]).collect();
        for n in told_apart(&loops, &of, ranges) {
            found[n] = true;
        }
    }
    found.iter().all(|found| *found)
}

/// The loops whose iterations are told apart by these indices alone.
fn told_apart(loops: &[Loop], indices: &[&Known], ranges: &[Interval]) -> Vec<usize> {
    let multiple = |index: &Known, variable: usize| index.multiples.get(variable).copied().unwrap_or(0);
    let is_alike = |(variable, _): &Loop| {
        let first = multiple(indices[0], *variable);
        indices.iter().all(|index| multiple(index, *variable) == first)
    };
    if !loops.iter().all(is_alike) {
        return Vec::new();
    }
    let numbers: Vec<usize> = loops.iter().map(|(variable, _)| *variable).collect();
    let Some(rest) = rest(&numbers, indices, ranges) else { return Vec::new() };
    let mut width = rest.width();
    let mut digits: Vec<(i128, i128, usize)> = loops
        .iter()
        .enumerate()
        .map(|(n, (variable, trips))| (multiple(indices[0], *variable).abs(), *trips, n))
        .filter(|(multiple, ..)| *multiple > 0)
        .collect();
    digits.sort_unstable();
    let mut found = Vec::new();
    for (multiple, trips, n) in digits {
        if width <= multiple {
            found.push(n);
        }
        let Some(wider) = multiple.checked_mul(trips - 1).and_then(|more| width.checked_add(more)) else { break };
        width = wider;
    }
    found
}

/// All that indices can be without the multiples of these variables.
pub(super) fn rest(without: &[usize], indices: &[&Known], ranges: &[Interval]) -> Option<Interval> {
    let mut all: Option<Interval> = None;
    for index in indices {
        let (mut least, mut most) = (index.rest.least, index.rest.most);
        for (variable, multiple) in index.multiples.iter().enumerate() {
            if *multiple == 0 || without.contains(&variable) {
                continue;
            }
            let range = ranges.get(variable)?;
            if range.is_empty() {
                continue;
            }
            let (a, b) = (multiple.checked_mul(range.least)?, multiple.checked_mul(range.most)?);
            (least, most) = (least.checked_add(a.min(b))?, most.checked_add(a.max(b))?);
        }
        all = Some(match all {
            None => Interval::new(least, most),
            Some(all) => Interval::new(all.least.min(least), all.most.max(most)),
        });
    }
    all
}
