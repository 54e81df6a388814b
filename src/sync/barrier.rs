//! Two fences that work as a pair: one that costs nothing, for the side that is in a hurry, and one that costs a system call.
//!
//! Between a thread's writes and reads on one side of a light fence and another's on one side of a heavy fence holds what
//! holds between two sequentially consistent fences. Linux has a system call for it (`membarrier`), which makes every running
//! thread of the process pass a fence. Where there is none, both are fences.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering, compiler_fence, fence};

/// Whether heavy fences reach every thread. Read by light fences, so only ever set before there is anything to order:
/// [`prepare_fences`] is called when a runtime is built.
static ASYMMETRIC: AtomicBool = AtomicBool::new(false);

/// To be called before the first fence of either kind.
pub(crate) fn prepare_fences() {
    static ASKED: OnceLock<()> = OnceLock::new();
    ASKED.get_or_init(|| ASYMMETRIC.store(linux::register(), Ordering::SeqCst));
}

/// The side in a hurry.
#[inline]
pub(super) fn light_fence() {
    match ASYMMETRIC.load(Ordering::Relaxed) {
        true => compiler_fence(Ordering::SeqCst),
        false => fence(Ordering::SeqCst),
    }
}

/// The side that can wait.
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

    /// Whether the system has the call; asks for its use.
    pub(super) fn register() -> bool {
        // SAFETY: a system call that touches no memory of ours.
        unsafe { syscall(SYS_membarrier, REGISTER_EXPEDITED, 0 as c_int, 0 as c_int) == 0 }
    }

    pub(super) fn reach_every_thread() {
        // SAFETY: a system call that touches no memory of ours.
        let result = unsafe { syscall(SYS_membarrier, EXPEDITED, 0 as c_int, 0 as c_int) };
        assert_eq!(result, 0, "a registered process may ask for fences");
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
mod linux {
    pub(super) fn register() -> bool {
        false
    }

    pub(super) fn reach_every_thread() {}
}
