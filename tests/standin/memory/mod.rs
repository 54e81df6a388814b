//! Programs that exchange device memory with other libraries: they import it and export it using the interface's own
//! calls, as CuPy does.

mod exported;
mod foreign;
mod imported;
mod owned;

use crate::programs::kind;
use std::ptr;
use thalweg::ids::SpaceId;

/// Memory of the first device.
const SPACE: SpaceId = SpaceId(1);

fn is_cuda() -> bool {
    kind() == "CUDA"
}

/// Calls a function of the interface and asserts that it succeeds. The arguments are numbers or addresses.
macro_rules! call {
    (@ $argument:expr) => { usize };
    ($name:expr, $($argument:expr),*) => {{
        // SAFETY: callers pass the arguments that the interface's manual specifies. Each argument is passed in a
        // register of its own, so the function type matches.
        let call: extern "C" fn($(call!(@ $argument)),*) -> i32 = unsafe { std::mem::transmute($crate::raw::function($name)) };
        assert_eq!(call($($argument),*), 0, "{}", $name);
    }};
}

use call;

fn named<'a>(cuda: &'a str, hip: &'a str) -> &'a str {
    if is_cuda() { cuda } else { hip }
}

/// Binds this thread to a device, as a user of the interface would.
fn bind(device: i32) {
    if !is_cuda() {
        return call!("hipSetDevice", device as usize);
    }
    let mut context = 0usize;
    call!("cuDevicePrimaryCtxRetain", ptr::from_mut(&mut context).addr(), device as usize);
    call!("cuCtxSetCurrent", context);
    call!("cuDevicePrimaryCtxRelease_v2", device as usize);
}

/// Page-locked memory, which makes copies asynchronous.
struct Locked(*mut u64, usize);

impl Locked {
    fn new(elements: &[u64]) -> Self {
        let mut first: *mut u64 = ptr::null_mut();
        let place = ptr::from_mut(&mut first).expose_provenance();
        call!(named("cuMemHostAlloc", "hipHostMalloc"), place, (8 * elements.len()).max(8), 0);
        // SAFETY: the memory was just allocated with this size, so the copy is in bounds.
        unsafe { ptr::copy_nonoverlapping(elements.as_ptr(), first, elements.len()) };
        Self(first, elements.len())
    }

    fn elements(&self) -> Vec<u64> {
        // SAFETY: the memory has `self.1` elements, and all enqueued copies have ended, so nothing writes to it.
        unsafe { std::slice::from_raw_parts(self.0, self.1) }.to_vec()
    }

    fn free(self) {
        call!(named("cuMemFreeHost", "hipHostFree"), self.0.expose_provenance());
    }
}

/// Enqueues a copy on the default stream.
fn enqueue(to: usize, from: usize, bytes: usize, is_in: bool) {
    match (is_cuda(), is_in) {
        (true, true) => call!("cuMemcpyHtoDAsync_v2", to, from, bytes, 0),
        (true, false) => call!("cuMemcpyDtoHAsync_v2", to, from, bytes, 0),
        (false, _) => call!("hipMemcpyAsync", to, from, bytes, if is_in { 1 } else { 2 }, 0),
    }
}

fn synchronizing() -> &'static str {
    named("cuStreamSynchronize", "hipStreamSynchronize")
}

/// Copies elements from device memory to the host on the default stream, and returns them.
fn elements_at(device: i32, address: usize, len: usize) -> Vec<u64> {
    bind(device);
    let locked = Locked::new(&vec![0; len]);
    enqueue(locked.0.expose_provenance(), address, 8 * len, false);
    call!(synchronizing(), 0);
    let elements = locked.elements();
    locked.free();
    elements
}
