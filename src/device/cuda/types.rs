//! Types and constants of the CUDA driver API.
//!
//! They are declared by hand so that no build needs the CUDA headers. Handles are opaque, and enumerations are plain
//! integers, so values newer than this list are valid too. A test compares layouts and values with the crate cudarc,
//! whose declarations are generated from the headers.

use std::ffi::{c_int, c_uint, c_void};

/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`: objects of the driver.
pub(super) type Object = *mut c_void;
/// `CUdevice`
pub(super) type DeviceNumber = c_int;
/// `CUdeviceptr`
pub(super) type DevicePointer = u64;
/// `CUdevice_attribute`
pub(super) type Attribute = c_uint;

pub(super) const MULTIPROCESSOR_COUNT: Attribute = 16;
pub(super) const COMPUTE_CAPABILITY_MAJOR: Attribute = 75;
pub(super) const COMPUTE_CAPABILITY_MINOR: Attribute = 76;
pub(super) const MANAGED_MEMORY: Attribute = 83;
pub(super) const CONCURRENT_MANAGED_ACCESS: Attribute = 89;
/// `CU_MEM_ATTACH_GLOBAL`
pub(super) const ATTACH_GLOBAL: c_uint = 1;
/// `CU_DEVICE_CPU`
pub(super) const CPU: DeviceNumber = -1;
/// `CU_POINTER_ATTRIBUTE_CONTEXT`
pub(super) const POINTER_CONTEXT: c_uint = 1;
/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`
pub(super) const POINTER_DEVICE: c_uint = 9;
/// `CU_STREAM_NON_BLOCKING`
pub(super) const NON_BLOCKING: c_uint = 1;
/// `CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING`
pub(super) const BLOCKING_SYNC_WITHOUT_TIMING: c_uint = 1 | 2;
/// `CU_MEMHOSTREGISTER_PORTABLE`, and `CU_MEMHOSTALLOC_PORTABLE`
pub(super) const PORTABLE: c_uint = 1;
/// `CUmemorytype`
pub(super) const HOST: c_uint = 1;
pub(super) const DEVICE: c_uint = 2;

/// `CUDA_ERROR_STUB_LIBRARY`
pub(super) const STUB_LIBRARY: c_uint = 34;
/// `CUDA_ERROR_NO_DEVICE`
pub(super) const NO_DEVICE: c_uint = 100;

/// One end of a copy: half of `CUDA_MEMCPY3D` or of `CUDA_MEMCPY3D_PEER`. `CUDA_MEMCPY3D` reserves the field in which
/// `CUDA_MEMCPY3D_PEER` stores a context.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct CopyEnd {
    pub(super) x_bytes: usize,
    pub(super) y: usize,
    pub(super) z: usize,
    pub(super) level: usize,
    pub(super) memory: c_uint,
    pub(super) host: *mut c_void,
    pub(super) device: DevicePointer,
    pub(super) array: Object,
    pub(super) context: Object,
    pub(super) pitch: usize,
    pub(super) height: usize,
}

/// `CUDA_MEMCPY3D` and `CUDA_MEMCPY3D_PEER`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Copy3d {
    pub(super) from: CopyEnd,
    pub(super) to: CopyEnd,
    pub(super) width_bytes: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) function: Object,
    pub(super) groups: [c_uint; 3],
    pub(super) group: [c_uint; 3],
    pub(super) shared_bytes: c_uint,
    pub(super) values: *mut *mut c_void,
    pub(super) others: *mut *mut c_void,
    /// Unused if a function is given.
    pub(super) kernel: Object,
    pub(super) context: Object,
}

#[cfg(test)]
mod tests {
    use super::*;
    use cudarc::driver::sys;
    use std::mem::offset_of;

    #[test]
    fn types_match_the_headers() {
        macro_rules! same {
            ($theirs:ident: $($ours:ident . $field:ident = $their_field:ident;)*) => {
                assert_eq!((size_of::<Copy3d>(), align_of::<Copy3d>()), (size_of::<sys::$theirs>(), align_of::<sys::$theirs>()));
                $(assert_eq!(
                    offset_of!(Copy3d, $ours) + offset_of!(CopyEnd, $field),
                    offset_of!(sys::$theirs, $their_field),
                    stringify!($their_field)
                );)*
            };
        }
        same! { CUDA_MEMCPY3D:
            from.x_bytes = srcXInBytes; from.y = srcY; from.z = srcZ; from.level = srcLOD; from.memory = srcMemoryType;
            from.host = srcHost; from.device = srcDevice; from.array = srcArray; from.context = reserved0;
            from.pitch = srcPitch; from.height = srcHeight;
            to.x_bytes = dstXInBytes; to.y = dstY; to.z = dstZ; to.level = dstLOD; to.memory = dstMemoryType;
            to.host = dstHost; to.device = dstDevice; to.array = dstArray; to.context = reserved1;
            to.pitch = dstPitch; to.height = dstHeight;
        }
        same! { CUDA_MEMCPY3D_PEER:
            from.memory = srcMemoryType; from.host = srcHost; from.device = srcDevice; from.context = srcContext;
            from.pitch = srcPitch; from.height = srcHeight;
            to.memory = dstMemoryType; to.host = dstHost; to.device = dstDevice; to.context = dstContext;
            to.pitch = dstPitch; to.height = dstHeight;
        }
        let extents = [offset_of!(Copy3d, width_bytes), offset_of!(Copy3d, height), offset_of!(Copy3d, depth)];
        let theirs = [
            offset_of!(sys::CUDA_MEMCPY3D, WidthInBytes),
            offset_of!(sys::CUDA_MEMCPY3D, Height),
            offset_of!(sys::CUDA_MEMCPY3D, Depth),
        ];
        assert_eq!(extents, theirs);
        let node = (size_of::<KernelNode>(), align_of::<KernelNode>());
        assert_eq!(node, (size_of::<sys::CUDA_KERNEL_NODE_PARAMS_v2>(), align_of::<sys::CUDA_KERNEL_NODE_PARAMS_v2>()));
        macro_rules! same_place {
            ($($ours:ident = $theirs:ident),*) => {$(
                assert_eq!(offset_of!(KernelNode, $ours), offset_of!(sys::CUDA_KERNEL_NODE_PARAMS_v2, $theirs));
            )*};
        }
        same_place!(function = func, groups = gridDimX, group = blockDimX, shared_bytes = sharedMemBytes);
        same_place!(values = kernelParams, others = extra, kernel = kern, context = ctx);
        let handles = [size_of::<sys::CUcontext>(), size_of::<sys::CUstream>(), size_of::<sys::CUevent>()];
        assert_eq!(handles, [size_of::<Object>(); 3]);
        assert_eq!(size_of::<sys::CUdevice>(), size_of::<DeviceNumber>());
        assert_eq!(size_of::<sys::CUdeviceptr>(), size_of::<DevicePointer>());
        assert_eq!(size_of::<sys::CUresult>(), size_of::<c_uint>());
    }

    #[test]
    fn values_match_the_headers() {
        use sys::CUdevice_attribute::*;
        let attributes = [
            MULTIPROCESSOR_COUNT,
            COMPUTE_CAPABILITY_MAJOR,
            COMPUTE_CAPABILITY_MINOR,
            MANAGED_MEMORY,
            CONCURRENT_MANAGED_ACCESS,
        ];
        let theirs = [
            CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
            CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
            CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY,
            CU_DEVICE_ATTRIBUTE_CONCURRENT_MANAGED_ACCESS,
        ];
        assert_eq!(attributes, theirs.map(|attribute| attribute as c_uint));
        assert_eq!(POINTER_CONTEXT, sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_CONTEXT as c_uint);
        assert_eq!(POINTER_DEVICE, sys::CUpointer_attribute::CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_uint);
        assert_eq!(ATTACH_GLOBAL, sys::CUmemAttach_flags::CU_MEM_ATTACH_GLOBAL as c_uint);
        assert_eq!(NON_BLOCKING, sys::CUstream_flags::CU_STREAM_NON_BLOCKING as c_uint);
        let event = [sys::CUevent_flags::CU_EVENT_BLOCKING_SYNC, sys::CUevent_flags::CU_EVENT_DISABLE_TIMING];
        assert_eq!(BLOCKING_SYNC_WITHOUT_TIMING, event.into_iter().fold(0, |all, flag| all | flag as c_uint));
        assert_eq!((PORTABLE, PORTABLE), (sys::CU_MEMHOSTREGISTER_PORTABLE, sys::CU_MEMHOSTALLOC_PORTABLE));
        let memory = [sys::CUmemorytype::CU_MEMORYTYPE_HOST, sys::CUmemorytype::CU_MEMORYTYPE_DEVICE];
        assert_eq!([HOST, DEVICE], memory.map(|memory| memory as c_uint));
        let codes = [sys::CUresult::CUDA_ERROR_STUB_LIBRARY, sys::CUresult::CUDA_ERROR_NO_DEVICE];
        assert_eq!([STUB_LIBRARY, NO_DEVICE], codes.map(|code| code as c_uint));
    }
}
