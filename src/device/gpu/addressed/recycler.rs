//! Device memory that is reused rather than freed, because freeing waits for all work on the device.
//!
//! The interfaces' own memory pools are not used: HIP's pools lose or corrupt memory in several HIP versions, and
//! CUDA's pools require peer access to be granted separately. Tasks allocate the same few sizes again and again, so
//! this simple module suffices.
//!
//! Blocks are returned only when nothing uses them any more, so they can be given to another task at once.
//! With `THALWEG_EXACT_MEMORY=1` nothing is reused: each request gets memory of exactly its size, which is freed when
//! it is returned. So tools such as compute-sanitizer find accesses beyond the end or after the release.
//!
//! Invariants, unless memory is exact:
//! 1. A block is either in use or free, never both.
//! 2. A request, rounded up to whole granules, gets a block that is at most one eighth larger than the rounded size.
//! 3. A request is refused only if the allocation fails while there are no free blocks.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Block sizes are multiples of this. It matches the alignment of the interfaces' own allocations.
const GRANULE_BYTES: usize = 512;

/// The free blocks of a device, by size.
#[derive(Debug, Default)]
pub(super) struct Recycler {
    free: Mutex<BTreeMap<usize, Vec<usize>>>,
    pub(super) is_exact: bool,
}

impl Recycler {
    /// Returns a recycler that reuses memory, unless the environment requests exact memory.
    pub(super) fn from_environment() -> Self {
        let set = std::env::var("THALWEG_EXACT_MEMORY").unwrap_or_default();
        Self { is_exact: !matches!(set.as_str(), "" | "0"), ..Self::default() }
    }

    /// Returns the address and the size of a block of at least `bytes` bytes.
    ///
    /// If no free block fits, `allocate` creates a new block. If `allocate` fails, all free blocks are passed to
    /// `free`, and `allocate` is called again.
    pub(super) fn take<E>(
        &self,
        bytes: usize,
        allocate: impl Fn(usize) -> Result<usize, E>,
        free: impl Fn(usize),
    ) -> Result<(usize, usize), E> {
        if self.is_exact {
            return allocate(bytes.max(1)).map(|address| (address, bytes));
        }
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULE_BYTES).unwrap_or(bytes);
        if let Some(block) = self.reuse(bytes) {
            return Ok(block);
        }
        let made = allocate(bytes).or_else(|error| if self.clear(free) { allocate(bytes) } else { Err(error) });
        made.map(|address| (address, bytes))
    }

    fn reuse(&self, bytes: usize) -> Option<(usize, usize)> {
        let mut free = self.free.lock();
        let (&size, blocks) = free.range_mut(bytes..=bytes.saturating_add(bytes / 8)).next()?;
        let address = blocks.pop();
        if blocks.is_empty() {
            free.remove(&size);
        }
        address.map(|address| (address, size))
    }

    /// Takes back a block. If memory is exact, passes the block to `free`.
    pub(super) fn give_back(&self, address: usize, bytes: usize, free: impl Fn(usize)) {
        if self.is_exact {
            return free(address);
        }
        self.free.lock().entry(bytes).or_default().push(address);
    }

    /// Passes all free blocks to `free`, and returns whether there were any.
    pub(super) fn clear(&self, free: impl Fn(usize)) -> bool {
        let blocks = std::mem::take(&mut *self.free.lock());
        blocks.values().flatten().for_each(|address| free(*address));
        !blocks.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::cell::RefCell;

    /// A fake heap with a fixed capacity, and its allocated blocks.
    struct Heap {
        capacity: usize,
        blocks: RefCell<BTreeMap<usize, usize>>,
        allocations: RefCell<usize>,
    }

    impl Heap {
        fn new(capacity: usize) -> Self {
            Self { capacity, blocks: RefCell::default(), allocations: RefCell::default() }
        }

        fn allocate(&self, bytes: usize) -> Result<usize, &'static str> {
            let mut blocks = self.blocks.borrow_mut();
            if blocks.values().sum::<usize>().saturating_add(bytes) > self.capacity {
                return Err("full");
            }
            *self.allocations.borrow_mut() += 1;
            let address = *self.allocations.borrow() << 32;
            blocks.insert(address, bytes);
            Ok(address)
        }

        fn free(&self, address: usize) {
            assert!(self.blocks.borrow_mut().remove(&address).is_some(), "a block is freed once");
        }

        fn take(&self, recycler: &Recycler, bytes: usize) -> Result<(usize, usize), &'static str> {
            recycler.take(bytes, |bytes| self.allocate(bytes), |address| self.free(address))
        }
    }

    #[test]
    fn blocks_of_same_size_are_reused() {
        let (heap, recycler) = (Heap::new(1 << 20), Recycler::default());
        for _ in 0..10 {
            let (address, bytes) = heap.take(&recycler, 1000).unwrap();
            recycler.give_back(address, bytes, |_| unreachable!());
        }
        assert_eq!(*heap.allocations.borrow(), 1);
        let (_, bytes) = heap.take(&recycler, 400).unwrap();
        assert_eq!((bytes, *heap.allocations.borrow()), (512, 2), "a block twice as large is not used for it");
    }

    #[test]
    fn free_blocks_are_released_when_memory_is_full() {
        let (heap, recycler) = (Heap::new(4096), Recycler::default());
        let blocks: Vec<_> = (0..4).map(|_| heap.take(&recycler, 1024).unwrap()).collect();
        assert_eq!(heap.take(&recycler, 512), Err("full"));
        for &(address, bytes) in &blocks[..2] {
            recycler.give_back(address, bytes, |_| unreachable!());
        }
        assert_eq!(heap.take(&recycler, 2048).unwrap().1, 2048);
        assert_eq!(heap.take(&recycler, usize::MAX), Err("full"));
    }

    #[test]
    fn exact_memory_is_never_reused() {
        let (heap, recycler) = (Heap::new(1 << 20), Recycler { is_exact: true, ..Recycler::default() });
        for n in 0..3 {
            let (address, bytes) = heap.take(&recycler, 1000).unwrap();
            assert_eq!((heap.blocks.borrow()[&address], bytes, *heap.allocations.borrow()), (1000, 1000, n + 1));
            recycler.give_back(address, bytes, |address| heap.free(address));
        }
        assert!(heap.blocks.borrow().is_empty());
    }

    proptest! {
        #[test]
        fn blocks_have_one_user(steps in prop::collection::vec((1..5000usize, any::<bool>()), 1..200)) {
            let (heap, recycler) = (Heap::new(100_000), Recycler::default());
            let mut used: BTreeMap<usize, usize> = BTreeMap::new();
            for (bytes, takes) in steps {
                if takes {
                    let Ok((address, size)) = heap.take(&recycler, bytes) else {
                        prop_assert!(used.values().sum::<usize>() + bytes > 100_000 - GRANULE_BYTES);
                        continue;
                    };
                    prop_assert!(size >= bytes && size <= bytes + bytes / 8 + GRANULE_BYTES * 9 / 8);
                    let allocated = heap.blocks.borrow().get(&address).copied();
                    prop_assert_eq!(allocated, Some(size));
                    prop_assert!(used.insert(address, size).is_none());
                } else if let Some((address, size)) = used.pop_first() {
                    recycler.give_back(address, size, |_| unreachable!());
                }
            }
            recycler.clear(|address| heap.free(address));
            prop_assert_eq!(&*heap.blocks.borrow(), &used);
        }
    }
}
