//! All accesses of a task: single accesses, tuples and lists.

use super::access::{AccessSpec, UntypedAccess};
use super::handle::Kept;
use crate::depend::TaskRef;
use crate::error::SubmitError;
use crate::memory::{AccessList, AnySetting, List, both};
use crate::sealed::{Internal, Sealed};
use crate::sync::Flow;
use std::fmt;

/// All accesses of one task: a single access, a tuple of up to twelve accesses, a list, or a nesting of these.
///
/// The body gets views in the same form: the view of a single access, a tuple for a tuple, and a vector for a list. To
/// declare more than twelve accesses, nest tuples:
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (x, y, sum) = (rt.scalar(1), rt.scalar(2), rt.scalar(0));
/// rt.task("add", ((x.input(), y.input()), sum.output())).cpu(|_, ((x, y), sum)| sum[0] = x[0] + y[0]).submit()?;
/// rt.task("double", sum.inout()).cpu(|_, sum| sum[0] *= 2).submit()?;
/// assert_eq!(rt.read(&sum)?[0], 6);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A list is a `Vec` or a slice of accesses of one type, and its length need be known only at run time. A list may be
/// empty. As with all accesses of a task, the elements of a list must not overlap if one of them writes.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let (x, total) = (rt.data(vec![1.0; 100]), rt.scalar(0.0));
/// let parts: Vec<_> = x.blocks(30).iter().map(|part| part.input()).collect();
/// rt.task("sum", (parts, total.output()))
///     .cpu(|_, (parts, total)| {
///         assert_eq!((parts.len(), parts[3].len()), (4, 10));
///         total[0] = parts.iter().flat_map(|part| part.iter()).sum();
///     })
///     .submit()?;
/// assert_eq!(rt.read(&total)?[0], 100.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "a task cannot access `{Self}`",
    note = "accesses are made by methods of regions, as in `x.input()`; try one, a tuple of up to twelve, or a list",
    note = "`concurrent` requires elements that can be updated atomically, and `reduction` an operation on their type"
)]
pub trait Accesses: Sealed {
    /// The form that the task stores.
    type Stored: AccessList;
    /// The number of regions; `None` if it differs between values of this type.
    #[doc(hidden)]
    const COUNT: Option<usize>;
    /// Whether the accesses may include results of other tasks.
    #[doc(hidden)]
    const HAS_RESULTS: bool = false;
    /// Whether the accesses include `outcome` accesses to data.
    #[doc(hidden)]
    const HAS_OUTCOMES: bool = false;

    #[doc(hidden)]
    fn check(&self, runtime: u64) -> Result<(), SubmitError>;

    /// Calls `visit` with each access, in order.
    ///
    /// ```
    /// use thalweg::Mode;
    /// use thalweg::prelude::*;
    /// use thalweg::task::Accesses;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (x, y) = (rt.scalar(1), rt.scalar(2));
    /// let mut modes = Vec::new();
    /// (x.input(), y.inout()).visit(&mut |access| modes.push(access.mode()));
    /// assert_eq!(modes, [Mode::In, Mode::Inout]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(UntypedAccess<'a>));

    /// Visits the tasks whose results are accessed.
    #[doc(hidden)]
    fn predecessors<'a>(&'a self, _visit: &mut dyn FnMut(Predecessor<'a>)) {}

    #[doc(hidden)]
    fn store(&self, right: Internal) -> Self::Stored;

    /// Visits, for each region in the order of [`visit`](Self::visit), a share that keeps its data object registered.
    #[doc(hidden)]
    fn kept(&self, visit: &mut dyn FnMut(Kept));

    /// Visits the parameters that are read.
    #[doc(hidden)]
    fn parameters(&self, _visit: &mut dyn FnMut(AnyParameter<'_>)) {}
}

/// A parameter of a recording, wrapped like [`UntypedAccess`].
#[doc(hidden)]
pub struct AnyParameter<'a>(pub(crate) &'a dyn AnySetting);

impl fmt::Debug for AnyParameter<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "AnyParameter({})", self.0.name())
    }
}

/// A task whose result is accessed, wrapped like [`UntypedAccess`].
#[doc(hidden)]
#[derive(Debug)]
pub struct Predecessor<'a>(pub(crate) &'a TaskRef, pub(crate) Flow);

impl<P: AccessSpec> Accesses for P {
    type Stored = P::Stored;

    const COUNT: Option<usize> = Some(1);
    const HAS_OUTCOMES: bool = P::IS_OUTCOME;

    #[inline]
    fn check(&self, runtime: u64) -> Result<(), SubmitError> {
        AccessSpec::check(self, runtime)
    }

    #[inline]
    fn visit<'a>(&'a self, visit: &mut dyn FnMut(UntypedAccess<'a>)) {
        visit(self.record());
    }

    #[inline]
    fn store(&self, right: Internal) -> Self::Stored {
        AccessSpec::store(self, right)
    }

    fn kept(&self, visit: &mut dyn FnMut(Kept)) {
        visit(AccessSpec::kept(self));
    }
}

macro_rules! tuples {
    ($(($($a:ident $i:tt),*))*) => {$(
        #[allow(clippy::unused_unit, unused_variables, unused_mut)] // for the empty tuple
        impl<$($a: Accesses),*> Accesses for ($($a,)*) {
            type Stored = ($($a::Stored,)*);

            const COUNT: Option<usize> = {
                let mut count = Some(0);
                $(count = both(count, $a::COUNT);)*
                count
            };
            const HAS_RESULTS: bool = false $(|| $a::HAS_RESULTS)*;
            const HAS_OUTCOMES: bool = false $(|| $a::HAS_OUTCOMES)*;

            #[inline]
            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                $(self.$i.check(runtime)?;)*
                Ok(())
            }

            #[inline]
            fn visit<'a>(&'a self, visit: &mut dyn FnMut(UntypedAccess<'a>)) {
                $(self.$i.visit(visit);)*
            }

            #[inline]
            fn predecessors<'a>(&'a self, visit: &mut dyn FnMut(Predecessor<'a>)) {
                $(self.$i.predecessors(visit);)*
            }

            #[inline]
            fn store(&self, right: Internal) -> Self::Stored {
                ($(self.$i.store(right),)*)
            }

            fn kept(&self, visit: &mut dyn FnMut(Kept)) {
                $(self.$i.kept(visit);)*
            }

            fn parameters(&self, visit: &mut dyn FnMut(AnyParameter<'_>)) {
                $(self.$i.parameters(visit);)*
            }
        }
    )*};
}

tuples! { () }
for_tuples! { tuples }

macro_rules! lists {
    ($($t:ty)*) => {$(
        impl<P: Accesses> Accesses for $t {
            type Stored = List<P::Stored>;

            const COUNT: Option<usize> = None;
            const HAS_RESULTS: bool = P::HAS_RESULTS;
            const HAS_OUTCOMES: bool = P::HAS_OUTCOMES;

            fn check(&self, runtime: u64) -> Result<(), SubmitError> {
                self.iter().try_for_each(|access| access.check(runtime))
            }

            fn visit<'a>(&'a self, visit: &mut dyn FnMut(UntypedAccess<'a>)) {
                self.iter().for_each(|access| access.visit(visit));
            }

            fn predecessors<'a>(&'a self, visit: &mut dyn FnMut(Predecessor<'a>)) {
                self.iter().for_each(|access| access.predecessors(visit));
            }

            fn store(&self, right: Internal) -> Self::Stored {
                List(self.iter().map(|access| access.store(right)).collect())
            }

            fn kept(&self, visit: &mut dyn FnMut(Kept)) {
                self.iter().for_each(|access| access.kept(visit));
            }

            fn parameters(&self, visit: &mut dyn FnMut(AnyParameter<'_>)) {
                self.iter().for_each(|access| access.parameters(visit));
            }
        }
    )*};
}

impl<P> Sealed for Vec<P> {}
impl<P> Sealed for [P] {}

lists! { Vec<P> &[P] }
