//! CUDA's pools of device memory, which allocate and free in the order of a stream (CUDA 11.2 and newer).

use super::library::{self, PoolFunctions, call};
use crate::device::gpu::{ApiError, PoolAccess};
use cudarc::driver::sys::{CUdevice, CUdeviceptr, CUmemPool_attribute, CUstream};
use std::ptr;

fn pools() -> &'static PoolFunctions {
    library::pool_functions().expect("pools are used only if the driver has them")
}

/// Makes a device's pool keep all memory, and lets other devices reach it. Returns false if the driver has no pools.
pub(super) fn open(device: CUdevice, others: &[PoolAccess]) -> Result<bool, ApiError> {
    let Some(pools) = library::pool_functions() else { return Ok(false) };
    let (mut pool, mut threshold) = (ptr::null_mut(), u64::MAX);
    // SAFETY: the result pointer is valid, the value of the attribute is a 64-bit number, and the list has this many
    // entries.
    unsafe {
        call("cuDeviceGetDefaultMemPool", (pools.cuDeviceGetDefaultMemPool)(&mut pool, device))?;
        let attribute = CUmemPool_attribute::CU_MEMPOOL_ATTR_RELEASE_THRESHOLD;
        let threshold = ptr::from_mut(&mut threshold).cast();
        call("cuMemPoolSetAttribute", (pools.cuMemPoolSetAttribute)(pool, attribute, threshold))?;
        if !others.is_empty() {
            call("cuMemPoolSetAccess", (pools.cuMemPoolSetAccess)(pool, others.as_ptr(), others.len()))?;
        }
    }
    Ok(true)
}

/// Allocates memory, and waits until every stream may use it. The stream has no other work, so this is short.
///
/// # Safety
/// The stream must exist.
pub(super) unsafe fn allocate(stream: CUstream, bytes: usize) -> Result<usize, ApiError> {
    let mut address = 0;
    // SAFETY: the result pointer is valid, and the caller keeps the stream.
    unsafe {
        call("cuMemAllocAsync", (pools().cuMemAllocAsync)(&mut address, bytes, stream))?;
        call("cuStreamSynchronize", (library::functions().cuStreamSynchronize)(stream))?;
    }
    Ok(address as usize)
}

/// Frees memory that nothing uses any more.
///
/// # Safety
/// The memory must come from [`allocate`], and must be freed once. The stream must exist.
pub(super) unsafe fn free(stream: CUstream, base: usize) -> Result<(), ApiError> {
    // SAFETY: the caller's promise.
    call("cuMemFreeAsync", unsafe { (pools().cuMemFreeAsync)(base as CUdeviceptr, stream) })
}
