//! Arrays like those of CuPy, as DLPack tensors.

use super::{Locked, bind, call, enqueue, is_cuda, named, synchronizing};
use crate::raw::function;
use std::ffi::c_void;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use thalweg::dlpack::{DlDevice, DlElement, DlManagedTensor, DlTensor, Tensor};

/// An array like those of CuPy: it is on a device, and the work on the default stream that writes it may still be in
/// progress.
struct Foreign {
    managed: DlManagedTensor,
    address: usize,
    device: i32,
    written: Option<Locked>,
    shape: Vec<i64>,
    strides: Vec<i64>,
    freed: Arc<AtomicUsize>,
}

unsafe extern "C" fn free(managed: *mut DlManagedTensor) {
    // SAFETY: `managed` was created by `foreign` from a `Box`, and the deleter is called only once.
    let mut array = unsafe { Box::from_raw((*managed).manager_ctx.cast::<Foreign>()) };
    array.freed.fetch_add(1, Ordering::SeqCst);
    if array.address != 0 {
        bind(array.device);
        // SAFETY: the type is the one in the manuals of both interfaces. If the device is lost, nothing is in flight
        // either.
        let wait: extern "C" fn(usize) -> i32 = unsafe { std::mem::transmute(function(synchronizing())) };
        wait(0);
        call!(named("cuMemFree_v2", "hipFree"), array.address);
        array.written.take().into_iter().for_each(Locked::free);
    }
}

pub fn dlpack(device: i32) -> DlDevice {
    DlDevice { device_type: if is_cuda() { 2 } else { 10 }, device_id: device }
}

/// Returns a tensor for some of these elements on a device, and a counter of how often the tensor was freed.
pub fn foreign(
    device: i32,
    elements: &[u64],
    shape: &[usize],
    strides: &[usize],
    change: impl FnOnce(&mut DlTensor),
) -> (Tensor, Arc<AtomicUsize>) {
    let (mut address, mut written) = (0usize, None);
    if !elements.is_empty() {
        bind(device);
        call!(named("cuMemAlloc_v2", "hipMalloc"), ptr::from_mut(&mut address).addr(), 8 * elements.len());
        let locked = Locked::new(elements);
        enqueue(address, locked.0.expose_provenance(), 8 * elements.len(), true);
        written = Some(locked);
    }
    let list = |list: &[usize]| list.iter().map(|n| *n as i64).collect::<Vec<_>>();
    let freed = Arc::new(AtomicUsize::new(0));
    let tensor = DlTensor {
        data: ptr::with_exposed_provenance_mut(address),
        device: dlpack(device),
        ndim: shape.len() as i32,
        dtype: u64::DATA_TYPE,
        shape: ptr::null_mut(),
        strides: ptr::null_mut(),
        byte_offset: 0,
    };
    let managed = DlManagedTensor { dl_tensor: tensor, manager_ctx: ptr::null_mut(), deleter: Some(free) };
    let (shape, strides) = (list(shape), list(strides));
    let array =
        Box::into_raw(Box::new(Foreign { managed, address, device, written, shape, strides, freed: freed.clone() }));
    // SAFETY: the box was just turned into a raw pointer, so its contents stay at the same address until the deleter
    // runs.
    unsafe {
        let managed = &mut (*array).managed;
        managed.manager_ctx = array.cast::<c_void>();
        managed.dl_tensor.shape = (*array).shape.as_mut_ptr();
        managed.dl_tensor.strides = (*array).strides.as_mut_ptr();
        change(&mut managed.dl_tensor);
        (Tensor::from_raw(managed), freed)
    }
}

pub fn vector(elements: &[u64]) -> (Tensor, Arc<AtomicUsize>) {
    foreign(0, elements, &[elements.len()], &[1], |_| ())
}

/// Returns the address of a tensor.
pub fn address(tensor: Tensor) -> (Tensor, usize) {
    let raw = tensor.into_raw();
    // SAFETY: the tensor was just turned into `raw`, which is valid and used only here to restore it.
    unsafe { (Tensor::from_raw(raw), (*raw).dl_tensor.data.addr()) }
}
