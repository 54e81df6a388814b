//! What a user submits: handles of data, regions of them, partitions into regions, accesses, and iteration spaces.
//!
//! Nothing here is asynchronous or locked. A handle is a name for a data object, a region a box in it, an access a
//! region with a mode; the types make sure that a body gets exactly what was declared.

mod access;
mod accesses;
mod border;
mod borrowed;
mod cut;
mod each;
mod handle;
mod iteration;
mod outcome;
mod parameter;
mod partition;
mod ranges;
mod region;
mod result;
pub(crate) mod take;
mod value;

pub use access::AccessSpec;
pub(crate) use access::Recorded;
// Types of declared accesses that inference finds and no program names; so are all that are hidden below.
#[doc(hidden)]
pub use access::{Accumulating, After, Commutative, Concurrent, Inout, Input, Output, Reducing, WeakInout, WeakInput};
pub use accesses::Accesses;
#[doc(hidden)]
pub use accesses::AnyParameter;
pub(crate) use accesses::Predecessor;
pub use border::{Face, Side, Widths};
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
pub use partition::{Grown, PartIndex, Partition, Parts};
pub use ranges::{IndexRange, Ranges};
pub use region::{IntoRegion, Region, blocks};
#[doc(hidden)]
pub use result::{ResultAfter, ResultInput, ResultOutcome};
pub(crate) use take::GivenUp;
pub use take::Take;
pub use value::{Token, Value};
#[doc(hidden)]
pub use value::{TokenAccess, ValueAccess};
