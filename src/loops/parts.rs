//! Parts of arrays that use the indices of the whole array.
//!
//! Invariant: an element is in at most one part, because arrays are split like slices and views. An index that
//! belongs to another part causes a panic, like an index out of the array's bounds.

use super::nest::Cut;
use ndarray::{ArrayBase, ArrayRef, ArrayViewMut, Axis, Data, Dimension, Ix2, Ix3, NdIndex};
use std::ops::{Deref, Index, IndexMut};

/// The array parts that a piece of a loop gets.
pub trait Parts: Sized + Send {
    /// Returns whether the arrays can be divided into a part for each piece.
    fn can_be_cut(&self) -> bool;
    /// Splits the parts into those for the iterations before `iteration` and those for the remaining iterations.
    fn split(self, iteration: i128) -> (Self, Self);
}

/// A part of a written array, indexed like the whole array.
#[derive(Debug)]
pub struct Part<V, const D: usize> {
    pub(super) view: V,
    /// The first index in this part along each dimension.
    pub(super) base: [usize; D],
    pub(super) cut: Option<Cut>,
    pub(super) extents: [usize; D],
}

/// An array that can be divided into parts.
pub trait IntoPart {
    /// The type of its parts.
    type Part;
    /// Returns all of the array as one part.
    fn into_part(self, cut: Option<Cut>) -> Self::Part;
}

/// Returns all of an array as one part, to be cut at `cut`.
pub fn part<A: IntoPart>(array: A, cut: Option<Cut>) -> A::Part {
    array.into_part(cut)
}

impl<'a, T> IntoPart for &'a mut [T] {
    type Part = Part<&'a mut [T], 1>;

    fn into_part(self, cut: Option<Cut>) -> Self::Part {
        Part { base: [0], cut, extents: [self.len()], view: self }
    }
}

/// A part of a part, which is needed for the pieces of a task whose own array is already a window.
impl<'a, T> IntoPart for &'a mut Part<&mut [T], 1> {
    type Part = Part<&'a mut [T], 1>;

    fn into_part(self, cut: Option<Cut>) -> Self::Part {
        Part { base: self.base, cut, extents: self.extents, view: &mut *self.view }
    }
}

macro_rules! arrays {
    ($($ix:ident $d:literal;)*) => {$(
        impl<'a, T> IntoPart for &'a mut Part<ArrayViewMut<'_, T, $ix>, $d> {
            type Part = Part<ArrayViewMut<'a, T, $ix>, $d>;

            fn into_part(self, cut: Option<Cut>) -> Self::Part {
                Part { base: self.base, cut, extents: self.extents, view: self.view.view_mut() }
            }
        }

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

/// A view that can be cut in two along a dimension.
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

#[allow(private_bounds)] // implemented by views only
impl<V: Sliced + Send, const D: usize> Parts for Part<V, D> {
    fn can_be_cut(&self) -> bool {
        self.cut.is_some()
    }

    fn split(self, iteration: i128) -> (Self, Self) {
        let Self { view, base, cut, extents } = self;
        let Cut { dimension, stride, first } = cut.expect("only parts that can be cut are split");
        // The arithmetic saturates, because a part before the array's first element or after its last element is
        // empty.
        let index = iteration.saturating_mul(stride).saturating_add(first);
        let at = (index - base[dimension] as i128).clamp(0, view.extent(dimension) as i128) as usize;
        let (before, behind) = view.cut(dimension, at);
        let mut base_behind = base;
        base_behind[dimension] += at;
        (Self { view: before, base, cut, extents }, Self { view: behind, base: base_behind, cut, extents })
    }
}

impl<T, V: Deref<Target = [T]>> Index<usize> for Part<V, 1> {
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

impl<S: Data, D: Dimension, const N: usize> Index<[usize; N]> for Part<ArrayBase<S, D>, N>
where
    [usize; N]: NdIndex<D>,
{
    type Output = S::Elem;

    #[inline]
    fn index(&self, index: [usize; N]) -> &S::Elem {
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
    /// Returns the number of elements of the whole array.
    #[allow(clippy::len_without_is_empty)] // generated code does not need `is_empty`
    pub fn len(&self) -> usize {
        self.extents.iter().product()
    }

    /// Returns the number of rows of the whole array.
    pub fn nrows(&self) -> usize {
        self.extents[0]
    }

    /// Returns the number of columns of the whole array.
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

/// An element that is private to each iteration, regardless of its index.
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
