//! Copies of a device: which path each one takes, and the thread that makes it.
//!
//! | host memory of the copy | path |
//! | --- | --- |
//! | none, or page-locked, or of a device that reads any memory without blocking | enqueued as it is |
//! | pageable, at most 1 MiB | packed into page-locked memory by the calling thread, then enqueued |
//! | pageable, larger | on a thread for copies, in pieces: the device copies one piece while the thread packs another |
//! | pageable, and no page-locked memory is left | on a thread for copies, by calls that block it, on a spare stream |
//!
//! A call that copies pageable memory blocks its thread until all earlier work on the stream has ended. Therefore such
//! a call is made without a lock, and only if there is no other way.
//!
//! Invariants:
//! 1. Memory is packed, allocated and waited for without a lock. Under a stream's lock, copies are only enqueued.
//! 2. A spare stream belongs to one thread at a time, and nothing polls it.

use super::staging::{self, Staged};
use super::streams::{State, Stream};
use super::times::Timed;
use super::{Backend, COPIES_ACROSS, COPIES_IN, COPIES_OUT, Gpu, slabs};
use crate::device::{DeviceCopy, End};
use crate::error::DeviceError;
use crate::sync::may_block;
use std::collections::VecDeque;

/// The number of pieces of a copy that are in progress at once.
const PIECES_AT_ONCE: usize = 2;

/// A copy that is ready to be enqueued, with its staging memory, which must be kept until the copy has ended.
pub(super) type Ready<B> = (Option<Staged<B>>, DeviceCopy);

/// Returns the index of the stream for a copy.
fn stream_of(copy: &DeviceCopy) -> usize {
    match (&copy.from, &copy.to) {
        (End::Host { .. }, _) => COPIES_IN,
        (_, End::Host { .. }) => COPIES_OUT,
        _ => COPIES_ACROSS,
    }
}

impl<B: Backend> Gpu<B> {
    /// Returns whether calls that make this copy block their thread.
    fn blocks(&self, copy: &DeviceCopy) -> bool {
        self.backend.copies_block() && staging::is_pageable(copy)
    }

    /// Returns the copy to enqueue instead of this one, which has at most the size of a piece if it blocks. Returns
    /// `None` if even that one would block.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    unsafe fn ready(&self, copy: &DeviceCopy) -> Result<Option<Ready<B>>, DeviceError> {
        if !self.blocks(copy) {
            return Ok(Some((None, *copy)));
        }
        // SAFETY: the caller keeps the host's end valid and exclusive until the copy has ended.
        let staged = unsafe { Staged::of(&*self.backend, copy)? };
        Ok(staged.map(|(staged, copy)| (Some(staged), copy)))
    }

    /// Like [`Self::ready`], but also returns `None` if the copy is too large to be packed by the calling thread.
    ///
    /// # Safety
    /// The same requirements as for [`Self::ready`].
    pub(super) unsafe fn ready_at_once(&self, copy: &DeviceCopy) -> Result<Option<Ready<B>>, DeviceError> {
        if self.blocks(copy) && staging::is_large(copy) {
            return Ok(None);
        }
        // SAFETY: the caller's promise.
        unsafe { self.ready(copy) }
    }

    /// Enqueues a copy that does not block, and calls `then` with the event of its end, and with the points at which it
    /// begins and ends if the device notes times, under the stream's lock.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    pub(super) unsafe fn enqueue<R>(
        &self,
        copy: &DeviceCopy,
        then: impl FnOnce(&mut State<B>, B::Event, Option<Timed<B>>) -> R,
    ) -> Result<R, DeviceError> {
        debug_assert!(!self.blocks(copy), "a copy that blocks is made on a spare stream");
        let (number, source) = (stream_of(copy), self.source_of(copy)?);
        let Stream { stream, state } = &self.streams[number];
        let (error, end) = {
            let mut state = state.lock(); // any thread may enqueue copies
            let begun = self.begin_work(number)?;
            // SAFETY: the caller's promise.
            let enqueued = unsafe { self.enqueue_slabs(stream, copy, source) };
            let enqueued = enqueued.and_then(|()| self.end_work(stream, begun));
            match (enqueued, self.backend.record(stream)) {
                (Ok(times), Ok(end)) => return Ok(then(&mut state, end, times)),
                (Ok(_), Err(error)) => (error, None),
                (Err(error), end) => (error, end.ok()),
            }
        };
        // Slabs that were enqueued before the error still use both ends, so wait for them.
        let _ = end.map(|end| self.backend.synchronize(&end));
        Err(error)
    }

    /// Enqueues a copy on a stream that the calling thread has to itself. Adds its staging memory to `staged`. After an
    /// error, the caller waits for the stream.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    pub(super) unsafe fn enqueue_on(
        &self,
        stream: &B::Stream,
        copy: &DeviceCopy,
        staged: &mut Vec<Staged<B>>,
    ) -> Result<(), DeviceError> {
        // SAFETY: the caller's promise covers each piece.
        let mut enqueue = |piece: &DeviceCopy| unsafe {
            // Without page-locked memory, the call blocks this thread.
            let (memory, piece) = self.ready(piece)?.unwrap_or((None, *piece));
            staged.extend(memory);
            self.enqueue_slabs(stream, &piece, self.source_of(&piece)?)
        };
        match self.blocks(copy) {
            true => staging::pieces(copy).try_for_each(|piece| enqueue(&piece)),
            false => enqueue(copy),
        }
    }

    /// Makes a copy and waits until it has ended.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy_now`](crate::device::Device::copy_now).
    pub(super) unsafe fn make(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        if !self.blocks(copy) {
            // SAFETY: the caller keeps both ends valid until the copy has ended, and the copy ends before this
            // function returns.
            return self.finish(unsafe { self.begin(copy)? });
        }
        let mut under_way = VecDeque::new();
        let result = staging::pieces(copy).try_for_each(|piece| {
            if under_way.len() == PIECES_AT_ONCE {
                under_way.pop_front().map_or(Ok(()), |piece| self.finish(piece))?;
            }
            // SAFETY: the piece is part of the copy, so its ends are valid, and the piece has ended before this
            // function returns.
            under_way.push_back(unsafe { self.begin(&piece)? });
            Ok(())
        });
        // Even after a failure, wait for the other pieces, because they still use both ends of the copy.
        under_way.into_iter().fold(result, |result, piece| result.and(self.finish(piece)))
    }

    /// Enqueues a copy that [`Self::finish`] will wait for, and returns its staging memory and the event of its end.
    /// Returns `None` if the copy has already ended.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    unsafe fn begin(&self, copy: &DeviceCopy) -> Result<Option<(Option<Staged<B>>, B::Event)>, DeviceError> {
        // SAFETY: the caller makes the same promise for this copy.
        unsafe {
            match self.ready(copy)? {
                Some((staged, copy)) => Ok(Some((staged, self.enqueue(&copy, |_, end, _| end)?))),
                None => self.make_blocking(copy).map(|()| None),
            }
        }
    }

    /// Waits for the end of a copy started by [`Self::begin`].
    fn finish(&self, begun: Option<(Option<Staged<B>>, B::Event)>) -> Result<(), DeviceError> {
        let Some((staged, end)) = begun else { return Ok(()) };
        self.backend.synchronize(&end)?;
        staged.into_iter().for_each(Staged::bring_back);
        Ok(())
    }

    /// Makes a copy by calls that block this thread.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    unsafe fn make_blocking(&self, copy: &DeviceCopy) -> Result<(), DeviceError> {
        may_block();
        let (source, spare) = (self.source_of(copy)?, self.spare.lock().pop());
        let stream = spare.map_or_else(|| self.backend.stream(), Ok)?;
        // SAFETY: the caller's promise.
        let copied = unsafe { self.enqueue_slabs(&stream, copy, source) };
        let ended = self.backend.record(&stream).and_then(|end| self.backend.synchronize(&end));
        self.spare.lock().push(stream);
        copied.and(ended)
    }

    /// Returns the device from whose memory a copy between devices reads, as the backend knows it; 0 for other copies.
    fn source_of(&self, copy: &DeviceCopy) -> Result<usize, DeviceError> {
        match (&copy.from, &copy.to) {
            (End::Device(from), End::Device(_)) => self.backend.source(from.base),
            _ => Ok(0),
        }
    }

    /// Enqueues the slabs of a copy, whose [source](Self::source_of) is known.
    ///
    /// # Safety
    /// The same requirements as for [`Device::copy`](crate::device::Device::copy).
    unsafe fn enqueue_slabs(&self, stream: &B::Stream, copy: &DeviceCopy, source: usize) -> Result<(), DeviceError> {
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
                        self.backend.copy_across(stream, source, [from.base, to.base], &slab)?;
                    }
                    (End::Host { .. }, End::Host { .. }) => unreachable!("a device copies from or to a device"),
                }
            }
        }
        Ok(())
    }
}
