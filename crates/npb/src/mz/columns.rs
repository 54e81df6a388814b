//! Columns side by side, one in every lane: lines in y and in z, which are solved where they are.
//!
//! Neighbouring columns are a vector in memory. They come in rows: those in y have one in each plane, those in z one for each y. Where
//! a row's fill no vectors, its last ones share one with the first ones of the next row: two vectors are read, and each gives its
//! lanes. Nothing but these columns is ever changed.

use std::ops::Range;

use pulp::Simd;

use crate::mz::lanes::Lane;

/// A column in every lane. Both functions take how far a point is from the first one of its column.
pub trait Columns: Copy {
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
pub struct Together {
    /// The first column's first point.
    pub first: usize,
}

/// Side by side, fewer than there are lanes; the others hold zeros.
#[derive(Clone, Copy)]
pub struct Few {
    /// The first column's first point.
    pub first: usize,
    pub count: usize,
}

/// The last ones of a row, and the first ones of the next.
#[derive(Clone, Copy)]
pub struct Divided {
    /// The first column's first point.
    pub first: usize,
    /// How many are in the first row.
    pub count: usize,
    /// What the first column's first point would be if all of them were in the second row.
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

/// As many columns as there are lanes, or what is left of them.
pub enum Bundle {
    Together(Together),
    Divided(Divided),
    Few(Few),
}

/// Does `$work` with the columns of a bundle. Each kind is code of its own: the choice at every point would cost more than what it is
/// about.
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
/// The columns of `rows` rows that lie `apart` points from one another, of each the columns `columns`, bundle by bundle.
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

/// The columns of a row that are solved: with those at the boundary if that makes them fill vectors.
#[inline(always)]
pub(crate) fn solved<S: Simd>(nx: usize) -> Range<usize> {
    let whole = (nx - 2).next_multiple_of(S::F64_LANES);
    if (nx - 1..=nx).contains(&whole) { 0..whole } else { 1..nx - 1 }
}
