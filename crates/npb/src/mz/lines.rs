//! Grid lines side by side: as many as there are lanes are packed into scratch, solved together, and unpacked.
//!
//! A line is any arithmetic progression of points in one component of a zone. The bundle of packed lines holds
//! vectors in the order `[point along the line][field]`, lane by lane one line each; so a solver's inner loop
//! walks memory once, forwards or backwards, whatever the direction of the sweep.
//!
//! Invariant: where there are fewer lines than lanes, the last line is repeated on the way in and written once on
//! the way out; so no lane ever computes with numbers that are not those of a line.

use std::ops::Range;

use pulp::Simd;

use super::components::ComponentsMut;
use super::lanes::{MAX_LANES, is_avx512};

/// Where up to [`MAX_LANES`] parallel lines of equal length lie within one component.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Lines {
    /// The first point of each line; beyond `count` the last line's.
    starts: [usize; MAX_LANES],
    /// How many lines there are.
    count: usize,
    /// From one point of a line to the next.
    stride: usize,
    /// Points of a line.
    length: usize,
}

impl Lines {
    /// Lines of `length` points, `stride` apart, that begin at `starts`.
    ///
    /// # Panics
    /// If there is no line, or more than [`MAX_LANES`].
    #[inline(always)]
    pub(crate) fn new(starts: &[usize], stride: usize, length: usize) -> Self {
        let count = starts.len();
        let mut padded = [starts[count - 1]; MAX_LANES];
        padded[..count].copy_from_slice(starts);
        Self { starts: padded, count, stride, length }
    }

    /// The lines `numbers` of planes of `points` points, where each plane has `lines` lines, `apart` from one another, of which the
    /// first begins at `first` of the plane.
    ///
    /// # Panics
    /// If these are no lines, or more than [`MAX_LANES`].
    #[inline(always)]
    pub(crate) fn in_planes(
        (first, apart, lines): (usize, usize, usize),
        points: usize,
        numbers: Range<usize>,
        (stride, length): (usize, usize),
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
        Self { starts, count, stride, length }
    }

    /// Copies the lines of one component, `source`, into field `field` of a bundle of `fields` fields per point.
    ///
    /// # Panics
    /// If a line leaves the component, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn pack<S: Simd>(
        &self,
        simd: S,
        source: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        let points = bundle.chunks_exact_mut(fields).take(self.length);
        if self.adjacent::<S>() {
            for (l, point) in points.enumerate() {
                let at = self.starts[0] + l * self.stride;
                point[field] = S::as_simd_f64s(&source[at..at + S::F64_LANES]).0[0];
            }
        } else if self.stride == 1 && S::F64_LANES == 4 {
            self.pack_rows::<S, 4>(simd, source, bundle, (field, fields));
        } else if self.stride == 1 && is_avx512::<S>() {
            self.pack_rows::<S, 8>(simd, source, bundle, (field, fields));
        } else {
            for (l, point) in points.enumerate() {
                let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(&mut point[field..=field]);
                for (lane, start) in lanes.iter_mut().zip(self.starts) {
                    *lane = source[start + l * self.stride];
                }
            }
        }
    }

    /// Copies field `field` of a bundle of `fields` fields per point back to the lines of one component, `target`.
    ///
    /// # Panics
    /// If a line leaves the component, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn unpack<S: Simd>(
        &self,
        simd: S,
        target: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
    ) {
        let points = bundle.chunks_exact(fields).take(self.length);
        if self.adjacent::<S>() {
            for (l, point) in points.enumerate() {
                let at = self.starts[0] + l * self.stride;
                S::as_mut_simd_f64s(&mut target[at..at + S::F64_LANES]).0[0] = point[field];
            }
        } else if self.stride == 1 && S::F64_LANES == 4 {
            self.unpack_rows::<S, 4>(simd, target, bundle, (field, fields));
        } else if self.stride == 1 && is_avx512::<S>() {
            self.unpack_rows::<S, 8>(simd, target, bundle, (field, fields));
        } else {
            self.unpack_points::<S>(target, bundle, (field, fields));
        }
    }

    /// [`Lines::pack`] of lines that are rows, `N` points of `N` lanes at a time.
    #[inline(always)]
    fn pack_rows<S: Simd, const N: usize>(
        &self,
        simd: S,
        source: &[f64],
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        let rows: [&[f64]; N] = tabulate!(|lane| &source[self.starts[lane]..][..self.length]);
        for l in blocks::<N>(self.length) {
            let across: [S::f64s; N] = tabulate!(|lane| S::as_simd_f64s(&rows[lane][l..l + N]).0[0]);
            let columns = transpose(simd, across);
            let block = &mut bundle[l * fields..][..N * fields];
            unroll!(N, |i| block[i * fields + field] = columns[i]);
        }
        if self.length < N {
            for (l, point) in bundle.chunks_exact_mut(fields).take(self.length).enumerate() {
                let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(&mut point[field..=field]);
                for (lane, row) in lanes.iter_mut().zip(rows) {
                    *lane = row[l];
                }
            }
        }
    }

    /// [`Lines::unpack`] of lines that are rows, `N` points of `N` lanes at a time.
    #[inline(always)]
    fn unpack_rows<S: Simd, const N: usize>(
        &self,
        simd: S,
        target: &mut [f64],
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
    ) {
        for l in blocks::<N>(self.length) {
            let block = &bundle[l * fields..][..N * fields];
            let columns: [S::f64s; N] = tabulate!(|i| block[i * fields + field]);
            let rows = transpose(simd, columns);
            unroll!(N, |lane| if lane < self.count {
                let at = self.starts[lane] + l;
                S::as_mut_simd_f64s(&mut target[at..at + N]).0[0] = rows[lane];
            });
        }
        if self.length < N {
            self.unpack_points::<S>(target, bundle, (field, fields));
        }
    }

    /// [`Lines::pack`] from a component of which each point of a line lies in a slice of its own, at the line's start:
    /// lines in z, a slice per plane.
    ///
    /// # Panics
    /// If a line leaves the slices, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn pack_planes<S: Simd>(
        &self,
        planes: &[ComponentsMut<'_>],
        component: usize,
        bundle: &mut [S::f64s],
        (field, fields): (usize, usize),
    ) {
        for (plane, point) in planes[..self.length].iter().zip(bundle.chunks_exact_mut(fields)) {
            let plane = &plane[component];
            if self.adjacent::<S>() {
                point[field] = S::as_simd_f64s(&plane[self.starts[0]..][..S::F64_LANES]).0[0];
            } else {
                let lanes = bytemuck::cast_slice_mut::<S::f64s, f64>(&mut point[field..=field]);
                for (lane, start) in lanes.iter_mut().zip(self.starts) {
                    *lane = plane[start];
                }
            }
        }
    }

    /// [`Lines::unpack`] to a component of which each point of a line lies in a slice of its own.
    ///
    /// # Panics
    /// If a line leaves the slices, or the bundle is too short.
    #[inline(always)]
    pub(crate) fn unpack_planes<S: Simd>(
        &self,
        planes: &mut [ComponentsMut<'_>],
        component: usize,
        bundle: &[S::f64s],
        (field, fields): (usize, usize),
    ) {
        for (plane, point) in planes[..self.length].iter_mut().zip(bundle.chunks_exact(fields)) {
            let plane = &mut plane[component];
            if self.adjacent::<S>() {
                S::as_mut_simd_f64s(&mut plane[self.starts[0]..][..S::F64_LANES]).0[0] = point[field];
            } else {
                let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(&point[field]));
                for (lane, start) in lanes.iter().zip(self.starts).take(self.count) {
                    plane[start] = *lane;
                }
            }
        }
    }

    /// [`Lines::unpack`], number by number.
    #[inline(always)]
    fn unpack_points<S: Simd>(&self, target: &mut [f64], bundle: &[S::f64s], (field, fields): (usize, usize)) {
        for l in 0..self.length {
            let lanes = bytemuck::cast_slice::<S::f64s, f64>(std::slice::from_ref(&bundle[l * fields + field]));
            for (lane, start) in lanes.iter().zip(self.starts).take(self.count) {
                target[start + l * self.stride] = *lane;
            }
        }
    }

    /// Whether a point of every lane is one vector in memory.
    #[inline(always)]
    fn adjacent<S: Simd>(&self) -> bool {
        self.count == S::F64_LANES && (0..S::F64_LANES).all(|lane| self.starts[lane] == self.starts[0] + lane)
    }
}

/// Where blocks of `N` points of a line begin that cover it: the last one overlaps the one before if it has to, since the same
/// points twice cost less than a few points one by one. None if the line is shorter than a block.
#[inline(always)]
fn blocks<const N: usize>(length: usize) -> impl Iterator<Item = usize> {
    let last = length.checked_sub(N);
    last.into_iter().flat_map(move |last| (0..length).step_by(N).map(move |l| l.min(last)))
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

/// The columns of the square whose rows are these vectors, of as many lanes as there are of them: 4, or the 8 of AVX-512.
///
/// Bits of places show that the steps for 8 are right. Say that the element at row (b2 b1 b0) and column (c2 c1 c0) is in vector
/// (b2 b1 b0) at lane (c2 c1 c0). `deinterleave` takes four vectors v = (v1 v0) with lanes (h m l) to vectors (m l) with lanes
/// (v1 h v0), and two vectors v to vectors l with lanes (h m v). So the first step, of vectors (b1 b0), gives vectors (b2 c1 c0)
/// with lanes (b1 c2 b0), the second, of vectors (b2 c0), vectors (c2 c1 b0) with lanes (b2 b1 c0), and the third, of vectors b0,
/// vectors (c2 c1 c0) with lanes (b2 b1 b0).
#[inline(always)]
pub(crate) fn transpose<S: Simd, const N: usize>(simd: S, rows: [S::f64s; N]) -> [S::f64s; N] {
    const { assert!(N == 4 || N == 8) };
    let [a, b, c, d] = simd.deinterleave_shfl_f64s([rows[0], rows[1], rows[2], rows[3]]);
    if N == 4 {
        return tabulate!(|i| [a, b, c, d][i]);
    }
    let [e, f, g, h] = simd.deinterleave_shfl_f64s([rows[4], rows[5], rows[6], rows[7]]);
    let [a, b, c, d, e, f, g, h] = {
        let [a, b, e, f] = simd.deinterleave_shfl_f64s([a, b, e, f]);
        let [c, d, g, h] = simd.deinterleave_shfl_f64s([c, d, g, h]);
        [a, b, c, d, e, f, g, h]
    };
    let pairs = [[a, b], [c, d], [e, f], [g, h]];
    let pairs: [[S::f64s; 2]; 4] = tabulate!(|i| simd.deinterleave_shfl_f64s(pairs[i]));
    tabulate!(|i| pairs[i / 2][i % 2])
}
