//! Cache-line-aligned arrays of numbers, in large pages if the system provides them.

/// Size of a cache line.
const LINE: usize = 64;

/// Page size of most systems.
const PAGE: usize = 1 << 12;

/// An array of numbers.
pub(crate) struct Numbers<T> {
    memory: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy> Numbers<T> {
    /// Allocates `len` numbers that all have the value `value`.
    pub(crate) fn new(len: usize, value: T) -> Self {
        Self::apart(0, len, value)
    }

    /// Allocates array `number` of several arrays that are read together. The arrays begin at different cache lines of
    /// their pages, like the runtime's large arrays, so that elements with equal indices do not compete for the same
    /// cache set.
    pub(crate) fn apart(number: usize, len: usize, value: T) -> Self {
        let (line, skipped) = (LINE / size_of::<T>(), 17 * number % (PAGE / LINE));
        let mut memory = Vec::with_capacity(len + (skipped + 1) * line);
        in_large_pages(&memory);
        memory.resize(memory.capacity(), value);
        let first = memory.as_ptr().align_offset(LINE) + skipped * line;
        Self { memory, first, len }
    }

    pub(crate) fn slice(&self) -> &[T] {
        &self.memory[self.first..][..self.len]
    }

    pub(crate) fn slice_mut(&mut self) -> &mut [T] {
        &mut self.memory[self.first..][..self.len]
    }
}

/// Requests large pages for a vector whose memory has not been touched yet. Correctness does not depend on getting
/// them.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn in_large_pages<T>(memory: &Vec<T>) {
    let begin = memory.as_ptr().addr().next_multiple_of(PAGE);
    let end = (memory.as_ptr().addr() + memory.capacity() * size_of::<T>()) / PAGE * PAGE;
    if end > begin {
        let address = memory.as_ptr().with_addr(begin).cast_mut().cast();
        // SAFETY: the range consists of whole pages inside our own allocation, and the advice does not change their
        // contents.
        unsafe { libc::madvise(address, end - begin, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn in_large_pages<T>(_: &Vec<T>) {}
