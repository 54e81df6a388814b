//! Tests that packed and unpacked lines return to the same points for any geometry.

use npb::mz::lanes::{MAX_LANES, Scratch};
use npb::mz::lines::{Lines, planes_together};
use proptest::prelude::*;
use pulp::{Simd, WithSimd};

use crate::testing::{WIDTHS, at_width};

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
        for width in WIDTHS {
            let mut numbers = before.clone();
            let mut others: Vec<f64> = before.iter().map(|number| -number).collect();
            let work = Double { lines, length, numbers: [&mut numbers, &mut others] };
            at_width(width, work);
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
    for width in WIDTHS {
        at_width(width, Places);
    }
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
