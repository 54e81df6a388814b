//! Copies of CUDA: one call each, which depends on the direction and on whether the bytes are contiguous.

use super::api::Cuda;
use super::library::{call, functions};
use crate::device::gpu::{ApiError, Direction, Pitched, Transfer};
use cudarc::driver::sys::{CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdeviceptr, CUmemorytype, CUstream};
use std::ptr;

impl Cuda {
    /// # Safety
    /// As for [`Api::copy`].
    pub(super) unsafe fn copy_flat(
        &self,
        stream: CUstream,
        transfer: &Transfer,
        owner: CUcontext,
    ) -> Result<(), ApiError> {
        let Transfer {
            direction,
            width_bytes,
            from: Pitched { address: from, .. },
            to: Pitched { address: to, .. },
            ..
        } = *transfer;
        let (source, target) = (from as CUdeviceptr, to as CUdeviceptr);
        // SAFETY: the caller of `copy` keeps both ends valid until the copy has ended.
        unsafe {
            match direction {
                Direction::In => call(
                    "cuMemcpyHtoDAsync",
                    (functions().cuMemcpyHtoDAsync_v2)(target, ptr::with_exposed_provenance(from), width_bytes, stream),
                ),
                Direction::Out => call(
                    "cuMemcpyDtoHAsync",
                    (functions().cuMemcpyDtoHAsync_v2)(
                        ptr::with_exposed_provenance_mut(to),
                        source,
                        width_bytes,
                        stream,
                    ),
                ),
                Direction::Across if owner == self.raw_context() => {
                    call("cuMemcpyDtoDAsync", (functions().cuMemcpyDtoDAsync_v2)(target, source, width_bytes, stream))
                }
                Direction::Across => call(
                    "cuMemcpyPeerAsync",
                    (functions().cuMemcpyPeerAsync)(target, self.raw_context(), source, owner, width_bytes, stream),
                ),
            }
        }
    }

    /// # Safety
    /// As for [`Api::copy`].
    pub(super) unsafe fn copy_box(
        &self,
        stream: CUstream,
        transfer: &Transfer,
        owner: CUcontext,
    ) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, rows, slices, from, to } = *transfer;
        let is_across = direction == Direction::Across && owner != self.raw_context();
        let memory = |is_host| match is_host {
            true => CUmemorytype::CU_MEMORYTYPE_HOST,
            false => CUmemorytype::CU_MEMORYTYPE_DEVICE,
        };
        let host = |end: &Pitched, is_host| if is_host { end.address } else { 0 };
        let device = |end: &Pitched, is_host: bool| if is_host { 0 } else { end.address as CUdeviceptr };
        let context = |context| if is_across { context } else { ptr::null_mut() };
        let (is_in, is_out) = (direction == Direction::In, direction == Direction::Out);
        let copy = CUDA_MEMCPY3D_PEER {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: memory(is_in),
            srcHost: ptr::with_exposed_provenance(host(&from, is_in)),
            srcDevice: device(&from, is_in),
            srcArray: ptr::null_mut(),
            srcContext: context(owner),
            srcPitch: from.pitch_bytes,
            srcHeight: from.height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: memory(is_out),
            dstHost: ptr::with_exposed_provenance_mut(host(&to, is_out)),
            dstDevice: device(&to, is_out),
            dstArray: ptr::null_mut(),
            dstContext: context(self.raw_context()),
            dstPitch: to.pitch_bytes,
            dstHeight: to.height,
            WidthInBytes: width_bytes,
            Height: rows,
            Depth: slices,
        };
        // `CUDA_MEMCPY3D` has the same fields, and reserves those for contexts, which must be null.
        const { assert!(size_of::<CUDA_MEMCPY3D>() == size_of::<CUDA_MEMCPY3D_PEER>()) }
        // SAFETY: the caller of `copy` keeps both ends valid until the copy has ended; the driver reads the copy
        // description before the call returns.
        unsafe {
            if is_across {
                return call("cuMemcpy3DPeerAsync", (functions().cuMemcpy3DPeerAsync)(&copy, stream));
            }
            call("cuMemcpy3DAsync", (functions().cuMemcpy3DAsync_v2)(ptr::from_ref(&copy).cast(), stream))
        }
    }
}
