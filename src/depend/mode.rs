//! The modes in which a task can access a region.

use std::fmt;

/// How a task accesses a region (in the terms of OmpSs-2).
///
/// ```
/// use thalweg::Mode;
/// assert!(Mode::Out.writes() && !Mode::Out.reads());
/// assert!(Mode::In.shares_group(Mode::In) && !Mode::Inout.shares_group(Mode::Inout));
/// assert_eq!(Mode::Commutative.to_string(), "commutative");
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Mode {
    /// Reads the region.
    In,
    /// Overwrites the whole region without reading it.
    Out,
    /// Reads and writes the region.
    Inout,
    /// Updates the region element by element, atomically, together with other concurrent tasks.
    Concurrent,
    /// Reads and writes the region, one task at a time, in any order among commutative tasks.
    Commutative,
    /// Adds a private contribution to the region by an associative operation.
    Reduction(OpId),
    /// Reads the region, or receives the failure that left nothing to read.
    Outcome,
    /// Is ordered like a read, but reads nothing.
    After,
    /// Waits for nothing and gets no view of the region; only the task's children read it.
    WeakIn,
    /// Waits for nothing and gets no view of the region; only the task's children read and write it.
    WeakInout,
    /// Declares that the region's contents are good; used only by the runtime.
    Accept,
}

/// Identifies a reduction's operation. Two reductions run concurrently only if their operations are the same.
///
/// ```
/// use thalweg::memory::OpId;
/// struct Gcd;
/// assert_eq!(OpId::of::<Gcd>(), OpId::of::<Gcd>());
/// assert_ne!(OpId::unique(), OpId::unique());
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct OpId(pub(crate) u32);

impl OpId {
    const ANY_ORDER: u32 = 1 << 31;
    const ACCUMULATED: u32 = 1 << 30;
    const ON_DEVICES: u32 = 1 << 29;
    /// Upper bound of operation IDs. The bits above it encode how contributions are combined.
    pub(crate) const LIMIT: u32 = 1 << 29;

    /// Returns the same operation, combined in any order.
    pub(crate) fn in_any_order(self) -> Self {
        Self(self.0 | Self::ANY_ORDER)
    }

    /// Returns the same operation for tasks that add to shared replicas, which implies any order.
    pub(crate) fn accumulated(self) -> Self {
        Self(self.in_any_order().0 | Self::ACCUMULATED)
    }

    /// Returns the same operation, marked as one that devices can combine.
    pub(crate) fn on_devices(self) -> Self {
        Self(self.0 | Self::ON_DEVICES)
    }

    /// Whether devices can combine contributions by this operation.
    pub(crate) fn is_on_devices(self) -> bool {
        self.0 & Self::ON_DEVICES != 0
    }

    /// Whether tasks with this operation share replicas.
    pub(crate) fn is_accumulated(self) -> bool {
        self.0 & Self::ACCUMULATED != 0
    }

    /// Whether contributions are combined in the order in which they arrive.
    pub(crate) fn is_in_any_order(self) -> bool {
        self.0 & Self::ANY_ORDER != 0
    }
}

impl Mode {
    /// Whether the access, or an access of the task's children on its behalf, may change the region.
    #[inline]
    pub fn writes(self) -> bool {
        !matches!(self, Mode::In | Mode::Outcome | Mode::After | Mode::WeakIn)
    }

    /// Whether the access uses the region's previous contents.
    #[inline]
    pub fn reads(self) -> bool {
        !matches!(self, Mode::Out) && !self.sees_nothing()
    }

    /// Whether the task fails if the task that should have written the region has failed.
    #[inline]
    pub(crate) fn relies_on_value(self) -> bool {
        !matches!(self, Mode::Out | Mode::Accept | Mode::Outcome) && !self.sees_nothing()
    }

    /// Whether the task gets no view of the region, so that the region's bytes are not needed.
    #[inline]
    pub(crate) fn sees_nothing(self) -> bool {
        matches!(self, Mode::After | Mode::WeakIn | Mode::WeakInout)
    }

    /// Whether the access is a reduction whose contribution a device can combine.
    #[inline]
    pub(crate) fn is_combined_by_devices(self) -> bool {
        matches!(self, Mode::Reduction(operation) if operation.is_on_devices() && !operation.is_accumulated())
    }

    /// Whether the access is declared on behalf of the task's children.
    #[inline]
    pub(crate) fn is_weak(self) -> bool {
        matches!(self, Mode::WeakIn | Mode::WeakInout)
    }

    /// Whether a task with this access must be entered into the histories individually, never as part of a batch.
    pub(crate) fn is_entered_alone(self) -> bool {
        self.is_weak() || self == Mode::Outcome
    }

    /// Whether a task with this access may still have to wait for other members of its group after its last predecessor
    /// has finished.
    #[inline]
    pub(crate) fn queues(self) -> bool {
        match self {
            Mode::Reduction(operation) => !operation.is_accumulated(),
            mode => mode == Mode::Commutative,
        }
    }

    /// Whether tasks with this access to the same region need no order among themselves.
    ///
    /// Commutative tasks still must not run at the same time.
    #[inline]
    pub fn shares_group(self, other: Mode) -> bool {
        self == other && !matches!(self, Mode::Out | Mode::Inout | Mode::WeakInout | Mode::Accept)
    }
}

impl fmt::Display for Mode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Mode::In => "in",
            Mode::Outcome => "outcome",
            Mode::Out => "out",
            Mode::Inout => "inout",
            Mode::Concurrent => "concurrent",
            Mode::Commutative => "commutative",
            Mode::Reduction(operation) if operation.is_accumulated() => "accumulate",
            Mode::Reduction(_) => "reduction",
            Mode::After => "after",
            Mode::WeakIn => "weak in",
            Mode::WeakInout => "weak inout",
            Mode::Accept => "accept",
        })
    }
}
