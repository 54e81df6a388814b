//! Arrays of other libraries, by DLPack's C structures, which NumPy, PyTorch, CuPy and others give and take.
//!
//! A [`Tensor`] owns what it was given by. A runtime adopts it as the home of a data object, where it lies, and gives it back
//! when the data object goes; the other way round, an array becomes a tensor without being copied. Invariants:
//! 1. A tensor's deleter is called once, when nothing of the memory is used any more: the tensor goes with its owner, which
//!    is a variable of the program's or a data object's home.
//! 2. No two data objects of this process have adopted the same byte ([`Claim`]): else they would not know of each other's
//!    tasks.

use super::buffer::strides_of;
use super::lease::strides_of_view;
use super::{Element, Shape};
use crate::depend::Site;
use crate::error::SubmitError;
use crate::memory::{BoxCopy, copy_box};
use crate::region::MAX_DIMS;
use crate::sealed::Sealed;
use ndarray::{Array, Dimension};
use num_complex::Complex;
use parking_lot::Mutex;
use std::any::TypeId;
use std::collections::BTreeMap;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};

/// `DLDevice`: where memory lies.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DlDevice {
    /// `DLDeviceType`: 1 is host memory, 2 CUDA's, 3 host memory that CUDA has page-locked, 4 OpenCL's, 10 ROCm's, 11 host
    /// memory that ROCm has page-locked.
    pub device_type: i32,
    /// Which of them.
    pub device_id: i32,
}

impl DlDevice {
    const HOST: Self = Self { device_type: 1, device_id: 0 };

    fn is_host(self) -> bool {
        matches!(self.device_type, 1 | 3 | 11)
    }
}

impl fmt::Display for DlDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device_type {
            1 | 3 | 11 => f.write_str("host memory"),
            2 | 13 => write!(f, "memory of CUDA device {}", self.device_id),
            4 => write!(f, "memory of OpenCL device {}", self.device_id),
            10 => write!(f, "memory of ROCm device {}", self.device_id),
            other => write!(f, "memory of device {} of DLPack's type {other}", self.device_id),
        }
    }
}

/// `DLDataType`: what elements are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DlDataType {
    /// `DLDataTypeCode`: 0 is a signed integer, 1 an unsigned one, 2 a floating-point number, 5 a complex one.
    pub code: u8,
    /// Of one lane.
    pub bits: u8,
    /// Numbers in one element.
    pub lanes: u16,
}

impl fmt::Display for DlDataType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = match self.code {
            0 => "int",
            1 => "uint",
            2 => "float",
            4 => "bfloat",
            5 => "complex",
            6 => "bool",
            _ => return write!(f, "DLPack's type {} of {} bits", self.code, self.bits),
        };
        write!(f, "{name}{}", self.bits)?;
        if self.lanes == 1 { Ok(()) } else { write!(f, "x{}", self.lanes) }
    }
}

/// `DLTensor`
#[derive(Debug)]
#[repr(C)]
pub struct DlTensor {
    /// Where the memory begins.
    pub data: *mut c_void,
    /// Where it lies.
    pub device: DlDevice,
    /// How many dimensions there are.
    pub ndim: i32,
    /// What elements are.
    pub dtype: DlDataType,
    /// Indices per dimension.
    pub shape: *mut i64,
    /// Elements from one index to the next, per dimension; null if they lie side by side, the last index fastest.
    pub strides: *mut i64,
    /// From `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with what frees it.
#[derive(Debug)]
#[repr(C)]
pub struct DlManagedTensor {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// Whatever its producer likes.
    pub manager_ctx: *mut c_void,
    /// Frees this structure and what belongs to it; none if there is nothing to free.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A number that DLPack knows: [`Element`]s of adopted arrays are of such a type.
///
/// ```
/// use thalweg::dlpack::{DlDataType, DlElement};
/// assert_eq!(f64::DATA_TYPE, DlDataType { code: 2, bits: 64, lanes: 1 });
/// ```
pub trait DlElement: Element + Sealed {
    /// As DLPack says it.
    const DATA_TYPE: DlDataType;
}

macro_rules! elements {
    ($($t:ty: $code:literal;)*) => {$(
        impl DlElement for $t {
            const DATA_TYPE: DlDataType =
                DlDataType { code: $code, bits: (8 * size_of::<$t>()) as u8, lanes: 1 };
        }
    )*};
}

elements! {
    i8: 0; i16: 0; i32: 0; i64: 0; u8: 1; u16: 1; u32: 1; u64: 1; f32: 2; f64: 2; Complex<f32>: 5; Complex<f64>: 5;
}

macro_rules! others {
    ($($t:ty)*) => {$(
        impl Sealed for $t {}
    )*};
}

others! { i8 i16 u8 u16 Complex<f32> Complex<f64> }

/// An array of another library, or for one: a `DLManagedTensor`, owned.
///
/// ```
/// use ndarray::array;
/// use thalweg::dlpack::Tensor;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// // What Python's `__dlpack__()` has in its capsule would be taken by `Tensor::from_raw`.
/// let tensor = Tensor::of(array![[1.0, 2.0], [3.0, 4.0]]);
/// let x: Data<f64, Ix2> = rt.adopt(tensor)?;
/// rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit()?;
/// // And what Python would put into a capsule:
/// let result = Tensor::of(rt.take(x)?);
/// assert_eq!(result.shape(), [2, 2]);
/// let raw = result.into_raw();
/// # // SAFETY: it was just given away.
/// # drop(unsafe { Tensor::from_raw(raw) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tensor(NonNull<DlManagedTensor>);

// SAFETY: `from_raw` asks for a tensor whose memory and deleter any thread may use, and `of` makes one.
unsafe impl Send for Tensor {}
// SAFETY: a shared reference shows what the tensor looks like, which nobody changes.
unsafe impl Sync for Tensor {}

/// What belongs to a tensor that was made of an array.
struct Lent<T> {
    managed: DlManagedTensor,
    _elements: Vec<T>,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn free<T>(tensor: *mut DlManagedTensor) {
    // SAFETY: `Tensor::of` has leaked the box of this type, and a deleter is called once.
    unsafe {
        let lent = (*tensor).manager_ctx.cast::<Lent<T>>();
        drop(Box::from_raw(lent));
    }
}

impl Tensor {
    /// A tensor of another library, which belongs to whoever has it from here on.
    ///
    /// # Safety
    /// `tensor` is valid as DLPack describes it, and nobody else frees it. Until it is dropped or given back by
    /// [`into_raw`](Self::into_raw), nobody but its owner touches the memory. The memory may be used, and the deleter be
    /// called, from any thread.
    ///
    /// # Panics
    /// If it is null.
    pub unsafe fn from_raw(tensor: *mut DlManagedTensor) -> Self {
        Self(NonNull::new(tensor).expect("a tensor has an address"))
    }

    /// The array as a tensor, for another library; nothing is copied, unless its elements do not lie row by row.
    pub fn of<T: DlElement, D: Dimension>(array: Array<T, D>) -> Self {
        let shape: Vec<usize> = array.shape().to_vec();
        let elements: Vec<T> = if array.is_standard_layout() && array.len() == shape.iter().product() {
            let (elements, offset) = array.into_raw_vec_and_offset();
            match offset.unwrap_or(0) {
                0 => elements,
                first => elements[first..].to_vec(),
            }
        } else {
            array.iter().copied().collect()
        };
        let mut strides = vec![1i64; shape.len()];
        for d in (1..shape.len()).rev() {
            strides[d - 1] = strides[d] * shape[d] as i64;
        }
        let mut lent = Box::new(Lent {
            managed: DlManagedTensor {
                dl_tensor: DlTensor {
                    data: elements.as_ptr().cast_mut().cast(),
                    device: DlDevice::HOST,
                    ndim: shape.len() as i32,
                    dtype: T::DATA_TYPE,
                    shape: ptr::null_mut(),
                    strides: ptr::null_mut(),
                    byte_offset: 0,
                },
                manager_ctx: ptr::null_mut(),
                deleter: Some(free::<T>),
            },
            _elements: elements,
            shape: shape.iter().map(|extent| *extent as i64).collect(),
            strides,
        });
        (lent.managed.dl_tensor.shape, lent.managed.dl_tensor.strides) =
            (lent.shape.as_mut_ptr(), lent.strides.as_mut_ptr());
        let lent = Box::leak(lent);
        let context: *mut Lent<T> = lent;
        // SAFETY: the box was just leaked, so its parts stay where they are.
        unsafe {
            let managed = &raw mut (*context).managed;
            (*managed).manager_ctx = context.cast();
            Self::from_raw(managed)
        }
    }

    /// The tensor for another library, which is to call its deleter.
    pub fn into_raw(self) -> *mut DlManagedTensor {
        let raw = self.0.as_ptr();
        std::mem::forget(self);
        raw
    }

    fn tensor(&self) -> &DlTensor {
        // SAFETY: the tensor is valid until its owner is dropped.
        &unsafe { self.0.as_ref() }.dl_tensor
    }

    /// Where it lies.
    pub fn device(&self) -> DlDevice {
        self.tensor().device
    }

    /// What its elements are.
    pub fn data_type(&self) -> DlDataType {
        self.tensor().dtype
    }

    /// Indices per dimension.
    pub fn shape(&self) -> &[i64] {
        self.list(self.tensor().shape)
    }

    fn list(&self, first: *const i64) -> &[i64] {
        match usize::try_from(self.tensor().ndim) {
            // SAFETY: a tensor has as many extents as dimensions, and strides, if any.
            Ok(count) if count > 0 && !first.is_null() => unsafe { std::slice::from_raw_parts(first, count) },
            _ => &[],
        }
    }

    /// Whether it can be the home of a data object of such elements in `S` dimensions: where it lies, and in what shape.
    pub(crate) fn check<T: DlElement, S: Shape>(&self) -> Result<Layout, String> {
        let DlTensor { device, ndim, dtype, data, strides, byte_offset, .. } = *self.tensor();
        if !device.is_host() {
            return Err(format!(
                "it lies in {device}, and a data object is at home in host memory; try copying it there first"
            ));
        }
        if dtype != T::DATA_TYPE {
            return Err(format!(
                "its elements are {dtype}, and the data object's are {}; try another type, or convert them first",
                T::DATA_TYPE
            ));
        }
        let dimensions = S::NDIM.map_or(ndim, |dimensions| dimensions as i32);
        if ndim != dimensions || !(1..=MAX_DIMS as i32).contains(&ndim) {
            return Err(format!(
                "it has {ndim} dimensions, and the data object {dimensions}; try another type, or `reshape` it first"
            ));
        }
        let shape: Option<Vec<usize>> = self.shape().iter().map(|extent| usize::try_from(*extent).ok()).collect();
        let shape = shape.filter(|shape| shape.len() == ndim as usize);
        let bytes = |shape: &Vec<usize>| {
            let elements = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
            elements.checked_mul(size_of::<T>()).filter(|bytes| isize::try_from(*bytes).is_ok())
        };
        let Some((shape, bytes)) = shape.and_then(|shape| bytes(&shape).map(|bytes| (shape, bytes))) else {
            return Err(format!("its shape {:?} is that of no array in memory", self.shape()));
        };
        let mut extents = [1; MAX_DIMS];
        extents[..shape.len()].copy_from_slice(&shape);
        let mut found = strides_of(&extents);
        if !strides.is_null() {
            let strides: Vec<isize> = self.list(strides).iter().map(|stride| *stride as isize).collect();
            found = strides_of_view(&shape, &strides).map_err(|error| match error {
                SubmitError::Layout { problem, .. } => {
                    format!("{problem} (its strides are {strides:?}); try copying it")
                }
                other => other.to_string(),
            })?;
        }
        let first = data.cast::<u8>().wrapping_add(byte_offset as usize);
        if bytes > 0 && first.is_null() {
            return Err("it has elements and no address".to_owned());
        }
        if !first.addr().is_multiple_of(align_of::<T>()) {
            return Err(format!("its first element is not aligned to {} bytes; try copying it", align_of::<T>()));
        }
        let last: usize = (0..MAX_DIMS).map(|d| extents[d].saturating_sub(1) * found[d]).sum();
        let span_bytes = if bytes == 0 { 0 } else { (last + 1) * size_of::<T>() };
        let first = if bytes == 0 { ptr::without_provenance_mut(align_of::<T>()) } else { first };
        Ok(Layout { first, extents, strides: found, shape, span_bytes })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: the tensor is ours, and its deleter is called once.
        unsafe {
            if let Some(deleter) = self.0.as_ref().deleter {
                deleter(self.0.as_ptr());
            }
        }
    }
}

impl fmt::Debug for Tensor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = f.debug_struct("Tensor");
        shown.field("shape", &self.shape()).field("data_type", &self.data_type()).field("device", &self.device());
        shown.finish_non_exhaustive()
    }
}

/// How a tensor lies in host memory.
pub(crate) struct Layout {
    pub(crate) first: *mut u8,
    extents: [usize; MAX_DIMS],
    pub(crate) strides: [usize; MAX_DIMS],
    pub(crate) shape: Vec<usize>,
    span_bytes: usize,
}

/// Memory that a data object has adopted, from its first byte to behind its last.
static CLAIMED: Mutex<BTreeMap<usize, (usize, String)>> = Mutex::new(BTreeMap::new());

/// A part of the process's memory that one data object has adopted.
struct Claim(Option<usize>);

impl Claim {
    fn of(first: usize, bytes: usize, data: &str) -> Result<Self, String> {
        if bytes == 0 {
            return Ok(Self(None));
        }
        let (mut claimed, end) = (CLAIMED.lock(), first + bytes);
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
    /// The tensor as the home of a data object of this name.
    ///
    /// # Errors
    /// If another one has adopted a part of it; the tensor comes back.
    pub(crate) fn new<T: DlElement>(tensor: Tensor, layout: &Layout, data: &str) -> Result<Self, (Tensor, String)> {
        let Layout { first, extents, strides, span_bytes, .. } = *layout;
        match Claim::of(first.addr(), span_bytes, data) {
            Ok(claim) => Ok(Self { _claim: claim, tensor, first, extents, strides, element: TypeId::of::<T>() }),
            Err(problem) => Err((tensor, problem)),
        }
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

/// Why a tensor was not adopted. The tensor is in it.
///
/// ```
/// use thalweg::dlpack::Tensor;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let tensor = Tensor::of(ndarray::array![1.0f32, 2.0]);
/// let error = rt.adopt::<f64, Ix1>(tensor).unwrap_err();
/// assert_eq!(
///     error.to_string(),
///     "cannot adopt a tensor of shape [2]: its elements are float32, and the data object's are float64; try another \
///      type, or convert them first"
/// );
/// let x: Data<f32> = rt.adopt(error.into_tensor())?;
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
