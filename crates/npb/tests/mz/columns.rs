//! Tests loading, storing and bundling of columns of every kind.

use std::ops::Range;

use npb::mz::columns::{Columns, Divided, Few, Together, bundles};
use npb::mz::lanes::{Lane, MAX_LANES, dispatch};
use npb::with_columns;
use pulp::{Scalar, Scalar256b, Scalar512b, Simd, WithSimd};

const NUMBERS: usize = 64;

/// For columns of every kind, loads a point, adds 100 to it, and stores it. Passes the loaded lanes to the closure
/// each time.
struct AddHundred<'a>(&'a mut dyn FnMut(&[usize], Vec<f64>, &[f64]));

impl WithSimd for AddHundred<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self(tell) = self;
        let (lanes, point) = (S::F64_LANES, 7);
        let row = |begin: usize, count: usize| (begin..begin + count).collect::<Vec<_>>();
        try_out(simd, Together { first: 2 }, point, &row(9, lanes), tell);
        for count in 1..lanes {
            try_out(simd, Few { first: 2, count }, point, &row(9, count), tell);
            let divided = Divided { first: 2, count, second: 31 };
            let places = [row(9, count), row(38 + count, lanes - count)].concat();
            try_out(simd, divided, point, &places, tell);
        }
    }
}

#[inline(always)]
fn try_out<S: Simd>(
    simd: S,
    columns: impl Columns,
    point: usize,
    places: &[usize],
    tell: &mut dyn FnMut(&[usize], Vec<f64>, &[f64]),
) {
    let mut numbers: Vec<f64> = (0..NUMBERS).map(|number| number as f64).collect();
    let lanes = columns.load(simd, &numbers, point);
    columns.store(lanes + Lane::splat(simd, 100.0), &mut numbers, point);
    let mut loaded = vec![0.0; MAX_LANES];
    lanes.store(&mut loaded, 0);
    tell(places, loaded, &numbers);
}

#[test]
fn columns_of_every_kind_touch_only_their_points() {
    let mut tried = 0;
    let mut check = |places: &[usize], loaded: Vec<f64>, numbers: &[f64]| {
        tried += 1;
        let expected: Vec<f64> = places.iter().map(|&place| place as f64).collect();
        assert_eq!(loaded[..places.len()], expected, "loaded from {places:?}");
        assert!(loaded[places.len()..].iter().all(|&lane| lane == 0.0), "{loaded:?} from {places:?}");
        for (place, number) in numbers.iter().enumerate() {
            let added = if places.contains(&place) { 100.0 } else { 0.0 };
            assert_eq!(*number, place as f64 + added, "at {place}, with {places:?}");
        }
    };
    // Test this machine's instruction set, and the vector widths of other machines.
    dispatch(MAX_LANES, AddHundred(&mut check));
    AddHundred(&mut check).with_simd(Scalar);
    AddHundred(&mut check).with_simd(Scalar256b);
    AddHundred(&mut check).with_simd(Scalar512b);
    assert!(tried >= 1 + 1 + 7 + 15, "{tried} kinds of columns");
}

/// Adds one to the first point of each column of some rows.
struct Count<'a> {
    rows: usize,
    columns: Range<usize>,
    counts: &'a mut [f64],
}

impl WithSimd for Count<'_> {
    type Output = ();

    #[inline(always)]
    fn with_simd<S: Simd>(self, simd: S) {
        let Self { rows, columns, counts } = self;
        for bundle in bundles::<S>(rows, APART, columns) {
            with_columns!(bundle, |columns| count(simd, columns, counts));
        }
    }
}

#[inline(always)]
fn count<S: Simd>(simd: S, columns: impl Columns, counts: &mut [f64]) {
    columns.store(columns.load(simd, counts, 0) + Lane::splat(simd, 1.0), counts, 0);
}

/// Distance from one row to the next.
const APART: usize = 40;

#[test]
fn bundles_cover_every_column_once() {
    for (rows, columns) in (0..5).flat_map(|rows| (8..24).map(move |width| (rows, 3..3 + width))) {
        for lanes in [0, 1, 4, 8] {
            let mut counts = vec![0.0; 5 * APART];
            let work = Count { rows, columns: columns.clone(), counts: &mut counts };
            match lanes {
                0 => dispatch(MAX_LANES, work),
                1 => work.with_simd(Scalar),
                4 => work.with_simd(Scalar256b),
                _ => work.with_simd(Scalar512b),
            }
            for (place, count) in counts.into_iter().enumerate() {
                let (row, column) = (place / APART, place % APART);
                let expected = f64::from(u8::from(row < rows && columns.contains(&column)));
                assert_eq!(count, expected, "column {column} of row {row}: {rows} rows of {columns:?}");
            }
        }
    }
}
