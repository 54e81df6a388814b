//! One CUDA device behind the calls that [`Api`] asks for.

use super::compiler;
use super::library::{self, Found};
use crate::device::Accelerator;
use crate::device::gpu::{
    Addressed, Api, ApiError, Direction, Gpu, Handle, PEER_ACCESS_ALREADY_ENABLED, Recipe, Side, Transfer,
};
use crate::error::DeviceError;
use crate::kernel::Program;
use cudarc::driver::sys::{
    self, CUDA_MEMCPY3D, CUDA_MEMCPY3D_PEER, CUcontext, CUdevice, CUdeviceptr, CUmemorytype, CUpointer_attribute,
    CUresult,
};
use parking_lot::Mutex;
use std::ffi::{CStr, c_void};
use std::ptr;

// Driver API manual: CU_STREAM_NON_BLOCKING, CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING, CU_MEMHOSTREGISTER_PORTABLE.
const NON_BLOCKING: u32 = 1;
const BLOCKING_SYNC_WITHOUT_TIMING: u32 = 1 | 2;
const PORTABLE: u32 = 1;

/// One device, in its primary context.
pub(in crate::device) struct Cuda {
    device: CUdevice,
    context: Handle,
    name: String,
    recipe: Recipe,
    /// Devices whose memory this one was given access to, or can't have access to.
    peers: Mutex<Vec<usize>>,
}

impl Cuda {
    /// A device that was found.
    ///
    /// # Errors
    /// If nothing can be compiled for it, or it gives no context or stream.
    pub(in crate::device) fn open(found: &Found) -> Result<Box<dyn Accelerator>, DeviceError> {
        let name = found.facts.name.clone();
        let recipe = compiler::recipe(found.architecture, "kernels", &name)?;
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: the device exists; the result has a place.
        let retained =
            call("cuDevicePrimaryCtxRetain", unsafe { sys::cuDevicePrimaryCtxRetain(&mut context, found.device) });
        retained.map_err(|ApiError { call, code }| DeviceError::Call {
            device: name.clone(),
            call,
            api: Self::NAME,
            code,
            what: library::describe(code),
        })?;
        let peers = Mutex::default();
        let cuda = Self { device: found.device, context: Handle(context.cast()), name: name.clone(), recipe, peers };
        Ok(Box::new(Gpu::new(Addressed::open(cuda, name)?)?))
    }

    fn context(&self) -> CUcontext {
        self.context.0.cast()
    }

    /// The context that memory was allocated in.
    fn owner(&self, address: CUdeviceptr) -> Result<CUcontext, ApiError> {
        let mut context: CUcontext = ptr::null_mut();
        // SAFETY: this attribute is a context, which has a place.
        call("cuPointerGetAttribute", unsafe {
            sys::cuPointerGetAttribute(
                ptr::from_mut(&mut context).cast(),
                CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT,
                address,
            )
        })?;
        Ok(context)
    }

    /// Has this device reach another one's memory directly, where it can. Copies work without, through the host.
    fn reach(&self, peer: CUcontext) {
        let mut peers = self.peers.lock();
        let address = peer.addr();
        if peers.contains(&address) {
            return;
        }
        peers.push(address);
        // SAFETY: the context has memory, so it is alive. It refuses where the hardware can't.
        match call("cuCtxEnablePeerAccess", unsafe { sys::cuCtxEnablePeerAccess(peer, 0) }) {
            Ok(()) | Err(ApiError { code: PEER_ACCESS_ALREADY_ENABLED, .. }) => {}
            Err(ApiError { code, .. }) => {
                tracing::debug!("{} copies through the host: {}", self.name, self.describe(code))
            }
        }
    }

    /// # Safety
    /// As for [`Api::copy`].
    unsafe fn copy_flat(&self, stream: sys::CUstream, transfer: &Transfer, owner: CUcontext) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, from: Side { address: from, .. }, to: Side { address: to, .. }, .. } =
            *transfer;
        let (source, target) = (from as CUdeviceptr, to as CUdeviceptr);
        // SAFETY: the caller's promise.
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
            // SAFETY: the caller's promise; the description is read before the call returns.
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
        // SAFETY: the caller's promise; the description is read before the call returns.
        call("cuMemcpy3DAsync", unsafe { sys::cuMemcpy3DAsync_v2(&copy, stream) })
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // SAFETY: retained once, when the device was opened; all that was in the context is gone.
        let released = call("cuDevicePrimaryCtxRelease", unsafe { sys::cuDevicePrimaryCtxRelease_v2(self.device) });
        if let Err(ApiError { code, .. }) = released {
            tracing::debug!("{}: cuDevicePrimaryCtxRelease: {}", self.name, self.describe(code));
        }
    }
}

fn call(name: &'static str, result: CUresult) -> Result<(), ApiError> {
    ApiError::unless_success(name, result as i32)
}

impl Api for Cuda {
    const NAME: &'static str = "CUDA";
    const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
    const MOST_THREADS: u64 = u64::MAX;

    fn domain(&self) -> usize {
        0 // any two devices copy; without a direct way, through the host
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the context is retained.
        call("cuCtxSetCurrent", unsafe { sys::cuCtxSetCurrent(self.context()) })
    }

    fn describe(&self, code: i32) -> String {
        library::describe(code)
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
        // SAFETY: the contract of Api.
        call("cuMemFree", unsafe { sys::cuMemFree_v2(base as CUdeviceptr) })
    }

    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuMemHostRegister", unsafe { sys::cuMemHostRegister_v2(first.cast(), bytes, PORTABLE) })
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuMemHostUnregister", unsafe { sys::cuMemHostUnregister(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result has a place.
        call("cuStreamCreate", unsafe { sys::cuStreamCreate(&mut stream, NON_BLOCKING) })?;
        Ok(Handle(stream.cast()))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuStreamDestroy", unsafe { sys::cuStreamDestroy_v2(stream.0.cast()) })
    }

    fn create_event(&self) -> Result<Handle, ApiError> {
        let mut event = ptr::null_mut();
        // SAFETY: the result has a place.
        call("cuEventCreate", unsafe { sys::cuEventCreate(&mut event, BLOCKING_SYNC_WITHOUT_TIMING) })?;
        Ok(Handle(event.cast()))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuEventDestroy", unsafe { sys::cuEventDestroy_v2(event.0.cast()) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuEventRecord", unsafe { sys::cuEventRecord(event.0.cast(), stream.0.cast()) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuStreamWaitEvent", unsafe { sys::cuStreamWaitEvent(stream.0.cast(), event.0.cast(), 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuEventQuery", unsafe { sys::cuEventQuery(event.0.cast()) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuEventSynchronize", unsafe { sys::cuEventSynchronize(event.0.cast()) })
    }

    unsafe fn copy(&self, stream: Handle, transfer: &Transfer) -> Result<(), ApiError> {
        let mut owner = self.context();
        if transfer.direction == Direction::Across {
            owner = self.owner(transfer.from.address as CUdeviceptr)?;
            if owner != self.context() {
                self.reach(owner);
            }
        }
        // SAFETY: the contract of Api.
        unsafe {
            if transfer.is_flat() {
                self.copy_flat(stream.0.cast(), transfer, owner)
            } else {
                self.copy_box(stream.0.cast(), transfer, owner)
            }
        }
    }

    fn recipe(&self) -> &Recipe {
        &self.recipe
    }

    fn compile(&self, program: &Program) -> Result<Vec<u8>, DeviceError> {
        compiler::compile(program, &self.recipe, &self.name)
    }

    fn load(&self, image: &[u8]) -> Result<Handle, ApiError> {
        let mut module = ptr::null_mut();
        // SAFETY: code that says its own length, or text with a zero at its end; the result has a place.
        call("cuModuleLoadData", unsafe { sys::cuModuleLoadData(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle(module.cast()))
    }

    unsafe fn unload(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("cuModuleUnload", unsafe { sys::cuModuleUnload(module.0.cast()) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: the contract of Api; the result has a place.
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
        // SAFETY: the contract of Api.
        call("cuLaunchKernel", unsafe {
            sys::cuLaunchKernel(function.0.cast(), x, y, z, in_x, in_y, in_z, 0, stream.0.cast(), values, others)
        })
    }
}
