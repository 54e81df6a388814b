//! Host memory, and the typed views of it that bodies receive.
//!
//! This module is the only place where addresses become references. The following rules make that sound:
//!
//! 1. A view is made only when its task runs, and only from a region that was checked against the data object's bounds
//!    at submission.
//! 2. While a task runs, no task with a conflicting access runs: the dependence layer guarantees this, and the
//!    conflict detector checks it in tests. Within one task, overlapping accesses that write are refused at
//!    submission.
//! 3. A data object's memory outlives every task that accesses it, because releasing the memory is itself a task that
//!    updates all of it.
//! 4. Everything that is lent to a lease (`lease.rs`), memory or the captures of bodies, stays lent until nothing can
//!    touch it any more.
//! 5. Elements are [`bytemuck::Pod`]: any bytes are a valid value, so a buffer that was never written is still valid to
//!    read.

#![allow(unsafe_code)] // addresses become references here; every use states its reason

mod access;
mod access_list;
mod accumulate;
pub(crate) mod adopted;
mod buffer;
mod combine;
mod condition;
mod copy;
mod detached;
pub(crate) mod dlpack;
#[cfg(feature = "dynamic")]
pub(crate) mod dynamic;
mod guarded_copy;
mod home;
mod huge;
mod iteration;
mod kind;
mod lease;
mod lent;
mod lent_value;
#[cfg(unix)]
pub(crate) mod npy;
mod outcome;
mod parameter;
mod pattern;
mod payload;
mod reduce;
mod replica;
mod reserved;
mod result;
pub(crate) mod sanitize;
mod shape;
mod shared;
pub(crate) mod shared_pages;
mod staying;
mod strides;
mod unified;
mod value;

pub use crate::depend::OpId;
#[doc(hidden)]
pub use access::Accept;
pub use access::Access;
// Types of accesses and bodies that type inference finds but no program names. The same holds for all hidden items
// below.
#[doc(hidden)]
pub use access::{Commute, Concur, Follow, In, Out, Replicated, Update, WeakRead, WeakUpdate};
pub(crate) use access::{Declared, Record};
pub use access_list::AccessList;
pub(crate) use access_list::both;
#[doc(hidden)]
pub use access_list::{List, Span};
#[doc(hidden)]
pub use accumulate::Accumulate;
pub(crate) use buffer::{DataCell, HostBuffer};
pub(crate) use combine::operation;
pub use combine::{AnyOrder, Elementwise, Max, Min, Reducer, Reduction, Sum};
pub(crate) use condition::number_between_rounds;
pub(crate) use copy::{BoxCopy, copy_box};
pub(crate) use detached::LentOut;
#[doc(hidden)]
pub use detached::{Async, Detached};
pub(crate) use guarded_copy::GuardedCopy;
pub(crate) use home::Home;
#[doc(hidden)]
pub use iteration::Index;
pub(crate) use iteration::{Repeated, SharedBody};
pub use kind::MemoryKind;
pub(crate) use lease::{Common, SharedDeviceBody, SharedHostBody};
#[doc(hidden)]
pub use lease::{Keep, Lease, Owned, Share};
pub use lent::{Completion, Lend, Lending, Lent, ReadOnly};
#[doc(hidden)]
pub use lent::{Lendable, Writable};
pub use lent_value::LentValue;
/// A complex number from the crate `num-complex`. It is an [`Element`] if its parts are.
pub use num_complex::Complex;
#[doc(hidden)]
pub use outcome::OutcomeOf;
#[doc(hidden)]
pub use parameter::ReadParameter;
pub(crate) use parameter::{AnySetting, Setting, settle};
pub use payload::IntoOutcome;
pub(crate) use payload::{DeviceBody, HostBody, Payload, Several, nothing};
#[doc(hidden)]
pub use payload::{NoBody, Slot, With};
#[doc(hidden)]
pub use reduce::Reduce;
pub(crate) use reserved::{Reserved, free_pages, resident_bytes};
#[doc(hidden)]
pub use result::{Always, Fallibly, ReadOutcome, ReadResult, Yields};
pub(crate) use result::{Promise, result_of_task};
pub use shape::Shape;
#[doc(hidden)]
pub use shape::Spans;
pub use shared::{AtomicElement, Shared};
pub(crate) use staying::{ForDevices, Staying};
pub(crate) use strides::strides_of;
pub(crate) use unified::{Allocated, Unified};
#[doc(hidden)]
pub use value::{
    Accepts, Commutes, Follows, OfValue, Overwrites, Reads, Shares, Unseen, Updates, ValueMode, WeaklyReads,
    WeaklyUpdates,
};

/// The element types of arrays: plain bytes that may be copied to any memory.
///
/// Every [`bytemuck::Pod`] type is an element: real and [`Complex`] numbers, arrays of elements, and structs that
/// derive `Pod`, which must be `Copy`, `#[repr(C)]` and free of padding. The types `f16` and `bf16` of the crate `half`
/// are elements if that crate's feature `bytemuck` is enabled. `bool` is not an element because not every byte is a
/// valid `bool`; use `u8`. To register a value that is not plain bytes, use [`Runtime::value`](crate::Runtime::value).
///
/// ```
/// use bytemuck::{Pod, Zeroable};
/// use thalweg::prelude::*;
/// #[derive(Clone, Copy, Pod, Zeroable)]
/// #[repr(C)]
/// struct Particle { place: [f64; 3], charge: f64 }
///
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let particles = rt.data(vec![Particle { place: [0.0; 3], charge: 1.0 }; 100]);
/// rt.task("lift", particles.inout()).cpu(|_, all| all.iter_mut().for_each(|p| p.place[2] += p.charge)).submit()?;
/// assert_eq!(rt.take(particles)?[99].place[2], 1.0);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// Functions can be generic over the element type:
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
#[diagnostic::on_unimplemented(
    message = "an array cannot have elements of type `{Self}`",
    label = "not plain bytes",
    note = "elements are numbers, arrays of them, and structs with `#[derive(Clone, Copy, bytemuck::Pod, bytemuck::Zeroable)]` \
            that are `#[repr(C)]` and without padding; a flag is a `u8`",
    note = "a value of any other type is registered whole, with `Runtime::value`"
)]
pub trait Element: bytemuck::Pod + Send + Sync {}

#[diagnostic::do_not_recommend]
impl<T: bytemuck::Pod + Send + Sync> Element for T {}
