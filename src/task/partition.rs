//! Partitions: a region cut into disjoint parts.
//!
//! A partition is a rule, not a list: it takes up as much memory as a few boxes, whatever the number of parts, and
//! creates each region on request. Its parts are ordinary regions; only loops know about partitions ([`super::each`]).
//!
//! *Grown* parts overlap their neighbours. If a loop wrote grown parts, several iterations would write the same
//! elements and would therefore run one after the other, so [`Grown`] offers no write accesses.

use super::cut::Cut;
use super::each::Each;
use super::{
    Accumulating, After, Commutative, Concurrent, Data, Inout, Input, Outcome, Output, Reducing, Region, WeakInout,
    WeakInput, Widths,
};
use crate::memory::{Element, Shape};
use crate::sealed::Sealed;
use ndarray::{IntoDimension, Ix1, Ix2, Ix3, Ix4};
use std::fmt;
use std::iter::FusedIterator;
use std::ops::Range;

/// A region cut into disjoint parts, in row-major order. The last part along each dimension may be smaller.
///
/// Made by [`Data::blocks`], [`Data::tiles`] and [`Data::rows`], and by the same methods of [`Region`]. Iterating over
/// a partition yields regions; [`Runtime::for_each`](crate::Runtime::for_each) submits a task for each part.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x: Data<u32, Ix2> = rt.zeros([5, 6]);
/// let tiles = x.tiles([2, 3]);
/// assert_eq!((tiles.len(), tiles.shape()), (6, vec![3, 2]));
/// for (n, tile) in (0..).zip(tiles) {
///     rt.task("number", (tile.output(),)).cpu(move |_, (mut tile,)| tile.fill(n)).submit()?;
/// }
/// assert_eq!(rt.read(tiles.part([2, 1]))?, ndarray::array![[5, 5, 5]]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Partition<'d, T, S: Shape = Ix1> {
    data: &'d Data<T, S>,
    cut: Cut,
}

/// The parts of a [`Partition`], each with its halo, for reading only. Made by [`Partition::grow`].
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (old, new) = (rt.data(vec![1.0; 100]), rt.data(vec![0.0; 100]));
/// rt.for_each("sum of three", (old.blocks(30).grow(1).input(), new.blocks(30).output()))
///     .cpu(|_, (old, new)| println!("{} of {}", new.len(), old.len()))
///     .submit()?;
/// assert_eq!(old.blocks(30).grow(1).part(3).range(0), 89..100);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Grown<'d, T, S: Shape = Ix1> {
    data: &'d Data<T, S>,
    cut: Cut,
}

/// An iterator over the parts of a [`Partition`] or a [`Grown`] partition.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0; 10]);
/// let mut parts = x.blocks(4).iter();
/// assert_eq!((parts.len(), parts.next_back().map(|part| part.range(0))), (3, Some(8..10)));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Parts<'d, T, S: Shape = Ix1> {
    data: &'d Data<T, S>,
    cut: Cut,
    indices: Range<usize>,
}

/// The index of a part: its row-major index, or an array with its position along each dimension.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x: Data<f64, Ix2> = rt.zeros([4, 6]);
/// let tiles = x.tiles([2, 2]);
/// assert_eq!(format!("{:?}", tiles.part(4)), format!("{:?}", tiles.part([1, 1])));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait PartIndex<S: Shape>: fmt::Debug + Sealed {
    #[doc(hidden)]
    fn number(&self, cut: &Cut) -> Option<usize>;
}

impl<S: Shape> PartIndex<S> for usize {
    #[inline]
    fn number(&self, cut: &Cut) -> Option<usize> {
        (*self < cut.len()).then_some(*self)
    }
}

macro_rules! part_indices {
    ($($ix:ident $n:literal;)*) => {$(
        impl PartIndex<$ix> for [usize; $n] {
            #[inline]
            fn number(&self, cut: &Cut) -> Option<usize> {
                cut.index_of(self)
            }
        }
    )*};
}

part_indices! { Ix1 1; Ix2 2; Ix3 3; Ix4 4; }

/// The common interface of partitions, grown or not.
macro_rules! parts {
    ($name:ident) => {
        impl<'d, T: Element, S: Shape> $name<'d, T, S> {
            /// Returns the number of parts.
            pub fn len(&self) -> usize {
                self.cut.len()
            }

            /// Returns whether there are no parts, because the region has no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the number of parts along each dimension.
            pub fn shape(&self) -> Vec<usize> {
                self.cut.counts()[..S::NDIM.unwrap_or(1)].to_vec()
            }

            /// Returns the part with this row-major index, or at this position along each dimension (`[i, j]`), if it
            /// exists.
            #[inline]
            pub fn get(&self, index: impl PartIndex<S>) -> Option<Region<'d, T, S>> {
                index.number(&self.cut).map(|index| self.at(index))
            }

            /// Like [`get`](Self::get), but panics if the part does not exist.
            ///
            /// # Panics
            /// Panics if there is no such part.
            #[inline]
            #[track_caller]
            pub fn part(&self, index: impl PartIndex<S>) -> Region<'d, T, S> {
                match index.number(&self.cut) {
                    Some(index) => self.at(index),
                    None => panic!("there is no part {index:?} of {self:?}"),
                }
            }

            #[inline]
            fn at(&self, index: usize) -> Region<'d, T, S> {
                Region::new(self.data, self.cut.part(index, self.data.cell.datum.shape()))
            }

            /// Iterates over the parts.
            pub fn iter(&self) -> Parts<'d, T, S> {
                Parts { data: self.data, cut: self.cut, indices: 0..self.len() }
            }

            /// `in`: each iteration of a loop reads its own part.
            pub fn input(self) -> Each<Input<'d, T, S>> {
                self.each(Region::input)
            }

            /// `outcome`: each iteration of a loop reads its part, or gets the failure that left it without a value.
            /// See [`Region::outcome`].
            pub fn outcome(self) -> Each<Outcome<Input<'d, T, S>>> {
                self.each(Region::outcome)
            }

            /// `after`: each iteration of a loop comes after the writers of its part, without a view of it.
            pub fn after(self) -> Each<After<'d, T, S>> {
                self.each(Region::after)
            }

            /// Weak `in`: the children of each iteration may read its part. See [`Region::weak_input`].
            pub fn weak_input(self) -> Each<WeakInput<'d, T, S>> {
                self.each(Region::weak_input)
            }

            fn each<A>(self, access: impl FnOnce(Region<'d, T, S>) -> A) -> Each<A> {
                Each::new(access(Region::new(self.data, *self.cut.region())), self.cut)
            }
        }

        impl<T, S: Shape> Clone for $name<'_, T, S> {
            fn clone(&self) -> Self {
                *self
            }
        }

        impl<T, S: Shape> Copy for $name<'_, T, S> {}

        impl<T: Element, S: Shape> fmt::Debug for $name<'_, T, S> {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "{:?} in {} parts",
                    Region::new(self.data, *self.cut.region()),
                    self.cut.describe(self.shape().len())
                )
            }
        }

        impl<'d, T: Element, S: Shape> IntoIterator for $name<'d, T, S> {
            type Item = Region<'d, T, S>;
            type IntoIter = Parts<'d, T, S>;

            fn into_iter(self) -> Parts<'d, T, S> {
                self.iter()
            }
        }

        impl<'d, T: Element, S: Shape> IntoIterator for &$name<'d, T, S> {
            type Item = Region<'d, T, S>;
            type IntoIter = Parts<'d, T, S>;

            fn into_iter(self) -> Parts<'d, T, S> {
                self.iter()
            }
        }
    };
}

parts! { Partition }
parts! { Grown }

impl<'d, T: Element, S: Shape> Grown<'d, T, S> {
    /// Returns the parts with wider halos.
    pub(super) fn wider(self, widths: impl Widths<S>) -> Self {
        Self { cut: self.cut.grown(widths.halo()), ..self }
    }
}

impl<'d, T: Element, S: Shape> Partition<'d, T, S> {
    #[track_caller]
    fn new(region: Region<'d, T, S>, size: &[usize]) -> Self {
        Self { data: region.data, cut: Cut::new(region.block, size) }
    }

    /// Returns a function that maps the index of a part to the part's first element index.
    pub(crate) fn corners(&self) -> impl Fn(usize) -> S + Send + Sync + 'static + use<T, S> {
        let (cut, shape) = (self.cut, *self.data.cell.datum.shape());
        move |number| {
            let mut corner = S::zeros(S::NDIM.unwrap_or(1));
            let ndim = corner.ndim();
            corner.slice_mut().copy_from_slice(&cut.part(number, &shape).lo()[..ndim]);
            corner
        }
    }

    /// Returns the same parts for reading only, without halos.
    pub(super) fn plain(self) -> Grown<'d, T, S> {
        Grown { data: self.data, cut: self.cut }
    }

    /// Returns the parts with halos of these widths, clipped at the borders of the data object. Parts with halos
    /// overlap, so loops can only read them.
    pub fn grow(self, widths: impl Widths<S>) -> Grown<'d, T, S> {
        Grown { data: self.data, cut: self.cut.grown(widths.halo()) }
    }

    /// Returns the same partition with all borders aligned to cache lines, so that units writing neighbouring parts at
    /// the same time do not compete for a line (false sharing).
    ///
    /// Along the innermost dimension that is cut, sizes are rounded up so that parts consist of whole lines for every
    /// element type: to a multiple of 64 elements, or to a number of rows that together have a multiple of 64 elements.
    /// Parts are counted from the beginning of the data object, so the first part of a region that begins elsewhere is
    /// shorter. A region that is no larger than one such part is not cut. The result depends neither on types nor on
    /// addresses, so arrays of the same shape that are cut in the same way have the same parts, as a loop over several
    /// arrays requires. Regions that begin at different indices may have different parts.
    ///
    /// Arrays made by [`Runtime::zeros`](crate::Runtime::zeros) begin at a line. A vector that was passed to
    /// [`Runtime::data`](crate::Runtime::data) begins wherever its allocator put it, so all borders are off by the same
    /// distance. Borders inside rows are aligned only if each row consists of whole lines.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x: Data<f32> = rt.zeros(1000);
    /// let ranges = |parts: Partition<'_, f32>| parts.iter().map(|part| part.range(0)).collect::<Vec<_>>();
    /// assert_eq!(ranges(x.blocks(300).on_lines()), [0..320, 320..640, 640..960, 960..1000]);
    /// assert_eq!(ranges(x.slice(1..999).blocks(400).on_lines()), [1..448, 448..896, 896..999]);
    ///
    /// // Every second of these rows begins at a line.
    /// let a: Data<f32, Ix2> = rt.zeros([100, 96]);
    /// assert_eq!(a.rows(25).on_lines().part(1).range(0), 26..52);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn on_lines(self) -> Self {
        Self { cut: self.cut.on_lines(self.data.cell.datum.shape()), ..self }
    }

    /// `out`: each iteration of a loop overwrites its part.
    pub fn output(self) -> Each<Output<'d, T, S>> {
        self.each(Region::output)
    }

    /// `inout`: each iteration of a loop reads and writes its part.
    pub fn inout(self) -> Each<Inout<'d, T, S>> {
        self.each(Region::inout)
    }

    /// Weak `inout`: the children of each iteration may read and write its part. See [`Region::weak_inout`].
    pub fn weak_inout(self) -> Each<WeakInout<'d, T, S>> {
        self.each(Region::weak_inout)
    }

    /// `commutative`: each iteration of a loop updates its part, in any order with other loops, one at a time.
    pub fn commutative(self) -> Each<Commutative<'d, T, S>> {
        self.each(Region::commutative)
    }

    /// `concurrent`: each iteration of a loop updates elements of its part atomically, together with other loops.
    pub fn concurrent(self) -> Each<Concurrent<'d, T, S>> {
        self.each(Region::concurrent)
    }

    /// `reduction`: each iteration of a loop contributes to its part, using an associative operation.
    pub fn reduction<R>(self, reducer: R) -> Each<Reducing<'d, T, S, R>> {
        self.each(|region| region.reduction(reducer))
    }

    /// `accumulate`: each iteration of a loop adds to its part, using an operation. See [`Region::accumulate`].
    pub fn accumulate<R>(self, reducer: R) -> Each<Accumulating<'d, T, S, R>> {
        self.each(|region| region.accumulate(reducer))
    }
}

impl<'d, T: Element, S: Shape> Region<'d, T, S> {
    /// Cuts the region into boxes of this size: a number per dimension, as ndarray takes shapes. See [`Partition`].
    ///
    /// # Panics
    /// Panics if a size is 0.
    #[track_caller]
    pub fn tiles(self, size: impl IntoDimension<Dim = S>) -> Partition<'d, T, S> {
        Partition::new(self, size.into_dimension().slice())
    }

    /// Cuts the region along its first dimension only, into blocks of this number of rows. See [`Partition`].
    ///
    /// # Panics
    /// Panics if `rows` is 0.
    #[track_caller]
    pub fn rows(self, rows: usize) -> Partition<'d, T, S> {
        Partition::new(self, &[rows])
    }
}

impl<'d, T: Element> Region<'d, T, Ix1> {
    /// Cuts the region into blocks of this number of elements. See [`Partition`].
    ///
    /// # Panics
    /// Panics if `size` is 0.
    #[track_caller]
    pub fn blocks(self, size: usize) -> Partition<'d, T, Ix1> {
        Partition::new(self, &[size])
    }
}

impl<T: Element, S: Shape> Data<T, S> {
    /// Cuts the whole data object into boxes of this size: a number per dimension, as ndarray takes shapes. See
    /// [`Partition`].
    ///
    /// # Panics
    /// Panics if a size is 0.
    #[track_caller]
    pub fn tiles(&self, size: impl IntoDimension<Dim = S>) -> Partition<'_, T, S> {
        self.all().tiles(size)
    }

    /// Cuts the whole data object along its first dimension only, into blocks of this number of rows. See
    /// [`Partition`].
    ///
    /// # Panics
    /// Panics if `rows` is 0.
    #[track_caller]
    pub fn rows(&self, rows: usize) -> Partition<'_, T, S> {
        self.all().rows(rows)
    }
}

impl<T: Element> Data<T, Ix1> {
    /// Cuts the whole data object into blocks of this number of elements. See [`Partition`].
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let x = rt.data(vec![0; 10]);
    /// let ranges: Vec<_> = x.blocks(4).iter().map(|part| part.range(0)).collect();
    /// assert_eq!(ranges, [0..4, 4..8, 8..10]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Panics
    /// Panics if `size` is 0.
    #[track_caller]
    pub fn blocks(&self, size: usize) -> Partition<'_, T, Ix1> {
        self.all().blocks(size)
    }
}

impl<'d, T: Element, S: Shape> Parts<'d, T, S> {
    fn at(&self, index: usize) -> Region<'d, T, S> {
        Region::new(self.data, self.cut.part(index, self.data.cell.datum.shape()))
    }
}

impl<'d, T: Element, S: Shape> Iterator for Parts<'d, T, S> {
    type Item = Region<'d, T, S>;

    #[inline]
    fn next(&mut self) -> Option<Region<'d, T, S>> {
        self.indices.next().map(|index| self.at(index))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        self.indices.size_hint()
    }

    fn nth(&mut self, n: usize) -> Option<Region<'d, T, S>> {
        self.indices.nth(n).map(|index| self.at(index))
    }
}

impl<T: Element, S: Shape> DoubleEndedIterator for Parts<'_, T, S> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.indices.next_back().map(|index| self.at(index))
    }
}

impl<T: Element, S: Shape> ExactSizeIterator for Parts<'_, T, S> {}
impl<T: Element, S: Shape> FusedIterator for Parts<'_, T, S> {}

impl<T, S: Shape> Clone for Parts<'_, T, S> {
    fn clone(&self) -> Self {
        Self { data: self.data, cut: self.cut, indices: self.indices.clone() }
    }
}

impl<T: Element, S: Shape> fmt::Debug for Parts<'_, T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "parts {:?} of {:?}", self.indices, Region::new(self.data, *self.cut.region()))
    }
}
