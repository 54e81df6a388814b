//! Partitions: which parts a region is cut into, what lies at their borders, and what is refused.

mod common;

use common::runtime;
use ndarray::Array4;
use proptest::prelude::*;
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use thalweg::memory::Shape;
use thalweg::prelude::*;
use thalweg::task::Side;

type Ranges = [Range<usize>; 4];

fn ranges<S: Shape>(region: Region<'_, u8, S>) -> Ranges {
    std::array::from_fn(|d| region.range(d))
}

/// What must be: along each dimension, blocks of a size; of all of them, the products in row-major order.
fn products(within: &Ranges, size: [usize; 4]) -> Vec<Ranges> {
    let along = |d: usize| blocks(within[d].len(), size[d]).map(move |part| part.start..part.end);
    let at = |d: usize, part: Range<usize>| within[d].start + part.start..within[d].start + part.end;
    let mut all = Vec::new();
    for (i, j) in along(0).flat_map(|i| along(1).map(move |j| (i.clone(), j))) {
        for (k, l) in along(2).flat_map(|k| along(3).map(move |l| (k.clone(), l))) {
            all.push([at(0, i.clone()), at(1, j.clone()), at(2, k), at(3, l)]);
        }
    }
    all
}

fn interval(extent: usize) -> impl Strategy<Value = Range<usize>> {
    (0..=extent, 0..=extent).prop_map(|(a, b)| a.min(b)..a.max(b))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn parts_are_the_products_of_blocks_and_cover_the_region_once(
        (shape, within) in [1usize..7, 1usize..7, 1usize..5, 1usize..4]
            .prop_flat_map(|shape| (Just(shape), shape.map(interval))),
        size in [1usize..9, 1usize..9, 1usize..9, 1usize..9],
    ) {
        let rt = runtime("1:CPU:1");
        let x: Data<u8, Ix4> = rt.zeros(shape);
        let [i, j, k, l] = within.clone();
        let region = x.block((i, j, k, l));
        let tiles = region.tiles(size);
        let expected = products(&within, size);
        let found: Vec<_> = tiles.iter().map(ranges).collect();
        prop_assert_eq!(&found, &expected);
        prop_assert_eq!((tiles.len(), tiles.is_empty()), (expected.len(), expected.is_empty()));
        prop_assert_eq!(tiles.iter().rev().map(ranges).collect::<Vec<_>>(), expected.iter().rev().cloned().collect::<Vec<_>>());

        let mut covered = Array4::<u8>::zeros(shape);
        for (number, part) in tiles.into_iter().enumerate() {
            prop_assert!(!part.is_empty());
            prop_assert_eq!(tiles.get(number).map(ranges), Some(ranges(part)));
            let [i, j, k, l] = ranges(part);
            covered.slice_mut(ndarray::s![i, j, k, l]).mapv_inplace(|n| n + 1);
        }
        for ((i, j, k, l), n) in covered.indexed_iter() {
            let inside = [i, j, k, l].iter().zip(&within).all(|(at, range)| range.contains(at));
            prop_assert_eq!(*n, u8::from(inside));
        }
        prop_assert!(tiles.get(tiles.len()).is_none());
        if let [ni, nj, nk, nl] = tiles.shape()[..] {
            let last = [ni, nj, nk, nl].map(|n| n.wrapping_sub(1));
            prop_assert_eq!(tiles.get(last).map(ranges), expected.last().cloned());
            prop_assert!(tiles.get([ni, 0, 0, 0]).is_none() && tiles.get([0, 0, 0, nl]).is_none());
        }
    }

    #[test]
    fn grown_parts_and_borders_are_clipped(
        (shape, within) in [1usize..9, 1usize..9].prop_flat_map(|shape| (Just(shape), shape.map(interval))),
        size in [1usize..5, 1usize..5],
        before in [0usize..4, 0usize..4],
        after in [0usize..4, 0usize..4],
    ) {
        let rt = runtime("1:CPU:1");
        let x: Data<u8, Ix2> = rt.zeros(shape);
        let region = x.block((within[0].clone(), within[1].clone()));
        let widths = [(before[0], after[0]), (before[1], after[1])];
        let (tiles, grown) = (region.tiles(size), region.tiles(size).grow(widths));
        prop_assert_eq!(tiles.len(), grown.len());
        for (part, grown) in tiles.iter().zip(&grown) {
            prop_assert_eq!(ranges(grown), ranges(part.grow(widths)));
            for d in 0..2 {
                let (inner, outer) = (part.range(d), grown.range(d));
                prop_assert_eq!(outer.start, inner.start.saturating_sub(before[d]));
                prop_assert_eq!(outer.end, (inner.end + after[d]).min(shape[d]));
                // A face's strips lie inside and outside; together with the part they make what it grows to.
                for (face, width) in [(Face::low(d), before[d]), (Face::high(d), after[d])] {
                    let (border, halo) = (part.border(face, width).range(d), part.halo(face, width).range(d));
                    prop_assert_eq!(border.len(), width.min(inner.len()));
                    prop_assert_eq!(part.border(face, width).range(1 - d), part.range(1 - d));
                    match face.side {
                        Side::Low => prop_assert_eq!((border.start, halo), (inner.start, outer.start..inner.start)),
                        Side::High => prop_assert_eq!((border.end, halo), (inner.end, inner.end..outer.end)),
                    }
                }
            }
        }
    }
}

#[test]
fn what_is_empty_has_no_parts_and_does_not_grow() {
    let rt = runtime("1:CPU:1");
    let nothing: Data<u8> = rt.data(vec![]);
    assert!(nothing.blocks(4).is_empty() && nothing.blocks(4).iter().next().is_none());
    let x: Data<u8, Ix3> = rt.zeros([4, 0, 5]);
    assert_eq!((x.tiles([2, 2, 2]).len(), x.rows(1).len()), (0, 0));
    let y = rt.data(vec![0u8; 10]);
    assert_eq!(y.slice(5..5).blocks(2).len(), 0);
    assert_eq!(y.slice(5..5).grow(3).range(0), 5..5);
    assert!(y.slice(3..6).border(Face::low(0), 0).is_empty());
}

#[test]
fn sizes_beyond_the_data_give_one_part_and_zero_none() {
    let rt = runtime("1:CPU:1");
    let (x, m): (_, Data<u8, Ix2>) = (rt.data(vec![0u8; 10]), rt.zeros([6, 7]));
    assert_eq!(x.blocks(usize::MAX).iter().map(ranges).collect::<Vec<_>>(), [[0..10, 0..1, 0..1, 0..1]]);
    assert_eq!(x.slice(3..).blocks(usize::MAX).part(0).range(0), 3..10);
    assert_eq!(x.slice(3..5).grow(usize::MAX).range(0), 0..10);
    assert_eq!(m.tiles([4, usize::MAX]).part([1, 0]).range(0), 4..6);
    assert_eq!(m.rows(4).shape(), [2, 1]);
    for cut in [
        &(|| _ = x.blocks(0)) as &dyn Fn(),
        &|| _ = m.tiles([3, 0]),
        &|| _ = m.rows(0),
        &|| _ = x.blocks(3).part(4),
        &|| _ = m.tiles([3, 3]).part([0, 3]),
        &|| _ = m.all().border(Face::low(2), 1),
    ] {
        assert!(catch_unwind(AssertUnwindSafe(cut)).is_err());
    }
}

#[test]
fn huge_regions_are_cut_without_a_list() {
    // Bounds are a matter of submission: so no memory is needed.
    let rt = runtime("1:CPU:1");
    let x = rt.data(vec![0u8]);
    let parts = x.slice(0..1 << 40).blocks(1);
    assert_eq!(parts.len(), 1 << 40);
    assert_eq!(parts.part((1 << 40) - 1).range(0), (1 << 40) - 1..1 << 40);
    assert_eq!(parts.iter().nth(1 << 39).map(ranges), Some([1 << 39..(1 << 39) + 1, 0..1, 0..1, 0..1]));
    let m: Data<u8, Ix2> = rt.zeros([1, 1]);
    let tiles = m.block((0..1 << 20, 0..1 << 20)).tiles([1, 1]);
    assert_eq!((tiles.len(), tiles.part([77, 99]).range(1)), (1 << 40, 99..100));
    assert!(size_of_val(&tiles) < 300);
}

#[test]
fn parts_are_ordinary_regions() {
    let rt = runtime("2:CPU:1");
    let m: Data<u64, Ix2> = rt.zeros([5, 7]);
    let tiles = m.tiles([2, 3]);
    for i in 0..3 {
        for j in 0..3 {
            let task = rt.task("tile", (tiles.part([i, j]).output(),));
            task.cpu(move |_, (mut tile,)| tile.fill((10 * i + j) as u64)).submit().unwrap();
        }
    }
    let found = rt.take(m).unwrap();
    assert!(found.indexed_iter().all(|((i, j), x)| *x == (10 * (i / 2) + j / 3) as u64), "{found}");
}

#[test]
fn a_cut_beyond_the_data_is_refused_by_the_task() {
    let rt = runtime("1:CPU:1");
    let x = rt.data(vec![0u8; 10]).named("x");
    let parts = x.slice(5..15).blocks(4);
    rt.task("inside", (parts.part(0).output(),)).cpu(|_, _| ()).submit().unwrap();
    let refused = rt.task("outside", (parts.part(2).grow(1).output(),)).cpu(|_, _| ()).submit().unwrap_err();
    assert!(matches!(refused, SubmitError::OutOfBounds { .. }), "{refused}");
    assert!(refused.to_string().contains("[12..15]"), "{refused}");
    let refused = rt.for_each("loop", parts.output()).cpu(|_, _| ()).submit().unwrap_err();
    assert!(refused.to_string().contains("`loop`") && refused.to_string().contains("[5..15]"), "{refused}");
}
