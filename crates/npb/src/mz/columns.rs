//! Columns of grid points, one per lane. The columns are lines in y and z, which are solved in place.
//!
//! Neighbouring columns form a vector in memory. Columns are arranged in rows: columns in y have one row per plane,
//! and columns in z one row per y. If a row's columns do not fill whole vectors, its last columns share a vector
//! with the first columns of the next row. In that case two vectors are loaded, and each provides some of the
//! lanes. No other columns are ever changed.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A bundle of columns, one per lane. In `load` and `store`, `point` is the distance of a point from the first
/// point of its column.
pub trait Columns: Copy {
    /// Returns the index of the first column's first point.
    fn first(self) -> usize;

    /// Loads a point of each column.
    ///
    /// # Panics
    /// Panics if the columns are not within `from`.
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S>;

    /// Sets a point of each column.
    ///
    /// # Panics
    /// Panics if the columns are not within `to`.
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize);
}

/// Adjacent columns, one for every lane.
#[derive(Clone, Copy)]
pub struct Together {
    /// Index of the first column's first point.
    pub first: usize,
}

/// Fewer adjacent columns than there are lanes; the other lanes hold zeros.
#[derive(Clone, Copy)]
pub struct Few {
    /// Index of the first column's first point.
    pub first: usize,
    pub count: usize,
}

/// The last columns of a row together with the first columns of the next row.
#[derive(Clone, Copy)]
pub struct Divided {
    /// Index of the first column's first point.
    pub first: usize,
    /// Number of columns in the first row.
    pub count: usize,
    /// Index that the first column's first point would have if all columns belonged to the second row.
    pub second: usize,
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

/// A bundle with one column per lane, or with the remaining columns of a row.
pub enum Bundle {
    Together(Together),
    Divided(Divided),
    Few(Few),
}

/// Runs `$work` with the columns of a bundle. Each kind of bundle gets its own copy of the code, because a branch
/// at every point would cost more than the point's arithmetic.
#[macro_export]
#[doc(hidden)]
macro_rules! with_columns {
    ($bundle:expr, |$columns:ident| $work:expr) => {
        match $bundle {
            $crate::mz::columns::Bundle::Together($columns) => $work,
            $crate::mz::columns::Bundle::Divided($columns) => $work,
            $crate::mz::columns::Bundle::Few($columns) => $work,
        }
    };
}
/// Returns the columns in the range `columns` of each of `rows` rows, bundle by bundle. Successive rows are `apart`
/// points apart.
///
/// # Panics
/// Panics if a row has fewer columns than there are lanes.
#[inline(always)]
pub fn bundles<S: Simd>(rows: usize, apart: usize, columns: Range<usize>) -> impl Iterator<Item = Bundle> {
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

/// Returns the range of columns to solve in a row. The range includes the boundary columns if the columns then fill
/// whole vectors.
#[inline(always)]
pub(crate) fn solved<S: Simd>(nx: usize) -> Range<usize> {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    if (nx - 1..=nx).contains(&whole) { 0..whole } else { 1..nx - 1 }
}
