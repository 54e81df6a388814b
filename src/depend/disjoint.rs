//! Overlap check for the accesses of one task: a region that is written must not overlap any other.

use super::register::FEW_ACCESSES;
use super::{AccessRecord, Datum};
use crate::region::BoxTree;

/// Returns two of these accesses that overlap, at least one of them a write, in the order of their declaration.
#[inline]
pub(crate) fn overlap<'r, 'a>(
    accesses: &'r [AccessRecord<'a>],
) -> Option<(&'r AccessRecord<'a>, &'r AccessRecord<'a>)> {
    if accesses.len() > FEW_ACCESSES {
        return overlap_of_many(accesses);
    }
    for (i, second) in accesses.iter().enumerate() {
        if let Some(first) = accesses[..i].iter().find(|first| first.conflicts_with(second)) {
            return Some((first, second));
        }
    }
    None
}

/// Like [`overlap`], but does not compare every pair.
#[cold]
fn overlap_of_many<'r, 'a>(accesses: &'r [AccessRecord<'a>]) -> Option<(&'r AccessRecord<'a>, &'r AccessRecord<'a>)> {
    let datum = |i: &usize| std::ptr::from_ref::<Datum>(accesses[*i].datum).addr();
    let mut order: Vec<_> = (0..accesses.len()).collect();
    order.sort_by_key(datum);
    let of_one = order.chunk_by(|a, b| datum(a) == datum(b)).filter(|of_one| of_one.len() > 1);
    of_one.into_iter().find_map(|of_one| {
        let whole = accesses[of_one[0]].datum.whole();
        let (mut read, mut written) = (BoxTree::new(&whole), BoxTree::new(&whole));
        of_one.iter().enumerate().find_map(|(place, second)| {
            let AccessRecord { block, mode, .. } = accesses[*second];
            let mut first: Option<usize> = None;
            let mut found = |other: u32| first = Some(first.map_or(other as usize, |first| first.min(other as usize)));
            written.find(block, &mut found);
            if mode.writes() {
                read.find(block, &mut found);
            }
            if !block.is_empty() {
                let same = if mode.writes() { &mut written } else { &mut read };
                same.insert(block, u32::try_from(place).expect("a task's accesses are fewer than 2³²"));
            }
            first.map(|first| (&accesses[of_one[first]], &accesses[*second]))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::Mode;
    use crate::ids::DataId;
    use crate::region::Block;

    /// The indices of the two overlapping accesses; checks that both algorithms agree on whether there are any.
    fn places(accesses: &[AccessRecord<'_>]) -> Option<(usize, usize)> {
        let place = |access: &AccessRecord<'_>| accesses.iter().position(|one| std::ptr::eq(one, access)).unwrap();
        let by_both = [overlap(accesses), overlap_of_many(accesses)];
        let [few, many] = by_both.map(|found| found.map(|(first, second)| (place(first), place(second))));
        assert_eq!(few.is_some(), many.is_some());
        many
    }

    #[test]
    fn overlaps_of_many_accesses_match_those_of_few() {
        let data = [0, 1].map(|id| Datum::new(DataId(id), &[100, 100], 8, false));
        let row = |i: usize| Block::new(&[i..i + 1, 0..100]);
        let rows: Vec<_> = (0..40).map(row).collect();
        let all = |mode| -> Vec<_> { rows.iter().map(|block| AccessRecord { datum: &data[0], block, mode }).collect() };
        assert_eq!(places(&all(Mode::Inout)), None);
        let (column, nothing) = (Block::new(&[7..100, 3..4]), Block::new(&[7..7, 3..4]));
        for (mode, other, expected) in [
            (Mode::Inout, Mode::In, Some((7, 40))),
            (Mode::In, Mode::Out, Some((7, 40))),
            (Mode::In, Mode::In, None),
            (Mode::In, Mode::After, None),
        ] {
            let mut accesses = all(mode);
            accesses.push(AccessRecord { datum: &data[0], block: &column, mode: other });
            assert_eq!(places(&accesses), expected);
            accesses[40].block = &nothing;
            assert_eq!(places(&accesses), None, "an empty region overlaps nothing");
            accesses[40] = AccessRecord { datum: &data[1], block: &column, mode: other };
            assert_eq!(places(&accesses), None, "another data object");
        }
    }
}
