//! Transfers in flight by io_uring, if the kernel allows it.
//!
//! Some containers refuse io_uring, and so do kernels before 5.6. This module never repeats or completes a transfer.

use io_uring::{IoUring, opcode, types};
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// A queue of transfers in the kernel.
pub(super) struct Ring(IoUring);

impl Ring {
    /// Creates a queue for this many transfers, or returns `None` if the kernel refuses.
    pub(super) fn new(transfers: u32) -> Option<Self> {
        IoUring::new(transfers).ok().map(Self)
    }

    /// Starts to transfer all of these bytes, at a position of a file.
    ///
    /// # Safety
    /// Until [`wait`](Self::wait) has returned `number`, the file stays open and the bytes stay allocated, and nothing
    /// else uses them. No more transfers are in flight than the queue was created for.
    pub(super) unsafe fn start(&mut self, number: usize, file: &File, bytes: &mut [u8], at: u64, is_write: bool) {
        let (file, len) = (types::Fd(file.as_raw_fd()), bytes.len() as u32);
        let entry = match is_write {
            true => opcode::Write::new(file, bytes.as_ptr(), len).offset(at).build(),
            false => opcode::Read::new(file, bytes.as_mut_ptr(), len).offset(at).build(),
        };
        // SAFETY: the file and the bytes are valid until the transfer has ended, by the caller's promise.
        let pushed = unsafe { self.0.submission().push(&entry.user_data(number as u64)) };
        pushed.expect("the queue has room for all transfers");
        self.enter(0);
    }

    /// Waits for the end of a transfer that is in flight. Returns its number, and how many bytes were transferred.
    pub(super) fn wait(&mut self) -> (usize, io::Result<usize>) {
        loop {
            if let Some(entry) = self.0.completion().next() {
                let result = usize::try_from(entry.result()).map_err(|_| io::Error::from_raw_os_error(-entry.result()));
                return (entry.user_data() as usize, result);
            }
            self.enter(1);
        }
    }

    /// Passes new transfers to the kernel, and waits until this many have ended.
    fn enter(&self, ended: usize) {
        while let Err(error) = self.0.submit_and_wait(ended) {
            if !matches!(error.raw_os_error(), Some(libc::EINTR | libc::EAGAIN | libc::EBUSY)) {
                // The kernel may still write into buffers, so unwinding must not free them.
                log!(error, "the kernel accepts no transfers from a queue that exists: {error}");
                std::process::abort();
            }
        }
    }
}
