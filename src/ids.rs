//! The numbers that identify units, address spaces, devices, tasks and data objects across the layers.
//!
//! They are newtypes so that a unit's number cannot be passed as a space's number. Nothing here knows whether a number
//! is in use; the [`Machine`](crate::machine::Machine) does.
//!
//! Invariants: ids of one kind count from 0 without gaps, so [`index`](UnitId::index) may index a `Vec`; device `d`
//! owns address space `d + 1`, because space 0 is the host's.

use std::fmt;
use std::num::NonZeroU32;

/// A compute unit (CU): `0..NCPU` are CPU units, `NCPU..NCU` device units.
///
/// The numbering is that of González-Tallada & Morancho 2023, §3.1.1.
///
/// ```
/// use thalweg::ids::UnitId;
/// assert_eq!(UnitId(3).to_string(), "unit 3");
/// assert_eq!(UnitId(3).index(), 3);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct UnitId(pub u16);

/// An address space (AS): host memory, or the memory of one device.
///
/// ```
/// use thalweg::ids::{DeviceId, SpaceId};
/// assert_eq!(SpaceId::HOST.to_string(), "host");
/// assert_eq!(SpaceId(2).to_string(), "space 2");
/// assert_eq!(SpaceId(2).device(), Some(DeviceId(1)));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SpaceId(pub u16);

/// A device: one memory and the processors that compute on it.
///
/// ```
/// use thalweg::ids::{DeviceId, SpaceId};
/// assert_eq!(DeviceId(1).to_string(), "device 1");
/// assert_eq!(DeviceId(1).space(), SpaceId(2));
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DeviceId(pub u16);

/// The index of a loop's iteration, stored in the four bytes that a task's block has to spare.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Iteration(Option<NonZeroU32>);

impl Iteration {
    /// The value for a task that is not an iteration of a loop.
    pub(crate) const NONE: Self = Self(None);

    /// Creates the value for the iteration with this index. An index beyond 32 bits is not kept.
    #[inline]
    pub(crate) fn new(index: usize) -> Self {
        Self(u32::try_from(index).ok().and_then(|index| NonZeroU32::MIN.checked_add(index)))
    }

    /// Returns the index, if the task is an iteration.
    pub(crate) fn index(self) -> Option<usize> {
        self.0.map(|number| number.get() as usize - 1)
    }
}

impl UnitId {
    /// Returns the number as a `Vec` index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }
}

impl SpaceId {
    /// Host memory, which every machine has.
    pub const HOST: Self = Self(0);

    /// Returns the number as a `Vec` index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Whether this is host memory.
    pub const fn is_host(self) -> bool {
        self.0 == Self::HOST.0
    }

    /// Returns the device whose memory this is; `None` for the host.
    pub const fn device(self) -> Option<DeviceId> {
        match self.0.checked_sub(1) {
            Some(device) => Some(DeviceId(device)),
            None => None,
        }
    }
}

impl DeviceId {
    /// Returns the number as a `Vec` index.
    pub const fn index(self) -> usize {
        self.0 as usize
    }

    /// Returns the address space of the device's memory.
    ///
    /// # Panics
    ///
    /// If this is `DeviceId(u16::MAX)`, which no machine has.
    #[track_caller]
    pub const fn space(self) -> SpaceId {
        match self.0.checked_add(1) {
            Some(space) => SpaceId(space),
            None => panic!("device number out of range"),
        }
    }
}

/// A submitted task, numbered in order of submission.
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// assert_eq!(rt.task("first", ()).cpu(|_, ()| ()).submit()?, TaskId(0));
/// assert_eq!(rt.task("second", ()).cpu(|_, ()| ()).submit()?.to_string(), "task 1");
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TaskId(pub u64);

impl TaskId {
    /// IDs from this one on belong to internal tasks. No submitted task gets one.
    pub(crate) const FIRST_INTERNAL: u64 = 1 << 61;
}

/// A registered data object, numbered in order of registration.
///
/// ```
/// assert_eq!(thalweg::ids::DataId(3).to_string(), "data 3");
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct DataId(pub u64);

impl fmt::Display for TaskId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "task {}", self.0)
    }
}

impl fmt::Display for DataId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "data {}", self.0)
    }
}

impl fmt::Display for UnitId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "unit {}", self.0)
    }
}

impl fmt::Display for SpaceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.is_host() { f.write_str("host") } else { write!(f, "space {}", self.0) }
    }
}

impl fmt::Display for DeviceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "device {}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_and_spaces_correspond() {
        assert_eq!(SpaceId::HOST.device(), None);
        for d in [0, 1, 7, u16::MAX - 1].map(DeviceId) {
            assert_eq!(d.space().device(), Some(d));
            assert!(!d.space().is_host());
        }
    }

    #[test]
    #[should_panic(expected = "device number out of range")]
    fn space_of_the_last_device_number_panics() {
        DeviceId(u16::MAX).space();
    }

    #[test]
    fn ids_order_by_number() {
        assert!(UnitId(2) < UnitId(10));
        assert!(SpaceId::HOST < SpaceId(1));
        assert!(DeviceId(2) < DeviceId(10));
    }
}
