//! Bundles of grid lines in x. The rows of a bundle, one per lane, are packed into scratch memory, solved together,
//! and unpacked.
//!
//! The vectors of a bundle are in the order `[point along the line][field]`, with one line per lane. So a solver's
//! inner loop walks memory once, forwards or backwards.
//!
//! Invariant: if there are fewer lines than lanes, all spare lanes hold the last line. So every lane computes with
//! valid numbers, and the spare lanes store the same results as the last line's lane.

use std::ops::Range;

use pulp::Simd;

use super::components::{cut, cut_mut};
use super::lanes::{Lane, MAX_LANES, get_square, is_avx512, set_square};

/// Positions of up to [`MAX_LANES`] rows of equal length within one component.
#[derive(Clone, Copy, Debug)]
pub struct Lines {
    /// The first point of each line. Spare lanes repeat that of the last line.
    starts: [usize; MAX_LANES],
    /// Number of points in a line.
    length: usize,
}

impl Lines {
    /// Selects the lines `numbers`, which have `length` points each. A plane has `points` points and `lines` lines;
    /// its first line begins at point `first`, and successive lines are `apart` points from one another.
    ///
    /// # Panics
    /// Panics if `numbers` is empty or has more than [`MAX_LANES`] lines.
    #[inline(always)]
    pub fn in_planes(
        (first, apart, lines): (usize, usize, usize),
        points: usize,
        numbers: Range<usize>,
        length: usize,
    ) -> Self {
        let count = numbers.len();
        assert!((1..=MAX_LANES).contains(&count), "{count} lines in a bundle");
        let (mut plane, mut line) = (numbers.start / lines, numbers.start % lines);
        let starts = tabulate!(|lane| {
            let start = plane * points + first + line * apart;
            if lane + 1 < count {
                line += 1;
                if line == lines {
                    (plane, line) = (plane + 1, 0);
                }
            }
            start
        });
        Self { starts, length }
    }

    /// Copies the lines of these components, which must have equal length, into a bundle with `fields` fields per
    /// point, starting at field `first`.
    ///
    /// # Panics
    /// Panics if a line leaves a component, or the bundle is too short.
    #[inline(always)]
    pub fn pack<S: Simd, const K: usize>(
        &self,
        simd: S,
        components: [&[f64]; K],
        bundle: &mut [S::f64s],
        (first, fields): (usize, usize),
    ) {
        if self.length >= 4 && S::F64_LANES == 4 {
            self.pack_squares::<S, 4, K>(simd, components, bundle, (first, fields));
        } else if self.length >= 8 && is_avx512::<S>() {
            self.pack_squares::<S, 8, K>(simd, components, bundle, (first, fields));
        } else {
            for (l, point) in bundle.chunks_exact_mut(fields).take(self.length).enumerate() {
                for (component, field) in components.iter().zip(&mut point[first..first + K]) {
                    let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(std::slice::from_mut(field));
                    for (lane, start) in lanes.iter_mut().zip(self.starts) {
                        *lane = component[start + l];
                    }
                }
            }
        }
    }

    /// Copies the fields starting at `first` of a bundle with `fields` fields per point back to the lines of these
    /// components, which must have equal length.
    ///
    /// # Panics
    /// Panics if a line leaves a component, or the bundle is too short.
    #[inline(always)]
    pub fn unpack<S: Simd, const K: usize>(
        &self,
        simd: S,
        components: [&mut [f64]; K],
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        if self.length >= 4 && S::F64_LANES == 4 {
            self.unpack_squares::<S, 4, K>(simd, components, bundle, (first, fields));
        } else if self.length >= 8 && is_avx512::<S>() {
            self.unpack_squares::<S, 8, K>(simd, components, bundle, (first, fields));
        } else {
            for (component, field) in components.into_iter().zip(first..) {
                for (l, point) in bundle.chunks_exact(fields).take(self.length).enumerate() {
                    let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(&point[field]));
                    for (lane, start) in lanes.iter().zip(self.starts) {
                        component[start + l] = *lane;
                    }
                }
            }
        }
    }

    /// Implementation of [`Lines::pack`] that handles `N` points of `N` lanes at a time.
    #[inline(always)]
    fn pack_squares<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        components: [&[f64]; K],
        bundle: &mut [S::f64s],
        (first, fields): (usize, usize),
    ) {
        // All components have the same length, so one bounds check per lane is enough.
        let components = cut(components, components[0].len());
        self.squares::<N>(
            #[inline(always)]
            |l, starts| {
                set_square::<S, N, K>(
                    simd,
                    &mut bundle[l * fields..][..N * fields],
                    (first, fields),
                    #[inline(always)]
                    |m| tabulate!(|lane| Lane::load(simd, components[m], starts[lane])),
                );
            },
        );
    }

    /// Implementation of [`Lines::unpack`] that handles `N` points of `N` lanes at a time.
    #[inline(always)]
    fn unpack_squares<S: Simd, const N: usize, const K: usize>(
        &self,
        simd: S,
        components: [&mut [f64]; K],
        bundle: &[S::f64s],
        (first, fields): (usize, usize),
    ) {
        let points = components[0].len();
        let mut components = cut_mut(components, points);
        self.squares::<N>(
            #[inline(always)]
            |l, starts| {
                let square = &bundle[l * fields..][..N * fields];
                unroll!(K, |m| {
                    let rows: [Lane<S>; N] = get_square(simd, square, (first + m, fields));
                    unroll!(N, |lane| rows[lane].store(components[m], starts[lane]));
                });
            },
        );
    }

    /// Calls `work` for squares of `N` points by `N` lanes that cover the lines, which must have at least `N`
    /// points. `work` receives the position of the square's first point along the lines, and the index of that
    /// point in each lane. The last square overlaps the previous one if necessary: copying some points twice costs
    /// less than copying a few points one by one.
    #[inline(always)]
    fn squares<const N: usize>(&self, mut work: impl FnMut(usize, [usize; N])) {
        let last = self.length - N;
        let mut l = 0;
        loop {
            work(l, tabulate!(|lane| self.starts[lane] + l));
            if l == last {
                break;
            }
            l = (l + N).min(last);
        }
    }
}

/// Returns how many planes of `points` points to solve together, given that vectors have `lanes` lanes and that
/// each plane has `lines` lines in each of one or more directions. The result is the smallest number of planes that
/// leaves at most a sixteenth of the lanes idle, or otherwise the number that leaves the fewest lanes idle, but
/// never more planes than fit in a near cache.
pub fn planes_together(lanes: usize, points: usize, lines: &[usize]) -> usize {
    /// Number of points whose state and right-hand side take 320 KiB.
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
