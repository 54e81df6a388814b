//! Memory of other libraries that data objects have adopted: ownership and release.
//!
//! Memory that the host can reach becomes the data object's home. Device memory becomes a replica on that device that
//! is valid from the beginning; the home then consists of addresses alone until it is touched ([`Reserved`]), and keeps
//! the tensor. Adopted device memory does not count towards the device's capacity and is never evicted; the replica
//! goes away together with the data object or its device. So both kinds of memory are given back together with the
//! home, which is released after all replicas.
//!
//! Invariants:
//! 1. A tensor's deleter is called once, when nothing uses any of its memory any more.
//! 2. No two data objects of this process have adopted the same byte ([`Claim`]), because their tasks would not be
//!    ordered with each other. Claims can cover host and device memory alike, because device addresses that can be
//!    adopted are in the same address space as host addresses.

use super::dlpack::{Layout, Tensor};
use super::{BoxCopy, Element, Reserved, copy_box, strides_of};
use crate::depend::Site;
use crate::region::MAX_DIMS;
use crate::sync::share;
use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;

/// Adopted memory: a map from the address of the first byte to the end address and the name of the data object.
static CLAIMED: Mutex<BTreeMap<usize, (usize, String)>> = Mutex::new(BTreeMap::new());

/// A claim of one data object on a part of the process's memory that it has adopted.
pub(crate) struct Claim(Option<usize>);

impl Claim {
    /// Claims this memory for a data object of this name.
    ///
    /// # Errors
    /// Fails if another data object has adopted a part of this memory.
    pub(crate) fn of(first: usize, bytes: usize, data: &str) -> Result<Self, String> {
        if bytes == 0 {
            return Ok(Self(None));
        }
        let (_unforked, mut claimed, end) = (share(), CLAIMED.lock(), first + bytes);
        if let Some((_, (other_end, other))) = claimed.range(..end).next_back()
            && *other_end > first
        {
            return Err(format!(
                "its memory ({first:#x}, {bytes} bytes) overlaps that of {other}; try taking {other} first, or using \
                 regions of it"
            ));
        }
        claimed.insert(first, (end, data.to_owned()));
        Ok(Self(Some(first)))
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        if let Some(first) = self.0 {
            let _unforked = share();
            CLAIMED.lock().remove(&first);
        }
    }
}

/// A home that was adopted.
pub(crate) struct ForeignArray {
    // The claim is dropped before the memory, because another data object may get the same addresses as soon as the
    // memory is freed.
    _claim: Claim,
    tensor: Tensor,
    first: *mut u8,
    extents: [usize; MAX_DIMS],
    strides: [usize; MAX_DIMS],
    element: TypeId,
}

// SAFETY: the memory belongs to the tensor, whose memory any thread may use, and dependences keep conflicting tasks
// from touching it at the same time.
unsafe impl Send for ForeignArray {}

impl ForeignArray {
    /// Turns a tensor whose memory is claimed into a home.
    pub(crate) fn new<T: Element>(tensor: Tensor, layout: &Layout, claim: Claim) -> Self {
        let Layout { first, extents, strides, .. } = *layout;
        Self { _claim: claim, tensor, first, extents, strides, element: TypeId::of::<T>() }
    }

    /// Copies the elements, and gives the memory back to its producer.
    ///
    /// # Panics
    /// Panics if `T` is not the element type.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        let mut elements = bytemuck::zeroed_vec::<T>(self.extents.iter().product());
        let from = Site { first: self.first, strides: self.strides };
        let to = Site { first: elements.as_mut_ptr().cast(), strides: strides_of(&self.extents) };
        // SAFETY: the tensor has the elements of its shape at these strides, and nothing uses it any more. The vector
        // has the same number of elements, so the copy stays inside both.
        unsafe { copy_box(&BoxCopy { from, to, extents: self.extents, element_bytes: size_of::<T>() }) };
        elements
    }
}

impl fmt::Debug for ForeignArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignArray").field(&self.tensor).finish()
    }
}

/// The home of a data object in device memory that another library has allocated.
pub(crate) struct DeviceArray {
    // Dropped first, as in `ForeignArray`.
    _claim: Claim,
    tensor: Tensor,
    home: Reserved,
}

impl DeviceArray {
    /// Takes over a tensor whose memory is claimed as a replica, and reserves a home for the data object, allocated as
    /// `T`.
    pub(crate) fn new<T: Element>(tensor: Tensor, layout: &Layout, element_bytes: usize, claim: Claim) -> Self {
        let bytes = layout.extents.iter().product::<usize>() * element_bytes;
        let home = Reserved::new::<T>(bytes.div_ceil(size_of::<T>()));
        Self { _claim: claim, tensor, home }
    }

    /// Returns the address of the first element in the home.
    pub(super) fn first(&self) -> *mut u8 {
        self.home.first()
    }

    /// Copies the elements from the home, and gives the device memory back to its producer.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        self.home.into_vec()
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceArray").field(&self.tensor).finish()
    }
}

/// Error returned when a tensor was not adopted. It contains the tensor.
///
/// ```
/// use thalweg::dlpack::Tensor;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let tensor = Tensor::of(ndarray::array![1.0f32, 2.0]);
/// let error = rt.from_dlpack::<f64, Ix1>(tensor).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot adopt a tensor of shape [2]: its elements are float32, and the data object's are float64; try another \
///      type, or convert them first"
/// );
/// let x: Data<f32> = rt.from_dlpack(error.into_tensor())?;
/// # assert_eq!(rt.take(x)?, [1.0, 2.0]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, thiserror::Error)]
#[error("cannot adopt a tensor of shape {:?}: {problem}", tensor.shape())]
pub struct ImportError {
    tensor: Tensor,
    problem: String,
}

impl ImportError {
    pub(crate) fn new(tensor: Tensor, problem: String) -> Self {
        Self { tensor, problem }
    }

    /// Returns the tensor that was not adopted.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }
}
