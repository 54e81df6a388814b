//! Memory for task blocks: size classes, a cache per thread, batches between threads.
//!
//! Tasks are born on one thread and die on another, millions of times; a general allocator makes both sides meet at a
//! lock for each. Here a thread keeps freed blocks to itself and only full batches change hands, under a lock that is
//! taken once per [`BATCH`] blocks. Blocks are never handed back to the system: the pool stays at the size of the
//! program's peak of pending tasks.
//!
//! Blocks that are larger than the largest class, or aligned to more than [`ALIGN`], are allocated alone.
//!
//! Invariants:
//! 1. A block belongs to one size class for ever, and is aligned to [`ALIGN`].
//! 2. A free block is linked in exactly one list: a thread's cache or one shared batch.

use parking_lot::Mutex;
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::{self, NonNull};

/// Alignment of every block, and the step between size classes: one cache line.
pub(super) const ALIGN: usize = 64;
const CLASSES: usize = 16;
const BATCH: usize = 64;
/// A class that means: too large for the pool, or aligned to more, allocated alone.
const ALONE: usize = CLASSES;

/// A free block: the link lies in the block itself.
struct Free {
    next: *mut Free,
}

/// A singly linked list of free blocks.
#[derive(Clone, Copy)]
struct List {
    head: *mut Free,
    len: usize,
}

// SAFETY: a list owns its free blocks; nobody else refers to them (invariant 2).
unsafe impl Send for List {}

impl List {
    const EMPTY: Self = Self { head: ptr::null_mut(), len: 0 };

    fn push(&mut self, block: NonNull<u8>) {
        let block = block.cast::<Free>().as_ptr();
        // SAFETY: a free block is at least one cache line of memory that nobody else uses.
        unsafe { (*block).next = self.head };
        self.head = block;
        self.len += 1;
    }

    fn pop(&mut self) -> Option<NonNull<u8>> {
        let block = NonNull::new(self.head)?;
        // SAFETY: blocks in the list are valid and ours.
        self.head = unsafe { block.as_ref().next };
        self.len -= 1;
        Some(block.cast())
    }
}

struct Class {
    local: List,
    /// A second, full list, so that a thread that swings around a batch boundary does not go to the shared pool each time.
    spare: List,
}

static SHARED: [Mutex<Vec<List>>; CLASSES] = [const { Mutex::new(Vec::new()) }; CLASSES];

struct Cache([Class; CLASSES]);

impl Drop for Cache {
    fn drop(&mut self) {
        for (class, shared) in self.0.iter().zip(&SHARED) {
            shared.lock().extend([class.local, class.spare].into_iter().filter(|list| list.len > 0));
        }
    }
}

thread_local! {
    static CACHE: RefCell<Cache> =
        const { RefCell::new(Cache([const { Class { local: List::EMPTY, spare: List::EMPTY } }; CLASSES])) };
}

/// The class of a block with this layout.
pub(super) const fn class_of(layout: Layout) -> usize {
    let lines = layout.size().div_ceil(ALIGN);
    if layout.align() > ALIGN || lines > CLASSES { ALONE } else { lines.saturating_sub(1) }
}

/// Of `blocks` blocks of a class, one after the other.
fn layout(class: usize, blocks: usize) -> Layout {
    Layout::from_size_align((class + 1) * ALIGN * blocks, ALIGN).expect("a batch of the largest class is small")
}

/// A block with at least this layout, which is one of `class`; uninitialised.
#[inline(always)] // the class is a constant where this is called: little is left
pub(super) fn allocate(wanted: Layout, class: usize) -> NonNull<u8> {
    debug_assert_eq!(class, class_of(wanted));
    if class == ALONE {
        return system(wanted);
    }
    CACHE
        .try_with(|cache| {
            let class_cache = &mut cache.borrow_mut().0[class];
            class_cache.local.pop().unwrap_or_else(|| refill(class, class_cache))
        })
        .unwrap_or_else(|_| system(layout(class, 1)))
}

/// Gives back a block that [`allocate`] returned.
///
/// # Safety
/// Nobody uses the block any more, and `class` and `layout` are what it was allocated with.
#[inline]
pub(super) unsafe fn free(block: NonNull<u8>, class: usize, layout: impl FnOnce() -> Layout) {
    if class == ALONE {
        // SAFETY: allocated alone with this very layout.
        unsafe { dealloc(block.as_ptr(), layout()) };
        return;
    }
    let cached = CACHE.try_with(|cache| {
        let class_cache = &mut cache.borrow_mut().0[class];
        if class_cache.local.len >= BATCH {
            let full = std::mem::replace(&mut class_cache.spare, class_cache.local);
            class_cache.local = List::EMPTY;
            if full.len > 0 {
                SHARED[class].lock().push(full);
            }
        }
        class_cache.local.push(block);
    });
    if cached.is_err() {
        // The thread is ending and its cache is gone.
        let mut list = List::EMPTY;
        list.push(block);
        SHARED[class].lock().push(list);
    }
}

#[cold]
fn refill(class: usize, cache: &mut Class) -> NonNull<u8> {
    if cache.spare.len > 0 {
        cache.local = std::mem::replace(&mut cache.spare, List::EMPTY);
    } else if let Some(list) = SHARED[class].lock().pop() {
        cache.local = list;
    } else {
        let bytes = (class + 1) * ALIGN;
        let chunk = system(layout(class, BATCH));
        for i in (0..BATCH).rev() {
            // SAFETY: the chunk holds BATCH blocks of this size, one after the other.
            cache.local.push(unsafe { chunk.add(i * bytes) });
        }
    }
    cache.local.pop().expect("the list was just filled")
}

fn system(layout: Layout) -> NonNull<u8> {
    // SAFETY: tasks have headers, and classes sizes: no layout has size zero.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_aligned_distinct_and_reused() {
        let sizes = [1, 64, 65, 500, 1024, 1025, 100_000];
        for (bytes, align) in sizes.into_iter().flat_map(|bytes| [8, 64, 128, 4096].map(|align| (bytes, align))) {
            let layout = Layout::from_size_align(bytes, align).unwrap();
            let a = allocate(layout, class_of(layout));
            let b = allocate(layout, class_of(layout));
            assert_ne!(a, b);
            assert_eq!(a.as_ptr() as usize % align, 0);
            // SAFETY: both blocks hold that many bytes, and are freed once.
            unsafe {
                a.as_ptr().write_bytes(1, bytes);
                b.as_ptr().write_bytes(2, bytes);
                assert_eq!(a.as_ptr().add(bytes - 1).read(), 1);
                free(b, class_of(layout), || layout);
                free(a, class_of(layout), || layout);
            }
        }
        let layout = Layout::new::<[u64; 12]>();
        let a = allocate(layout, class_of(layout));
        // SAFETY: freed once.
        unsafe { free(a, class_of(layout), || layout) };
        let again = allocate(layout, class_of(layout));
        assert_eq!(again, a, "the last freed block is the first reused");
        // SAFETY: as above.
        unsafe { free(again, class_of(layout), || layout) };
    }

    /// No other test takes blocks of this class.
    const LAYOUT: Layout = Layout::new::<[u64; 40]>();

    struct Block(NonNull<u8>);

    // SAFETY: an unused block, which nobody else has.
    unsafe impl Send for Block {}

    #[test]
    fn blocks_travel_between_threads() {
        for _ in 0..4 {
            let blocks: Vec<Block> = (0..1000).map(|_| Block(allocate(LAYOUT, class_of(LAYOUT)))).collect();
            std::thread::spawn(move || {
                for Block(block) in blocks {
                    // SAFETY: each block was allocated with this layout and is freed once.
                    unsafe { free(block, class_of(LAYOUT), || LAYOUT) };
                }
            })
            .join()
            .unwrap();
        }
        let shared: usize = SHARED[class_of(LAYOUT)].lock().iter().map(|list| list.len).sum();
        assert!(shared <= 2048 + BATCH, "freed blocks come back instead of piling up: {shared}");
    }
}
