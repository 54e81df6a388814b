//! Exchange of arrays with other libraries through DLPack's C structures, which NumPy, PyTorch, CuPy and others
//! support.
//!
//! A [`Tensor`] owns a DLPack tensor. A runtime can adopt the tensor ([`adopted`](super::adopted)) and gives it back
//! when the data object is dropped. In the other direction, an array, or a region that a runtime lends out, becomes a
//! tensor without being copied.
//!
//! Invariants:
//! 1. A tensor's deleter is called once, when its owner is dropped: a variable of the program or a data object's
//!    home.
//! 2. Memory that others may be reading is never adopted, because tasks that access the data object would write to it.

use super::Element;
use super::strides::{strides_of, strides_of_view};
use crate::error::SubmitError;
use crate::region::MAX_DIMS;
use crate::sealed::Sealed;
use crate::sync::drop_quietly;
use ndarray::{Array, Dimension};
use num_complex::Complex;
use std::ffi::c_void;
use std::fmt;
use std::ptr::{self, NonNull};

/// `DLDevice`: the memory that a tensor is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DlDevice {
    /// `DLDeviceType`: 1 is host memory, 2 is CUDA device memory, 3 is host memory page-locked by CUDA, 4 is OpenCL
    /// memory, 10 is ROCm device memory, 11 is host memory page-locked by ROCm, and 13 is memory that CUDA moves
    /// between host and devices.
    pub device_type: i32,
    /// The index of the device among the devices of its type.
    pub device_id: i32,
}

impl DlDevice {
    /// Host memory.
    pub const HOST: Self = Self { device_type: 1, device_id: 0 };

    /// Returns whether the host can access the memory.
    pub(crate) fn is_host(self) -> bool {
        matches!(self.device_type, 1 | 3 | 11 | 13)
    }

    /// Returns the name of the interface to devices of this type.
    pub(crate) fn interface(self) -> &'static str {
        match self.device_type {
            2 => "CUDA",
            4 => "OpenCL",
            10 => "ROCm",
            _ => "such",
        }
    }
}

impl fmt::Display for DlDevice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.device_type {
            1 | 3 | 11 => f.write_str("host memory"),
            2 => write!(f, "memory of CUDA device {}", self.device_id),
            4 => write!(f, "memory of OpenCL device {}", self.device_id),
            10 => write!(f, "memory of ROCm device {}", self.device_id),
            13 => f.write_str("memory that CUDA manages"),
            other => write!(f, "memory of device {} of DLPack's type {other}", self.device_id),
        }
    }
}

/// `DLDataType`: the type of the elements.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C)]
pub struct DlDataType {
    /// `DLDataTypeCode`: 0 is a signed integer, 1 an unsigned one, 2 a floating-point number, 5 a complex one.
    pub code: u8,
    /// The number of bits of one lane.
    pub bits: u8,
    /// The number of lanes, that is, of numbers in one element.
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
    /// The address at which the memory begins.
    pub data: *mut c_void,
    /// The device whose memory contains the tensor.
    pub device: DlDevice,
    /// The number of dimensions.
    pub ndim: i32,
    /// The type of the elements.
    pub dtype: DlDataType,
    /// The extent of each dimension.
    pub shape: *mut i64,
    /// The number of elements from one index to the next, per dimension; null for compact row-major order.
    pub strides: *mut i64,
    /// The number of bytes from `data` to the first element.
    pub byte_offset: u64,
}

/// `DLManagedTensor`: a tensor with its deleter.
#[derive(Debug)]
#[repr(C)]
pub struct DlManagedTensor {
    /// The tensor.
    pub dl_tensor: DlTensor,
    /// Opaque data of the producer.
    pub manager_ctx: *mut c_void,
    /// The function that frees this structure and everything that belongs to it; `None` if there is nothing to free.
    pub deleter: Option<unsafe extern "C" fn(*mut Self)>,
}

/// A number type that DLPack can describe. The [`Element`]s of an adopted array are of such a type.
///
/// ```
/// use thalweg::dlpack::{DlDataType, DlElement};
/// assert_eq!(f64::DATA_TYPE, DlDataType { code: 2, bits: 64, lanes: 1 });
/// ```
pub trait DlElement: Element + Sealed {
    /// DLPack's description of the type.
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

/// An array that comes from another library, or is meant for one: an owned `DLManagedTensor`.
///
/// ```
/// use ndarray::array;
/// use thalweg::dlpack::Tensor;
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// // `Tensor::from_raw` takes the pointer from the capsule that Python's `__dlpack__()` returns.
/// let tensor = Tensor::of(array![[1.0, 2.0], [3.0, 4.0]]);
/// let x: Data<f64, Ix2> = rt.from_dlpack(tensor)?;
/// rt.task("double", (x.inout(),)).cpu(|_, (mut x,)| x *= 2.0).submit()?;
/// // `into_raw` gives the pointer for such a capsule:
/// let result = Tensor::of(rt.take(x)?);
/// assert_eq!(result.shape(), [2, 2]);
/// let raw = result.into_raw();
/// # // SAFETY: `into_raw` has just returned it.
/// # drop(unsafe { Tensor::from_raw(raw) });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Tensor {
    raw: NonNull<DlManagedTensor>,
    /// Whether others may read the memory while the tensor exists.
    is_shared: bool,
}

// SAFETY: `from_raw` requires a tensor whose memory and deleter any thread may use, and the tensors made here are of
// this kind.
unsafe impl Send for Tensor {}
// SAFETY: a shared reference gives access only to the tensor's description, which never changes.
unsafe impl Sync for Tensor {}

/// The allocation behind a tensor that we made. It contains the owner of the tensor's memory, and the lists that the
/// structure points to.
struct Lent<O> {
    managed: DlManagedTensor,
    _owner: O,
    shape: Vec<i64>,
    strides: Vec<i64>,
}

unsafe extern "C" fn free<O>(tensor: *mut DlManagedTensor) {
    // SAFETY: `Tensor::owned` has leaked a box of this type, and a deleter is called only once, so this call takes back
    // the ownership.
    let lent = unsafe { Box::from_raw((*tensor).manager_ctx.cast::<Lent<O>>()) };
    drop_quietly(|| drop(lent)); // the caller is not Rust code, so no panic may escape
}

impl Tensor {
    /// Takes ownership of a tensor of another library.
    ///
    /// # Safety
    /// `tensor` is valid as DLPack describes it, and nothing else frees it. Until it is dropped or given back by
    /// [`into_raw`](Self::into_raw), only its owner touches the memory. The memory may be used, and the deleter
    /// called, from any thread.
    ///
    /// # Panics
    /// Panics if `tensor` is null.
    #[track_caller]
    pub unsafe fn from_raw(tensor: *mut DlManagedTensor) -> Self {
        Self { raw: NonNull::new(tensor).expect("a tensor's address is not null"), is_shared: false }
    }

    /// Converts an array into a tensor for another library. Nothing is copied, unless the elements are not in
    /// row-major order.
    pub fn of<T: DlElement, D: Dimension>(array: Array<T, D>) -> Self {
        let shape: Vec<usize> = array.shape().to_vec();
        let elements: Vec<T> = if array.is_standard_layout() && array.len() == shape.iter().product::<usize>() {
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
        let first = elements.as_ptr().cast_mut().cast();
        // SAFETY: the tensor owns the vector, so the elements stay in place as long as the tensor exists, and nothing
        // else accesses them.
        unsafe { Self::owned(elements, first, DlDevice::HOST, T::DATA_TYPE, &shape, strides, false) }
    }

    /// Makes a tensor of a region of this shape, which an internal task keeps at `site` until `owner` is dropped. If
    /// `is_shared`, the region may only be read.
    pub(crate) fn lent<O: Send + 'static>(
        owner: O,
        site: &LentSite,
        data_type: DlDataType,
        shape: &[usize],
        is_shared: bool,
    ) -> Self {
        let LentSite { memory, first, strides } = *site;
        let strides = strides[..shape.len()].iter().map(|stride| *stride as i64).collect();
        // SAFETY: while the task holds the region, no other task writes the region, and if the task updates it, no
        // other task touches it at all. Neither the region nor its replica is released before the owner is dropped.
        unsafe { Self::owned(owner, first, memory, data_type, shape, strides, is_shared) }
    }

    /// Makes a tensor of memory that `owner` keeps alive. The owner is dropped with the tensor, on any thread. Strides
    /// are in elements, one per dimension.
    ///
    /// ```
    /// use thalweg::dlpack::{DlDevice, DlElement, Tensor};
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let mut owner = vec![1.0f64; 6].into_boxed_slice();
    /// let first = owner.as_mut_ptr().cast();
    /// // SAFETY: the owner keeps the elements in place, and nothing else uses them.
    /// let tensor = unsafe { Tensor::from_parts(owner, first, DlDevice::HOST, f64::DATA_TYPE, &[2, 3], &[3, 1]) };
    /// let x: Data<f64, Ix2> = rt.from_dlpack(tensor)?;
    /// assert_eq!(rt.take(x)?.sum(), 6.0);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Safety
    /// Until the owner is dropped, elements of this type are at `first` in this shape on this device, and only the
    /// tensor's owner touches them.
    ///
    /// # Panics
    /// Panics if the numbers of extents and strides differ.
    #[track_caller]
    pub unsafe fn from_parts<O: Send + 'static>(
        owner: O,
        first: *mut u8,
        device: DlDevice,
        data_type: DlDataType,
        shape: &[usize],
        strides: &[isize],
    ) -> Self {
        assert_eq!(shape.len(), strides.len(), "a tensor has a stride for each dimension");
        let strides = strides.iter().map(|stride| *stride as i64).collect();
        // SAFETY: the caller upholds the same contract.
        unsafe { Self::owned(owner, first, device, data_type, shape, strides, false) }
    }

    /// Makes a tensor of memory that `owner` keeps alive until the deleter drops `owner`.
    ///
    /// # Safety
    /// Until then, elements of this type are at `first` in this shape, and only the tensor's owner touches them; if
    /// `is_shared`, others may read them. There are as many strides as extents.
    unsafe fn owned<O: Send + 'static>(
        owner: O,
        first: *mut u8,
        device: DlDevice,
        dtype: DlDataType,
        shape: &[usize],
        strides: Vec<i64>,
        is_shared: bool,
    ) -> Self {
        let mut lent = Box::new(Lent {
            managed: DlManagedTensor {
                dl_tensor: DlTensor {
                    data: first.cast(),
                    device,
                    ndim: shape.len() as i32,
                    dtype,
                    shape: ptr::null_mut(),
                    strides: ptr::null_mut(),
                    byte_offset: 0,
                },
                manager_ctx: ptr::null_mut(),
                deleter: Some(free::<O>),
            },
            _owner: owner,
            shape: shape.iter().map(|extent| *extent as i64).collect(),
            strides,
        });
        (lent.managed.dl_tensor.shape, lent.managed.dl_tensor.strides) =
            (lent.shape.as_mut_ptr(), lent.strides.as_mut_ptr());
        let context = Box::into_raw(lent);
        // SAFETY: the box was just leaked, so its fields never move.
        unsafe {
            let managed = &raw mut (*context).managed;
            (*managed).manager_ctx = context.cast();
            let mut tensor = Self::from_raw(managed);
            tensor.is_shared = is_shared;
            tensor
        }
    }

    /// Returns the raw tensor for another library, which must call the tensor's deleter.
    pub fn into_raw(self) -> *mut DlManagedTensor {
        let raw = self.raw.as_ptr();
        std::mem::forget(self);
        raw
    }

    fn tensor(&self) -> &DlTensor {
        // SAFETY: the tensor is valid until its owner is dropped.
        &unsafe { self.raw.as_ref() }.dl_tensor
    }

    /// Returns the device whose memory the tensor is in.
    pub fn device(&self) -> DlDevice {
        self.tensor().device
    }

    /// Returns the element type.
    pub fn data_type(&self) -> DlDataType {
        self.tensor().dtype
    }

    /// Returns the extent of each dimension.
    pub fn shape(&self) -> &[i64] {
        self.list(self.tensor().shape)
    }

    /// Returns the number of elements from one index to the next, per dimension; `None` for compact row-major order.
    pub fn strides(&self) -> Option<&[i64]> {
        let strides = self.tensor().strides;
        (!strides.is_null()).then(|| self.list(strides))
    }

    /// Returns the address of the first element.
    pub fn address(&self) -> *mut u8 {
        self.tensor().data.cast::<u8>().wrapping_add(self.tensor().byte_offset as usize)
    }

    /// Returns whether the elements must not be written, because the tensor was exported from an `input`.
    pub fn is_read_only(&self) -> bool {
        self.is_shared
    }

    fn list(&self, first: *const i64) -> &[i64] {
        match usize::try_from(self.tensor().ndim) {
            // SAFETY: a tensor has as many extents as dimensions and, if it has strides, as many strides, so the list
            // has `count` entries.
            Ok(count) if count > 0 && !first.is_null() => unsafe { std::slice::from_raw_parts(first, count) },
            _ => &[],
        }
    }

    /// Checks whether the tensor can become a data object whose elements are of this type, size and alignment, with
    /// this number of dimensions, or any. Returns its layout.
    pub(crate) fn check(
        &self,
        data_type: DlDataType,
        dimensions: Option<usize>,
        (size, align): (usize, usize),
    ) -> Result<Layout, String> {
        let DlTensor { ndim, dtype, strides, .. } = *self.tensor();
        if self.is_shared {
            return Err(
                "it was exported read-only, but a data object's tasks may write it; try to export `inout`".to_owned()
            );
        }
        if dtype != data_type {
            return Err(format!(
                "its elements are {dtype}, and the data object's are {data_type}; try another type, or convert them first"
            ));
        }
        let dimensions = dimensions.map_or(ndim, |dimensions| dimensions as i32);
        if ndim != dimensions || !(1..=MAX_DIMS as i32).contains(&ndim) {
            return Err(format!(
                "it has {ndim} dimensions, and the data object {dimensions}; try another type, or `reshape` it first"
            ));
        }
        let shape: Option<Vec<usize>> = self.shape().iter().map(|extent| usize::try_from(*extent).ok()).collect();
        let shape = shape.filter(|shape| shape.len() == ndim as usize);
        let bytes = |shape: &Vec<usize>| {
            let elements = shape.iter().try_fold(1usize, |product, extent| product.checked_mul(*extent))?;
            elements.checked_mul(size).filter(|bytes| isize::try_from(*bytes).is_ok())
        };
        let Some((shape, bytes)) = shape.and_then(|shape| bytes(&shape).map(|bytes| (shape, bytes))) else {
            return Err(format!("no array in memory can have its shape {:?}", self.shape()));
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
        let first = self.address();
        if bytes > 0 && first.is_null() {
            return Err("it has elements but no address".to_owned());
        }
        if !first.addr().is_multiple_of(align) {
            return Err(format!("its first element is not aligned to {align} bytes; try copying it"));
        }
        let last: usize = (0..MAX_DIMS).map(|d| extents[d].saturating_sub(1) * found[d]).sum();
        let span_bytes = if bytes == 0 { 0 } else { (last + 1) * size };
        let first = if bytes == 0 { ptr::without_provenance_mut(align) } else { first };
        Ok(Layout { first, extents, strides: found, shape, span_bytes })
    }
}

impl Drop for Tensor {
    fn drop(&mut self) {
        // SAFETY: we own the tensor, so nothing else has called its deleter, and it is called only here.
        unsafe {
            if let Some(deleter) = self.raw.as_ref().deleter {
                deleter(self.raw.as_ptr());
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

/// The location of a region that is lent out.
pub(crate) struct LentSite {
    pub(crate) memory: DlDevice,
    pub(crate) first: *mut u8,
    /// The number of elements from one index to the next, per dimension.
    pub(crate) strides: [usize; MAX_DIMS],
}

/// The layout of a tensor in its memory.
pub(crate) struct Layout {
    pub(crate) first: *mut u8,
    pub(super) extents: [usize; MAX_DIMS],
    pub(crate) strides: [usize; MAX_DIMS],
    pub(crate) shape: Vec<usize>,
    /// The number of bytes from the first to the end of the last element.
    pub(crate) span_bytes: usize,
}
