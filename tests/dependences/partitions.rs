//! Partitions: how a region is cut into parts, the parts' borders and halos, and cuts that are refused.

use crate::common::runtime;
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

/// Returns the expected parts: the products of the blocks along each dimension, in row-major order.
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
    fn parts_are_products_of_blocks_and_cover_the_region_once(
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
    fn grown_parts_and_borders_are_clipped_at_the_array(
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
                // The border strip of a face is inside the part, and the halo is outside. The part and its halos
                // together form the grown part.
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

/// A number of elements that fills whole 64-byte cache lines for any element type.
const LINE: usize = 64;

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn parts_on_lines_cover_the_region_once_and_start_at_line_boundaries(
        (shape, within) in ([1usize..40, 1usize..9, 1usize..6, 1usize..300], prop::bool::ANY)
            .prop_map(|([i, j, k, l], whole)| [i, j, k, if whole { l.next_multiple_of(LINE) } else { l }])
            .prop_flat_map(|shape| (Just(shape), shape.map(interval))),
        size in [1usize..12, 1usize..9, 1usize..9, 1usize..400],
        cut in 0usize..4,
    ) {
        let rt = runtime("1:CPU:1");
        let x: Data<u8, Ix4> = rt.zeros(shape);
        let [i, j, k, l] = within.clone();
        let region = x.block((i, j, k, l));
        let mut sizes = [usize::MAX; 4];
        sizes[..=cut].copy_from_slice(&size[..=cut]);
        let (as_given, parts) = (region.tiles(sizes), region.tiles(sizes).on_lines());
        prop_assert_eq!(parts.on_lines().iter().map(ranges).collect::<Vec<_>>(), parts.iter().map(ranges).collect::<Vec<_>>());
        let mut covered = Array4::<u8>::zeros(shape);
        for part in parts {
            prop_assert!(!part.is_empty());
            let [i, j, k, l] = ranges(part);
            covered.slice_mut(ndarray::s![i, j, k, l]).mapv_inplace(|times| times + 1);
        }
        let mut expected = Array4::<u8>::zeros(shape);
        let [i, j, k, l] = within.clone();
        expected.slice_mut(ndarray::s![i, j, k, l]).fill(1);
        prop_assert_eq!(covered, expected);

        // Only the innermost dimension that is cut is aligned. Dimensions further in were too small to cut; those
        // further out are cut as given.
        let d = (0..4).rev().find(|d| parts.shape()[*d] > 1).unwrap_or(0);
        prop_assert_eq!(&parts.shape()[..d], &as_given.shape()[..d]);
        for e in d..4 {
            let stride: usize = shape[e + 1..].iter().product();
            let per_line = (1..=LINE).find(|n| (n * stride).is_multiple_of(LINE)).unwrap();
            if e > d && as_given.shape()[e] > 1 {
                let size = size[e].next_multiple_of(per_line);
                prop_assert!(within[e].start % size + within[e].len() <= size, "dimension {}", e);
            }
            for part in parts.iter().map(|part| part.range(d)).filter(|part| e == d && part.start > within[d].start) {
                prop_assert!(part.start.is_multiple_of(per_line), "{:?}", part);
                prop_assert!(part.len() >= size[d] || part.end == within[d].end, "{:?}", part);
            }
        }
    }
}

#[test]
fn parts_on_lines_never_share_a_cache_line() {
    fn check<T: Element>(len: usize, size: usize) {
        let rt = runtime("2:CPU:1");
        let x: Data<T> = rt.zeros(len);
        let (tell, ends) = std::sync::mpsc::channel();
        rt.for_each("where", (0.., x.blocks(size).on_lines().output()))
            .cpu(move |_, (i, part)| {
                let part = part.as_ptr_range();
                tell.send((i, part.start.addr(), part.end.addr())).unwrap();
            })
            .submit()
            .unwrap();
        rt.wait().unwrap();
        drop(rt);
        let mut ends: Vec<_> = ends.iter().collect();
        ends.sort_unstable();
        let parts = ends.len();
        for (i, start, end) in ends {
            assert!(start.is_multiple_of(64), "part {i} of {len}, {size}: {start}");
            assert!(end.is_multiple_of(64) || i + 1 == parts, "part {i} of {len}, {size}: {end}");
        }
    }
    for len in [65, 1000, 100_003] {
        for size in [1, 30, 64, 1000] {
            check::<u8>(len, size);
            check::<f64>(len, size);
            check::<[f32; 3]>(len, size);
        }
    }
}

#[test]
fn parts_on_lines_are_the_same_for_all_element_types() {
    let rt = runtime("2:CPU:1");
    let (x, marks): (Data<f64>, Data<u8>) = (rt.zeros(1000), rt.zeros(1000));
    let tasks = rt
        .for_each("mark", (x.blocks(70).on_lines().input(), marks.blocks(70).on_lines().output()))
        .cpu(|_, (x, marks)| {
            assert_eq!(x.len(), marks.len());
            marks.fill(1);
        })
        .submit()
        .unwrap();
    assert_eq!((tasks, rt.take(marks).unwrap()), (8, vec![1; 1000]));
}

#[test]
#[allow(clippy::single_range_in_vec_init)] // parts are ranges
fn region_smaller_than_a_line_is_one_part() {
    let rt = runtime("1:CPU:1");
    let ranges =
        |x: &Data<u8>, size| -> Vec<_> { x.blocks(size).on_lines().iter().map(|part| part.range(0)).collect() };
    assert_eq!(ranges(&rt.zeros(63), 1), [0..63]);
    assert_eq!(ranges(&rt.zeros(64), 10), [0..64]);
    assert_eq!(ranges(&rt.zeros(65), 10), [0..64, 64..65]);
    assert_eq!(ranges(&rt.zeros(0), 10), []);
    // Regions that are empty in another dimension, and sizes larger than any array.
    assert!(rt.zeros::<u8, _>([200, 0]).rows(10).on_lines().is_empty());
    assert_eq!(ranges(&rt.zeros(100), usize::MAX), [0..100]);
}

#[test]
fn empty_region_has_no_parts_and_does_not_grow() {
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
fn size_beyond_the_data_gives_one_part_and_size_zero_panics() {
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
fn huge_regions_are_cut_without_storing_the_parts() {
    // Bounds are checked at submission, so the array itself can be small.
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
fn parts_are_usable_as_regions() {
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
fn part_beyond_the_data_is_refused_at_submission() {
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
