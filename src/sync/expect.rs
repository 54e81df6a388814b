//! Prefetching of task blocks, which other tasks' bodies may have evicted from the caches since submission.
//!
//! Prefetching never changes what a task does, or when.

use super::owned::OwnedTask;
use super::pool;
use super::prefetch::{prefetch_line, prefetch_lines};
use super::tail::Tail;
use super::task::{Kind, Task};
use std::ptr::{self, NonNull};

impl<K: Kind> Task<K> {
    /// Prefetches the cache lines of a task that will be read when it runs soon. This excludes the second line, which
    /// contains the edges. Of the body, only the part in the header's last line and one more line are prefetched.
    #[inline]
    pub(super) fn expect_run(task: NonNull<Self>) {
        let start = task.as_ptr().cast::<u8>().cast_const();
        for line in [0, 2, 3, 4] {
            prefetch_line(start.wrapping_add(line * pool::ALIGN));
        }
    }

    /// Prefetches all of a long body that is about to run; otherwise the thread would stall on each line when it reads
    /// it.
    #[inline]
    pub(crate) fn expect_body(&self) {
        /// A task with few accesses has at most this many lines, and even a few instructions would be a large part of
        /// its cost.
        const NEAR: usize = 6;
        let lines = self.block_bytes / pool::ALIGN;
        if lines > NEAR {
            prefetch_lines(ptr::from_ref(self).cast(), lines);
        }
    }

    /// Called while the body runs: prefetches the parts of the task's latest successor that will be read when the task
    /// ends. These are the edge, which is usually in the second line of the successor's block, and the line before it.
    /// The successor may have been created by another thread, so it may not be in this core's cache.
    #[inline]
    pub(crate) fn expect_end(&self) {
        let edge = self.successors.latest().cast::<u8>();
        if edge.addr() > 1 {
            prefetch_line(edge.wrapping_sub(pool::ALIGN));
            prefetch_line(edge);
        }
    }
}

impl<K: Kind> OwnedTask<K> {
    /// Prefetches the parts of all successors that will be read when a long task ends. In a fixed graph, these are not
    /// in the successors' blocks.
    #[inline]
    pub(crate) fn expect_successors(&self) {
        if let Some(tail) = self.tail()
            && !self.is_in_rounds()
        {
            // SAFETY: the tail was initialized with the task, which `self` owns.
            unsafe { Tail::noted(tail, self.address_of().cast()) }.for_each(prefetch_line);
        }
    }
}
