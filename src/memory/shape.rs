//! The dimensionality of data objects, and the view types that follow from it.

use super::{Element, Lendable};
use crate::depend::Site;
use crate::region::{Block, MAX_DIMS};
use crate::sealed::Sealed;
use ndarray::{Array, ArrayRef, ArrayView, ArrayViewMut, Dimension, Ix1, Ix2, Ix3, Ix4, ShapeBuilder, StrideShape};
use std::fmt::Debug;
use std::ptr::NonNull;

/// One of ndarray's dimensions [`Ix1`](type@Ix1) to [`Ix4`](type@Ix4). For one dimension, bodies get slices; for more
/// dimensions, they get ndarray views.
///
/// Code that works for any number of dimensions can convert both into ndarray views with `into`:
///
/// ```
/// use ndarray::{ArrayView, ArrayViewMut};
/// use thalweg::memory::Shape;
/// use thalweg::prelude::*;
///
/// /// Sets each element of `y` to twice that of `x`.
/// fn double<D: Shape>(rt: &Runtime, x: &Data<f64, D>, y: &Data<f64, D>) -> Result<TaskId, SubmitError> {
///     rt.task("double", (x.input(), y.output()))
///         .cpu(|_, (x, y)| {
///             let (x, mut y): (ArrayView<'_, f64, D>, ArrayViewMut<'_, f64, D>) = (x.into(), y.into());
///             y.zip_mut_with(&x, |y, x| *y = 2.0 * x);
///         })
///         .submit()
/// }
///
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (x, y) = (rt.data(vec![1.0, 2.0]), rt.zeros(2));
/// double(&rt, &x, &y)?;
/// assert_eq!(rt.read(&y)?, [2.0, 4.0]);
/// let (x, y) = (rt.array(ndarray::array![[1.0], [3.0]]), rt.zeros([2, 1]));
/// double(&rt, &x, &y)?;
/// assert_eq!(rt.read(&y)?, ndarray::array![[2.0], [6.0]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Shape: Dimension + Copy + Send + Sync + Sealed + 'static {
    /// Index ranges of a region, one per dimension.
    type Spans: Spans;
    /// The view that a body receives for `in`.
    type View<'a, T: Element>: Into<ArrayView<'a, T, Self>> + Copy + Send + Sync;
    /// The view that a body receives for `out` and `inout`.
    type ViewMut<'a, T: Element>: Into<ArrayViewMut<'a, T, Self>> + Send + Sync;
    /// An owned copy of a region.
    type Owned<T: Element>: Into<Array<T, Self>> + Clone + Send + Sync;

    /// Returns a view of the region at `site`.
    ///
    /// # Safety
    /// For `'a`, the region is at `site` and initialised, and nothing writes it.
    unsafe fn view<'a, T: Element>(site: Site, spans: &Self::Spans) -> Self::View<'a, T>;

    /// Returns a mutable view of the region at `site`.
    ///
    /// # Safety
    /// For `'a`, the region is at `site` and initialised, and nothing else reads or writes it.
    unsafe fn view_mut<'a, T: Element>(site: Site, spans: &Self::Spans) -> Self::ViewMut<'a, T>;

    /// The target of a guard for a region; see [`Lent`](super::Lent).
    type Lent<T: Element>: Lendable + ?Sized + 'static;

    /// Returns the place of the region at `site`, for a guard.
    ///
    /// # Safety
    /// The region is at `site` and initialised. The caller that makes references from the place upholds everything
    /// else.
    #[doc(hidden)]
    unsafe fn lend<T: Element>(site: Site, spans: &Self::Spans) -> <Self::Lent<T> as Lendable>::Place;

    /// Returns a mutable view of a vector that holds a region's elements in row-major order.
    fn of_slice<'a, T: Element>(slice: &'a mut [T], spans: &Self::Spans) -> Self::ViewMut<'a, T>;

    /// Sets every element of a view to zero.
    fn clear<T: Element>(view: Self::ViewMut<'_, T>);

    /// Copies the elements of a view.
    fn to_owned<T: Element>(view: &Self::View<'_, T>) -> Self::Owned<T>;

    /// Builds an owned array from elements in row-major order.
    fn from_vec<T: Element>(elements: Vec<T>, shape: &[usize]) -> Self::Owned<T>;
}

/// Index ranges of a region in a fixed number of dimensions.
pub trait Spans: Copy + Send + Sync + Debug + Sealed + 'static {
    /// Returns the ranges as a block.
    fn block(&self) -> Block;
    /// Returns a block's ranges.
    fn of_block(block: &Block) -> Self;
}

/// `N` ranges, stored as lower and upper corner.
#[derive(Debug, Clone, Copy)]
pub struct SpansOf<const N: usize> {
    lo: [usize; N],
    hi: [usize; N],
}

impl<const N: usize> Sealed for SpansOf<N> {}
impl Sealed for Ix1 {}
impl Sealed for Ix2 {}
impl Sealed for Ix3 {}
impl Sealed for Ix4 {}

impl<const N: usize> SpansOf<N> {
    #[inline]
    fn extents(&self) -> [usize; N] {
        std::array::from_fn(|d| self.hi[d] - self.lo[d])
    }
}

impl<const N: usize> Spans for SpansOf<N> {
    #[inline]
    fn block(&self) -> Block {
        let (mut lo, mut hi) = ([0; MAX_DIMS], [1; MAX_DIMS]);
        lo[..N].copy_from_slice(&self.lo);
        hi[..N].copy_from_slice(&self.hi);
        Block::from_corners(lo, hi)
    }

    #[inline]
    fn of_block(block: &Block) -> Self {
        Self { lo: std::array::from_fn(|d| block.lo()[d]), hi: std::array::from_fn(|d| block.hi()[d]) }
    }
}

impl Shape for Ix1 {
    type Spans = SpansOf<1>;
    type View<'a, T: Element> = &'a [T];
    type ViewMut<'a, T: Element> = &'a mut [T];
    type Owned<T: Element> = Vec<T>;

    #[inline]
    unsafe fn view<'a, T: Element>(site: Site, spans: &Self::Spans) -> &'a [T] {
        // SAFETY: the region is at the site while the body runs, and nothing writes it. A one-dimensional region is
        // contiguous, so the slice covers exactly the region.
        unsafe { std::slice::from_raw_parts(site.first.cast(), spans.hi[0] - spans.lo[0]) }
    }

    #[inline]
    unsafe fn view_mut<'a, T: Element>(site: Site, spans: &Self::Spans) -> &'a mut [T] {
        // SAFETY: the region is at the site while the body runs, and nothing else accesses it. A one-dimensional region
        // is contiguous, so the slice covers exactly the region.
        unsafe { std::slice::from_raw_parts_mut(site.first.cast(), spans.hi[0] - spans.lo[0]) }
    }

    type Lent<T: Element> = [T];

    #[inline]
    unsafe fn lend<T: Element>(site: Site, spans: &Self::Spans) -> NonNull<[T]> {
        let first = NonNull::new(site.first.cast()).unwrap_or(NonNull::dangling());
        NonNull::slice_from_raw_parts(first, spans.hi[0] - spans.lo[0])
    }

    fn of_slice<'a, T: Element>(slice: &'a mut [T], _: &Self::Spans) -> &'a mut [T] {
        slice
    }

    fn clear<T: Element>(view: &mut [T]) {
        view.fill(T::zeroed());
    }

    fn to_owned<T: Element>(view: &&[T]) -> Vec<T> {
        view.to_vec()
    }

    fn from_vec<T: Element>(elements: Vec<T>, _: &[usize]) -> Vec<T> {
        elements
    }
}

/// Combines a shape with strides. For an empty shape, the strides are dropped, because they mean nothing without
/// elements and ndarray rejects some of the strides that can arise.
#[inline]
fn strided<D: Dimension>(extents: D, strides: D) -> StrideShape<D> {
    if extents.size() == 0 { extents.into() } else { extents.strides(strides) }
}

macro_rules! several_dimensions {
    ($($ix:ident, $n:literal;)*) => {$(
        impl Shape for $ix {
            type Spans = SpansOf<$n>;
            type View<'a, T: Element> = ArrayView<'a, T, $ix>;
            type ViewMut<'a, T: Element> = ArrayViewMut<'a, T, $ix>;
            type Owned<T: Element> = Array<T, $ix>;

            #[inline]
            unsafe fn view<'a, T: Element>(site: Site, spans: &Self::Spans) -> Self::View<'a, T> {
                let strides: [usize; $n] = std::array::from_fn(|d| site.strides[d]);
                // SAFETY: the region is at the site while the body runs, nothing writes it, and the strides are those
                // of its array.
                unsafe { ArrayView::from_shape_ptr(strided(ndarray::Dim(spans.extents()), ndarray::Dim(strides)), site.first.cast()) }
            }

            #[inline]
            unsafe fn view_mut<'a, T: Element>(site: Site, spans: &Self::Spans) -> Self::ViewMut<'a, T> {
                let strides: [usize; $n] = std::array::from_fn(|d| site.strides[d]);
                // SAFETY: the region is at the site while the body runs, nothing else accesses it, and the strides are
                // those of its array.
                unsafe { ArrayViewMut::from_shape_ptr(strided(ndarray::Dim(spans.extents()), ndarray::Dim(strides)), site.first.cast()) }
            }

            type Lent<T: Element> = ArrayRef<T, $ix>;

            #[inline]
            unsafe fn lend<T: Element>(site: Site, spans: &Self::Spans) -> ArrayViewMut<'static, T, $ix> {
                // SAFETY: the region is at the site; the holder of the place makes only the references that the
                // access allows.
                unsafe { Self::view_mut(site, spans) }
            }

            fn of_slice<'a, T: Element>(slice: &'a mut [T], spans: &Self::Spans) -> Self::ViewMut<'a, T> {
                ArrayViewMut::from_shape(ndarray::Dim(spans.extents()), slice).expect("the vector has the region's size")
            }

            fn clear<T: Element>(mut view: Self::ViewMut<'_, T>) {
                view.fill(T::zeroed());
            }

            fn to_owned<T: Element>(view: &Self::View<'_, T>) -> Self::Owned<T> {
                view.to_owned()
            }

            fn from_vec<T: Element>(elements: Vec<T>, shape: &[usize]) -> Self::Owned<T> {
                let shape: [usize; $n] = std::array::from_fn(|d| shape[d]);
                Array::from_shape_vec(ndarray::Dim(shape), elements).expect("the vector has the data object's size")
            }
        }
    )*};
}

several_dimensions! { Ix2, 2; Ix3, 3; Ix4, 4; }
