//! The algebra of boxes, compared with sets of points.

use std::collections::HashSet;
use thalweg::region::Block;

pub(crate) fn valid() -> Vec<Vec<u8>> {
    vec![vec![0x05, 0x27, 0x03, 0x44, 0x16, 0x25, 0x13, 0x04], vec![0x04; 8], vec![0x33, 0x05, 0x05, 0x05]]
}

type Point = [usize; 4];

fn points(block: &Block) -> HashSet<Point> {
    let [i, j, k, l] = [0, 1, 2, 3].map(|d| block.range(d));
    let all = i.flat_map(|i| j.clone().map(move |j| [i, j]));
    let all = all.flat_map(|[i, j]| k.clone().map(move |k| [i, j, k]));
    all.flat_map(|[i, j, k]| l.clone().map(move |l| [i, j, k, l])).collect()
}

/// Takes two boxes: a byte for each range.
pub(crate) fn run(bytes: &[u8]) {
    let range = |n: usize| {
        let byte = usize::from(bytes.get(n).copied().unwrap_or(0x01));
        // An end before the beginning makes an empty box, too.
        (byte >> 4) % 8..(byte & 0xf) % 8
    };
    let (a, b) = (Block::new(&[0, 1, 2, 3].map(range)), Block::new(&[4, 5, 6, 7].map(range)));
    let (in_a, in_b) = (points(&a), points(&b));
    let common: HashSet<Point> = in_a.intersection(&in_b).copied().collect();
    assert_eq!(a.volume(), in_a.len());
    assert_eq!(a.is_empty(), in_a.is_empty());
    assert_eq!(a.overlaps(&b), !common.is_empty());
    assert_eq!(a.contains(&b), in_b.is_subset(&in_a));
    assert!(!a.encloses(&b) || a.contains(&b));
    assert_eq!(a.intersection(&b).map(|both| points(&both)), (!common.is_empty()).then_some(common.clone()));
    let (mut rest, mut pieces) = (HashSet::new(), 0);
    a.subtract(&b, |piece| {
        pieces += 1;
        let piece = points(&piece);
        let before = rest.len();
        rest.extend(&piece);
        assert_eq!(rest.len(), before + piece.len(), "pieces overlap");
    });
    assert!(pieces <= 8);
    assert_eq!(rest, in_a.difference(&in_b).copied().collect::<HashSet<_>>());
}
