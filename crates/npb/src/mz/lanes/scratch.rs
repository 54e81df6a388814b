//! Memory that a thread's vectors lie in from call to call.

use std::cell::Cell;

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

/// Scratch memory for vectors, which grows as needed and is reused from call to call.
#[derive(Debug, Default)]
pub(crate) struct Scratch {
    numbers: Vec<f64>,
}

impl Scratch {
    /// None yet.
    pub(crate) const fn new() -> Self {
        Self { numbers: Vec::new() }
    }

    /// `len` vectors that begin at a cache line, holding whatever they held before.
    pub(crate) fn vectors<S: Simd>(&mut self, len: usize) -> &mut [S::f64s] {
        bytemuck::cast_slice_mut(self.numbers(len * S::F64_LANES))
    }

    /// `len` numbers that begin at a cache line, holding whatever they held before.
    pub(crate) fn numbers(&mut self, len: usize) -> &mut [f64] {
        const LINE: usize = 64;
        let most = len + LINE / size_of::<f64>();
        if self.numbers.len() < most {
            self.numbers.resize(most, 0.0);
        }
        let skip = self.numbers.as_ptr().align_offset(LINE);
        &mut self.numbers[skip..skip + len]
    }
}
