//! Columns side by side, one in every lane: lines in y and in z, which are solved where they are.
//!
//! Neighbouring columns are a vector in memory. They come in rows: those in y have one in each plane, those in z one for each y. Where
//! a row's fill no vectors, its last ones share one with the first ones of the next row: two vectors are read, and each gives its
//! lanes. Nothing but these columns is ever changed.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A column in every lane. Both functions take how far a point is from the first one of its column.
pub(crate) trait Columns: Copy {
    /// The first column's first point.
    fn first(self) -> usize;

    /// A point of each column.
    ///
    /// # Panics
    /// If the columns are not in `from`.
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S>;

    /// Sets a point of each column.
    ///
    /// # Panics
    /// If the columns are not in `to`.
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize);
}

/// Side by side, as many as there are lanes.
#[derive(Clone, Copy)]
pub(crate) struct Together {
    /// The first column's first point.
    pub(crate) first: usize,
}

/// Side by side, fewer than there are lanes; the others hold zeros.
#[derive(Clone, Copy)]
pub(crate) struct Few {
    /// The first column's first point.
    pub(crate) first: usize,
    pub(crate) count: usize,
}

/// The last ones of a row, and the first ones of the next.
#[derive(Clone, Copy)]
pub(crate) struct Divided {
    /// The first column's first point.
    pub(crate) first: usize,
    /// How many are in the first row.
    pub(crate) count: usize,
    /// What the first column's first point would be if all of them were in the second row.
    pub(crate) second: usize,
}

impl Columns for Together {
    #[inline(always)]
    fn first(self) -> usize {
        self.first
    }

    #[inline(always)]
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S> {
        Lane::load(simd, from, self.first + point)
    }

    #[inline(always)]
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize) {
        lanes.store(to, self.first + point);
    }
}

impl Columns for Few {
    #[inline(always)]
    fn first(self) -> usize {
        self.first
    }

    #[inline(always)]
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S> {
        Lane::load_some(simd, &from[self.first + point..][..self.count], 0)
    }

    #[inline(always)]
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize) {
        lanes.store_some(&mut to[self.first + point..][..self.count], 0);
    }
}

impl Columns for Divided {
    #[inline(always)]
    fn first(self) -> usize {
        self.first
    }

    #[inline(always)]
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S> {
        let [first, second] = [self.first, self.second];
        Lane::load(simd, from, second + point).with_first(self.count, Lane::load(simd, from, first + point))
    }

    #[inline(always)]
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize) {
        let [first, second] = [self.first + point, self.second + point];
        lanes.store_within(to, first, &(first..first + self.count));
        lanes.store_within(to, second, &(second + self.count..second + S::F64_LANES));
    }
}

/// As many columns as there are lanes, or what is left of them.
pub(crate) enum Bundle {
    Together(Together),
    Divided(Divided),
    Few(Few),
}

/// Does `$work` with the columns of a bundle. Each kind is code of its own: the choice at every point would cost more than what it is
/// about.
macro_rules! with_columns {
    ($bundle:expr, |$columns:ident| $work:expr) => {
        match $bundle {
            $crate::mz::columns::Bundle::Together($columns) => $work,
            $crate::mz::columns::Bundle::Divided($columns) => $work,
            $crate::mz::columns::Bundle::Few($columns) => $work,
        }
    };
}
pub(crate) use with_columns;

/// The columns of `rows` rows that lie `apart` points from one another, of each the columns `columns`, bundle by bundle.
///
/// # Panics
/// If a row has fewer columns than there are lanes.
#[inline(always)]
pub(crate) fn bundles<S: Simd>(rows: usize, apart: usize, columns: Range<usize>) -> impl Iterator<Item = Bundle> {
    let (lanes, width) = (S::F64_LANES, columns.len());
    assert!(width >= lanes, "{width} columns of a row for {lanes} lanes");
    (0..rows * width).step_by(lanes).map(
        #[inline(always)]
        move |begin| {
            let (row, column) = (begin / width, begin % width);
            let at = |row, column| row * apart + columns.start + column;
            let (first, count) = (at(row, column), width - column);
            if count >= lanes {
                Bundle::Together(Together { first })
            } else if row + 1 < rows {
                Bundle::Divided(Divided { first, count, second: at(row + 1, 0) - count })
            } else {
                Bundle::Few(Few { first, count })
            }
        },
    )
}

/// The columns of a row that are solved: with those at the boundary if that makes them fill vectors.
#[inline(always)]
pub(crate) fn solved<S: Simd>(nx: usize) -> Range<usize> {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    if (nx - 1..=nx).contains(&whole) { 0..whole } else { 1..nx - 1 }
}

#[cfg(test)]
mod tests {
    use pulp::{Scalar, Scalar256b, Scalar512b, Simd, WithSimd};

    use super::*;
    use crate::mz::lanes::{MAX_LANES, dispatch};

    const NUMBERS: usize = 64;

    /// Loads a point of columns, adds 100 to it, and stores it, with columns of every kind; tells what was loaded each time.
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
    fn columns_of_every_kind_are_loaded_and_stored_and_nothing_else() {
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
        // Whatever this machine has, and the widths that others have.
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

    /// From a row to the next.
    const APART: usize = 40;

    #[test]
    fn bundles_have_every_column_once() {
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
}
