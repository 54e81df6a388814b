//! Data objects that can be taken from a runtime.

use super::{Data, Value};
use crate::memory::{DataCell, Element, Home, Shape};
use crate::sealed::{Internal, Sealed};
use std::sync::Arc;

/// A data object that [`Runtime::take`](crate::Runtime::take) can return: an array (as a vector or an ndarray array) or
/// a value.
///
/// ```
/// use thalweg::prelude::*;
/// use thalweg::task::Take;
/// fn both<A: Take, B: Take>(rt: &Runtime, a: A, b: B) -> Result<(A::Taken, B::Taken), RunError> {
///     Ok((rt.take(a)?, rt.take(b)?))
/// }
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// assert_eq!(both(&rt, rt.data(vec![1, 2]), rt.value("three"))?, (vec![1, 2], "three"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Take: Sealed + Sized {
    /// The type that is returned.
    type Taken;

    #[doc(hidden)]
    fn registered(&self) -> Registered<'_>;

    #[doc(hidden)]
    fn open(&self, home: GivenUp, right: Internal) -> Self::Taken;
}

/// A data object, wrapped so that the public trait can mention it.
#[doc(hidden)]
#[derive(Debug)]
pub struct Registered<'a>(pub(crate) &'a Arc<DataCell>);

/// The home of a data object, if it had any memory, wrapped like [`Registered`].
#[doc(hidden)]
#[derive(Debug)]
pub struct GivenUp(pub(crate) Option<Home>);

impl<T: Element, S: Shape> Take for Data<T, S> {
    type Taken = S::Owned<T>;

    fn registered(&self) -> Registered<'_> {
        Registered(&self.cell)
    }

    fn open(&self, GivenUp(home): GivenUp, _: Internal) -> S::Owned<T> {
        let elements = home.map_or_else(|| bytemuck::zeroed_vec(self.len()), Home::into_vec);
        S::from_vec(elements, &self.shape())
    }
}

impl<T> Sealed for Value<T> {}

impl<T: Send + Sync + 'static> Take for Value<T> {
    type Taken = T;

    fn registered(&self) -> Registered<'_> {
        Registered(&self.cell)
    }

    fn open(&self, GivenUp(home): GivenUp, _: Internal) -> T {
        home.expect("a value is at home until it is taken").into_value()
    }
}
