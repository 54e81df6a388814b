//! Data objects of the caller's memory.
//!
//! Invariant: the memory belongs to the caller again once [`Returned`] is set, which the tensor's deleter does when
//! nothing in the library uses the memory any more.

use crate::data::{DATA, Registered, dtype, shape_at, tw_data};
use crate::handles::insert;
use crate::runtime::{runtime, tw_runtime};
use crate::status::{Problem, call, put, tw_status};
use std::ffi::c_void;
use std::ptr;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use thalweg::dlpack::{DlDevice, DlManagedTensor, DlTensor, Tensor};
use thalweg::dynamic::{AnyData, Dtype};

/// Whether the runtime has given the memory back.
#[derive(Default)]
pub(crate) struct Returned(Mutex<bool>, Condvar);

impl Returned {
    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let mut is_returned = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        while !*is_returned {
            is_returned = self.1.wait(is_returned).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

/// The structure that a tensor of borrowed memory points to.
struct Lent {
    managed: DlManagedTensor,
    shape: Vec<i64>,
    strides: Vec<i64>,
    returned: Arc<Returned>,
}

unsafe extern "C" fn give_back(managed: *mut DlManagedTensor) {
    // SAFETY: `tw_data_borrow` leaked a box of this type into the context, and a deleter is called once.
    let lent = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Lent>()) };
    lent.returned.set();
}

/// Makes a data object of the caller's memory, in place. `strides` are in elements, one per dimension; they may
/// be null if there are no gaps. Until [`tw_data_release`] has returned, only tasks may touch the elements.
///
/// # Safety
/// `elements` points to elements of this type at these strides, which stay valid until `tw_data_release` has returned.
/// `shape` points to `ndim` numbers, `strides` is null or points to `ndim` numbers, and `data` points to a variable.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_borrow(
    rt: tw_runtime,
    elements: *mut c_void,
    r#type: u32,
    ndim: usize,
    shape: *const usize,
    strides: *const usize,
    data: *mut tw_data,
) -> tw_status {
    const CALL: &str = "tw_data_borrow";
    // SAFETY: the contracts are the same.
    call(|| unsafe { borrow(CALL, rt, elements, dtype(CALL, r#type)?, (ndim, shape, strides), data) })
}

/// Makes a data object of the caller's memory, as [`tw_data_borrow`], of elements of `size` bytes, such as structures.
/// They are aligned to the largest power of two that divides `size`, up to 16.
///
/// # Safety
/// As for [`tw_data_borrow`].
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_data_borrow_of_size(
    rt: tw_runtime,
    elements: *mut c_void,
    size: usize,
    ndim: usize,
    shape: *const usize,
    strides: *const usize,
    data: *mut tw_data,
) -> tw_status {
    const CALL: &str = "tw_data_borrow_of_size";
    let dtype = if size == 1 { Dtype::U8 } else { Dtype::Bytes(size) };
    // SAFETY: the contracts are the same.
    call(|| unsafe { borrow(CALL, rt, elements, dtype, (ndim, shape, strides), data) })
}

/// # Safety
/// As for [`tw_data_borrow`].
unsafe fn borrow(
    call: &str,
    rt: tw_runtime,
    elements: *mut c_void,
    dtype: Dtype,
    (ndim, shape, strides): (usize, *const usize, *const usize),
    data: *mut tw_data,
) -> Result<(), Problem> {
    let rt = runtime(call, rt)?;
    let Some(dtype) = dtype.data_type() else {
        return Err(Problem::invalid(call, "its elements have no size from 1 to 65535; try another size"));
    };
    // SAFETY: there are `ndim` extents, and strides if any, by this function's contract.
    let shape = unsafe { shape_at(call, ndim, shape) }?;
    // SAFETY: as above.
    let strides = if strides.is_null() { None } else { Some(unsafe { shape_at(call, ndim, strides) }?) };
    let list = |list: Vec<usize>| list.into_iter().map(|n| n as i64).collect::<Vec<_>>();
    let returned = Arc::new(Returned::default());
    let mut lent = Box::new(Lent {
        managed: DlManagedTensor {
            dl_tensor: DlTensor {
                data: elements,
                device: DlDevice { device_type: 1, device_id: 0 },
                ndim: ndim as i32,
                dtype,
                shape: ptr::null_mut(),
                strides: ptr::null_mut(),
                byte_offset: 0,
            },
            manager_ctx: ptr::null_mut(),
            deleter: Some(give_back),
        },
        shape: list(shape),
        strides: list(strides.clone().unwrap_or_default()),
        returned: returned.clone(),
    });
    lent.managed.dl_tensor.shape = lent.shape.as_mut_ptr();
    if strides.is_some() {
        lent.managed.dl_tensor.strides = lent.strides.as_mut_ptr();
    }
    let lent = Box::into_raw(lent);
    // SAFETY: the box was just leaked, so it stays in place until `give_back`. The caller's memory is as described,
    // and only tasks touch it until the data object is released.
    let tensor = unsafe {
        (*lent).managed.manager_ctx = lent.cast();
        Tensor::from_raw(&raw mut (*lent).managed)
    };
    let made = AnyData::from_dlpack(&rt, tensor)?;
    let id = insert(call, &DATA, Registered { data: made, rt, returned: Some(returned) })?;
    // SAFETY: `data` points to a variable, by this function's contract.
    unsafe { put(call, data, tw_data { id }) }
}
