//! Analysis of whether different iterations touch different elements, based on the structure of their indices.
//!
//! An index is a sum of multiples of loop variables and a bounded rest, just as a number is a sum of multiples of its
//! digits. If each multiple is at least as large as the range of all smaller multiples and the rest together, then
//! the sum determines all digits, that is, all loop variables. If that holds only from the largest multiple down to
//! some digit, the sum determines only these digits, and nothing is known about the smaller ones.

use super::form::{Interval, Known, MOST_LOOPS};

/// The role of a loop in the comparison of two iterations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// The loop's iterations run concurrently, so the indices must tell them apart.
    AtOnce,
    /// The loop's iterations run one after the other within a concurrent iteration.
    InTurns,
    /// Both compared accesses are in the same iteration of the loop.
    Fixed,
}

/// Returns whether different iterations of the concurrent loops never touch the same element. `accesses` has the
/// indices of each access, one per dimension.
pub(super) fn are_apart(roles: &[Role], accesses: &[Vec<Known>], ranges: &[Interval]) -> bool {
    let Some(first) = accesses.first() else { return true };
    let mut told = vec![false; roles.len()];
    for dimension in 0..first.len() {
        let indices: Vec<&Known> = accesses.iter().map(|access| &access[dimension]).collect();
        told_by(roles, &indices, ranges).into_iter().for_each(|variable| told[variable] = true);
    }
    let needs = |variable: &usize| roles[*variable] == Role::AtOnce && ranges[*variable].width() > 1;
    (0..roles.len()).filter(needs).all(|variable| told[variable])
}

/// Returns the loops whose iterations are uniquely determined by these indices.
fn told_by(roles: &[Role], indices: &[&Known], ranges: &[Interval]) -> Vec<usize> {
    let variables = 0..roles.len().min(MOST_LOOPS);
    let is_alike = |variable: &usize| {
        let first = indices[0].multiples[*variable];
        indices.iter().all(|index| index.multiples[*variable] == first)
    };
    let alike: Vec<usize> = variables.filter(is_alike).collect();
    // Variables whose multiples differ between accesses cannot serve as digits, so their whole range is part of the
    // rest.
    let Some(rest) = rest(&alike, indices, ranges) else { return Vec::new() };
    let mut width = rest.width();
    let digit = |variable: usize| (indices[0].multiples[variable].saturating_abs(), variable);
    let mut digits: Vec<(i128, usize)> = alike.into_iter().map(digit).collect();
    digits.retain(|(multiple, variable)| {
        *multiple > 0 && roles[*variable] != Role::Fixed && ranges[*variable].width() > 1
    });
    digits.sort_unstable();
    let mut told = Vec::new();
    for (multiple, variable) in digits {
        if width > multiple {
            told.clear();
        } else {
            told.push(variable);
        }
        let Some(wider) = multiple.checked_mul(ranges[variable].width() - 1).and_then(|more| width.checked_add(more))
        else {
            return Vec::new();
        };
        width = wider;
    }
    told
}

/// Returns the bounds of the indices without the multiples of these variables.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        /// Iterations that are reported to be disjoint really are disjoint, as a comparison of all elements shows.
        #[test]
        fn iterations_reported_disjoint_are_disjoint(
            trips in proptest::array::uniform3(1i128..5),
            accesses in proptest::collection::vec((proptest::array::uniform3(-9i128..10), -3i128..4, 0i128..3), 1..3),
            roles in proptest::array::uniform3(prop_oneof![Just(Role::AtOnce), Just(Role::InTurns), Just(Role::Fixed)]),
        ) {
            let ranges = trips.map(|trips| Interval::new(1, trips));
            let known = |(factors, first, more): &([i128; 3], i128, i128)| {
                let mut multiples = [0; MOST_LOOPS];
                multiples[..3].copy_from_slice(factors);
                let rest = Interval::new(*first, first + more);
                vec![Known { multiples, rest, all: rest }]
            };
            let all: Vec<_> = accesses.iter().map(known).collect();
            if !are_apart(&roles, &all, &ranges) {
                return Ok(());
            }
            // The iteration that touches each element, among the iterations with the same values of the fixed loops.
            let mut owners = HashMap::new();
            for a in 1..=trips[0] {
                for b in 1..=trips[1] {
                    for c in 1..=trips[2] {
                        let at = [a, b, c];
                        let of = |role| (0..3).filter(|n| roles[*n] == role).map(|n| at[n]).collect::<Vec<_>>();
                        for (factors, first, more) in &accesses {
                            for rest in *first..=first + more {
                                let index: i128 = (0..3).map(|n| factors[n] * at[n]).sum::<i128>() + rest;
                                let owner = owners.entry((of(Role::Fixed), index)).or_insert_with(|| of(Role::AtOnce));
                                prop_assert_eq!(&*owner, &of(Role::AtOnce));
                            }
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn rows_and_columns_are_disjoint_in_any_order() {
        let known = |multiples: [i128; 3]| {
            let mut all = [0; MOST_LOOPS];
            all[..3].copy_from_slice(&multiples);
            vec![Known { multiples: all, rest: Interval::new(0, 0), all: Interval::new(0, 0) }]
        };
        let ranges = [Interval::new(0, 5); 3];
        for multiples in [[36, 6, 1], [1, 6, 36], [6, 36, 1]] {
            for roles in [[Role::AtOnce; 3], [Role::AtOnce, Role::InTurns, Role::InTurns]] {
                assert!(are_apart(&roles, &[known(multiples)], &ranges), "{multiples:?}");
            }
        }
        assert!(!are_apart(&[Role::AtOnce; 3], &[known([36, 6, 0])], &ranges));
        // 5 × 7 equals 7 × 5.
        assert!(!are_apart(&[Role::AtOnce; 3], &[known([5, 7, 0])], &[Interval::new(0, 9); 3]));
    }
}
