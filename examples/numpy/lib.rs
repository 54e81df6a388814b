//! Tasks on NumPy's arrays, where they lie, and results that NumPy uses where they lie: a library for Python, by DLPack and
//! without a crate of bindings. `roundtrip.py` is its other side.
//!
//! Python hands over what its capsules hold: a `DLManagedTensor`, which belongs to this library from then on, also if it is
//! refused. Call it by `ctypes.CDLL`, which lets other threads of Python run meanwhile: NumPy's deleter waits for its lock.
//!
//! Arrays of GPUs, such as CuPy's, come and go in the same way; `device.py` plays CuPy's part with CUDA's own calls.

#![allow(unsafe_code)] // called from another language

use std::ffi::c_char;
use std::ptr;
use thalweg::dlpack::{DlManagedTensor, Tensor};
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

/// What went wrong, for Python's exception.
type Failure = Box<dyn std::error::Error>;

/// Some cores, and a device: what Python's memory is copied to and from.
fn runtime() -> Result<Runtime, BuildError> {
    Runtime::builder().compute_units("2:CPU:1,1:EMU:1").build()
}

/// Multiplies each row of a matrix by its number, where it lies.
fn scale_rows(tensor: Tensor) -> Result<(), Failure> {
    let rt = runtime()?;
    let x: Data<f64, Ix2> = rt.from_dlpack(tensor)?;
    rt.for_each("scale", (0.., x.rows(1).inout())).cpu(|_, (row, mut x)| x *= row as f64).submit()?;
    rt.fetch(&x.all(), SpaceId::HOST)?;
    rt.wait()?;
    Ok(()) // the array goes back to NumPy with `x`
}

/// The sums of the rows of a matrix, as an array of our own.
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
// SAFETY: the kernel touches the first n elements of x and y, as its head says.
const PROGRAM: Program = unsafe { Program::new("twice.cl", TEXT) };
static TWICE: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "twice");

/// Twice a vector that lies on the first GPU, in an array of our own there. It stays when the runtime has ended.
fn twice_on_gpu(tensor: Tensor) -> Result<Tensor, Failure> {
    let rt = Runtime::builder().compute_units("1:GPU:1").build()?;
    let x: Data<f64> = rt.from_dlpack(tensor)?;
    let y = rt.device_only::<f64, _>([x.len()]);
    rt.task("twice", (x.input(), y.output()))
        .gpu(|k, (x, mut y)| k.launch(&TWICE, x.len(), (&x, &mut y, x.len() as i32)))
        .submit()?;
    let device = rt.machine().spaces().nth(1).ok_or("there is no device")?;
    Ok(rt.to_dlpack_mut(&y, device)?)
}

/// Writes why a call has failed, as C has its texts.
///
/// # Safety
/// There is room for `len` bytes at `words`.
unsafe fn say(failure: &Failure, words: *mut c_char, len: usize) {
    let text = failure.to_string();
    let count = text.len().min(len.saturating_sub(1));
    if len > 0 {
        // SAFETY: at most `len` bytes are written, and the caller has room for these.
        unsafe {
            ptr::copy_nonoverlapping(text.as_ptr(), words.cast(), count);
            words.add(count).write(0);
        }
    }
}

/// What `make` makes of a tensor, or null, and why in `words`.
///
/// # Safety
/// As for [`thalweg_scale_rows`].
unsafe fn new_tensor(
    make: fn(Tensor) -> Result<Tensor, Failure>,
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: the caller's promise.
    match make(unsafe { Tensor::from_raw(tensor) }) {
        Ok(made) => made.into_raw(),
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { say(&failure, words, len) };
            ptr::null_mut()
        }
    }
}

/// Multiplies each row of a matrix of doubles by its number; 0 if that went well, else why it did not is in `words`.
///
/// # Safety
/// `tensor` is a valid `DLManagedTensor` that nobody else frees, of memory that nobody touches during the call; there is room
/// for `len` bytes at `words`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_scale_rows(tensor: *mut DlManagedTensor, words: *mut c_char, len: usize) -> i32 {
    // SAFETY: the caller's promise.
    match scale_rows(unsafe { Tensor::from_raw(tensor) }) {
        Ok(()) => 0,
        Err(failure) => {
            // SAFETY: the caller's promise.
            unsafe { say(&failure, words, len) };
            1
        }
    }
}

/// The sums of the rows of a matrix of doubles, which belong to the caller; null if that failed, and why is in `words`.
///
/// # Safety
/// As for [`thalweg_scale_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_row_sums(
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: the caller's promise.
    unsafe { new_tensor(row_sums, tensor, words, len) }
}

/// Twice a vector of doubles that lies on the first GPU, as an array there that belongs to the caller; null if that failed, and
/// why is in `words`.
///
/// # Safety
/// As for [`thalweg_scale_rows`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn thalweg_twice_on_gpu(
    tensor: *mut DlManagedTensor,
    words: *mut c_char,
    len: usize,
) -> *mut DlManagedTensor {
    // SAFETY: the caller's promise.
    unsafe { new_tensor(twice_on_gpu, tensor, words, len) }
}
