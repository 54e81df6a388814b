//! The accesses of a loop, some of which differ from iteration to iteration while others are the same in all
//! iterations.
//!
//! A loop is not a task. Each iteration is a task with its own accesses ([`LoopAccesses::one`]), which are checked,
//! recorded and stored like the accesses of any other task. So a loop always means the same as its iterations submitted
//! one after the other.

use super::access::{
    AccessSpec, Accumulating, After, Commutative, Concurrent, Inout, Input, Output, Reducing, UntypedAccess, WeakInout,
    WeakInput,
};
use super::accesses::Accesses;
use super::cut::Cut;
use super::handle::Kept;
use crate::error::SubmitError;
use crate::memory::{AccessList, AtomicElement, Element, Index, List, Reducer, Shape};
use crate::region::Block;
use crate::sealed::{Internal, Sealed};
use std::ops::{Range, RangeFrom};
use std::slice::IterMut;

/// An access to one part in each iteration of a loop, made by [`Partition::input`](super::Partition::input) and its
/// siblings.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::{Each, Inout};
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![1; 100]);
/// let access: Each<Inout<'_, i32>> = x.blocks(10).inout();
/// rt.for_each("double", access).cpu(|_, x| x.iter_mut().for_each(|x| *x *= 2)).submit()?;
/// assert_eq!(rt.take(x)?, [2; 100]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Each<A> {
    /// The access to the whole region that is cut.
    whole: A,
    cut: Cut,
}

impl<A> Each<A> {
    pub(super) fn new(whole: A, cut: Cut) -> Self {
        Self { whole, cut }
    }
}

impl<A> Sealed for Each<A> {}

/// The accesses of a loop's iterations. These can be accesses to the parts of partitions ([`Each`]); single accesses
/// and lists of accesses, which are the same in each iteration; ranges of numbers; or a tuple of up to twelve of these,
/// or of tuples.
///
/// The body gets views as a task's body does. For a range, it gets a number; for `0..`, that is the iteration's index.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("2:CPU:1").build()?;
/// let (x, table, sum) = (rt.data(vec![0.0; 1000]), rt.data(vec![1.0, 2.0]), rt.scalar(0.0));
/// rt.for_each("fill", (0.., x.blocks(100).output(), table.input(), sum.reduction(Sum)))
///     .cpu(|_, (i, x, table, sum)| {
///         x.fill(table[i % 2]);
///         sum[0] += x.iter().sum::<f64>();
///     })
///     .submit()?;
/// assert_eq!(rt.read(&sum)?[0], 1500.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the iterations of a loop cannot access `{Self}`",
    note = "for an access that differs between iterations, try a partition, as in `x.blocks(n).inout()`, or a range",
    note = "for an access that is the same in all iterations, try a region, as in `table.input()`"
)]
pub trait LoopAccesses: Sealed {
    /// The form that each task stores.
    type Stored: AccessList;
    /// The accesses of one iteration.
    #[doc(hidden)]
    type One<'l>: Accesses<Stored = Self::Stored>
    where
        Self: 'l;

    /// Checks the properties that the regions of all iterations share.
    #[doc(hidden)]
    fn check(&self, runtime: u64) -> Result<(), SubmitError>;

    /// Calls `visit(count, source)` for each access that fixes the number of iterations; `source` describes the
    /// access.
    #[doc(hidden)]
    fn lengths(&self, visit: &mut dyn FnMut(usize, &dyn Fn() -> String));

    /// Returns whether each task has to be entered separately, because some accesses are for its children or may yield
    /// a failure.
    #[doc(hidden)]
    fn are_entered_alone(&self) -> bool;

    /// Returns the accesses of an existing iteration.
    #[doc(hidden)]
    fn one(&self, index: usize) -> Self::One<'_>;

    /// Changes the regions of an arbitrary iteration, one block for each, into the regions of this iteration. Calls no
    /// user code. Must be called only for accesses whose number is known.
    #[doc(hidden)]
    fn place(&self, index: usize, blocks: &mut IterMut<'_, Block>);
}

/// An access whose region can be replaced by a part of it.
pub trait PartSpec: AccessSpec + Sized {
    #[doc(hidden)]
    #[must_use]
    fn part(&self, cut: &Cut, index: usize) -> Self;
    /// Changes the block of an arbitrary part of the region into the block of this part.
    #[doc(hidden)]
    fn place(&self, cut: &Cut, index: usize, block: &mut Block);
    /// Describes the region.
    #[doc(hidden)]
    fn describe(&self) -> String;
    /// Whether parts have to be checked separately, because a check of the whole region does not cover them.
    #[doc(hidden)]
    const CHECKED_BY_PART: bool = false;
}

macro_rules! part_specs {
    ($($name:ident $([$reducer:ident: $bound:ident])? $element:ident $by_part:literal;)*) => {$(
        impl<T: $element, S: Shape $(, $reducer: $bound<T>)?> PartSpec for $name<'_, T, S $(, $reducer)?> {
            const CHECKED_BY_PART: bool = $by_part;

            #[inline]
            fn part(&self, cut: &Cut, index: usize) -> Self {
                let mut part = self.clone();
                part.0.block = cut.part(index, self.0.data.cell.datum.shape());
                part
            }

            #[inline]
            fn place(&self, cut: &Cut, index: usize, block: &mut Block) {
                cut.place(index, self.0.data.cell.datum.shape(), block);
            }

            fn describe(&self) -> String {
                format!("{:?}", self.0)
            }
        }
    )*};
}

part_specs! {
    Input Element false;
    Output Element false;
    Inout Element false;
    Commutative Element false;
    After Element false;
    WeakInput Element false;
    WeakInout Element false;
    Concurrent AtomicElement true;
    Reducing [R: Reducer] Element false;
    Accumulating [R: Reducer] Element false;
}

impl<A: PartSpec> LoopAccesses for Each<A> {
    type Stored = A::Stored;
    type One<'l>
        = A
    where
        Self: 'l;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        match A::CHECKED_BY_PART {
            true => (0..self.cut.len()).try_for_each(|index| AccessSpec::check(&self.one(index), runtime)),
            false => AccessSpec::check(&self.whole, runtime),
        }
    }

    fn lengths(&self, visit: &mut dyn FnMut(usize, &dyn Fn() -> String)) {
        visit(self.cut.len(), &|| self.whole.describe());
    }

    fn are_entered_alone(&self) -> bool {
        self.whole.record().0.mode.is_entered_alone()
    }

    #[inline]
    fn one(&self, index: usize) -> A {
        self.whole.part(&self.cut, index)
    }

    #[inline]
    fn place(&self, index: usize, blocks: &mut IterMut<'_, Block>) {
        if let Some(block) = blocks.next() {
            self.whole.place(&self.cut, index, block);
        }
    }
}

/// An access that is the same in every iteration.
#[doc(hidden)]
#[derive(Debug)]
pub struct Same<'l, P>(&'l P);

impl<P> Sealed for Same<'_, P> {}

impl<P: AccessSpec> AccessSpec for Same<'_, P> {
    type Stored = P::Stored;

    const IS_OUTCOME: bool = P::IS_OUTCOME;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        self.0.check(runtime)
    }

    #[inline]
    fn record(&self) -> UntypedAccess<'_> {
        self.0.record()
    }

    #[inline]
    fn store(&self, right: Internal) -> P::Stored {
        self.0.store(right)
    }

    fn kept(&self) -> Kept {
        self.0.kept()
    }
}

impl<P: AccessSpec> LoopAccesses for P {
    type Stored = P::Stored;
    type One<'l>
        = Same<'l, P>
    where
        P: 'l;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        AccessSpec::check(self, runtime)
    }

    fn lengths(&self, _: &mut dyn FnMut(usize, &dyn Fn() -> String)) {}

    fn are_entered_alone(&self) -> bool {
        self.record().0.mode.is_entered_alone()
    }

    #[inline]
    fn one(&self, _: usize) -> Same<'_, P> {
        Same(self)
    }

    #[inline]
    fn place(&self, _: usize, blocks: &mut IterMut<'_, Block>) {
        blocks.next();
    }
}

impl<P: AccessSpec> LoopAccesses for Vec<P> {
    type Stored = List<P::Stored>;
    type One<'l>
        = &'l [P]
    where
        P: 'l;

    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        Accesses::check(self, runtime)
    }

    fn lengths(&self, _: &mut dyn FnMut(usize, &dyn Fn() -> String)) {}

    fn are_entered_alone(&self) -> bool {
        self.iter().any(|access| access.record().0.mode.is_entered_alone())
    }

    fn one(&self, _: usize) -> &[P] {
        self
    }

    fn place(&self, _: usize, blocks: &mut IterMut<'_, Block>) {
        self.iter().for_each(|_| _ = blocks.next());
    }
}

/// The number that an iteration gets from a range.
#[doc(hidden)]
#[derive(Debug)]
pub struct Numbered(usize);

impl Sealed for Numbered {}

impl Accesses for Numbered {
    type Stored = Index;

    const COUNT: Option<usize> = Some(0);

    fn check(&self, _: u64) -> Result<(), SubmitError> {
        Ok(())
    }

    #[inline]
    fn visit<'a>(&'a self, _: &mut dyn FnMut(UntypedAccess<'a>)) {}

    #[inline]
    fn store(&self, _: Internal) -> Index {
        Index(self.0)
    }

    fn kept(&self, _: &mut dyn FnMut(Kept)) {}
}

macro_rules! ranges {
    ($($t:ty, |$range:ident, $visit:ident| $lengths:expr;)*) => {$(
        impl LoopAccesses for $t {
            type Stored = Index;
            type One<'l> = Numbered;

            fn check(&self, _: u64) -> Result<(), SubmitError> {
                Ok(())
            }

            fn lengths(&self, $visit: &mut dyn FnMut(usize, &dyn Fn() -> String)) {
                let $range = self;
                $lengths
            }

            fn are_entered_alone(&self) -> bool {
                false
            }

            #[inline]
            fn one(&self, index: usize) -> Numbered {
                Numbered(self.start + index)
            }

            #[inline]
            fn place(&self, _: usize, _: &mut IterMut<'_, Block>) {}
        }
    )*};
}

ranges! {
    Range<usize>, |range, visit| visit(range.len(), &|| format!("{range:?}"));
    RangeFrom<usize>, |_range, _visit| ();
}

macro_rules! tuples {
    ($(($($a:ident $i:tt),*))*) => {$(
        #[allow(clippy::unused_unit, unused_variables)] // for the empty tuple
        impl<$($a: LoopAccesses),*> LoopAccesses for ($($a,)*) {
            type Stored = ($($a::Stored,)*);
            type One<'l> = ($($a::One<'l>,)*) where $($a: 'l),*;

            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                $(self.$i.check(runtime)?;)*
                Ok(())
            }

            fn lengths(&self, visit: &mut dyn FnMut(usize, &dyn Fn() -> String)) {
                $(self.$i.lengths(visit);)*
            }

            fn are_entered_alone(&self) -> bool {
                false $(|| self.$i.are_entered_alone())*
            }

            #[inline]
            fn one(&self, index: usize) -> Self::One<'_> {
                ($(self.$i.one(index),)*)
            }

            #[inline]
            fn place(&self, index: usize, blocks: &mut IterMut<'_, Block>) {
                $(self.$i.place(index, blocks);)*
            }
        }
    )*};
}

for_tuples! { tuples }
