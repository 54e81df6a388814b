//! Iterations of a loop: the body that they share, and the number that distinguishes them, which the body receives
//! along with its views.

use super::access_list::{DeviceSites, Sites, Span};
use super::{AccessList, IntoOutcome, Slot};
use crate::depend::Context;
use crate::error::BoxError;
use crate::sealed::{Internal, Sealed};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

/// The number of an iteration, for its body. It appears among the accesses although it has no region and so is not an
/// access.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0; 4]);
/// rt.for_each("number", (10.., x.blocks(1).output())).cpu(|_, (n, x)| x[0] = n).submit()?;
/// assert_eq!(rt.take(x)?, [10, 11, 12, 13]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone, Copy)]
pub struct Index(pub(crate) usize);

impl Sealed for Index {}

impl AccessList for Index {
    type Views<'a> = usize;
    type DeviceViews<'a> = usize;

    const COUNT: Option<usize> = Some(0);

    #[inline]
    unsafe fn views(&self, _: &mut Sites<'_>) -> usize {
        self.0
    }

    fn device_views(&self, _: &mut DeviceSites<'_>) -> usize {
        self.0
    }

    fn again(&self, _: Internal, _: Span) -> Self {
        *self
    }
}

/// A reference to the body that all iterations share; each iteration stores such a reference.
pub(crate) trait SharedBody: Clone + Send + 'static {
    type Body;

    fn body(&self) -> &Self::Body;
}

impl<F: Send + Sync + 'static> SharedBody for Arc<F> {
    type Body = F;

    #[inline]
    fn body(&self) -> &F {
        self
    }
}

/// A body without captures exists once and is never freed, so its references are not counted.
impl<F: Send + Sync + 'static> SharedBody for &'static F {
    type Body = F;

    #[inline]
    fn body(&self) -> &F {
        self
    }
}

/// One iteration's reference to the body that all iterations of a loop share.
pub(crate) struct Repeated<B, R>(pub(crate) B, pub(crate) PhantomData<fn() -> R>);

impl<B, R> Sealed for Repeated<B, R> {}

impl<B, R> fmt::Debug for Repeated<B, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Repeated(..)")
    }
}

impl<A, B, R> Slot<A> for Repeated<B, R>
where
    A: AccessList,
    B: SharedBody,
    B::Body: for<'c, 'a> Fn(&'c Context, A::Views<'a>) -> R,
    R: IntoOutcome + 'static,
{
    const PRESENT: bool = true;

    #[inline]
    fn call(self, context: &Context, views: A::Views<'_>) -> Result<(), BoxError> {
        (self.0.body())(context, views).into_outcome()
    }
}
