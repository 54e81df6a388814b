//! A library for Python that uses DLPack and no binding crate: tasks work on NumPy's arrays in place, and NumPy uses
//! their results in place. `roundtrip.py` is the Python side.
//!
//! Python passes the contents of its capsules: a `DLManagedTensor`, which belongs to this library from then on, even if
//! it is rejected. The library must be called through `ctypes.CDLL`, which releases Python's lock during the call,
//! because NumPy's deleter waits for this lock.
//!
//! GPU arrays such as those of CuPy are passed in the same way; `device.py` uses CUDA's own calls instead of CuPy.

#![allow(unsafe_code)] // called from another language

use std::ffi::c_char;
use std::ptr;
use thalweg::dlpack::{DlManagedTensor, Tensor};
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

/// The error that becomes a Python exception.
type Failure = Box<dyn std::error::Error>;

/// Builds a runtime with two cores and a device. Python's memory is copied to the device and back.
fn runtime() -> Result<Runtime, BuildError> {
    Runtime::builder().compute_units("2:CPU:1,1:EMU:1").build()
}

/// Multiplies each row of a matrix by its index, in place.
fn scale_rows(tensor: Tensor) -> Result<(), Failure> {
    let rt = runtime()?;
    let x: Data<f64, Ix2> = rt.from_dlpack(tensor)?;
    rt.for_each("scale", (0.., x.rows(1).inout())).cpu(|_, (row, mut x)| x *= row as f64).submit()?;
    rt.fetch(&x.all(), SpaceId::HOST)?;
    rt.wait()?;
    Ok(()) // the array goes back to NumPy with `x`
}

/// Returns the sums of the rows of a matrix, as a new array.
fn row_sums(tensor: Tensor) -> Result<Tensor, Failure> {
    let rt = runtime()?;
    let x: Data<f64, Ix2> = rt.from_dlpack(tensor)?;
    let rows = x.rows(1).len();
    let sums: Data<f64> = rt.zeros(rows);
    rt.for_each("sum", (x.rows(1).input(), sums.blocks(1).output())).cpu(|_, (x, sum)| sum[0] = x.sum()).submit()?;
    Ok(Tensor::of(ndarray::Array1::from(rt.take(sums)?)))
}

const TEXT: &str = "
    KERNEL(256, 1, 1) twice(IN(double, x, n), INOUT(double, y, n), int n)
    {
        REGION(x); REGION(y);
        int i = GLOBAL_ID(0);
        if (i < n) y[i] = 2.0 * x[i];
    }";
// SAFETY: the kernel touches the first n elements of x and y, as its signature declares.
const PROGRAM: Program = unsafe { Program::new("twice.cl", TEXT) };
static TWICE: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "twice");

/// Doubles a vector that is on the first GPU. Returns a new array on the same GPU, which outlives the runtime.
fn twice_on_gpu(tensor: Tensor) -> Result<Tensor, Failure> {
    let rt = Runtime::builder().compute_units("1:GPU:1").build()?;
    let x: Data<f64> = rt.from_dlpack(tensor)?;
    let y = rt.zeros_in::<f64, _>(MemoryKind::DeviceOnly, [x.len()]);
    rt.task("twice", (x.input(), y.output()))
        .gpu(|k, (x, mut y)| k.launch(&TWICE, x.len(), (&x, &mut y, x.len() as i32)))
        .submit()?;
    let device = rt.machine().spaces().nth(1).ok_or("there is no device")?;
    Ok(rt.to_dlpack(y.inout(), device)?)
}

/// Writes the error of a failed call as a C string.
///
/// # Safety
/// `words` must have room for `len` bytes.
unsafe fn say(failure: &Failure, words: *mut c_char, len: usize) {
    let text = failure.to_string();
    let count = text.len().min(len.saturating_sub(1));
    if len > 0 {
        // SAFETY: at most `len` bytes are written, and by the contract above there is room for `len` bytes.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), words.cast(), count);
            words.add(count).write(0);
        }
    }
}

/// Applies `make` to a tensor and returns the result. Returns null on failure, with the reason in `words`.
///
/// # Safety
/// The same as for [`thalweg_scale_rows`].
unsafe fn new_tensor(
    make: fn(Tensor) -> Result<Tensor, Failure>,
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: the caller guarantees that the tensor is valid, exclusive and owned by this call.
    match make(unsafe { Tensor::from_raw(tensor) }) {
        Ok(made) => made.into_raw(),
        Err(failure) => {
            // SAFETY: the caller guarantees room for `len` bytes at `words`.
            unsafe { say(&failure, words, len) };
            ptr::null_mut()
        }
    }
}

/// Multiplies each row of a matrix of doubles by its index. Returns 0, or 1 on failure, with the reason in `words`.
///
/// # Safety
/// `tensor` must be a valid `DLManagedTensor` that nothing else frees, of memory that nothing else touches during
/// the call; `words` must have room for `len` bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_scale_rows(tensor: *mut DlManagedTensor, words: *mut c_char, len: usize) -> i32 {
    // SAFETY: the caller guarantees that the tensor is valid, exclusive and owned by this call.
    match scale_rows(unsafe { Tensor::from_raw(tensor) }) {
        Ok(()) => 0,
        Err(failure) => {
            // SAFETY: the caller guarantees room for `len` bytes at `words`.
            unsafe { say(&failure, words, len) };
            1
        }
    }
}

/// Returns the sums of the rows of a matrix of doubles, owned by the caller; null on failure, with the reason in
/// `words`.
///
/// # Safety
/// The same as for [`thalweg_scale_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_row_sums(
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: this function has the same contract as `new_tensor`.
    unsafe { new_tensor(row_sums, tensor, words, len) }
}

/// Returns twice a vector of doubles that is on the first GPU, as an array there that the caller owns; null on
/// failure, with the reason in `words`.
///
/// # Safety
/// The same as for [`thalweg_scale_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_twice_on_gpu(
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: this function has the same contract as `new_tensor`.
    unsafe { new_tensor(twice_on_gpu, tensor, words, len) }
}
