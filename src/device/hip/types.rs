//! Types and constants of the HIP API.
//!
//! They are declared by hand so that no build needs the ROCm headers. Handles are opaque, and enumerations are plain
//! integers, so values newer than this list are valid too. A test compares layouts and values with the crate
//! hip-runtime-sys, which was generated from the headers of ROCm 5. ROCm 6 and 7 left them unchanged, except for the
//! [device properties](architecture_at).

use std::ffi::{c_int, c_uint, c_void};

/// `hipStream_t`, `hipEvent_t`, `hipModule_t`, `hipFunction_t`, `hipArray_t`: objects of the library.
pub(super) type Object = *mut c_void;
/// `hipDeviceptr_t`
pub(super) type DevicePointer = *mut c_void;
/// `hipMemcpyKind`
pub(super) type CopyKind = c_uint;
/// `hipPointer_attribute`
pub(super) type PointerAttribute = c_uint;
/// `hipDeviceAttribute_t`
pub(super) type DeviceAttribute = c_uint;

pub(super) const HOST_TO_DEVICE: CopyKind = 1;
pub(super) const DEVICE_TO_HOST: CopyKind = 2;
pub(super) const DEVICE_TO_DEVICE: CopyKind = 3;
/// `HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL`: the index of the device that contains the memory.
pub(super) const DEVICE_ORDINAL: PointerAttribute = 9;
/// `HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR` and `HIP_POINTER_ATTRIBUTE_RANGE_SIZE`
pub(super) const RANGE_START: PointerAttribute = 11;
pub(super) const RANGE_BYTES: PointerAttribute = 12;
pub(super) const MULTIPROCESSOR_COUNT: DeviceAttribute = 63;
pub(super) const CONCURRENT_MANAGED_ACCESS: DeviceAttribute = 9;
pub(super) const COOPERATIVE_LAUNCH: DeviceAttribute = 10;
pub(super) const MOST_SHARED_BYTES: DeviceAttribute = 74;
pub(super) const MANAGED_MEMORY: DeviceAttribute = 24;
pub(super) const MEMORY_POOLS: DeviceAttribute = 88;
/// `hipMemPoolAttrReleaseThreshold`
pub(super) const RELEASE_THRESHOLD: c_uint = 4;
pub(super) const ATTACH_GLOBAL: c_uint = 1;
/// `hipCpuDeviceId`
pub(super) const CPU: c_int = -1;
pub(super) const STREAM_NON_BLOCKING: c_uint = 1;
pub(super) const EVENT_BLOCKING_SYNC: c_uint = 1;
pub(super) const EVENT_DISABLE_TIMING: c_uint = 2;
pub(super) const HOST_MALLOC_PORTABLE: c_uint = 1;
pub(super) const HOST_REGISTER_PORTABLE: c_uint = 1;

/// `hipPos`
#[derive(Debug, Clone, Copy, Default)]
#[repr(C)]
pub(super) struct Position {
    pub(super) x: usize,
    pub(super) y: usize,
    pub(super) z: usize,
}

/// `hipPitchedPtr`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct PitchedPointer {
    pub(super) ptr: *mut c_void,
    pub(super) pitch: usize,
    pub(super) xsize: usize,
    pub(super) ysize: usize,
}

/// `hipExtent`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Extent {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) depth: usize,
}

/// `hipMemcpy3DParms`
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct Copy3d {
    pub(super) src_array: Object,
    pub(super) src_pos: Position,
    pub(super) src_ptr: PitchedPointer,
    pub(super) dst_array: Object,
    pub(super) dst_pos: Position,
    pub(super) dst_ptr: PitchedPointer,
    pub(super) extent: Extent,
    pub(super) kind: CopyKind,
}

/// `dim3`
pub(super) type Triple = [c_uint; 3];

/// `hipKernelNodeParams`. Here, `function` is a function from a loaded module, whereas the manual describes a
/// function of the host program.
#[derive(Debug, Clone, Copy)]
#[repr(C)]
pub(super) struct KernelNode {
    pub(super) group: Triple,
    pub(super) others: *mut *mut c_void,
    pub(super) function: Object,
    pub(super) groups: Triple,
    pub(super) values: *mut *mut c_void,
    pub(super) shared_bytes: c_uint,
}

/// A buffer large enough for `hipDeviceProp_t` of any version: the structure has 792 bytes up to ROCm 5, and 1472
/// bytes from ROCm 6 on, which includes space reserved for future fields. Only the architecture's name is used,
/// because no other function returns it.
#[repr(C, align(16))]
pub(super) struct Properties(pub(super) [u8; 4096]);

impl Properties {
    pub(super) const ZERO: Self = Self([0; 4096]);
}

/// The size of the architecture's name, including the null terminator.
pub(super) const ARCHITECTURE_BYTES: usize = 256;

/// Returns the byte offset of `gcnArchName` in the structure filled by `hipGetDevicePropertiesR0600` (ROCm 6 and
/// newer) or, if `is_r0600` is false, by `hipGetDeviceProperties`.
pub(super) const fn architecture_at(is_r0600: bool) -> usize {
    if is_r0600 { 1160 } else { 396 }
}

/// A function that reads a device's properties.
pub(super) type GetProperties = unsafe extern "C" fn(*mut Properties, c_int) -> c_uint;

#[cfg(all(test, target_os = "linux", target_env = "gnu", any(target_arch = "x86_64", target_arch = "aarch64")))]
mod tests {
    use super::*;
    use hip_runtime_sys as sys;
    use std::mem::{align_of, offset_of, size_of};

    /// Asserts that two types have the same size and alignment, and that their fields have the same offsets.
    macro_rules! same_layout {
        ($ours:ident = $theirs:ident { $($field:ident = $their_field:ident),* }) => {
            assert_eq!(size_of::<$ours>(), size_of::<sys::$theirs>(), stringify!($theirs));
            assert_eq!(align_of::<$ours>(), align_of::<sys::$theirs>(), stringify!($theirs));
            $(assert_eq!(offset_of!($ours, $field), offset_of!(sys::$theirs, $their_field), stringify!($their_field));)*
        };
    }

    #[test]
    fn layouts_match_the_headers() {
        same_layout!(Position = hipPos { x = x, y = y, z = z });
        same_layout!(PitchedPointer = hipPitchedPtr { ptr = ptr, pitch = pitch, xsize = xsize, ysize = ysize });
        same_layout!(KernelNode = hipKernelNodeParams {
            group = blockDim,
            others = extra,
            function = func,
            groups = gridDim,
            values = kernelParams,
            shared_bytes = sharedMemBytes
        });
        same_layout!(Extent = hipExtent { width = width, height = height, depth = depth });
        same_layout!(Copy3d = hipMemcpy3DParms {
            src_array = srcArray,
            src_pos = srcPos,
            src_ptr = srcPtr,
            dst_array = dstArray,
            dst_pos = dstPos,
            dst_ptr = dstPtr,
            extent = extent,
            kind = kind
        });
        assert_eq!(architecture_at(false), offset_of!(sys::hipDeviceProp_t, gcnArchName));
        assert!(align_of::<Properties>() >= align_of::<sys::hipDeviceProp_t>());
        assert!(size_of::<Properties>() >= size_of::<sys::hipDeviceProp_t>());
        for is_r0600 in [false, true] {
            assert!(architecture_at(is_r0600) + ARCHITECTURE_BYTES <= size_of::<Properties>());
        }
    }

    #[test]
    fn sizes_of_handles_and_enumerations_match_the_headers() {
        let pointers = [size_of::<sys::hipStream_t>(), size_of::<sys::hipEvent_t>(), size_of::<sys::hipModule_t>()];
        assert_eq!(pointers, [size_of::<Object>(); 3]);
        let more = [size_of::<sys::hipFunction_t>(), size_of::<sys::hipArray_t>(), size_of::<sys::hipDeviceptr_t>()];
        assert_eq!(more, [size_of::<Object>(); 3]);
        assert_eq!(size_of::<sys::hipMemcpyKind>(), size_of::<CopyKind>());
        assert_eq!(size_of::<sys::hipPointer_attribute>(), size_of::<PointerAttribute>());
        assert_eq!(size_of::<sys::hipDeviceAttribute_t>(), size_of::<DeviceAttribute>());
    }

    #[test]
    fn values_match_the_headers() {
        use sys::hipMemcpyKind::{hipMemcpyDeviceToDevice, hipMemcpyDeviceToHost, hipMemcpyHostToDevice};
        assert_eq!(HOST_TO_DEVICE, hipMemcpyHostToDevice as c_uint);
        assert_eq!(DEVICE_TO_HOST, hipMemcpyDeviceToHost as c_uint);
        assert_eq!(DEVICE_TO_DEVICE, hipMemcpyDeviceToDevice as c_uint);
        assert_eq!(DEVICE_ORDINAL, sys::hipPointer_attribute::HIP_POINTER_ATTRIBUTE_DEVICE_ORDINAL as c_uint);
        let processors = sys::hipDeviceAttribute_t::hipDeviceAttributeMultiprocessorCount;
        assert_eq!(MULTIPROCESSOR_COUNT, processors as c_uint);
        let unified = [
            sys::hipDeviceAttribute_t::hipDeviceAttributeManagedMemory,
            sys::hipDeviceAttribute_t::hipDeviceAttributeConcurrentManagedAccess,
        ];
        assert_eq!([MANAGED_MEMORY, CONCURRENT_MANAGED_ACCESS], unified.map(|attribute| attribute as c_uint));
        let launches = [
            sys::hipDeviceAttribute_t::hipDeviceAttributeCooperativeLaunch,
            sys::hipDeviceAttribute_t::hipDeviceAttributeMaxSharedMemoryPerBlock,
        ];
        assert_eq!([COOPERATIVE_LAUNCH, MOST_SHARED_BYTES], launches.map(|attribute| attribute as c_uint));
        let range = [
            sys::hipPointer_attribute::HIP_POINTER_ATTRIBUTE_RANGE_START_ADDR,
            sys::hipPointer_attribute::HIP_POINTER_ATTRIBUTE_RANGE_SIZE,
        ];
        assert_eq!([RANGE_START, RANGE_BYTES], range.map(|attribute| attribute as c_uint));
        let pools = sys::hipDeviceAttribute_t::hipDeviceAttributeMemoryPoolsSupported as c_uint;
        let threshold = sys::hipMemPoolAttr::hipMemPoolAttrReleaseThreshold as c_uint;
        assert_eq!((MEMORY_POOLS, RELEASE_THRESHOLD), (pools, threshold));
        assert_eq!(size_of::<crate::device::gpu::PoolAccess>(), size_of::<sys::hipMemAccessDesc>());
        assert_eq!(ATTACH_GLOBAL, sys::hipMemAttachGlobal);
        assert_eq!(STREAM_NON_BLOCKING, sys::hipStreamNonBlocking);
        assert_eq!(
            (EVENT_BLOCKING_SYNC, EVENT_DISABLE_TIMING),
            (sys::hipEventBlockingSync, sys::hipEventDisableTiming)
        );
        assert_eq!(HOST_MALLOC_PORTABLE, sys::hipHostMallocPortable);
        assert_eq!(HOST_REGISTER_PORTABLE, sys::hipHostRegisterPortable);
    }
}
