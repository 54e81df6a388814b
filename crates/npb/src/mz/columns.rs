//! Columns of grid points, one per lane: lines in y and z, which are solved in place.
//!
//! Neighbouring columns form a vector in memory. Columns come in rows: columns in y have one row in each plane,
//! columns in z one for each y. If a row's columns do not fill whole vectors, its last columns share one with the
//! first columns of the next row: both vectors are read, and each provides some of the lanes. No other columns are
//! ever changed.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A bundle of columns, one per lane. In `load` and `store`, `point` is a point's distance from the first point of
/// its column.
pub trait Columns: Copy {
    /// Returns the index of the first column's first point.
    fn first(self) -> usize;

    /// Loads a point of each column.
    ///
    /// # Panics
    /// If the columns are not within `from`.
    fn load<S: Simd>(self, simd: S, from: &[f64], point: usize) -> Lane<S>;

    /// Sets a point of each column.
    ///
    /// # Panics
    /// If the columns are not within `to`.
    fn store<S: Simd>(self, lanes: Lane<S>, to: &mut [f64], point: usize);
}

/// Adjacent columns, one for every lane.
#[derive(Clone, Copy)]
pub struct Together {
    /// The first column's first point.
    pub first: usize,
}

/// Adjacent columns, fewer than there are lanes; the other lanes hold zeros.
#[derive(Clone, Copy)]
pub struct Few {
    /// The first column's first point.
    pub first: usize,
    pub count: usize,
}

/// The last columns of a row and the first columns of the next.
#[derive(Clone, Copy)]
pub struct Divided {
    /// The first column's first point.
    pub first: usize,
    /// Number of columns in the first row.
    pub count: usize,
    /// Index that the first column's first point would have if all columns were in the second row.
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

/// One column per lane, or the columns that are left.
pub enum Bundle {
    Together(Together),
    Divided(Divided),
    Few(Few),
}

/// Does `$work` with the columns of a bundle. Each kind gets its own copy of the code: a branch at every point
/// would cost more than the work of the point.
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
/// Returns the columns `columns` of each of `rows` rows, bundle by bundle. The rows are `apart` points from one
/// another.
///
/// # Panics
/// If a row has fewer columns than there are lanes.
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

/// Returns the columns of a row that are solved. They include the boundary columns if the columns then fill whole
/// vectors.
#[inline(always)]
pub(crate) fn solved<S: Simd>(nx: usize) -> Range<usize> {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    if (nx - 1..=nx).contains(&whole) { 0..whole } else { 1..nx - 1 }
}
