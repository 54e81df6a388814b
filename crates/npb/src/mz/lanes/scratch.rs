//! Scratch memory for vectors, which a thread reuses from call to call.
//!
//! Large scratch memory uses huge pages if Linux provides them. For each zone, a thread traverses all of its
//! scratch memory, interleaved with the zone's arrays, so with small pages it would stall on address translations.

use std::cell::Cell;

use memmap2::MmapMut;
use pulp::Simd;

/// Runs `work` with this thread's scratch memory.
#[inline(always)]
pub(crate) fn with_scratch<T>(work: impl FnOnce(&mut Scratch) -> T) -> T {
    thread_local!(static SCRATCH: Cell<Scratch> = const { Cell::new(Scratch::new()) });
    let mut scratch = SCRATCH.take();
    let result = work(&mut scratch);
    SCRATCH.set(scratch);
    result
}

/// Size of a cache line in bytes, on nearly all processors.
pub const LINE: usize = 64;
/// Size of a huge page in bytes, on nearly all processors. Smaller scratch memory gained nothing from huge pages.
pub const HUGE_PAGE: usize = 2 << 20;

/// Scratch memory for vectors, which grows as needed and is reused from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    small: Vec<f64>,
    large: Option<MmapMut>,
}

impl Scratch {
    /// Creates scratch memory without allocating.
    pub const fn new() -> Self {
        Self { small: Vec::new(), large: None }
    }

    /// Returns `len` vectors, aligned to a cache line, that hold arbitrary values left by earlier calls.
    pub fn vectors<S: Simd>(&mut self, len: usize) -> &mut [S::f64s] {
        bytemuck::cast_slice_mut(self.numbers(len * S::F64_LANES))
    }

    /// Returns `len` numbers, aligned to a cache line, that hold arbitrary values left by earlier calls.
    pub fn numbers(&mut self, len: usize) -> &mut [f64] {
        let bytes = len * size_of::<f64>();
        if bytes >= HUGE_PAGE {
            if self.large.as_ref().is_none_or(|large| usable(large).len() < bytes) {
                self.large = in_huge_pages(bytes);
            }
            if let Some(large) = &mut self.large {
                let usable = usable(large);
                return bytemuck::cast_slice_mut(&mut large[usable][..bytes]);
            }
        }
        let most = len + LINE / size_of::<f64>();
        if self.small.len() < most {
            self.small.resize(most, 0.0);
        }
        let skip = self.small.as_ptr().align_offset(LINE);
        &mut self.small[skip..skip + len]
    }
}

/// Returns the byte range that starts at the first huge page boundary.
fn usable(large: &MmapMut) -> std::ops::Range<usize> {
    large.as_ptr().align_offset(HUGE_PAGE)..large.len()
}

/// Allocates zeroed memory with room for `bytes` bytes after the first huge page boundary; `None` if the system
/// refuses.
#[cold]
fn in_huge_pages(bytes: usize) -> Option<MmapMut> {
    let large = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE).ok()?;
    #[cfg(target_os = "linux")]
    let _ = large.advise(memmap2::Advice::HugePage); // only a hint: results do not depend on it
    Some(large)
}
