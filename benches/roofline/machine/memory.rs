//! Numbers that begin at a cache line, in pages as large as the system has where it tells it to.

/// What a cache brings at once.
const LINE: usize = 64;

/// The pages of most systems.
const PAGE: usize = 1 << 12;

/// An array of numbers.
pub(crate) struct Numbers<T> {
    memory: Vec<T>,
    first: usize,
    len: usize,
}

impl<T: Copy> Numbers<T> {
    /// So many, all of one value.
    pub(crate) fn new(len: usize, value: T) -> Self {
        Self::apart(0, len, value)
    }

    /// The same, of array `number` of several that are read together: they begin at different lines of their pages, as the
    /// runtime's large arrays do, so that equal places do not compete for the same set of a cache.
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

/// Asks for large pages behind the memory of a vector that nobody has touched yet. Whether it gets them is no matter of being
/// right.
#[cfg(target_os = "linux")]
#[allow(unsafe_code)]
fn in_large_pages<T>(memory: &Vec<T>) {
    let begin = memory.as_ptr().addr().next_multiple_of(PAGE);
    let end = (memory.as_ptr().addr() + memory.capacity() * size_of::<T>()) / PAGE * PAGE;
    if end > begin {
        let address = memory.as_ptr().with_addr(begin).cast_mut().cast();
        // SAFETY: whole pages of an allocation of ours; the advice changes nothing of what they hold.
        unsafe { libc::madvise(address, end - begin, libc::MADV_HUGEPAGE) };
    }
}

#[cfg(not(target_os = "linux"))]
fn in_large_pages<T>(_: &Vec<T>) {}
