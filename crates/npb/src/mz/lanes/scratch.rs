//! Memory that a thread's vectors lie in from call to call.
//!
//! What is large lies in huge pages, where Linux leaves those to programs: a thread goes through all of it for each zone, and
//! would else wait for the addresses of its pages, in turns with those of the zone's arrays.

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

/// A cache line, nearly everywhere.
pub const LINE: usize = 64;
/// A huge page, nearly everywhere. What is smaller gained nothing by one.
pub const HUGE_PAGE: usize = 2 << 20;

/// Scratch memory for vectors, which grows as needed and is reused from call to call.
#[derive(Debug, Default)]
pub struct Scratch {
    small: Vec<f64>,
    large: Option<MmapMut>,
}

impl Scratch {
    /// None yet.
    pub const fn new() -> Self {
        Self { small: Vec::new(), large: None }
    }

    /// `len` vectors that begin at a cache line, holding whatever they held before.
    pub fn vectors<S: Simd>(&mut self, len: usize) -> &mut [S::f64s] {
        bytemuck::cast_slice_mut(self.numbers(len * S::F64_LANES))
    }

    /// `len` numbers that begin at a cache line, holding whatever they held before.
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

/// The bytes of some memory from its first huge page on.
fn usable(large: &MmapMut) -> std::ops::Range<usize> {
    large.as_ptr().align_offset(HUGE_PAGE)..large.len()
}

/// Zeros with room for so many bytes from the first huge page on; none if the system has no such memory.
#[cold]
fn in_huge_pages(bytes: usize) -> Option<MmapMut> {
    let large = MmapMut::map_anon(bytes.next_multiple_of(HUGE_PAGE) + HUGE_PAGE).ok()?;
    #[cfg(target_os = "linux")]
    let _ = large.advise(memmap2::Advice::HugePage); // advice alone: without them it is as right
    Some(large)
}
