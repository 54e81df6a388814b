//! A zone's arrays as one flat slice per component, divided among threads.
//!
//! Arrays have the shape `[5, nz, ny, nx]`, x contiguous. The stages require each component to be contiguous, but
//! the distance between components is arbitrary. For several threads, planes of constant z are dealt out in
//! contiguous ranges, without copying. A single thread never uses the thread pool.

use std::ops::Range;

use ndarray::{ArrayView4, ArrayViewMut4, Axis};
use rayon::prelude::*;

use super::physics::COMPONENTS;

/// A flat slice per component.
pub(crate) type Components<'a> = [&'a [f64]; COMPONENTS];
/// A mutable flat slice per component.
pub(crate) type ComponentsMut<'a> = [&'a mut [f64]; COMPONENTS];

/// Returns the components of an array.
///
/// # Panics
/// Panics if there are not five components, or one of them is not contiguous.
pub(crate) fn components<'a>(array: &ArrayView4<'a, f64>) -> Components<'a> {
    assert_eq!(array.len_of(Axis(0)), COMPONENTS, "components of a zone's array");
    std::array::from_fn(|m| (*array).index_axis_move(Axis(0), m).to_slice().expect("each component is contiguous"))
}

/// Returns the components of an array, mutably.
///
/// # Panics
/// Panics if there are not five components, or one of them is not contiguous.
pub fn components_mut<'a>(array: ArrayViewMut4<'a, f64>) -> ComponentsMut<'a> {
    assert_eq!(array.len_of(Axis(0)), COMPONENTS, "components of a zone's array");
    let (first, rest) = array.split_at(Axis(0), 1);
    let (second, rest) = rest.split_at(Axis(0), 1);
    let (third, rest) = rest.split_at(Axis(0), 1);
    let (fourth, fifth) = rest.split_at(Axis(0), 1);
    [first, second, third, fourth, fifth].map(|one| one.into_slice().expect("each component is contiguous"))
}

/// Runs `work` on the planes `planes` (of constant z) of `target`, divided among `threads` threads. `work` receives
/// a range of planes and, per component, the points of these planes. A plane has `plane` points.
///
/// # Panics
/// Panics if the components do not have these planes, or `work` panics.
pub(crate) fn over_planes(
    threads: usize,
    target: ComponentsMut<'_>,
    plane: usize,
    planes: Range<usize>,
    work: impl Fn(Range<usize>, ComponentsMut<'_>) + Sync,
) {
    let mut rest = target.map(|component| &mut component[planes.start * plane..planes.end * plane]);
    if threads <= 1 {
        return work(planes, rest);
    }
    let share = planes.len().div_ceil(threads).max(1);
    let mut shares = Vec::with_capacity(threads);
    let mut first = planes.start;
    while first < planes.end {
        let last = (first + share).min(planes.end);
        let parts = rest.map(|component| component.split_at_mut((last - first) * plane));
        let (part, others) = unzip(parts);
        shares.push((first..last, part));
        rest = others;
        first = last;
    }
    shares.into_par_iter().for_each(|(range, part)| work(range, part));
}

/// Calls `work` with each plane of `target` and the plane's number, counting from `first`. A plane has `plane`
/// points.
#[inline(always)]
pub fn for_planes(
    plane: usize,
    first: usize,
    target: ComponentsMut<'_>,
    mut work: impl FnMut(usize, ComponentsMut<'_>),
) {
    let [a, b, c, d, e] = target.map(|component| component.chunks_exact_mut(plane));
    for (((((k, a), b), c), d), e) in (first..).zip(a).zip(b).zip(c).zip(d).zip(e) {
        work(k, [a, b, c, d, e]);
    }
}

/// Calls `work` with up to `together` planes of `target` at a time and their numbers, counting from `first`. A
/// plane has `plane` points.
#[inline(always)]
pub(crate) fn for_slabs(
    plane: usize,
    together: usize,
    first: usize,
    target: ComponentsMut<'_>,
    mut work: impl FnMut(Range<usize>, ComponentsMut<'_>),
) {
    let [a, b, c, d, e] = target.map(|component| component.chunks_mut(together * plane));
    for (((((k, a), b), c), d), e) in (first..).step_by(together).zip(a).zip(b).zip(c).zip(d).zip(e) {
        work(k..k + a.len() / plane, [a, b, c, d, e]);
    }
}

/// Applies `of` to each component. The standard library's `each_mut` and `map` are not always inlined, and a call
/// would cost too much for a row of a small zone.
#[inline(always)]
pub(crate) fn each_mut<'a, 'r, T>(
    r: &'a mut ComponentsMut<'r>,
    mut of: impl FnMut(&'a mut &'r mut [f64]) -> T,
) -> [T; COMPONENTS] {
    let [a, b, c, d, e] = r;
    [of(a), of(b), of(c), of(d), of(e)]
}

/// Returns the first `points` points of each component. Code that walks several components calls this first, so
/// that the compiler needs only one bounds check per index instead of one for each component.
///
/// # Panics
/// Panics if a component has fewer points.
#[inline(always)]
pub(crate) fn cut<const K: usize>(components: [&[f64]; K], points: usize) -> [&[f64]; K] {
    tabulate!(|m| &components[m][..points])
}

/// Returns the first `points` points of each component, mutably; see [`cut`].
///
/// # Panics
/// Panics if a component has fewer points.
#[inline(always)]
pub(crate) fn cut_mut<const K: usize>(mut components: [&mut [f64]; K], points: usize) -> [&mut [f64]; K] {
    unroll!(K, |m| components[m] = &mut std::mem::take(&mut components[m])[..points]);
    components
}

/// Reborrows the components.
#[inline(always)]
pub(crate) fn reborrow<'a>(r: &'a mut ComponentsMut<'_>) -> ComponentsMut<'a> {
    each_mut(
        r,
        #[inline(always)]
        |component| &mut **component,
    )
}

/// Returns plane number `n` of each component. A plane has `points` points.
#[inline(always)]
pub(crate) fn plane_mut<'a>(r: &'a mut ComponentsMut<'_>, n: usize, points: usize) -> ComponentsMut<'a> {
    each_mut(
        r,
        #[inline(always)]
        |component| &mut component[n * points..][..points],
    )
}

/// Consecutive planes of a zone with the number of the first one: a whole array, or the part of an array that a
/// task accesses.
#[derive(Clone, Copy)]
pub struct Slab<'a> {
    /// The number of the first plane.
    first: usize,
    /// Number of points in a plane.
    points: usize,
    components: Components<'a>,
}

impl<'a> Slab<'a> {
    /// Creates a slab from the planes of an array, which are numbered from `first` on.
    ///
    /// # Panics
    /// Panics under the same conditions as [`components`].
    pub fn new(first: usize, array: &ArrayView4<'a, f64>) -> Self {
        Self { first, points: array.len_of(Axis(2)) * array.len_of(Axis(3)), components: components(array) }
    }

    /// Returns plane number `k` of each component.
    #[inline(always)]
    pub(crate) fn plane(&self, k: usize) -> Components<'a> {
        self.planes(k..k + 1)
    }

    /// Returns the planes `planes` of each component.
    #[inline(always)]
    pub(crate) fn planes(&self, planes: Range<usize>) -> Components<'a> {
        self.components.map(
            #[inline(always)]
            |component| &component[(planes.start - self.first) * self.points..][..planes.len() * self.points],
        )
    }
}

/// Splits an array of pairs into a pair of arrays.
fn unzip<T, const N: usize>(pairs: [(T, T); N]) -> ([T; N], [T; N]) {
    let mut seconds = Vec::with_capacity(N);
    let firsts = pairs.map(|(first, second)| {
        seconds.push(second);
        first
    });
    (firsts, seconds.try_into().unwrap_or_else(|_| unreachable!("every pair has a second")))
}
