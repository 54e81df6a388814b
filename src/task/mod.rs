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
pub use access::{Accumulating, After, Commutative, Concurrent, Inout, Input, Output, Reducing, WeakInout, WeakInput};
pub use accesses::Accesses;
#[doc(hidden)]
pub use accesses::AnyParameter;
pub(crate) use accesses::Predecessor;
pub use border::{Face, Side, Widths};
pub use borrowed::{Borrowed, BorrowedMut, BorrowedParts, BorrowedRegion};
pub use each::{Each, LoopAccesses, PartSpec};
pub use handle::Data;
#[doc(hidden)]
pub use handle::Kept;
pub(crate) use handle::{Owner, ReleasedCell};
pub use iteration::IterationSpace;
pub use outcome::Outcome;
pub use parameter::{Parameter, ParameterInput};
pub use partition::{Grown, PartIndex, Partition, Parts};
pub use ranges::{IndexRange, Ranges};
pub use region::{IntoRegion, Region, blocks};
pub use result::{ResultAfter, ResultInput, ResultOutcome};
pub(crate) use take::GivenUp;
pub use take::Take;
pub use value::{Token, TokenAccess, Value, ValueAccess};
