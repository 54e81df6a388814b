//! Page-locked memory between a device and host memory that is not page-locked.
//!
//! A copy from or to such memory would be made when the call returns, and so hold up the thread that asks for it until all
//! that comes before it on its stream has ended. So small ones go by way of page-locked memory of ours, which is used again
//! and again: packed into it before the copy in, and out of it when the copy out has been seen to have ended.

use super::Backend;
use crate::depend::Site;
use crate::device::{DeviceCopy, End};
use crate::error::DeviceError;
use crate::memory::{BoxCopy, copy_box, strides_of};

/// More is copied as it is: packing it would take longer than to page-lock it.
const MOST_BYTES: u64 = 1 << 20;

/// Page-locked memory that a flight uses.
pub(super) struct Staged<B: Backend> {
    /// What is to be brought back when the flight has ended.
    back: Option<BoxCopy>,
    _memory: B::HostMemory,
}

// SAFETY: the addresses are those of a copy or a private replica, which are the flight's until it has ended.
unsafe impl<B: Backend> Send for Staged<B> {}

impl<B: Backend> Staged<B> {
    /// The copy by way of page-locked memory; nothing if it is to be made as it is.
    ///
    /// # Safety
    /// The host's end is valid until the copy has ended, and nobody but this touches it.
    pub(super) unsafe fn of(backend: &B, copy: &DeviceCopy) -> Result<Option<(Self, DeviceCopy)>, DeviceError> {
        let (host, is_in) = match (copy.from, copy.to) {
            (End::Host { first, strides, locked: false }, End::Device(_)) => (Site { first, strides }, true),
            (End::Device(_), End::Host { first, strides, locked: false }) => (Site { first, strides }, false),
            _ => return Ok(None),
        };
        if copy.bytes() == 0 || copy.bytes() > MOST_BYTES {
            return Ok(None);
        }
        let Some((memory, first)) = backend.host_memory(copy.bytes() as usize)? else { return Ok(None) };
        let packed = Site { first, strides: strides_of(&copy.extents) };
        let end = End::Host { first, strides: packed.strides, locked: true };
        let DeviceCopy { extents, element_bytes, .. } = *copy;
        let between = |from, to| BoxCopy { from, to, extents, element_bytes };
        if is_in {
            // SAFETY: the caller has the host's end valid and for us alone; what is packed has a place of its size.
            unsafe { copy_box(&between(host, packed)) };
            return Ok(Some((Self { back: None, _memory: memory }, DeviceCopy { from: end, ..*copy })));
        }
        let back = Some(between(packed, host));
        Ok(Some((Self { back, _memory: memory }, DeviceCopy { to: end, ..*copy })))
    }

    /// The flight has ended: what it has brought goes where it was asked for.
    pub(super) fn bring_back(self) {
        if let Some(back) = &self.back {
            // SAFETY: the flight has ended without an error, and is reported after this: so its ends are still valid and
            // ours alone.
            unsafe { copy_box(back) };
        }
    }
}
