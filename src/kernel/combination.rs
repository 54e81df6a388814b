//! Operations by which a device combines the contribution of a reduction with its region.

use super::ElementType;

/// An operation that every device offers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Operation {
    Sum,
    Min,
    Max,
}

/// An operation on elements of one type.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Combination {
    pub(crate) operation: Operation,
    pub(crate) element: ElementType,
    /// The operation's identity, in the first bytes.
    pub(crate) identity: [u8; 8],
}
