//! Accesses whose element types and numbers of dimensions are known only at run time.
//!
//! Language bindings and interpreters declare such accesses. Homes, dependences, replicas and copies know only the size
//! of an element, so the typed interface and this one share data objects: a program may use both.
//!
//! This module never converts an element. Invariants:
//! 1. A [`Dtype`] that is stored with a data object has the size of its elements, and an alignment that its home and
//!    its replicas have.
//! 2. A typed view is made only of the type that the data object has.

mod dtype;
mod kernel;
mod reduction;
mod stored;
mod view;

pub(crate) use dtype::Allocating;
pub use dtype::Dtype;
pub use kernel::{AnyArgument, AnyKernel};
pub(crate) use reduction::Combining;
pub use reduction::Op;
pub(crate) use stored::Stored;
pub use view::{AnyDeviceView, AnyView};
