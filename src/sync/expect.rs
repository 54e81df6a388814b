//! Prefetching of task blocks. Since the tasks were submitted, other tasks' bodies may have evicted them from the
//! caches.
//!
//! Nothing here changes what a task does, or when.

use super::owned::OwnedTask;
use super::pool;
use super::prefetch::{prefetch_line, prefetch_lines};
use super::tail::Tail;
use super::task::{Kind, Task};
use std::ptr::{self, NonNull};

impl<K: Kind> Task<K> {
    /// Prefetches a task that will run soon: the lines that are read then, so not the second line, with the edges. Of
    /// the body, only the part in the header's last line and one more line are prefetched.
    #[inline]
    pub(super) fn expect_run(task: NonNull<Self>) {
        let start = task.as_ptr().cast::<u8>().cast_const();
        for line in [0, 2, 3, 4] {
            prefetch_line(start.wrapping_add(line * pool::ALIGN));
        }
    }

    /// Prefetches a long body that runs now, all at once; otherwise the thread would wait for each line when it reads
    /// it.
    #[inline]
    pub(crate) fn expect_body(&self) {
        /// A task with few accesses has no more lines than this; for it, even a few instructions would be a large part
        /// of its cost.
        const NEAR: usize = 6;
        let lines = self.block_bytes / pool::ALIGN;
        if lines > NEAR {
            prefetch_lines(ptr::from_ref(self).cast(), lines);
        }
    }

    /// Prefetches, while the body runs, what ending the task will read of its latest successor: the edge, which is
    /// usually in the second line of the successor's block, and the line before. Another thread may have created the
    /// successor.
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
    /// Prefetches what ending a long task reads of all its successors. In a fixed graph this is not in their blocks.
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
