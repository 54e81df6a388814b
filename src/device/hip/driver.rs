//! One HIP device behind the calls that [`Api`] asks for.

use super::compiler;
use super::library::{self, Found, Functions};
use super::types::{
    Copy3d, CopyKind, DEVICE_ORDINAL, DEVICE_TO_DEVICE, DEVICE_TO_HOST, EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING,
    Extent, HOST_REGISTER_PORTABLE, HOST_TO_DEVICE, PitchedPointer, Position, STREAM_NON_BLOCKING,
};
use crate::device::Accelerator;
use crate::device::gpu::{
    Addressed, Api, ApiError, Direction, Gpu, Handle, PEER_ACCESS_ALREADY_ENABLED, Recipe, Side, Transfer,
};
use crate::error::DeviceError;
use crate::kernel::Program;
use parking_lot::Mutex;
use std::ffi::{CStr, c_int, c_uint, c_void};
use std::ptr;

/// One device.
pub(in crate::device) struct Hip {
    library: &'static library::Hip,
    number: c_int,
    domain: usize,
    name: String,
    recipe: Recipe,
    /// Devices whose memory this one was given access to, or can't have access to.
    peers: Mutex<Vec<c_int>>,
}

impl Hip {
    /// A device that was found.
    ///
    /// # Errors
    /// If nothing can be compiled for it, or it gives no stream.
    pub(in crate::device) fn open(found: &Found) -> Result<Box<dyn Accelerator>, DeviceError> {
        let name = found.facts.name.clone();
        let recipe = compiler::recipe(&found.facts.architecture, "kernels", &name)?;
        // Where some do not reach the memory of others, all copy through the host.
        let all = library::find().unwrap_or_default();
        let all_are_peers = all.iter().all(|found| !found.facts.peers.contains(&false));
        let domain = if all_are_peers { 0 } else { 1 + found.number as usize };
        let library = library::load().expect("it found the device");
        let (number, peers) = (found.number, Mutex::default());
        let hip = Self { library, number, domain, name: name.clone(), recipe, peers };
        Ok(Box::new(Gpu::new(Addressed::open(hip, name)?)?))
    }

    fn functions(&self) -> &Functions {
        &self.library.functions
    }

    /// The device that memory was allocated on.
    fn owner(&self, address: usize) -> Result<c_int, ApiError> {
        let mut owner: c_int = 0;
        // SAFETY: this attribute is a device's number, which has a place.
        call("hipPointerGetAttribute", unsafe {
            (self.functions().hipPointerGetAttribute)(
                ptr::from_mut(&mut owner).cast(),
                DEVICE_ORDINAL,
                ptr::with_exposed_provenance_mut(address),
            )
        })?;
        Ok(owner)
    }

    /// Has this device reach another one's memory directly.
    fn reach(&self, peer: c_int) {
        let mut peers = self.peers.lock();
        if peers.contains(&peer) {
            return;
        }
        peers.push(peer);
        // SAFETY: the device has memory, so it exists. It refuses where the hardware can't.
        match call("hipDeviceEnablePeerAccess", unsafe { (self.functions().hipDeviceEnablePeerAccess)(peer, 0) }) {
            Ok(()) | Err(ApiError { code: PEER_ACCESS_ALREADY_ENABLED, .. }) => {}
            Err(ApiError { code, .. }) => {
                tracing::debug!("{} does not reach device {peer}: {}", self.name, self.describe(code));
            }
        }
    }
}

fn call(name: &'static str, code: c_uint) -> Result<(), ApiError> {
    ApiError::unless_success(name, code as i32)
}

fn kind(direction: Direction) -> CopyKind {
    match direction {
        Direction::In => HOST_TO_DEVICE,
        Direction::Out => DEVICE_TO_HOST,
        Direction::Across => DEVICE_TO_DEVICE,
    }
}

impl Api for Hip {
    const NAME: &'static str = "HIP";
    const MOST_GROUPS: [u32; 3] = [i32::MAX as u32, 65535, 65535];
    const MOST_THREADS: u64 = u32::MAX as u64;

    fn domain(&self) -> usize {
        self.domain
    }

    fn bind(&self) -> Result<(), ApiError> {
        // SAFETY: the device exists.
        call("hipSetDevice", unsafe { (self.functions().hipSetDevice)(self.number) })
    }

    fn describe(&self, code: i32) -> String {
        self.library.describe(code)
    }

    fn free_bytes(&self) -> Result<u64, ApiError> {
        let (mut free, mut total) = (0, 0);
        // SAFETY: the results have places.
        call("hipMemGetInfo", unsafe { (self.functions().hipMemGetInfo)(&mut free, &mut total) })?;
        Ok(free as u64)
    }

    fn allocate(&self, bytes: usize) -> Result<usize, ApiError> {
        let mut address = ptr::null_mut();
        // SAFETY: the result has a place.
        call("hipMalloc", unsafe { (self.functions().hipMalloc)(&mut address, bytes) })?;
        Ok(address.expose_provenance())
    }

    unsafe fn free(&self, base: usize) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipFree", unsafe { (self.functions().hipFree)(ptr::with_exposed_provenance_mut(base)) })
    }

    unsafe fn page_lock(&self, first: *mut u8, bytes: usize) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipHostRegister", unsafe {
            (self.functions().hipHostRegister)(first.cast(), bytes, HOST_REGISTER_PORTABLE)
        })
    }

    unsafe fn page_unlock(&self, first: *mut u8) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipHostUnregister", unsafe { (self.functions().hipHostUnregister)(first.cast()) })
    }

    fn create_stream(&self) -> Result<Handle, ApiError> {
        let mut stream = ptr::null_mut();
        // SAFETY: the result has a place.
        call("hipStreamCreateWithFlags", unsafe {
            (self.functions().hipStreamCreateWithFlags)(&mut stream, STREAM_NON_BLOCKING)
        })?;
        Ok(Handle(stream))
    }

    unsafe fn destroy_stream(&self, stream: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipStreamDestroy", unsafe { (self.functions().hipStreamDestroy)(stream.0) })
    }

    fn create_event(&self) -> Result<Handle, ApiError> {
        let mut event = ptr::null_mut();
        // SAFETY: the result has a place.
        call("hipEventCreateWithFlags", unsafe {
            (self.functions().hipEventCreateWithFlags)(&mut event, EVENT_BLOCKING_SYNC | EVENT_DISABLE_TIMING)
        })?;
        Ok(Handle(event))
    }

    unsafe fn destroy_event(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipEventDestroy", unsafe { (self.functions().hipEventDestroy)(event.0) })
    }

    unsafe fn record(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipEventRecord", unsafe { (self.functions().hipEventRecord)(event.0, stream.0) })
    }

    unsafe fn wait(&self, stream: Handle, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipStreamWaitEvent", unsafe { (self.functions().hipStreamWaitEvent)(stream.0, event.0, 0) })
    }

    unsafe fn query(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipEventQuery", unsafe { (self.functions().hipEventQuery)(event.0) })
    }

    unsafe fn synchronize(&self, event: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipEventSynchronize", unsafe { (self.functions().hipEventSynchronize)(event.0) })
    }

    unsafe fn copy(&self, stream: Handle, transfer: &Transfer) -> Result<(), ApiError> {
        let Transfer { direction, width_bytes, rows, slices, from, to } = *transfer;
        let stream = stream.0;
        let mut owner = self.number;
        if direction == Direction::Across {
            owner = self.owner(from.address)?;
            if owner != self.number {
                self.reach(owner);
            }
        }
        // SAFETY: the contract of Api; descriptions are read before the calls return.
        unsafe {
            if transfer.is_flat() {
                let source: *const c_void = ptr::with_exposed_provenance(from.address);
                let target: *mut c_void = ptr::with_exposed_provenance_mut(to.address);
                if owner == self.number {
                    let copied =
                        (self.functions().hipMemcpyAsync)(target, source, width_bytes, kind(direction), stream);
                    return call("hipMemcpyAsync", copied);
                }
                let copied =
                    (self.functions().hipMemcpyPeerAsync)(target, self.number, source, owner, width_bytes, stream);
                return call("hipMemcpyPeerAsync", copied);
            }
            let pitched = |side: &Side| PitchedPointer {
                ptr: ptr::with_exposed_provenance_mut(side.address),
                pitch: side.pitch_bytes,
                xsize: width_bytes,
                ysize: side.height,
            };
            let copy = Copy3d {
                src_array: ptr::null_mut(),
                src_pos: Position::default(),
                src_ptr: pitched(&from),
                dst_array: ptr::null_mut(),
                dst_pos: Position::default(),
                dst_ptr: pitched(&to),
                extent: Extent { width: width_bytes, height: rows, depth: slices },
                kind: kind(direction),
            };
            call("hipMemcpy3DAsync", (self.functions().hipMemcpy3DAsync)(&copy, stream))
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
        // SAFETY: code that says its own length; the result has a place.
        call("hipModuleLoadData", unsafe { (self.functions().hipModuleLoadData)(&mut module, image.as_ptr().cast()) })?;
        Ok(Handle(module))
    }

    unsafe fn unload(&self, module: Handle) -> Result<(), ApiError> {
        // SAFETY: the contract of Api.
        call("hipModuleUnload", unsafe { (self.functions().hipModuleUnload)(module.0) })
    }

    unsafe fn function(&self, module: Handle, name: &CStr) -> Result<Handle, ApiError> {
        let mut function = ptr::null_mut();
        // SAFETY: the contract of Api; the result has a place.
        call("hipModuleGetFunction", unsafe {
            (self.functions().hipModuleGetFunction)(&mut function, module.0, name.as_ptr())
        })?;
        Ok(Handle(function))
    }

    unsafe fn launch(
        &self,
        stream: Handle,
        function: Handle,
        [x, y, z]: [u32; 3],
        [in_x, in_y, in_z]: [u32; 3],
        arguments: &mut [*mut c_void],
    ) -> Result<(), ApiError> {
        let (stream, values, others) = (stream.0, arguments.as_mut_ptr(), ptr::null_mut());
        // SAFETY: the contract of Api.
        call("hipModuleLaunchKernel", unsafe {
            (self.functions().hipModuleLaunchKernel)(function.0, x, y, z, in_x, in_y, in_z, 0, stream, values, others)
        })
    }
}
