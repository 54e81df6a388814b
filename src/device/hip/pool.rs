//! HIP's pools of device memory, which allocate and free in the order of a stream (ROCm 5.2 and newer).

use super::api::Hip;
use super::library::{PoolFunctions, call};
use super::types::{MEMORY_POOLS, Object, RELEASE_THRESHOLD};
use crate::device::gpu::{ApiError, PoolAccess};
use std::ptr;

impl Hip {
    fn pools(&self) -> &PoolFunctions {
        self.library.pools.as_ref().expect("pools are used only if the runtime has them")
    }

    /// Makes the device's pool keep all memory, and lets other devices reach it. Returns false if there are no pools.
    pub(super) fn keep_pool(&self, others: &[PoolAccess]) -> Result<bool, ApiError> {
        let Some(pools) = &self.library.pools else { return Ok(false) };
        if self.attribute(MEMORY_POOLS)? == 0 {
            return Ok(false);
        }
        let (mut pool, mut threshold): (Object, _) = (ptr::null_mut(), u64::MAX);
        // SAFETY: the result pointer is valid, the value of the attribute is a 64-bit number, and the list has this
        // many entries.
        unsafe {
            call("hipDeviceGetDefaultMemPool", (pools.hipDeviceGetDefaultMemPool)(&mut pool, self.number))?;
            let threshold = ptr::from_mut(&mut threshold).cast();
            call("hipMemPoolSetAttribute", (pools.hipMemPoolSetAttribute)(pool, RELEASE_THRESHOLD, threshold))?;
            if !others.is_empty() {
                call("hipMemPoolSetAccess", (pools.hipMemPoolSetAccess)(pool, others.as_ptr(), others.len()))?;
            }
        }
        Ok(true)
    }

    /// Allocates memory, and waits until every stream may use it. The stream has no other work, so this is short.
    ///
    /// # Safety
    /// The stream must exist.
    pub(super) unsafe fn allocate_from_pool(&self, stream: Object, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result pointer is valid, and the caller keeps the stream.
        unsafe {
            call("hipMallocAsync", (self.pools().hipMallocAsync)(&mut address, bytes, stream))?;
            call("hipStreamSynchronize", (self.functions().hipStreamSynchronize)(stream))?;
        }
        Ok(address.expose_provenance())
    }

    /// Frees memory that nothing uses any more.
    ///
    /// # Safety
    /// The memory must come from [`Self::allocate_from_pool`], and must be freed once. The stream must exist.
    pub(super) unsafe fn free_to_pool(&self, stream: Object, base: usize) -> Result<(), ApiError> {
        let base = ptr::with_exposed_provenance_mut(base);
        // SAFETY: the caller's promise.
        call("hipFreeAsync", unsafe { (self.pools().hipFreeAsync)(base, stream) })
    }
}
