//! Views of device memory for task bodies. A view knows the location of a region, never its contents.

use super::scalar::Scalar;
use crate::region::MAX_DIMS;
use std::marker::PhantomData;

/// Location of a region in a device's memory.
#[derive(Debug, Clone, Copy)]
pub struct DeviceSite {
    /// The handle of the memory: an address, or its equivalent in the device's interface.
    pub(crate) base: usize,
    /// Offset of the region's first element in bytes.
    pub(crate) offset_bytes: usize,
    /// The stride of each dimension, in elements.
    pub(crate) strides: [usize; MAX_DIMS],
    /// The number of indices per dimension.
    pub(crate) extents: [usize; MAX_DIMS],
}

impl DeviceSite {
    /// Returns the number of elements from the region's first to its last, gaps included.
    pub(crate) fn span(&self) -> usize {
        let Self { extents, strides, .. } = self;
        match extents.contains(&0) {
            true => 0,
            false => extents.iter().zip(strides).map(|(extent, stride)| (extent - 1) * stride).sum::<usize>() + 1,
        }
    }
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

            /// Returns the number of elements.
            pub fn len(&self) -> usize {
                self.site.extents.iter().product()
            }

            /// Whether there are no elements.
            pub fn is_empty(&self) -> bool {
                self.len() == 0
            }

            /// Returns the number of indices per dimension; 1 in dimensions that the data object does not have.
            pub fn extents(&self) -> [usize; MAX_DIMS] {
                self.site.extents
            }

            /// Returns the stride of each dimension, in elements. Strides differ from device to device and from task
            /// to task, because memory is allocated only for the parts of a data object that are needed.
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

/// Device memory that is valid for the duration of a task, `'a`. The contents are initially undefined. Allocated by
/// [`Launcher::scratch`](super::Launcher::scratch).
///
/// ```
/// use thalweg::error::DeviceError;
/// use thalweg::kernel::{Kernel, Launcher, Read, Write};
/// /// Launches two kernels; the second uses the results of the first, in memory that only this task has.
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

    /// Returns the number of elements.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether there are no elements.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }
}
