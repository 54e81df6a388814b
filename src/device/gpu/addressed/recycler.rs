//! Device memory and page-locked host memory that is reused rather than freed, because freeing waits for all work on
//! the device.
//!
//! Requests are rounded up to *classes*, eight for each power of two, so requests of similar sizes use the same blocks.
//! Allocating may wait for the device too. Therefore blocks are allocated ahead, in *chunks*: a chunk has at least as
//! many blocks as its class had before, up to a limit. After its first iterations, a program that repeats itself
//! allocates nothing. A chunk is freed only if memory is short and none of its blocks is in use.
//!
//! The driver's own pools are an alternative, to be measured (`THALWEG_DEVICE_MEMORY=pool`; `docs/gpu.md`).
//!
//! Blocks are returned only when nothing uses them any more, so they can be given to another task at once.
//! With `THALWEG_EXACT_MEMORY=1` nothing is reused: each request gets memory of exactly its size, which is freed when
//! it is returned. So tools such as compute-sanitizer find accesses beyond the end or after the release.
//!
//! Invariants, if memory is reused:
//! 1. A block is either in use or free, never both.
//! 2. A request, rounded up to whole granules, gets a block that is at most one eighth larger than the rounded size.
//! 3. A request is refused only if an allocation of its rounded size fails while each chunk has a block in use.
//! 4. Nothing is allocated or freed while the lock is held.

use parking_lot::Mutex;
use std::collections::BTreeMap;

/// Block sizes are multiples of this. It matches the alignment of the interfaces' own allocations.
const GRANULE_BYTES: usize = 512;
/// The maximum size of a class's first chunk, unless a single block is larger. It matches the size of a GPU's pages.
const FIRST_BYTES: usize = 2 << 20;
/// The maximum size of a chunk of several blocks.
const MOST_BYTES: usize = 256 << 20;

/// The blocks of a device's memory or of page-locked memory.
#[derive(Debug, Default)]
pub(super) struct Recycler {
    blocks: Mutex<Blocks>,
    /// Whether each request is passed on as it is.
    passes_on: bool,
    /// The maximum size of a chunk of several blocks.
    ahead_bytes: usize,
}

#[derive(Debug, Default)]
struct Blocks {
    /// The addresses of free blocks, by size.
    free: BTreeMap<usize, Vec<usize>>,
    /// All chunks, by address.
    chunks: BTreeMap<usize, Chunk>,
    /// The number of blocks of each size, in use or free.
    made: BTreeMap<usize, usize>,
}

/// Adjacent blocks that were allocated together.
#[derive(Debug)]
struct Chunk {
    block_bytes: usize,
    count: usize,
    in_use: usize,
}

/// Rounds a size up to its class.
fn class_of(bytes: usize) -> usize {
    let step = bytes.checked_next_power_of_two().map_or(GRANULE_BYTES, |power| (power / 16).max(GRANULE_BYTES));
    bytes.checked_next_multiple_of(step).unwrap_or(bytes)
}

impl Recycler {
    /// Returns a recycler that passes each request on.
    pub(super) fn passing_on() -> Self {
        Self { passes_on: true, ..Self::default() }
    }

    /// Returns a recycler for a memory of this size.
    pub(super) fn of_memory(bytes: usize) -> Self {
        Self { ahead_bytes: (bytes / 64).min(MOST_BYTES), ..Self::default() }
    }

    /// Returns the address and the size of a block of at least `bytes` bytes.
    ///
    /// If no free block fits, `allocate` creates a chunk: of several blocks, or else of one. If there is no memory for
    /// it, all unused chunks are passed to `free` first, and the block is made no larger than necessary.
    pub(super) fn take<E>(
        &self,
        bytes: usize,
        allocate: impl Fn(usize) -> Result<usize, E>,
        free: impl Fn(usize),
    ) -> Result<(usize, usize), E> {
        if self.passes_on {
            return allocate(bytes.max(1)).map(|address| (address, bytes));
        }
        let bytes = bytes.max(1).checked_next_multiple_of(GRANULE_BYTES).unwrap_or(bytes);
        let class = class_of(bytes);
        let count = {
            let mut blocks = self.blocks.lock();
            if let Some(block) = blocks.reuse(bytes) {
                return Ok(block);
            }
            let first = FIRST_BYTES.min(self.ahead_bytes / 8) / class;
            blocks.made.get(&class).map_or(first, |made| first.max(*made)).min(self.ahead_bytes / class)
        };
        let make = |size: usize, count: usize| {
            let address = allocate(size * count)?;
            self.blocks.lock().add(address, size, count);
            Ok((address, size))
        };
        if count > 1
            && let Ok::<_, E>(block) = make(class, count)
        {
            return Ok(block);
        }
        make(class, 1).or_else(|error| if self.clear(free) || bytes < class { make(bytes, 1) } else { Err(error) })
    }

    /// Takes back a block. If requests are passed on, passes the block to `free`.
    pub(super) fn give_back(&self, address: usize, bytes: usize, free: impl Fn(usize)) {
        if self.passes_on {
            return free(address);
        }
        let mut blocks = self.blocks.lock();
        blocks.chunk_of(address).in_use -= 1;
        blocks.free.entry(bytes).or_default().push(address);
    }

    /// Passes all unused chunks to `free`, and returns whether there were any.
    pub(super) fn clear(&self, free: impl Fn(usize)) -> bool {
        let unused = self.blocks.lock().take_unused();
        unused.iter().for_each(|address| free(*address));
        !unused.is_empty()
    }
}

impl Blocks {
    /// Takes a free block of this size, or of one that is at most an eighth larger.
    fn reuse(&mut self, bytes: usize) -> Option<(usize, usize)> {
        let (&size, addresses) = self.free.range_mut(bytes..=bytes.saturating_add(bytes / 8)).next()?;
        let address = addresses.pop();
        if addresses.is_empty() {
            self.free.remove(&size);
        }
        let address = address.expect("a size without free blocks has no entry");
        self.chunk_of(address).in_use += 1;
        Some((address, size))
    }

    fn chunk_of(&mut self, address: usize) -> &mut Chunk {
        let (_, chunk) = self.chunks.range_mut(..=address).next_back().expect("each block belongs to a chunk");
        chunk
    }

    /// Adds a chunk, whose first block is in use.
    fn add(&mut self, address: usize, block_bytes: usize, count: usize) {
        self.chunks.insert(address, Chunk { block_bytes, count, in_use: 1 });
        *self.made.entry(block_bytes).or_default() += count;
        if count > 1 {
            let others = (1..count).rev().map(|n| address + n * block_bytes); // so that the next one is taken first
            self.free.entry(block_bytes).or_default().extend(others);
        }
    }

    /// Removes all chunks without blocks in use, and returns their addresses.
    fn take_unused(&mut self) -> Vec<usize> {
        let is_unused = |(first, chunk): (&usize, &Chunk)| (chunk.in_use == 0).then_some(*first);
        let unused: Vec<_> = self.chunks.iter().filter_map(is_unused).collect();
        for first in &unused {
            let Some(Chunk { block_bytes, count, .. }) = self.chunks.remove(first) else { continue };
            let range = *first..first + block_bytes * count;
            if let Some(addresses) = self.free.get_mut(&block_bytes) {
                addresses.retain(|address| !range.contains(address));
            }
            if let Some(made) = self.made.get_mut(&block_bytes) {
                *made -= count;
            }
        }
        self.free.retain(|_, addresses| !addresses.is_empty());
        self.made.retain(|_, made| *made > 0);
        unused
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
        let (heap, recycler) = (Heap::new(1 << 20), Recycler::passing_on());
        for n in 0..3 {
            let (address, bytes) = heap.take(&recycler, 1000).unwrap();
            assert_eq!((heap.blocks.borrow()[&address], bytes, *heap.allocations.borrow()), (1000, 1000, n + 1));
            recycler.give_back(address, bytes, |address| heap.free(address));
        }
        assert!(heap.blocks.borrow().is_empty());
    }

    #[test]
    fn similar_sizes_use_the_same_blocks() {
        let (heap, recycler) = (Heap::new(1 << 20), Recycler::default());
        for bytes in [9 << 10, (9 << 10) - 700, (8 << 10) + 1] {
            let (address, size) = heap.take(&recycler, bytes).unwrap();
            assert_eq!(size, 9 << 10);
            recycler.give_back(address, size, |_| unreachable!());
        }
        assert_eq!(*heap.allocations.borrow(), 1);
    }

    #[test]
    fn blocks_are_allocated_ahead() {
        let (heap, recycler) = (Heap::new(1 << 20), Recycler::of_memory(1 << 20)); // chunks of at most 16 KiB
        let blocks: Vec<_> = (0..32).map(|_| heap.take(&recycler, 1024).unwrap()).collect();
        assert_eq!(*heap.allocations.borrow(), 5, "of 2, 2, 4, 8 and 16 blocks");
        let mut addresses: Vec<_> = blocks.iter().map(|(address, _)| *address).collect();
        addresses.sort_unstable();
        assert!(addresses.windows(2).all(|two| two[0] + 1024 <= two[1]), "blocks do not overlap");
        assert_eq!(heap.take(&recycler, 100_000).unwrap().1, 104 << 10, "a block that is larger than a chunk");
        assert!(!recycler.clear(|_| unreachable!()), "all chunks are in use");
        for &(address, bytes) in &blocks[..5] {
            recycler.give_back(address, bytes, |_| unreachable!());
        }
        recycler.clear(|address| heap.free(address));
        assert_eq!(heap.blocks.borrow().len(), 4, "the first two chunks are unused, the third is in part");
        heap.take(&recycler, 1024).unwrap();
        assert_eq!(*heap.allocations.borrow(), 6, "the free block of the third chunk is used");
    }

    #[test]
    fn single_block_is_allocated_if_there_is_no_room_for_more() {
        let (heap, recycler) = (Heap::new(3000), Recycler::of_memory(1 << 20));
        assert_eq!((heap.take(&recycler, 1024).unwrap().1, heap.blocks.borrow().len()), (1024, 1));
        let (heap, recycler) = (Heap::new(9000), Recycler::default());
        assert_eq!(heap.take(&recycler, 8300).unwrap().1, 17 * 512, "its class would have 9216 bytes");
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
