//! Grid lines in x side by side: as many rows as there are lanes are packed into scratch, solved together, and unpacked.
//!
//! The vectors of a bundle are in the order `[point along the line][field]`, lane by lane one line each; so a solver's inner
//! loop walks memory once, forwards or backwards.
//!
//! Invariant: where there are fewer lines than lanes, the last line is in all lanes that are left; so no lane ever computes
//! with numbers that are not those of a line, and what they are on the way out is the same in each.

use std::ops::Range;

use pulp::Simd;

use super::lanes::{MAX_LANES, is_avx512, transpose};

/// Where up to [`MAX_LANES`] rows of equal length lie within one component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    /// The first point of each line; beyond the last line the last one's.
    starts: [usize; MAX_LANES],
    /// Points of a line.
    length: usize,
}

impl Lines {
    /// The lines `numbers`, of `length` points each, of planes of `points` points, where each plane has `lines` lines, `apart` from
    /// one another, of which the first begins at `first` of the plane.
    ///
    /// # Panics
    /// If these are no lines, or more than [`MAX_LANES`].
    #[inline(always)]
    pub(crate) fn in_planes(
        (first, apart, lines): (usize, usize, usize),
        points: usize,
        numbers: Range<usize>,
        length: usize,
    ) -> Self {
        let count = numbers.len();
        assert!((1..=MAX_LANES).contains(&count), "{count} lines in a bundle");
        let starts = std::array::from_fn(
            #[inline(always)]
            |lane| {
                let number = numbers.start + lane.min(count - 1);
                number / lines * points + first + number % lines * apart
            },
        );
        Self { starts, length }
    }

    /// Copies the lines of one component, `source`, into field `field` of a bundle of `fields` fields per point.
    ///
    /// # Panics
    /// If a line leaves the component, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn pack<S: Simd>(&self, simd: S, source: &[f64], bundle: &mut [S::f64s], field: (usize, usize)) {
        if self.length >= 4 && S::F64_LANES == 4 {
            self.pack_squares::<S, 4>(simd, source, bundle, field);
        } else if self.length >= 8 && is_avx512::<S>() {
            self.pack_squares::<S, 8>(simd, source, bundle, field);
        } else {
            let (field, fields) = field;
            for (l, point) in bundle.chunks_exact_mut(fields).take(self.length).enumerate() {
                let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(&mut point[field..=field]);
                for (lane, start) in lanes.iter_mut().zip(self.starts) {
                    *lane = source[start + l];
                }
            }
        }
    }

    /// Copies field `field` of a bundle of `fields` fields per point back to the lines of one component, `target`.
    ///
    /// # Panics
    /// If a line leaves the component, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn unpack<S: Simd>(&self, simd: S, target: &mut [f64], bundle: &[S::f64s], field: (usize, usize)) {
        if self.length >= 4 && S::F64_LANES == 4 {
            self.unpack_squares::<S, 4>(simd, target, bundle, field);
        } else if self.length >= 8 && is_avx512::<S>() {
            self.unpack_squares::<S, 8>(simd, target, bundle, field);
        } else {
            let (field, fields) = field;
            for (l, point) in bundle.chunks_exact(fields).take(self.length).enumerate() {
                let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(&point[field]));
                for (lane, start) in lanes.iter().zip(self.starts) {
                    target[start + l] = *lane;
                }
            }
        }
    }

    /// [`Lines::pack`], `N` points of `N` lanes at a time.
    #[inline(always)]
    fn pack_squares<S: Simd, const N: usize>(
        &self,
        simd: S,
        source: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        let rows: [&[f64]; N] = tabulate!(|lane| &source[self.starts[lane]..][..self.length]);
        let pack = {
            #[inline(always)]
            |rows: [&[f64; N]; N], block: &mut [S::f64s]| {
                let columns: [S::f64s; N] = transpose(simd, tabulate!(|lane| S::as_simd_f64s(rows[lane]).0[0]));
                unroll!(N, |i| block[i * fields + field] = columns[i]);
            }
        };
        let chunks: [&[[f64; N]]; N] = tabulate!(|lane| &rows[lane].as_chunks().0[..self.length / N]);
        for (n, block) in bundle[..self.length * fields].chunks_exact_mut(N * fields).enumerate() {
            pack(tabulate!(|lane| &chunks[lane][n]), block);
        }
        // What is left, with points that have been packed: a square costs less than a few points one by one.
        if !self.length.is_multiple_of(N) {
            let last = &mut bundle[(self.length - N) * fields..][..N * fields];
            pack(tabulate!(|lane| rows[lane].last_chunk().expect("a line of as many")), last);
        }
    }

    /// [`Lines::unpack`], `N` points of `N` lanes at a time.
    #[inline(always)]
    fn unpack_squares<S: Simd, const N: usize>(
        &self,
        simd: S,
        target: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
    ) {
        let mut unpack = {
            #[inline(always)]
            |l: usize| {
                let block = &bundle[l * fields..][..N * fields];
                let rows: [S::f64s; N] = transpose(simd, tabulate!(|i| block[i * fields + field]));
                unroll!(N, |lane| {
                    let at = self.starts[lane] + l;
                    S::as_mut_simd_f64s(&mut target[at..at + N]).0[0] = rows[lane];
                });
            }
        };
        for n in 0..self.length / N {
            unpack(n * N);
        }
        if !self.length.is_multiple_of(N) {
            unpack(self.length - N);
        }
    }
}

/// How many planes of `points` points have their lines solved together where vectors have `lanes` lanes and each plane has `lines`
/// lines: in one direction, or in several. As few as leave no more than a sixteenth of the lanes idle, or else as little of
/// them as possible; and no more than stay in a near cache.
pub(crate) fn planes_together(lanes: usize, points: usize, lines: &[usize]) -> usize {
    /// Points whose state and right-hand side are 320 KiB.
    const MOST_POINTS: usize = 4096;
    const MOST_PLANES: usize = 4;
    const FEW_IDLE: f64 = 1.0 / 16.0;
    let idle = |planes: usize| {
        let of_lines = |lines: &usize| 1.0 - (planes * lines) as f64 / (planes * lines).next_multiple_of(lanes) as f64;
        lines.iter().map(of_lines).fold(0.0, f64::max)
    };
    let most = (MOST_POINTS / points).clamp(1, MOST_PLANES);
    let few = (1..=most).find(|&planes| idle(planes) <= FEW_IDLE);
    few.or_else(|| (1..=most).min_by(|&a, &b| idle(a).total_cmp(&idle(b)))).unwrap_or(1)
}
