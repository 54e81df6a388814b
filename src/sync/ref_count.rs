//! A reference count of 32 bits, small enough for a task's header.
//!
//! A program can forget references without limit, so the count could wrap, and the next drop would free a value in use.
//! An increment beyond half of the range therefore aborts the process, as `Arc` does.
//!
//! Invariant: each thread can perform at most one increment between the check and the abort. The upper half of the
//! range absorbs these increments, because no machine has 2³¹ threads, so the count never wraps.

use super::atomic::{AtomicU32, Ordering, fence};

/// An increment aborts once there are this many references.
const LIMIT: u32 = u32::MAX / 2;

/// The number of references to one value.
pub(super) struct RefCount(AtomicU32);

impl RefCount {
    /// Creates a count that starts at `references`.
    #[inline]
    pub(super) fn new(references: u32) -> Self {
        Self(AtomicU32::new(references))
    }

    /// Counts one more reference. The caller must already have one.
    ///
    /// # Aborts
    /// Aborts if the program holds or has forgotten 2³¹ references.
    #[inline]
    pub(super) fn increase(&self) {
        if self.0.fetch_add(1, Ordering::Relaxed) > LIMIT {
            too_many();
        }
    }

    /// Gives one reference back. Returns true if it was the last one; in that case every earlier use of the value is
    /// visible.
    #[inline]
    #[must_use = "the last reference frees the value"]
    pub(super) fn decrease(&self) -> bool {
        // The holder of the only reference needs no locked instruction, because no other thread can create another
        // reference.
        if self.0.load(Ordering::Acquire) == 1 || self.0.fetch_sub(1, Ordering::Release) == 1 {
            fence(Ordering::Acquire);
            return true;
        }
        false
    }

    /// Gives several references back. At least one other reference must remain.
    #[inline]
    pub(super) fn give_back(&self, references: u32) {
        self.0.fetch_sub(references, Ordering::Release);
    }

    /// Whether the caller's reference is the only one.
    pub(super) fn is_one(&self) -> bool {
        self.0.load(Ordering::Acquire) == 1
    }

    /// Sets the count as if this many references existed.
    #[cfg(test)]
    pub(super) fn set(&self, references: u32) {
        self.0.store(references, Ordering::Relaxed);
    }
}

#[cold]
#[inline(never)]
fn too_many() -> ! {
    eprintln!(
        "thalweg: cannot make another reference to a value: 2³¹ of them were made and never dropped; \
         try dropping clones of handles instead of forgetting them"
    );
    std::process::abort()
}
