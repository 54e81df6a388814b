//! Ways to specify and request regions: any mix of indices and ranges, and whole data objects, in every mode.

use crate::common::{for_each_mix, runtime};
use std::ops::Bound;
use thalweg::prelude::*;

/// Returns a matrix of 4 by 6 elements whose values encode their positions.
fn matrix(rt: &Runtime) -> Data<u64, Ix2> {
    rt.array(ndarray::Array2::from_shape_fn((4, 6), |(i, j)| (10 * i + j) as u64))
}

#[test]
fn indices_and_ranges_of_all_kinds_can_be_mixed() {
    let rt = runtime("1:CPU:1");
    let line = rt.data((0..6u64).collect());
    assert_eq!(rt.read(line.block(3)).unwrap(), [3]);
    assert_eq!(rt.read(line.block((3,))).unwrap(), [3]);
    assert_eq!(rt.read(line.block(..)).unwrap(), rt.read(&line).unwrap());
    assert_eq!(rt.read(line.block(4..)).unwrap(), [4, 5]);
    assert_eq!(rt.read(line.block(..=1)).unwrap(), [0, 1]);
    assert_eq!(rt.read(line.slice((Bound::Excluded(1), Bound::Included(3)))).unwrap(), [2, 3]);

    let plane = matrix(&rt);
    assert_eq!(rt.read(plane.block((2, 5))).unwrap(), ndarray::array![[25]]);
    assert_eq!(rt.read(plane.block((1..=2, ..2))).unwrap(), ndarray::array![[10, 11], [20, 21]]);
    assert_eq!(rt.read(plane.block((3, 4..))).unwrap(), ndarray::array![[34, 35]]);

    let space: Data<u64, Ix3> = rt.zeros([2, 3, 4]);
    rt.task("fill", (space.block((.., 1, ..=2)).output(),)).cpu(|_, (mut x,)| x.fill(7)).submit().unwrap();
    let all = rt.read(&space).unwrap();
    assert!(all.indexed_iter().all(|((_, j, k), x)| *x == if j == 1 && k <= 2 { 7 } else { 0 }));

    let four: Data<u64, Ix4> = rt.zeros([2, 2, 2, 5]);
    rt.task("fill", (four.block((1, .., 0..1, 3..)).inout(),)).cpu(|_, (mut x,)| x.fill(1)).submit().unwrap();
    assert_eq!(rt.read(&four).unwrap().sum(), 4);
    assert_eq!(rt.read(four.block((1, 1, 0, 4))).unwrap().sum(), 1);
}

#[test]
fn every_mode_accepts_blocks_of_indices_and_ranges() {
    for_each_mix(|rt| {
        let x = matrix(rt);
        let sum = rt.scalar(0u64);
        rt.task("out", (x.block((0, ..)).output(),)).cpu(|_, (mut x,)| x.fill(1)).submit().unwrap();
        rt.task("inout", (x.block((.., 5)).inout(),)).cpu(|_, (mut x,)| x.fill(2)).submit().unwrap();
        for _ in 0..3 {
            let column = x.block((1..=3, 0));
            rt.task("commutative", (column.commutative(),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
            rt.task("reduction", (x.block((2.., 1..3)).reduction(Sum),)).cpu(|_, (mut x,)| x += 1).submit().unwrap();
        }
        rt.task("in", (x.block((.., ..)).input(), x.block((0, 0)).after(), sum.output()))
            .cpu(|_, (x, (), sum)| sum[0] = x.sum())
            .submit()
            .unwrap();
        let expected = ndarray::array![
            [1, 1, 1, 1, 1, 2],
            [13, 11, 12, 13, 14, 2],
            [23, 24, 25, 23, 24, 2],
            [33, 34, 35, 33, 34, 2]
        ];
        assert_eq!(rt.read(&x).unwrap(), expected);
        assert_eq!(rt.read(&sum).unwrap()[0], expected.sum());
    });
}

#[test]
fn concurrent_access_requires_a_contiguous_block() {
    let rt = runtime("2:CPU:1");
    let (x, y): (Data<usize, Ix2>, Data<isize, Ix2>) = (rt.zeros([3, 4]), rt.zeros([3, 4]));
    for _ in 0..50 {
        rt.task("count", (x.block((1, ..)).concurrent(), y.block((1..=1, 1..3)).concurrent()))
            .cpu(|_, (x, y)| {
                (0..x.len()).for_each(|i| x.update(i, |n| n + i));
                y.update(0, |n| n - 1);
            })
            .submit()
            .unwrap();
    }
    let column = rt.task("column", (x.block((.., 1)).concurrent(),)).cpu(|_, _| ()).submit();
    assert!(matches!(column, Err(SubmitError::NotContiguous { .. })), "{column:?}");
    assert_eq!(rt.read(x.block((1, ..))).unwrap(), ndarray::array![[0, 50, 100, 150]]);
    assert_eq!(rt.read(y.block((.., 1))).unwrap(), ndarray::array![[0], [-50], [0]]);
}

#[test]
#[expect(clippy::reversed_empty_ranges)]
fn out_of_range_and_reversed_regions_are_refused_but_empty_ones_are_not() {
    let rt = runtime("1:CPU:1");
    let x = matrix(&rt);
    let refused = |region: Region<'_, u64, Ix2>, words: &str| {
        let refused = rt.task("t", (region.inout(),)).cpu(|_, _| ()).submit().unwrap_err();
        assert!(matches!(refused, SubmitError::OutOfBounds { .. }), "{refused}");
        assert!(refused.to_string().contains(words), "{refused}");
    };
    refused(x.block((4, ..)), "region [4..5, 0..6]");
    refused(x.block((.., 6..=6)), "region [0..4, 6..7]");
    refused(x.block((3..1, 0)), "region [3..1, 0..1]");
    refused(x.block((5.., 0)), "region [5..5, 0..1]");
    refused(x.block((0, usize::MAX)), "out of bounds");
    refused(x.block((0, 0..=usize::MAX)), "out of bounds");
    for empty in [x.block((4.., 0)), x.block((1, 3..3))] {
        assert!(empty.is_empty());
        rt.task("t", (empty.inout(),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
    }
    rt.task("t", (x.block((2..=1, ..0)).inout(),)).cpu(|_, (x,)| assert!(x.is_empty())).submit().unwrap();
    rt.wait().unwrap();
}

#[test]
fn requests_accept_data_objects_and_regions() {
    let rt = runtime("1:CPU:1,1:EMU:1");
    let x = matrix(&rt);
    let row = x.block((1, ..));
    assert_eq!(rt.read(&x).unwrap(), rt.read(x.all()).unwrap());
    assert_eq!(rt.read(&row).unwrap(), rt.read(row).unwrap());
    let borrowed = &row;
    assert_eq!(rt.read(borrowed).unwrap().sum(), 75);
    assert_eq!(rt.read(&borrowed).unwrap().sum(), 75);
    let device = SpaceId(1);
    rt.fetch(&x, device).unwrap();
    assert_eq!(x.all().valid_in(), [SpaceId::HOST, device]);
    rt.prefetch(&x, device).unwrap();
    rt.fetch(&x, SpaceId::HOST).unwrap();
    rt.task("fails", (x.inout(),)).cpu(|_, _| Err("no")).submit().unwrap();
    assert!(rt.wait().is_err());
    assert!(rt.read(&x).is_err());
    rt.accept(&x).unwrap();
    assert!(rt.read(&x).is_ok());
    rt.clear(&x).unwrap();
    assert_eq!(rt.read(&x).unwrap().sum(), 0);
    let other = runtime("1:CPU:1");
    assert!(matches!(other.read(&x), Err(RunError::Refused(SubmitError::ForeignData { .. }))));
}
