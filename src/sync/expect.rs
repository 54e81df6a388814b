//! What of tasks' blocks is asked for ahead of time: since they were submitted, other tasks' bodies may have taken the caches.
//!
//! Prefetches alone: nothing here changes what a task does, or when.

use super::owned::OwnedTask;
use super::pool;
use super::prefetch::{prefetch_line, prefetch_lines};
use super::tail::Tail;
use super::task::{Kind, Task};
use std::ptr::{self, NonNull};

impl<K: Kind> Task<K> {
    /// Will be run in a moment: brings to the cache what is looked at then, which is not the second line, with the edges. Of the
    /// body, as much as is in the header's last line and in one more.
    #[inline]
    pub(super) fn expect_run(task: NonNull<Self>) {
        let start = task.as_ptr().cast::<u8>().cast_const();
        for line in [0, 2, 3, 4] {
            prefetch_line(start.wrapping_add(line * pool::ALIGN));
        }
    }

    /// Is run now: brings a long body to the cache all at once, as each line would else be waited for when it is looked at.
    #[inline]
    pub(crate) fn expect_body(&self) {
        /// A task with few accesses has no more lines: a few instructions would be much of what it costs.
        const NEAR: usize = 6;
        let lines = self.block_bytes / pool::ALIGN;
        if lines > NEAR {
            prefetch_lines(ptr::from_ref(self).cast(), lines);
        }
    }

    /// Will be ended when its body has run: meanwhile brings to the cache what is looked at then of the successor that came last,
    /// its edge, which as a rule is in its block's second line, and the line before. Another thread may have made the successor.
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
    /// Is ended now: brings to the cache what is looked at of all successors of a long task. In a graph that stays, that is not
    /// in their blocks.
    #[inline]
    pub(crate) fn expect_successors(&self) {
        if let Some(tail) = self.tail()
            && !self.is_in_rounds()
        {
            // SAFETY: the tail was begun with the task, whose owner this is.
            unsafe { Tail::noted(tail, self.address_of().cast()) }.for_each(prefetch_line);
        }
    }
}
