//! The vocabulary of submission: handles of data, regions of data objects, partitions into regions, accesses, and
//! iteration spaces.
//!
//! Nothing in this module is asynchronous or locked. A handle names a data object, a region is a box in a data object,
//! and an access is a region with a mode; the types ensure that a body gets exactly what was declared.
//!
//! Accesses to all of the following objects obey the same rules for dependences, poison, priorities, placement,
//! statistics and the conflict detector. All arrays can have replicas on devices.
//!
//! | object | region | memory | created by |
//! | --- | --- | --- | --- |
//! | array ([`Data`]) | any box | a home, perhaps on shared huge pages (`memory/shared_pages.rs`) | `rt.data`, `rt.zeros` |
//! | borrowed array | any box | the caller's, perhaps with gaps between its rows | `scope.borrow`, `scope.borrow_mut` |
//! | imported array | any box | another library's (`memory/adopted.rs`): a home, or a valid replica | `rt.from_dlpack` |
//! | device array | any box | a home that gets memory where it is touched (`memory/reserved.rs`) | `rt.zeros_in` |
//! | unified array | any box | unified memory; the replicas have the same addresses (`memory/unified.rs`) | `rt.zeros_in(MemoryKind::Unified, ..)` |
//! | value ([`Value`]) | all of it | only a home, so its tasks run on CPU units | `rt.value` |
//! | token ([`Token`]) | all of it | none | `rt.token` |
//! | result ([`Pending`](crate::Pending)) | all of it | next to its task; written once | `TaskBuilder::returns` |

mod access;
mod accesses;
mod border;
mod borrowed;
mod cut;
#[cfg(feature = "dynamic")]
pub(crate) mod dynamic;
mod each;
mod handle;
mod iteration;
mod outcome;
mod parameter;
mod partition;
mod ranges;
mod region;
mod residence;
pub(crate) mod resource;
mod result;
pub(crate) mod take;
mod value;

#[doc(hidden)]
pub use access::Exported;
pub use access::{AccessSpec, UntypedAccess};
// Types of declared accesses, which type inference finds but no program names. The same holds for all hidden types
// below.
#[doc(hidden)]
pub use access::{Accumulating, After, Commutative, Concurrent, Inout, Input, Output, Reducing, WeakInout, WeakInput};
pub use accesses::Accesses;
#[doc(hidden)]
pub use accesses::AnyParameter;
pub(crate) use accesses::Predecessor;
#[doc(hidden)]
pub use border::Widths;
pub use border::{Face, Side};
#[doc(hidden)]
pub use borrowed::BorrowedParts;
pub use borrowed::{Borrowed, BorrowedMut, BorrowedRegion};
pub use each::LoopAccesses;
#[doc(hidden)]
pub use each::{Each, PartSpec};
pub use handle::Data;
#[doc(hidden)]
pub use handle::Kept;
pub(crate) use handle::{Owner, ReleasedCell};
pub use iteration::IterationSpace;
#[doc(hidden)]
pub use outcome::Outcome;
pub use parameter::Parameter;
#[doc(hidden)]
pub use parameter::ParameterInput;
#[doc(hidden)]
pub use partition::PartIndex;
pub use partition::{Grown, Partition, Parts};
#[doc(hidden)]
pub use ranges::{IndexRange, Ranges};
pub use region::{IntoRegion, Region, blocks};
pub use resource::Resource;
#[doc(hidden)]
pub use result::{ResultAfter, ResultInput, ResultOutcome};
pub(crate) use take::GivenUp;
pub use take::Take;
pub use value::{Token, Value};
#[doc(hidden)]
pub use value::{TokenAccess, ValueAccess};
