//! Tests that packed and unpacked lines return to the same points for any geometry.

use npb::mz::lanes::{MAX_LANES, Scratch, dispatch};
use npb::mz::lines::{Lines, planes_together};
use proptest::prelude::*;
use pulp::{Scalar, Scalar128b, Scalar256b, Scalar512b, Simd, WithSimd};

/// Number of points between rows.
const APART: usize = 2;

/// Packs lines of two components, doubles every number, and unpacks them.
struct Double<'a> {
    lines: usize,
    length: usize,
    numbers: [&'a mut [f64]; 2],
}

impl WithSimd for Double<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { lines, length, numbers: [one, other] } = self;
        let mut scratch = Scratch::default();
        // The bundle has three fields, of which the last two are used.
        let bundle = scratch.vectors::<S>(3 * length);
        for begin in (0..lines).step_by(S::F64_LANES) {
            let some = begin..lines.min(begin + S::F64_LANES);
            let lines = Lines::in_planes((3, length + APART, lines), one.len(), some, length);
            lines.pack(simd, [one, other], bundle, (1, 3));
            for point in bundle.chunks_exact_mut(3) {
                point[1..].iter_mut().for_each(|lanes| *lanes = simd.add_f64s(*lanes, *lanes));
            }
            lines.unpack(simd, [one, other], bundle, (1, 3));
        }
    }
}

proptest! {
    #[test]
    fn every_number_of_every_line_is_visited_once(lines in 1usize..20, length in 1usize..20) {
        let before: Vec<f64> = (0..3 + lines * (length + APART)).map(|index| index as f64 + 1.0).collect();
        let mut expected = before.clone();
        for line in 0..lines {
            for l in 0..length {
                expected[3 + line * (length + APART) + l] *= 2.0;
            }
        }
        for width in [0, 1, 2, 3, 4, 8] {
            let mut numbers = before.clone();
            let mut others: Vec<f64> = before.iter().map(|number| -number).collect();
            let work = Double { lines, length, numbers: [&mut numbers, &mut others] };
            // Test this machine's instruction set, and every vector width that some machine has.
            match width {
                0 => dispatch(MAX_LANES, work),
                3 => dispatch(4, work), // the code for four lanes, on a machine that has eight
                1 => work.with_simd(Scalar),
                2 => work.with_simd(Scalar128b),
                4 => work.with_simd(Scalar256b),
                _ => work.with_simd(Scalar512b),
            }
            prop_assert_eq!(&numbers, &expected, "{} lanes", width);
            let others: Vec<f64> = others.iter().map(|number| -number).collect();
            prop_assert_eq!(&others, &expected, "the other component, {} lanes", width);
        }
    }
}

/// Packs rows whose numbers are their own indices.
struct Places;

impl WithSimd for Places {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        const LENGTH: usize = 19;
        let numbers: Vec<f64> = (0..MAX_LANES * LENGTH).map(|index| index as f64).collect();
        let mut scratch = Scratch::default();
        let bundle = scratch.vectors::<S>(LENGTH);
        let lines = Lines::in_planes((0, LENGTH, MAX_LANES), numbers.len(), 0..S::F64_LANES, LENGTH);
        lines.pack(simd, [&numbers], bundle, (0, 1));
        for (l, point) in bundle.iter().enumerate() {
            let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(point));
            let expected: Vec<f64> = (0..S::F64_LANES).map(|lane| (lane * LENGTH + l) as f64).collect();
            assert_eq!(lanes, expected, "point {l}");
        }
    }
}

#[test]
fn each_lane_holds_one_line() {
    for most in [4, MAX_LANES] {
        dispatch(most, Places);
    }
    Places.with_simd(Scalar);
    Places.with_simd(Scalar256b);
    Places.with_simd(Scalar512b);
}

#[test]
fn planes_together_fill_lanes_within_cache() {
    for (lanes, points, lines, planes) in [
        (8, 600, &[18, 28][..], 3),
        (8, 600, &[9], 4),
        (8, 600, &[18], 3),
        (8, 1024, &[30, 30], 1),
        (8, 600, &[16], 1),
        (8, 2000, &[19], 2),
        (8, 10_000, &[17], 1),
        (4, 600, &[18], 2),
        (1, 600, &[18], 1),
    ] {
        assert_eq!(planes_together(lanes, points, lines), planes, "{lanes} lanes, {points} points, {lines:?} lines");
    }
}
