//! One CUDA device behind the calls that [`Api`] asks for.

use super::library::{self, call};
use crate::device::gpu::{Api, ApiError, Direction, Handle, Pitched, Transfer};
use cudarc::driver::sys::{
    self, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute,
};
use std::ffi::{CStr, c_int, c_void};
use std::ptr;

// Driver API manual: CU_STREAM_NON_BLOCKING, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING, CU_MEMHOSTREGISTER_PORTABLE,
// which CU_MEMHOSTALLOC_PORTABLE equals.
const NON_BLOCKING: u32 = 1;
const BLOCKING_SYNC_WITHOUT_TIMING: u32 = 1 | 2;
const PORTABLE: u32 = 1;

/// One device, in its primary context.
pub(in crate::device) struct Cuda {
    device: CUdevice,
    context: Handle,
}

impl Cuda {
    fn context(&self) -> CUcontext {
        self.context.0.cast()
    }

    /// # Safety
    /// As for [`Api::copy`].
    unsafe fn copy_flat(&self, stream: sys::CUstream, transfer: &Transfer, owner: CUcontext) -> Result<(), ApiError> {
        let Transfer {
            direction,
            width_bytes,
            from: Pitched { address: from, .. },
            to: Pitched { address: to, .. },
            ..
        } = *transfer;
        let (source, target) = (from as CUdeviceptr, to as CUdeviceptr);
        // SAFETY: `copy` has both ends valid until the copy has ended.
        unsafe {
            match direction {
                Direction::In => call(
                    "cuMemcpyHtoDAsync",
                    sys::cuMemcpyHtoDAsync_v2(target, ptr::with_exposed_provenance(from), width_bytes, stream),
                ),
                Direction::Out => call(
                    "cuMemcpyDtoHAsync",
                    sys::cuMemcpyDtoHAsync_v2(ptr::with_exposed_provenance_mut(to), source, width_bytes, stream),
                ),
                Direction::Across if owner == self.context() => {
                    call("cuMemcpyDtoDAsync", sys::cuMemcpyDtoDAsync_v2(target, source, width_bytes, stream))
                }
                Direction::Across => call(
                    "cuMemcpyPeerAsync",
                    sys::cuMemcpyPeerAsync(target, self.context(), source, owner, width_bytes, stream),
                ),
            }
        }
    }

    /// # Safety
    /// As for [`Api::copy`].
    unsafe fn copy_box(&self, stream: sys::CUstream, transfer: &Transfer, owner: CUcontext) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, rows, slices, from, to } = *transfer;
        let memory =
            |is_host| if is_host { CUmemorytype::CU_MEMORYTYPE_HOST } else { CUmemorytype::CU_MEMORYTYPE_DEVICE };
        let (from_host, to_host) = (direction == Direction::In, direction == Direction::Out);
        let source_host = if from_host { ptr::with_exposed_provenance(from.address) } else { ptr::null::<c_void>() };
        let target_host =
            if to_host { ptr::with_exposed_provenance_mut(to.address) } else { ptr::null_mut::<c_void>() };
        let source_device = if from_host { 0 } else { from.address as CUdeviceptr };
        let target_device = if to_host { 0 } else { to.address as CUdeviceptr };
        if direction == Direction::Across && owner != self.context() {
            let copy = CUDA_MEMCPY3D_PEER {
                srcXInBytes: 0,
                srcY: 0,
                srcZ: 0,
                srcLOD: 0,
                srcMemoryType: memory(false),
                srcHost: ptr::null(),
                srcDevice: source_device,
                srcArray: ptr::null_mut(),
                srcContext: owner,
                srcPitch: from.pitch_bytes,
                srcHeight: from.height,
                dstXInBytes: 0,
                dstY: 0,
                dstZ: 0,
                dstLOD: 0,
                dstMemoryType: memory(false),
                dstHost: ptr::null_mut(),
                dstDevice: target_device,
                dstArray: ptr::null_mut(),
                dstContext: self.context(),
                dstPitch: to.pitch_bytes,
                dstHeight: to.height,
                WidthInBytes: width_bytes,
                Height: rows,
                Depth: slices,
            };
            // SAFETY: `copy` has both ends valid until the copy has ended; the description is read before the call
            // returns.
            return call("cuMemcpy3DPeerAsync", unsafe { sys::cuMemcpy3DPeerAsync(&copy, stream) });
        }
        let copy = CUDA_MEMCPY3D {
            srcXInBytes: 0,
            srcY: 0,
            srcZ: 0,
            srcLOD: 0,
            srcMemoryType: memory(from_host),
            srcHost: source_host,
            srcDevice: source_device,
            srcArray: ptr::null_mut(),
            reserved0: ptr::null_mut(),
            srcPitch: from.pitch_bytes,
            srcHeight: from.height,
            dstXInBytes: 0,
            dstY: 0,
            dstZ: 0,
            dstLOD: 0,
            dstMemoryType: memory(to_host),
            dstHost: target_host,
            dstDevice: target_device,
            dstArray: ptr::null_mut(),
            reserved1: ptr::null_mut(),
            dstPitch: to.pitch_bytes,
            dstHeight: to.height,
            WidthInBytes: width_bytes,
            Height: rows,
            Depth: slices,
        };
        // SAFETY: `copy` has both ends valid until the copy has ended; the description is read before the call returns.
        call("cuMemcpy3DAsync", unsafe { sys::cuMemcpy3DAsync_v2(&copy, stream) })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: retained once, when the device was opened; all that was in the context is gone.
        let released = call("cuDevicePrimaryCtxRelease", unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) });
        if let Err(ApiError { code, .. }) = released {
            tracing::debug!("cuDevicePrimaryCtxRelease: {}", library::describe(code));
        }
    }
}

impl Api for Cuda {
    const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
    const MOST_THREADS: u64 = u64::MAX;

    fn open(number: c_int) -> Result<Self, ApiError> {
        let device = library::device(number)?;
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the device exists; the result has a place.
        call("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, device) })?;
        Ok(Self { device, context: Handle(context.cast()) })
    }

    fn domain(&self) -> usize {
        0 // any two devices copy; without a direct way, through the host
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the context is retained.
        call("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context()) })
    }

    fn free_bytes(&self) -> Result<u64, ApiError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results have places.
        call("cuMemGetInfo", unsafe { sys::cuMemGetInfo_v2(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = 0;
        // SAFETY: the result has a place.
        call("cuMemAlloc", unsafe { sys::cuMemAlloc_v2(&mut address, bytes) })?;
        Ok(address as usize)
    }

    unsafe fn free(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate`; the recycler has blocks that nobody uses, and frees each once.
        call("cuMemFree", unsafe { sys::cuMemFree_v2(base as CUdeviceptr) })
    }

    fn allocate_host(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result has a place.
        call("cuMemHostAlloc", unsafe { sys::cuMemHostAlloc(&mut address, bytes, PORTABLE) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free_host(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the address comes from `allocate_host`; the recycler has blocks that nobody uses, and frees each once.
        call("cuMemFreeHost", unsafe { sys::cuMemFreeHost(ptr::with_exposed_provenance_mut(base)) })
    }

    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the memory stays valid until its `PageLock` is dropped: the runtime drops that before the array.
        call("cuMemHostRegister", unsafe { sys::cuMemHostRegister_v2(first.cast(), bytes, PORTABLE) })
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: `page_lock` has locked it, and its `PageLock` unlocks it once.
        call("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result has a place.
        call("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, NON_BLOCKING) })?;
        Ok(Handle(stream.cast()))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: its `Stream`, the one owner, destroys it once.
        call("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream.0.cast()) })
    }

    fn create_event(&self) -> Result<Handle, ApiError> {
        let mut event = ptr::null_mut();
        // SAFETY: the result has a place.
        call("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, BLOCKING_SYNC_WITHOUT_TIMING) })?;
        Ok(Handle(event.cast()))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the device destroys each event once, when no `Event` has it.
        call("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event.0.cast()) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: their `Stream` and `Event` keep both alive.
        call("cuEventRecord", unsafe { sys::cuEventRecord(event.0.cast(), stream.0.cast()) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: their `Stream` and `Event` keep both alive.
        call("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream.0.cast(), event.0.cast(), 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: its `Event` keeps it alive.
        call("cuEventQuery", unsafe { sys::cuEventQuery(event.0.cast()) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: its `Event` keeps it alive.
        call("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event.0.cast()) })
    }

    fn id(&self) -> usize {
        self.context.0.addr()
    }

    unsafe fn owner(&self, address: usize) -> Result<usize, ApiError> {
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: this attribute is a context, which has a place.
        call("cuPointerGetAttribute", unsafe {
            sys::cuPointerGetAttribute(
                ptr::from_mut(&mut context).cast(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
                address as CUdeviceptr,
            )
        })?;
        Ok(context.expose_provenance())
    }

    unsafe fn enable_peer(&self, peer: usize) -> Result<(), ApiError> {
        let peer = ptr::with_exposed_provenance_mut(peer);
        // SAFETY: the context has memory that is being copied, so it is alive. It refuses where the hardware can't.
        call("cuCtxEnablePeerAccess", unsafe { sys::cuCtxEnablePeerAccess(peer, 0) })
    }

    unsafe fn copy(&self, stream: Handle, transfer: &Transfer, owner: usize) -> Result<(), ApiError> {
        let owner = ptr::with_exposed_provenance_mut(owner);
        // SAFETY: the engine pins both replicas until the copy has ended, and nobody writes them meanwhile.
        unsafe {
            if transfer.is_flat() {
                self.copy_flat(stream.0.cast(), transfer, owner)
            } else {
                self.copy_box(stream.0.cast(), transfer, owner)
            }
        }
    }

    fn load_module(&self, image: &[u8]) -> Result<Handle, ApiError> {
        let mut module = ptr::null_mut();
        // SAFETY: code that says its own length, or text with a zero at its end; the result has a place.
        call("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle(module.cast()))
    }

    unsafe fn unload_module(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: its `Module`, the one owner, unloads it once, when none of its kernels is in flight.
        call("cuModuleUnload", unsafe { sys::cuModuleUnload(module.0.cast()) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: its `Module` keeps the module loaded; the name ends with a zero, the result has a place.
        call("cuModuleGetFunction", unsafe {
            sys::cuModuleGetFunction(&mut function, module.0.cast(), name.as_ptr())
        })?;
        Ok(Handle(function.cast()))
    }

    unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        [x, y, z]: [u32; 3],
        [in_x, in_y, in_z]: [u32; 3],
        arguments: &mut [*mut c_void],
    ) -> Result<(), ApiError> {
        let (values, others) = (arguments.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the function's `Module` is kept with it; the arguments are the kernel's (`Kernel` compares types with
        // the text), and the engine pins the replicas among them until the task has ended.
        call("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(function.0.cast(), x, y, z, in_x, in_y, in_z, 0, stream.0.cast(), values, others)
        })
    }
}
