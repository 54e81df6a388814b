//! Whether iterations touch elements of their own, by what their indices are made of.
//!
//! An index is a sum of multiples of loops' variables and a rest with bounds, as a number is one of digits: if each multiple
//! is at least as large as all that the smaller ones and the rest can make, then the sum tells all digits. Where that holds
//! from the largest multiple down to some digit only, it tells those; of smaller ones it tells nothing.

use super::form::{Interval, Known, MOST_LOOPS};

/// What a loop is to the question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Role {
    /// Its iterations run at once: they have to be told apart.
    AtOnce,
    /// Its iterations come one after the other in one of those that run at once.
    InTurns,
    /// It is in the same iteration on both sides.
    Fixed,
}

/// Whether different iterations of the loops that run at once never touch the same element, if these are the indices of all
/// that they touch: per access one for each dimension.
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

/// The loops whose iterations are told by these indices alone.
fn told_by(roles: &[Role], indices: &[&Known], ranges: &[Interval]) -> Vec<usize> {
    let variables = 0..roles.len().min(MOST_LOOPS);
    let is_alike = |variable: &usize| {
        let first = indices[0].multiples[*variable];
        indices.iter().all(|index| index.multiples[*variable] == first)
    };
    let alike: Vec<usize> = variables.filter(is_alike).collect();
    // What differs between accesses is no digit: all that it can be is in the rest.
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::HashMap;

    proptest! {
        #![proptest_config(ProptestConfig { cases: 2000, ..ProptestConfig::default() })]
        /// Where iterations are said to be apart, they are: all elements are compared.
        #[test]
        fn what_is_said_to_be_apart_is(
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
            // Who touches an element, of those with the same fixed loops.
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
    fn rows_and_columns_are_apart_in_any_order() {
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
        // 5 x 7 is 7 x 5.
        assert!(!are_apart(&[Role::AtOnce; 3], &[known([5, 7, 0])], &[Interval::new(0, 9); 3]));
    }
}
