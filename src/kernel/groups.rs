//! The groups of a launch: how many there are, and what the threads of each share.

use super::launcher::Threads;
use std::ops::Index;

/// The threads of a launch of a [`ModuleKernel`](super::ModuleKernel), and what the launch requests besides.
///
/// Dynamic shared memory works with CUDA and HIP, cooperative launches with devices that have them, and clusters with
/// CUDA devices of compute capability 9.0 and newer. Other devices refuse the launch with
/// [`DeviceError::Unsupported`](crate::error::DeviceError::Unsupported).
///
/// ```
/// use thalweg::error::DeviceError;
/// use thalweg::kernel::{DeviceViewMut, LaunchShape, Launcher, ModuleKernel, Write};
/// fn sort(
///     k: &mut Launcher<'_>,
///     kernel: &ModuleKernel<(Write<f32>, i32)>,
///     mut x: DeviceViewMut<'_, f32>,
/// ) -> Result<(), DeviceError> {
///     let (n, bytes) = (x.len(), 4 * kernel.group()[0]);
///     let shape = LaunchShape::new(n).shared_bytes(bytes).cluster([2, 1, 1]);
///     // SAFETY: the kernel compares its index with n, and the region has n elements.
///     unsafe { k.launch_module(kernel, shape, (&mut x, n as i32)) }
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct LaunchShape {
    pub(super) threads: Threads,
    shared_bytes: u32,
    cluster: [u32; 3],
    is_cooperative: bool,
}

impl LaunchShape {
    /// Returns the shape of a launch with this many threads and nothing else.
    pub fn new(threads: impl Into<Threads>) -> Self {
        Self { threads: threads.into(), shared_bytes: 0, cluster: [1; 3], is_cooperative: false }
    }

    /// Requests dynamic shared memory for each group, which the kernel declares as `extern __shared__`. CUDA allows
    /// more than 48 KiB on devices that have it.
    #[must_use]
    pub fn shared_bytes(self, bytes: u32) -> Self {
        Self { shared_bytes: bytes, ..self }
    }

    /// Makes clusters of this many groups, which may use each other's shared memory. The number of groups is rounded
    /// up to whole clusters.
    ///
    /// # Panics
    /// Panics if the cluster is empty in a dimension.
    #[must_use]
    #[track_caller]
    pub fn cluster(self, groups: [u32; 3]) -> Self {
        assert!(!groups.contains(&0), "cannot make clusters of {groups:?} groups; try numbers above 0");
        Self { cluster: groups, ..self }
    }

    /// Lets all groups run at the same time, so that they may wait for each other. If the device cannot hold all of
    /// them, it refuses the launch.
    #[must_use]
    pub fn cooperative(self) -> Self {
        Self { is_cooperative: true, ..self }
    }

    /// Returns the groups, given their number.
    pub(super) fn groups(self, count: [u32; 3]) -> Groups {
        let count = std::array::from_fn(|d| count[d].next_multiple_of(self.cluster[d]));
        let Self { shared_bytes, cluster, is_cooperative, .. } = self;
        Groups { count, shared_bytes, cluster, is_cooperative }
    }
}

impl<T: Into<Threads>> From<T> for LaunchShape {
    fn from(threads: T) -> Self {
        Self::new(threads)
    }
}

/// The groups of a launch. An index returns their number in a dimension.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Groups {
    pub(crate) count: [u32; 3],
    /// The size of the dynamic shared memory of each group.
    pub(crate) shared_bytes: u32,
    /// The number of groups per cluster; 1 in all dimensions if there are no clusters.
    pub(crate) cluster: [u32; 3],
    /// Whether all groups must run at the same time.
    pub(crate) is_cooperative: bool,
}

impl Groups {
    /// Returns whether there are clusters.
    pub(crate) fn has_clusters(&self) -> bool {
        self.cluster != [1; 3]
    }

    /// Returns whether the launch has attributes besides its size and its shared memory.
    pub(crate) fn has_attributes(&self) -> bool {
        self.is_cooperative || self.has_clusters()
    }
}

impl From<[u32; 3]> for Groups {
    fn from(count: [u32; 3]) -> Self {
        Self { count, shared_bytes: 0, cluster: [1; 3], is_cooperative: false }
    }
}

impl Index<usize> for Groups {
    type Output = u32;

    fn index(&self, dimension: usize) -> &u32 {
        &self.count[dimension]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_fill_whole_clusters() {
        let shape = LaunchShape::new([100, 5]).cluster([4, 2, 1]);
        assert_eq!(shape.groups([9, 2, 1]).count, [12, 2, 1]);
        assert!(shape.groups([9, 2, 1]).has_attributes() && !Groups::from([1; 3]).has_attributes());
    }
}
