//! A loop over a unit's cores: its range in pieces, each with its parts of the arrays that it writes.
//!
//! Invariant: an element is in one part at most, since arrays are split as slices and views are. An index that leads into
//! another part is a panic, as one that leads out of the array.

use super::form::Whole;
use super::nest::Cut;
use ndarray::{ArrayRef, ArrayViewMut, Axis, Dimension, Ix2, Ix3, NdIndex};
use std::ops::{Index, IndexMut, Range, RangeInclusive};

/// Pieces per core: enough to even out what iterations take, few enough to be worth their while.
const PIECES: i128 = 4;

/// What pieces of a loop get parts of.
pub trait Parts: Sized + Send {
    /// Whether there is a part for each piece.
    fn can_be_cut(&self) -> bool;
    /// The parts of the iterations before this one, and of the others.
    fn split(self, iteration: i128) -> (Self, Self);
}

/// A part of an array that is written, with the indices of the whole.
#[derive(Debug)]
pub struct Part<V, const D: usize> {
    view: V,
    /// The first index that is here, along each dimension.
    base: [usize; D],
    cut: Option<Cut>,
    extents: [usize; D],
}

/// An array that parts are made of.
pub trait IntoPart {
    /// A part.
    type Part;
    /// All of it.
    fn into_part(self, cut: Option<Cut>) -> Self::Part;
}

/// All of an array, to be cut there.
pub fn part<A: IntoPart>(array: A, cut: Option<Cut>) -> A::Part {
    array.into_part(cut)
}

impl<'a, T> IntoPart for &'a mut [T] {
    type Part = Part<&'a mut [T], 1>;

    fn into_part(self, cut: Option<Cut>) -> Self::Part {
        Part { base: [0], cut, extents: [self.len()], view: self }
    }
}

macro_rules! arrays {
    ($($ix:ident $d:literal;)*) => {$(
        impl<'a, T> IntoPart for &'a mut ArrayRef<T, $ix> {
            type Part = Part<ArrayViewMut<'a, T, $ix>, $d>;

            fn into_part(self, cut: Option<Cut>) -> Self::Part {
                let extents = std::array::from_fn(|d| self.len_of(Axis(d)));
                Part { base: [0; $d], cut, extents, view: self.view_mut() }
            }
        }
    )*};
}

arrays! { Ix2 2; Ix3 3; }

/// What can be cut in two along a dimension.
trait Sliced: Sized {
    fn extent(&self, dimension: usize) -> usize;
    fn cut(self, dimension: usize, at: usize) -> (Self, Self);
}

impl<T> Sliced for &mut [T] {
    fn extent(&self, _: usize) -> usize {
        self.len()
    }

    fn cut(self, _: usize, at: usize) -> (Self, Self) {
        self.split_at_mut(at)
    }
}

impl<T, D: Dimension> Sliced for ArrayViewMut<'_, T, D> {
    fn extent(&self, dimension: usize) -> usize {
        self.len_of(Axis(dimension))
    }

    fn cut(self, dimension: usize, at: usize) -> (Self, Self) {
        self.split_at(Axis(dimension), at)
    }
}

#[allow(private_bounds)] // of views alone
impl<V: Sliced + Send, const D: usize> Parts for Part<V, D> {
    fn can_be_cut(&self) -> bool {
        self.cut.is_some()
    }

    fn split(self, iteration: i128) -> (Self, Self) {
        let Self { view, base, cut, extents } = self;
        let Cut { dimension, stride, first } = cut.expect("what is cut can be");
        // Saturating: a part before the array's first element or behind its last is empty.
        let index = iteration.saturating_mul(stride).saturating_add(first);
        let at = (index - base[dimension] as i128).clamp(0, view.extent(dimension) as i128) as usize;
        let (before, behind) = view.cut(dimension, at);
        let mut base_behind = base;
        base_behind[dimension] += at;
        (Self { view: before, base, cut, extents }, Self { view: behind, base: base_behind, cut, extents })
    }
}

impl<T> Index<usize> for Part<&mut [T], 1> {
    type Output = T;

    #[inline]
    fn index(&self, index: usize) -> &T {
        &self.view[index.wrapping_sub(self.base[0])]
    }
}

impl<T> IndexMut<usize> for Part<&mut [T], 1> {
    #[inline]
    fn index_mut(&mut self, index: usize) -> &mut T {
        &mut self.view[index.wrapping_sub(self.base[0])]
    }
}

impl<T, D: Dimension, const N: usize> Index<[usize; N]> for Part<ArrayViewMut<'_, T, D>, N>
where
    [usize; N]: NdIndex<D>,
{
    type Output = T;

    #[inline]
    fn index(&self, index: [usize; N]) -> &T {
        &self.view[std::array::from_fn(|d| index[d].wrapping_sub(self.base[d]))]
    }
}

impl<T, D: Dimension, const N: usize> IndexMut<[usize; N]> for Part<ArrayViewMut<'_, T, D>, N>
where
    [usize; N]: NdIndex<D>,
{
    #[inline]
    fn index_mut(&mut self, index: [usize; N]) -> &mut T {
        &mut self.view[std::array::from_fn(|d| index[d].wrapping_sub(self.base[d]))]
    }
}

impl<V, const D: usize> Part<V, D> {
    /// Elements of the whole array.
    #[allow(clippy::len_without_is_empty)] // nobody asks
    pub fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Rows of the whole array.
    pub fn nrows(&self) -> usize {
        self.extents[0]
    }

    /// Columns of the whole array.
    pub fn ncols(&self) -> usize {
        self.extents[1]
    }
}

macro_rules! tuples {
    ($(($($p:ident $i:tt),*))*) => {$(
        impl<$($p: Parts),*> Parts for ($($p,)*) {
            fn can_be_cut(&self) -> bool {
                $(self.$i.can_be_cut())&&*
            }

            fn split(self, iteration: i128) -> (Self, Self) {
                let parts = ($(self.$i.split(iteration),)*);
                (($(parts.$i.0,)*), ($(parts.$i.1,)*))
            }
        }
    )*};
}

impl Parts for () {
    fn can_be_cut(&self) -> bool {
        true
    }

    fn split(self, _: i128) -> (Self, Self) {
        ((), ())
    }
}

for_tuples! { tuples }

/// An element of each iteration's own, whatever its index.
#[derive(Debug)]
pub struct Own<T>(pub T);

impl<T> Index<usize> for Own<T> {
    type Output = T;

    fn index(&self, _: usize) -> &T {
        &self.0
    }
}

impl<T> IndexMut<usize> for Own<T> {
    fn index_mut(&mut self, _: usize) -> &mut T {
        &mut self.0
    }
}

/// Runs the pieces of a range on the unit's cores.
pub fn pieces<T: Whole + Send, P: Parts>(
    cores: usize,
    range: Range<T>,
    parts: P,
    work: &(impl Fn(Range<T>, P) + Sync),
) {
    collect(cores, range, 1, parts, &|range, parts, _: &mut Vec<()>| work(range, parts));
}

/// The same, with what the pieces leave, in their order; pieces begin where a chunk of so many iterations does.
pub fn collect<T: Whole + Send, P: Parts, R: Send>(
    cores: usize,
    range: Range<T>,
    chunk: usize,
    parts: P,
    work: &(impl Fn(Range<T>, P, &mut Vec<R>) + Sync),
) -> Vec<R> {
    let (first, end) = (range.start.whole(), range.end.whole());
    let mut left = Vec::new();
    if first >= end {
        return left;
    }
    let chunk = (chunk as i128).max(1);
    if cores <= 1 || !parts.can_be_cut() {
        // A unit of one core has no pool of its own.
        work(range, parts, &mut left);
        return left;
    }
    let most = (end - first).div_euclid(cores as i128 * PIECES).max(1);
    halve::<T, P, R>((first, end), (chunk, most), parts, work, &mut left);
    left
}

fn halve<T: Whole + Send, P: Parts, R: Send>(
    (first, end): (i128, i128),
    (chunk, most): (i128, i128),
    parts: P,
    work: &(impl Fn(Range<T>, P, &mut Vec<R>) + Sync),
    left: &mut Vec<R>,
) {
    let chunks = (end - first + chunk - 1) / chunk;
    if end - first <= most || chunks < 2 {
        return work(T::of_whole(first)..T::of_whole(end), parts, left);
    }
    let middle = first + chunks / 2 * chunk;
    let (before, behind) = parts.split(middle);
    let mut others = Vec::new();
    rayon::join(
        || halve::<T, P, R>((first, middle), (chunk, most), before, work, left),
        || halve::<T, P, R>((middle, end), (chunk, most), behind, work, &mut others),
    );
    left.append(&mut others);
}

/// A range of integers in parts of so many, the last perhaps shorter.
pub fn chunks<T: Whole>(range: Range<T>, length: usize) -> impl Iterator<Item = Range<T>> {
    let (first, end, length) = (range.start.whole(), range.end.whole(), (length as i128).max(1));
    let mut at = first;
    std::iter::from_fn(move || {
        let start = at;
        at = end.min(start + length);
        (start < end).then(|| T::of_whole(start)..T::of_whole(at))
    })
}

/// A range without its end.
pub fn half_open<T: Whole>(range: impl Into<HalfOpen<T>>) -> Range<T> {
    range.into().0
}

/// See [`half_open`].
#[derive(Debug)]
pub struct HalfOpen<T>(Range<T>);

impl<T> From<Range<T>> for HalfOpen<T> {
    fn from(range: Range<T>) -> Self {
        Self(range)
    }
}

impl<T: Whole> From<RangeInclusive<T>> for HalfOpen<T> {
    fn from(range: RangeInclusive<T>) -> Self {
        Self(*range.start()..T::of_whole(range.end().whole() + 1))
    }
}

/// What a team's threads have, combined as a team does it: by a tree.
pub fn tree<T: Copy>(threads: &mut [T], combine: impl Fn(T, T) -> T) -> T {
    let mut apart = threads.len() / 2;
    while apart > 0 {
        let (low, high) = threads.split_at_mut(apart);
        low.iter_mut().zip(high).for_each(|(low, high)| *low = combine(*low, *high));
        apart /= 2;
    }
    threads[0]
}

/// The parts of a reduction, combined as the kernel behind it does.
pub fn total<T: Copy>(parts: impl Iterator<Item = T>, identity: T, team: usize, combine: impl Fn(T, T) -> T) -> T {
    let mut threads = vec![identity; team];
    parts.enumerate().for_each(|(n, part)| threads[n % team] = combine(threads[n % team], part));
    tree(&mut threads, combine)
}
