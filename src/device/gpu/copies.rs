//! Enqueueing of copies: one call of the backend per slab, through staging memory if the host's end needs it.

use super::slabs;
use super::staging::{self, Staged};
use super::{Backend, COPIES_ACROSS, COPIES_IN, COPIES_OUT, Gpu, Stream};
use crate::device::{DeviceCopy, End};
use crate::error::DeviceError;

/// Returns the index of the stream for a copy.
pub(super) fn stream_of(copy: &DeviceCopy) -> usize {
    match (&copy.from, &copy.to) {
        (End::Host { .. }, _) => COPIES_IN,
        (_, End::Host { .. }) => COPIES_OUT,
        _ => COPIES_ACROSS,
    }
}

impl<B: Backend> Gpu<B> {
    /// Enqueues a copy, and returns the page-locked staging memory, which must be kept until the copy has ended.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`].
    pub(super) unsafe fn enqueue_copy(
        &self,
        stream: &B::Stream,
        copy: &DeviceCopy,
    ) -> Result<Option<Staged<B>>, DeviceError> {
        // SAFETY: the caller keeps the host's end valid and exclusive until the copy has ended.
        let (staged, copy) = match unsafe { Staged::of(&*self.backend, copy)? } {
            Some((staged, copy)) => (Some(staged), copy),
            None => (None, *copy),
        };
        // SAFETY: the caller keeps both ends of the copy valid and exclusive, and the returned value keeps the
        // staging memory.
        if let Err(error) = unsafe { self.enqueue_slabs(stream, &copy) } {
            // Slabs that were enqueued before the error still use both ends, so wait for them.
            let _ = self.backend.record(stream).and_then(|end| self.backend.synchronize(&end));
            return Err(error);
        }
        Ok(staged)
    }

    /// Returns whether a copy goes through page-locked memory piece by piece, which keeps a host thread busy.
    pub(super) fn is_packed_in_pieces(&self, copy: &DeviceCopy) -> bool {
        self.backend.packs_large_copies() && staging::is_large(copy)
    }

    /// Enqueues a copy that the caller will wait for, and returns its staging memory and the event of its end.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`].
    pub(super) unsafe fn begin(&self, copy: &DeviceCopy) -> Result<(Option<Staged<B>>, B::Event), DeviceError> {
        let Stream { stream, state } = &self.streams[stream_of(copy)];
        let _alone = state.lock();
        // SAFETY: the caller makes the same promise for this copy.
        Ok((unsafe { self.enqueue_copy(stream, copy)? }, self.backend.record(stream)?))
    }

    /// Waits for the end of a copy started by [`Self::begin`].
    pub(super) fn finish(&self, (staged, end): (Option<Staged<B>>, B::Event)) -> Result<(), DeviceError> {
        self.backend.synchronize(&end)?;
        staged.into_iter().for_each(Staged::bring_back);
        Ok(())
    }

    /// # Safety
    /// The same requirements as for [`Device::copy`].
    unsafe fn enqueue_slabs(&self, stream: &B::Stream, copy: &DeviceCopy) -> Result<(), DeviceError> {
        for slab in slabs::slabs_of(copy) {
            // SAFETY: the slab is part of the box, and the caller keeps both ends of the box valid until the copy has
            // ended.
            unsafe {
                match (&copy.from, &copy.to) {
                    (End::Host { first, .. }, End::Device(to)) => {
                        self.backend.copy_in(stream, *first, to.base, &slab)?;
                    }
                    (End::Device(from), End::Host { first, .. }) => {
                        self.backend.copy_out(stream, from.base, *first, &slab)?;
                    }
                    (End::Device(from), End::Device(to)) => {
                        self.backend.copy_across(stream, from.base, to.base, &slab)?;
                    }
                    (End::Host { .. }, End::Host { .. }) => unreachable!("a device copies from or to a device"),
                }
            }
        }
        Ok(())
    }
}
