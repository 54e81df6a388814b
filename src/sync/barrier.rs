//! A pair of asymmetric fences: a light one that is free, for the hot path, and a heavy one that costs a system call.
//!
//! A light fence in one thread and a heavy fence in another thread order the surrounding accesses just as two
//! sequentially consistent fences would. On Linux the heavy fence is the system call `membarrier`, which makes every
//! running thread of the process execute a fence. On systems without such a call, both are ordinary fences.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether heavy fences reach every thread. Light fences read this flag, so it may be set only before there is anything
/// to order; [`prepare_fences`] is called when a runtime is built.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// Chooses the implementation of both fences. Must be called before the first fence of either kind.
pub(crate) fn prepare_fences() {
    static ASKED: OnceLock<()> = OnceLock::new();
    ASKED.get_or_init(|| ASYMMETRIC.store(linux::register(), Ordering::SeqCst));
}

/// The fence for the hot path.
#[inline]
pub(super) fn light_fence() {
    match ASYMMETRIC.load(Ordering::Relaxed) {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The fence for the side that can afford a system call.
pub(super) fn heavy_fence() {
    fence(Ordering::SeqCst);
    if ASYMMETRIC.load(Ordering::Relaxed) {
        linux::reach_every_thread();
    }
}

#[cfg(all(target_os = "linux", not(miri)))]
mod linux {
    use libc::{SYS_membarrier, c_int, syscall};

    const EXPEDITED: c_int = 1 << 3;
    const REGISTER_EXPEDITED: c_int = 1 << 4;

    /// Registers this process for the system call. Returns whether the system supports it.
    pub(super) fn register() -> bool {
        // SAFETY: the system call touches no memory of this program.
        unsafe { syscall(SYS_membarrier, REGISTER_EXPEDITED, 0 as c_int, 0 as c_int) == 0 }
    }

    pub(super) fn reach_every_thread() {
        // SAFETY: the system call touches no memory of this program.
        let result = unsafe { syscall(SYS_membarrier, EXPEDITED, 0 as c_int, 0 as c_int) };
        assert_eq!(result, 0, "a registered process can issue fences");
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod linux {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn reach_every_thread() {}
}
