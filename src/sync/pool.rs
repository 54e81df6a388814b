//! Memory for task blocks: size classes, a cache per thread, and batches that move between threads.
//!
//! Millions of tasks are created on one thread and freed on another; with a general-purpose allocator, both threads
//! would contend for a lock for each task. In this pool, each thread keeps the blocks that it frees, and only full
//! batches move between threads ([`super::batch`]). Blocks are never returned to the system, so the pool stays as large
//! as the program's peak number of pending tasks requires.
//!
//! Blocks that are larger than the largest class, or aligned to more than [`ALIGN`], are allocated individually.
//!
//! Invariant: a block belongs to one size class forever, and is aligned to [`ALIGN`].

use super::atomic::Mutex;
use super::batch::{Batches, Cache, List};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::RefCell;
use std::ptr::NonNull;
use std::sync::MutexGuard;

/// Alignment of every block, and the step between size classes, which is one cache line.
pub(super) const ALIGN: usize = 64;
/// The number of size classes, which cover up to two kilobytes plus a task's tail. For comparison, a task with eleven
/// accesses to whole arrays takes more than one kilobyte.
const CLASSES: usize = 35;
/// The number of blocks that move between threads at once.
const BATCH: usize = 64;
/// The class of blocks that are too large or too strongly aligned for the pool. These blocks are allocated
/// individually.
const ALONE: usize = CLASSES;

static SHARED: [Batches; CLASSES] = [const { Batches { full: Mutex::new(Vec::new()) } }; CLASSES];

/// A thread's caches, one per class.
struct Caches([Cache<BATCH>; CLASSES]);

impl Drop for Caches {
    fn drop(&mut self) {
        self.0.iter_mut().zip(&SHARED).for_each(|(cache, shared)| cache.leave(shared));
    }
}

thread_local! {
    static CACHES: RefCell<Caches> = const { RefCell::new(Caches([const { Cache::new() }; CLASSES])) };
}

/// Takes all of the pool's locks for the duration of a fork.
pub(super) fn hold() -> impl IntoIterator<Item = MutexGuard<'static, Vec<List>>> {
    SHARED.each_ref().map(|shared| shared.full.lock().unwrap_or_else(|e| e.into_inner()))
}

/// Returns the class of a block with this layout.
pub(super) const fn class_of(layout: Layout) -> usize {
    let lines = layout.size().div_ceil(ALIGN);
    if layout.align() > ALIGN || lines > CLASSES { ALONE } else { lines.saturating_sub(1) }
}

/// Returns the layout of `blocks` consecutive blocks of a class.
fn layout(class: usize, blocks: usize) -> Layout {
    Layout::from_size_align((class + 1) * ALIGN * blocks, ALIGN).expect("a batch of the largest class is small")
}

/// Allocates a block with at least this layout, which belongs to `class`. The memory is uninitialized.
#[inline(always)] // the class is a constant at each call site, so little code remains
pub(super) fn allocate(wanted: Layout, class: usize) -> NonNull<u8> {
    debug_assert_eq!(class, class_of(wanted));
    if class == ALONE {
        return system(wanted);
    }
    CACHES
        .try_with(|caches| caches.borrow_mut().0[class].take(&SHARED[class], || fresh(class)))
        .unwrap_or_else(|_| system(layout(class, 1)))
}

/// Gives back a block that [`allocate`] returned.
///
/// # Safety
/// No code uses the block any more, and the block was allocated with this `class` and `layout`.
#[inline]
pub(super) unsafe fn free(block: NonNull<u8>, class: usize, layout: impl FnOnce() -> Layout) {
    if class == ALONE {
        // SAFETY: the block was allocated individually, with exactly this layout.
        unsafe { dealloc(block.as_ptr(), layout()) };
        return;
    }
    // SAFETY: the caller guarantees that the block is not used any more, and that it belongs to this class.
    let cached = CACHES.try_with(|caches| unsafe { caches.borrow_mut().0[class].put(block, &SHARED[class]) });
    if cached.is_err() {
        // SAFETY: the block is not used any more. It is in no cache, because the thread is ending and its caches are
        // gone.
        unsafe { SHARED[class].put_alone(block) };
    }
}

/// Allocates a batch of new blocks.
#[cold]
fn fresh(class: usize) -> List {
    let bytes = (class + 1) * ALIGN;
    let chunk = system(layout(class, BATCH));
    let mut list = List::EMPTY;
    for i in (0..BATCH).rev() {
        // SAFETY: the chunk holds `BATCH` consecutive blocks of this size, none of which is used yet.
        unsafe { list.push(chunk.add(i * bytes)) };
    }
    list
}

fn system(layout: Layout) -> NonNull<u8> {
    // SAFETY: no layout has size zero, since tasks have headers and classes have sizes.
    NonNull::new(unsafe { alloc(layout) }).unwrap_or_else(|| handle_alloc_error(layout))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;
    use std::sync::mpsc::channel;

    #[test]
    fn blocks_are_aligned_distinct_and_reused() {
        let sizes = [1, 64, 65, 500, 1024, 1025, 2048, 2049, 2240, 2241, 100_000];
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
        // SAFETY: freed once since it was allocated again.
        unsafe { free(again, class_of(layout), || layout) };
    }

    /// No other test takes blocks of this class.
    const LAYOUT: Layout = Layout::new::<[u64; 112]>();

    struct Block(NonNull<u8>);

    // SAFETY: the block is unused, and this is the only pointer to it.
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
        let shared: usize = SHARED[class_of(LAYOUT)].full.lock().unwrap().iter().map(List::len).sum();
        assert!(shared <= 2048 + BATCH, "freed blocks are reused instead of piling up: {shared}");
    }

    /// No other test takes many blocks of this class.
    const OTHER: Layout = Layout::new::<[u64; 120]>();

    #[test]
    fn thread_that_only_frees_passes_blocks_on_while_it_lives() {
        const COUNT: usize = 1000;
        let class = class_of(OTHER);
        let take = || (0..COUNT).map(|_| Block(allocate(OTHER, class))).collect::<Vec<_>>();
        let give_back = move |blocks: Vec<Block>| {
            // SAFETY: each block was allocated with this layout and is freed once.
            blocks.into_iter().for_each(|Block(block)| unsafe { free(block, class, || OTHER) });
        };
        let ((give, given), (done, freed)) = (channel::<Vec<Block>>(), channel());
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for blocks in given {
                    give_back(blocks);
                    done.send(()).unwrap();
                }
            });
            let first = take();
            let known: HashSet<_> = first.iter().map(|block| block.0).collect();
            give.send(first).unwrap();
            freed.recv().unwrap();
            let again = take();
            let reused = again.iter().filter(|block| known.contains(&block.0)).count();
            assert!(
                reused >= COUNT - 4 * BATCH,
                "{reused} of {COUNT} are reused while the thread that frees them lives"
            );
            give_back(again);
            drop(give);
        });
    }
}
