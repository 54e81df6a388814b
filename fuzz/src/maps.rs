//! `RegionMap` and `BoxIndex`, compared with a value for each point and with a list.

use crate::random::Random;
use crate::region::{Block, BoxIndex, RegionMap};

/// Extents of the whole for one to four dimensions.
const SHAPES: [&[usize]; 4] = [&[100], &[12, 10], &[6, 5, 5], &[4, 3, 4, 3]];

pub(crate) fn run(bytes: &[u8]) {
    let mut random = Random::new(bytes);
    let shape = random.of(&SHAPES);
    let whole = Block::whole(shape);
    let mut map = RegionMap::new(whole, shape.len(), 0u32);
    let mut expected = vec![0u32; whole.volume()];
    let (mut index, mut list) = (BoxIndex::default(), Vec::new());
    for step in 1..=bytes.len() as u32 / 3 {
        let ranges: Vec<_> = shape.iter().map(|extent| random.within(&(0..*extent))).collect();
        let block = Block::new(&ranges);
        if block.is_empty() {
            continue;
        }
        match random.below(8) {
            0..3 => {
                map.assign(&block, &step);
                each_point(&block, shape, |at| expected[at] = step);
            }
            3 | 4 => {
                let mut visited = 0;
                map.visit(&block, |part, value| {
                    assert!(block.contains(&part.block()), "{:?} is not in {block:?}", part.block());
                    each_point(&part.block(), shape, |at| assert_eq!(expected[at], *value));
                    visited += part.block().volume();
                    *value += 1;
                });
                assert_eq!(visited, block.volume());
                each_point(&block, shape, |at| expected[at] += 1);
            }
            5 => _ = map.wear(random.below(64), |_| {}, |a, b| a == b),
            6 => {
                let entry = index.insert(block, step);
                list.push((entry, block, step));
            }
            _ if list.is_empty() => {}
            _ => {
                let (entry, _, value) = list.swap_remove(random.below(list.len()));
                assert_eq!(index.remove(entry), Some(value));
            }
        }
        let mut seen = 0;
        map.peek(&block, |part, value| {
            each_point(&part, shape, |at| assert_eq!(expected[at], *value));
            seen += part.volume();
        });
        assert_eq!(seen, block.volume());
        let mut found = Vec::new();
        index.find(&block, |_, value| found.push(*value));
        found.sort_unstable();
        let mut overlapping: Vec<_> =
            list.iter().filter(|entry| entry.1.overlaps(&block)).map(|entry| entry.2).collect();
        overlapping.sort_unstable();
        assert_eq!(found, overlapping);
    }
}

/// Calls `visit` with the index of each point of `block` in row-major order.
fn each_point(block: &Block, shape: &[usize], mut visit: impl FnMut(usize)) {
    let extents = Block::whole(shape).extents();
    for i in block.range(0) {
        for j in block.range(1) {
            for k in block.range(2) {
                block.range(3).for_each(|l| visit(((i * extents[1] + j) * extents[2] + k) * extents[3] + l));
            }
        }
    }
}
