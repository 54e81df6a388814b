//! Host memory and the typed views that a body gets of it.
//!
//! The one place where addresses become references. What makes that sound is said once here:
//!
//! 1. A view is made only when its task runs, from a region that was checked against the data object's bounds at
//!    submission.
//! 2. While a task runs, no task with a conflicting access does: that is what the dependence layer promises, and the
//!    conflict detector checks in tests. Within one task, overlapping accesses that write were refused at submission.
//! 3. A data object's memory outlives every task that accesses it: giving the memory up is itself a task that updates
//!    all of it.
//! 4. Elements are [`bytemuck::Pod`]: any bytes are a value, so a buffer that was never written is still valid to read.

#![allow(unsafe_code)] // addresses become references here; every use states its reason

mod access;
mod access_list;
mod accumulate;
mod buffer;
mod combine;
mod copy;
mod iteration;
mod payload;
mod replica;
mod shape;
mod shared;

pub use crate::depend::OpId;
pub(crate) use access::Declared;
pub use access::{Accept, Access, Commute, Concur, Follow, In, Out, Reduce, Replicated, Update, WeakRead, WeakUpdate};
pub(crate) use access_list::both;
pub use access_list::{AccessList, List};
pub use accumulate::Accumulate;
pub(crate) use buffer::{DataCell, HostBuffer, strides_of};
pub(crate) use combine::operation;
pub use combine::{AnyOrder, Elementwise, Max, Min, Reducer, Reduction, Sum};
pub(crate) use copy::{BoxCopy, copy_box};
pub use iteration::Index;
pub(crate) use iteration::{Repeated, SharedBody};
/// A complex number, of the crate `num-complex`; an [`Element`] if its parts are.
pub use num_complex::Complex;
pub(crate) use payload::{HostBody, Payload, Several, nothing};
pub use payload::{IntoOutcome, NoBody, Slot, With};
pub use shape::{Shape, Spans};
pub use shared::{AtomicElement, Shared};

/// What a data object can be made of: plain bytes that may be copied to any memory.
///
/// Every [`bytemuck::Pod`] type is one: numbers, arrays of them, and structs that derive `Pod`.
///
/// ```
/// use thalweg::prelude::*;
/// /// Works for elements of any type.
/// fn fill<T: Element>(rt: &Runtime, x: &Data<T>, value: T) -> Result<TaskId, SubmitError> {
///     rt.task("fill", (x.output(),)).cpu(move |_, (x,)| x.fill(value)).submit()
/// }
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![[0u8; 3]; 2]);
/// fill(&rt, &x, [1, 2, 3])?;
/// assert_eq!(rt.take(x)?, [[1, 2, 3]; 2]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub trait Element: bytemuck::Pod + Send + Sync {}

impl<T: bytemuck::Pod + Send + Sync> Element for T {}
