//! Data objects.

use crate::borrow::Returned;
use crate::handles::{Table, get, insert, table, take};
use crate::runtime::{Handled, runtime, tw_runtime};
use crate::status::{Problem, call, put, text, tw_status};
use crate::view::TW_MAX_DIMS;
use std::ffi::{c_char, c_void};
use std::ptr;
use std::sync::Arc;
use thalweg::dynamic::{AnyData, AnyRegion, Dtype};

/// Returns the type with this number. C passes any number as an enumeration, so it arrives as one.
pub(crate) fn dtype(call: &str, number: u32) -> Result<Dtype, Problem> {
    use Dtype::{C64, C128, F32, F64, I8, I16, I32, I64, U8, U16, U32, U64};
    let known = [I8, I16, I32, I64, U8, U16, U32, U64, F32, F64, C64, C128];
    let unknown = || Problem::invalid(call, &format!("there is no element type {number}; try `TW_FLOAT64`"));
    known.into_iter().find(|known| crate::view::number(*known) == number).ok_or_else(unknown)
}

/// A data object.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub struct tw_data {
    /// The handle's number; 0 is no data object.
    pub id: u64,
}

/// A registered data object.
pub(crate) struct Registered {
    pub(crate) data: AnyData,
    pub(crate) rt: Arc<Handled>,
    /// Set once the runtime has given borrowed memory back.
    pub(crate) returned: Option<Arc<Returned>>,
}

pub(crate) static DATA: Table<Registered> = table();

/// Returns the shape at `shape`.
///
/// # Safety
/// `shape` is null or points to `ndim` numbers.
pub(crate) unsafe fn shape_at(call: &str, ndim: usize, shape: *const usize) -> Result<Vec<usize>, Problem> {
    if !(1..=TW_MAX_DIMS).contains(&ndim) {
        return Err(Problem::invalid(call, &format!("there are {ndim} dimensions; try 1 to {TW_MAX_DIMS}")));
    }
    if shape.is_null() {
        return Err(Problem::invalid(call, "its shape is null; try an array of extents"));
    }
    // SAFETY: there are `ndim` extents, by this function's contract.
    Ok(unsafe { std::slice::from_raw_parts(shape, ndim) }.to_vec())
}

/// Makes a data object of zeros with `ndim` dimensions. `type` is a `tw_dtype`.
///
/// # Safety
/// `shape` points to `ndim` numbers, and `data` to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_zeros(
    rt: tw_runtime,
    r#type: u32,
    ndim: usize,
    shape: *const usize,
    data: *mut tw_data,
) -> tw_status {
    const CALL: &str = "tw_data_zeros";
    // SAFETY: the contract of this function is that of the parts.
    call(|| unsafe {
        let dtype = dtype(CALL, r#type)?;
        zeros(CALL, rt, dtype, &shape_at(CALL, ndim, shape)?, data)
    })
}

/// Makes a data object of zeroed elements of `size` bytes, such as structures, which are aligned to the largest power
/// of two that divides `size`, up to 16.
///
/// # Safety
/// `shape` points to `ndim` numbers, and `data` to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_zeros_of_size(
    rt: tw_runtime,
    size: usize,
    ndim: usize,
    shape: *const usize,
    data: *mut tw_data,
) -> tw_status {
    const CALL: &str = "tw_data_zeros_of_size";
    // SAFETY: the contract of this function is that of the parts.
    call(|| unsafe { zeros(CALL, rt, Dtype::Bytes(size), &shape_at(CALL, ndim, shape)?, data) })
}

/// # Safety
/// `data` points to a variable.
unsafe fn zeros(call: &str, rt: tw_runtime, dtype: Dtype, shape: &[usize], data: *mut tw_data) -> Result<(), Problem> {
    let rt = runtime(call, rt)?;
    let made = AnyData::zeros(&rt, dtype, shape)?;
    let id = insert(call, &DATA, Registered { data: made, rt, returned: None })?;
    // SAFETY: `data` points to a variable, by this function's contract.
    unsafe { put(call, data, tw_data { id }) }
}

/// Returns the number of bytes of all elements.
///
/// # Safety
/// `bytes` points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_bytes(data: tw_data, bytes: *mut usize) -> tw_status {
    const CALL: &str = "tw_data_bytes";
    call(|| {
        let size = get(CALL, "data object", &DATA, data.id)?.data.all().bytes();
        // SAFETY: `bytes` points to a variable, by this function's contract.
        unsafe { put(CALL, bytes, size) }
    })
}

/// Names a data object in error messages. The first call wins.
///
/// # Safety
/// `name` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_set_name(data: tw_data, name: *const c_char) -> tw_status {
    const CALL: &str = "tw_data_set_name";
    call(|| {
        // SAFETY: the text ends with a zero byte, by this function's contract.
        let name = unsafe { text(CALL, "name", name) }?;
        let data = get(CALL, "data object", &DATA, data.id)?.data.clone();
        drop(data.named(name.unwrap_or_default()));
        Ok(())
    })
}

/// Releases a data object. Memory that was borrowed contains the current value and belongs to the caller again once the
/// call returns, which waits for the tasks that use it; other memory is freed after these tasks. Bodies that submit
/// children by the handle must be done before the handle of memory that is not borrowed is released.
///
/// Returns `TW_FAILED` if a task that should have written the value has failed. The object is released even then, but
/// not if the call is refused, as in the body of a task that uses borrowed memory.
#[unsafe(no_mangle)]
pub extern "C" fn tw_data_release(data: tw_data) -> tw_status {
    const CALL: &str = "tw_data_release";
    call(|| {
        let (all, rt, is_borrowed) = {
            let found = get(CALL, "data object", &DATA, data.id)?;
            (found.data.all(), found.rt.clone(), found.returned.is_some())
        };
        let mut done = Ok(());
        if is_borrowed {
            // A task that comes after all others of the data object brings its value home. Until then, running bodies
            // may submit children by the handle.
            let last = rt.task("release", (all.inout(),)).host(|_, _| ()).submit_handle()?;
            done = last.wait().map_err(Problem::from);
            if let Err(Problem::Refused(_)) = done {
                return done; // memory that tasks may still use is not given back
            }
        }
        let Registered { data, returned, .. } = take(CALL, "data object", &DATA, data.id)?;
        drop(data);
        if let Some(returned) = returned {
            returned.wait();
        }
        done
    })
}

/// Returns a region of a data object, and its runtime.
///
/// # Safety
/// `lo` and `hi` are null or point to as many numbers as the data object has dimensions.
unsafe fn region(
    call: &str,
    data: tw_data,
    lo: *const usize,
    hi: *const usize,
) -> Result<(AnyRegion, Arc<Handled>), Problem> {
    let (data, rt) = {
        let found = get(call, "data object", &DATA, data.id)?;
        (found.data.clone(), found.rt.clone())
    };
    if lo.is_null() != hi.is_null() {
        return Err(Problem::invalid(call, "one of `lo` and `hi` is null; try both or none"));
    }
    let (shape, mut ranges) = (data.shape(), Vec::new());
    if !lo.is_null() {
        // SAFETY: there is a number for each dimension, by this function's contract.
        ranges = (0..shape.len()).map(|d| unsafe { *lo.add(d)..*hi.add(d) }).collect();
    }
    if ranges.iter().zip(shape).any(|(range, extent)| range.start > range.end || range.end > extent) {
        return Err(Problem::invalid(call, &format!("its region {ranges:?} is not in {data:?}; try one that is")));
    }
    Ok((data.block(&ranges), rt))
}

/// Waits for the value of a region, and copies its elements in row-major order to `elements`. The region is the box
/// from `lo` to `hi` - 1 in each dimension, or everything if both are null.
///
/// # Safety
/// `elements` points to `bytes` bytes. `lo` and `hi` are null or point to as many numbers as the data object has
/// dimensions.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_read(
    data: tw_data,
    lo: *const usize,
    hi: *const usize,
    elements: *mut c_void,
    bytes: usize,
) -> tw_status {
    const CALL: &str = "tw_data_read";
    call(|| {
        // SAFETY: the corners have as many numbers as dimensions, by this function's contract.
        let (region, rt) = unsafe { region(CALL, data, lo, hi) }?;
        if region.bytes() != bytes || elements.is_null() {
            let problem = format!("it has room for {bytes} bytes, and the region has {}; try as many", region.bytes());
            return Err(Problem::invalid(CALL, &problem));
        }
        let found = region.read(&rt)?;
        // SAFETY: there is room for as many bytes, as was checked.
        unsafe { ptr::copy_nonoverlapping(found.as_ptr(), elements.cast(), bytes) };
        Ok(())
    })
}

/// Submits a task that overwrites a region with these elements, in row-major order. They are copied during the call.
///
/// # Safety
/// As for `tw_data_read`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_write(
    data: tw_data,
    lo: *const usize,
    hi: *const usize,
    elements: *const c_void,
    bytes: usize,
) -> tw_status {
    const CALL: &str = "tw_data_write";
    call(|| {
        // SAFETY: the corners have as many numbers as dimensions, by this function's contract.
        let (region, rt) = unsafe { region(CALL, data, lo, hi) }?;
        if elements.is_null() {
            return Err(Problem::invalid(CALL, "its elements are null; try an array"));
        }
        // SAFETY: `elements` has this number of bytes, by this function's contract.
        let elements = unsafe { std::slice::from_raw_parts(elements.cast::<u8>(), bytes) }.to_vec();
        region.write(&rt, elements).map_err(Problem::from)
    })
}
