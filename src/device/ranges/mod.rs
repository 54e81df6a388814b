//! Ranges in the timelines of vendors' profilers, named after tasks: NVTX for CUDA and rocTX for HIP.
//!
//! A range surrounds the issue of a task, on the hosting thread. Profilers show it next to the calls that it contains,
//! and attribute the kernels that are launched within it to the task.
//!
//! NVTX 3 has no library: a program loads the profiler's own library, which `NVTX_INJECTION64_PATH` names
//! ([`injection`]). Without this variable, the library of NVTX 2 is used if it is installed.

#[cfg(feature = "cuda")]
mod injection;

use super::functions::open_first;
use crate::machine::UnitKind;
use std::ffi::{CString, c_char, c_int};
use std::sync::OnceLock;

/// The functions that begin and end a range on the calling thread.
#[derive(Clone, Copy)]
struct Functions {
    push: unsafe extern "C" fn(*const c_char) -> c_int,
    pop: unsafe extern "C" fn() -> c_int,
}

/// Ends a range when it is dropped.
pub(crate) struct Range(Functions);

impl Range {
    /// Begins a range on the calling thread, if the interface of this kind of unit has ranges and its library can be
    /// opened.
    pub(crate) fn begin(kind: UnitKind, name: &str) -> Option<Self> {
        let functions = functions(kind)?;
        let name = CString::new(name).unwrap_or_else(|_| c"task".to_owned());
        // SAFETY: the text is terminated by a zero. Both libraries copy it if they keep it.
        unsafe { (functions.push)(name.as_ptr()) };
        Some(Self(functions))
    }
}

impl Drop for Range {
    fn drop(&mut self) {
        // SAFETY: the function has no argument, and ends the range that this thread began last. That is this range,
        // because a range is neither sent to another thread nor outlived by a range that began later.
        unsafe { (self.0.pop)() };
    }
}

fn functions(kind: UnitKind) -> Option<Functions> {
    match kind {
        #[cfg(feature = "cuda")]
        UnitKind::Cuda => {
            static NVTX: OnceLock<Option<Functions>> = OnceLock::new();
            let library = || of_library(&["libnvToolsExt.so.1", "libnvToolsExt.so"], "nvtxRangePushA", "nvtxRangePop");
            *NVTX.get_or_init(|| injection::functions().or_else(library))
        }
        #[cfg(feature = "hip")]
        UnitKind::Hip => {
            static ROCTX: OnceLock<Option<Functions>> = OnceLock::new();
            let names = ["librocprofiler-sdk-roctx.so.1", "libroctx64.so.4", "libroctx64.so"];
            *ROCTX.get_or_init(|| of_library(&names, "roctxRangePushA", "roctxRangePop"))
        }
        _ => None,
    }
}

/// Opens the first of these libraries that is installed, which is never closed.
fn of_library(names: &[&str], push: &str, pop: &str) -> Option<Functions> {
    let library = open_first(names)?;
    // SAFETY: NVTX and rocTX declare these functions with these types, and the library stays open because it is leaked.
    let functions = unsafe { Functions { push: *library.get(push).ok()?, pop: *library.get(pop).ok()? } };
    std::mem::forget(library);
    Some(functions)
}
