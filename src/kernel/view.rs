//! What a body sees of device memory: where it lies, never what is in it.

use super::scalar::Scalar;
use crate::region::MAX_DIMS;
use std::marker::PhantomData;

/// Where a region lies in a device's memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSite {
    /// The memory's handle: an address, or what the device's interface has instead.
    pub(crate) base: usize,
    /// From there to the region's first element.
    pub(crate) offset_bytes: usize,
    /// Elements from one index to the next, per dimension.
    pub(crate) strides: [usize; MAX_DIMS],
    /// Indices per dimension.
    pub(crate) extents: [usize; MAX_DIMS],
}

macro_rules! views {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub struct $name<'a, T> {
            site: DeviceSite,
            elements: PhantomData<&'a mut [T]>,
        }

        impl<T> $name<'_, T> {
            pub(crate) fn new(site: DeviceSite) -> Self {
                Self { site, elements: PhantomData }
            }

            pub(crate) fn site(&self) -> &DeviceSite {
                &self.site
            }

            /// How many elements there are.
            pub fn len(&self) -> usize {
                self.site.extents.iter().product()
            }

            /// Whether there is none.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Indices per dimension; 1 in those that the data object lacks.
            pub fn extents(&self) -> [usize; MAX_DIMS] {
                self.site.extents
            }

            /// Elements from one index to the next, per dimension. They differ from device to device and from task to
            /// task: memory is allocated for what is needed of a data object.
            pub fn strides(&self) -> [usize; MAX_DIMS] {
                self.site.strides
            }
        }
    )*};
}

views! {
    /// A region in device memory that the task reads.
    DeviceView;
    /// A region in device memory that the task writes.
    DeviceViewMut;
}

/// Device memory for the time of a task, `'a`; its content is not defined. From
/// [`Launcher::scratch`](super::Launcher::scratch).
///
/// ```
/// use thalweg::error::DeviceError;
/// use thalweg::kernel::{Kernel, Launcher, Read, Write};
/// /// Two kernels, the second of which works on what the first leaves in memory that only this task has.
/// fn in_two_steps(
///     k: &mut Launcher<'_>,
///     [first, second]: [&'static Kernel<(Write<f64>, i32)>; 2],
///     n: usize,
/// ) -> Result<(), DeviceError> {
///     let mut between = k.scratch::<f64>(n)?;
///     k.launch(first, n, (&mut between, n as i32))?;
///     k.launch(second, n, (&mut between, n as i32))
/// }
/// ```
#[derive(Debug)]
pub struct Scratch<'a, T> {
    base: usize,
    len: usize,
    elements: PhantomData<&'a mut [T]>,
}

impl<T: Scalar> Scratch<'_, T> {
    pub(super) fn new(base: usize, len: usize) -> Self {
        Self { base, len, elements: PhantomData }
    }

    pub(super) fn base(&self) -> usize {
        self.base
    }

    /// How many elements there are.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
