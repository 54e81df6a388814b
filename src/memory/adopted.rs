//! Memory of other libraries that data objects have adopted: which is whose, and what becomes of it.
//!
//! What the host can reach is a data object's home. Memory of a device is a replica there, valid from the beginning; then the
//! home has addresses alone until somebody touches it ([`Reserved`]), and keeps the tensor: so either sort is given back with
//! the home, which goes behind all replicas.
//!
//! Invariants:
//! 1. A tensor's deleter is called once, when nothing of the memory is used any more.
//! 2. No two data objects of this process have adopted the same byte ([`Claim`]): else they would not know of each other's
//!    tasks. Addresses of devices that can be adopted are of the same space as the host's.

use super::dlpack::{DlElement, Layout, Tensor};
use super::{BoxCopy, Element, Reserved, copy_box, strides_of};
use crate::depend::Site;
use crate::region::MAX_DIMS;
use crate::sync::share;
use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::fmt;

/// Memory that a data object has adopted, from its first byte to behind its last.
static CLAIMED: Mutex<BTreeMap<usize, (usize, String)>> = Mutex::new(BTreeMap::new());

/// A part of the process's memory that one data object has adopted.
pub(crate) struct Claim(Option<usize>);

impl Claim {
    /// This memory, for a data object of this name.
    ///
    /// # Errors
    /// If another one has adopted a part of it.
    pub(crate) fn of(first: usize, bytes: usize, data: &str) -> Result<Self, String> {
        if bytes == 0 {
            return Ok(Self(None));
        }
        let (_unforked, mut claimed, end) = (share(), CLAIMED.lock(), first + bytes);
        if let Some((_, (other_end, other))) = claimed.range(..end).next_back()
            && *other_end > first
        {
            return Err(format!(
                "its memory ({first:#x}, {bytes} bytes) overlaps that of {other}, which has adopted it; try taking that \
                 first, or regions of it"
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
    // The claim goes before the memory does: another data object may get the same addresses at once.
    _claim: Claim,
    tensor: Tensor,
    first: *mut u8,
    extents: [usize; MAX_DIMS],
    strides: [usize; MAX_DIMS],
    element: TypeId,
}

// SAFETY: the memory is the tensor's, which any thread may use; who may touch it when is the dependences' matter.
unsafe impl Send for ForeignArray {}

impl ForeignArray {
    /// The tensor, whose memory is claimed, as a home.
    pub(crate) fn new<T: DlElement>(tensor: Tensor, layout: &Layout, claim: Claim) -> Self {
        let Layout { first, extents, strides, .. } = *layout;
        Self { _claim: claim, tensor, first, extents, strides, element: TypeId::of::<T>() }
    }

    /// The elements, copied; the memory goes back to whom it is from.
    ///
    /// # Panics
    /// If `T` is not the type of its elements.
    pub(crate) fn into_vec<T: Element>(self) -> Vec<T> {
        assert!(self.element == TypeId::of::<T>(), "another element type");
        let mut elements = bytemuck::zeroed_vec::<T>(self.extents.iter().product());
        let from = Site { first: self.first, strides: self.strides };
        let to = Site { first: elements.as_mut_ptr().cast(), strides: strides_of(&self.extents) };
        // SAFETY: the tensor has the elements of its shape at these strides, and nobody uses it any more; the vector has as
        // many.
        unsafe { copy_box(&BoxCopy { from, to, extents: self.extents, element_bytes: size_of::<T>() }) };
        elements
    }
}

impl fmt::Debug for ForeignArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ForeignArray").field(&self.tensor).finish()
    }
}

/// The home of a data object that lies in a device's memory, which others have made.
pub(crate) struct DeviceArray {
    // As above.
    _claim: Claim,
    tensor: Tensor,
    home: Reserved,
}

impl DeviceArray {
    /// The tensor, whose memory is claimed, as a replica, and a home for that.
    pub(crate) fn new<T: DlElement>(tensor: Tensor, layout: &Layout, claim: Claim) -> Self {
        let home = Reserved::new::<T>(layout.extents.iter().product());
        Self { _claim: claim, tensor, home }
    }

    /// Where the first element is at home.
    pub(super) fn first(&self) -> *mut u8 {
        self.home.first()
    }

    /// The elements, which are at home; the device's memory goes back to whom it is from.
    pub(super) fn into_vec<T: Element>(self) -> Vec<T> {
        self.home.into_vec()
    }
}

impl fmt::Debug for DeviceArray {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("DeviceArray").field(&self.tensor).finish()
    }
}

/// Why a tensor was not adopted. The tensor is in it.
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
pub struct AdoptError {
    tensor: Tensor,
    problem: String,
}

impl AdoptError {
    pub(crate) fn new(tensor: Tensor, problem: String) -> Self {
        Self { tensor, problem }
    }

    /// The tensor that was not adopted.
    pub fn into_tensor(self) -> Tensor {
        self.tensor
    }
}
