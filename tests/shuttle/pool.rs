//! Memory for the tasks of one schedule: free lists as in `src/sync/pool.rs`, for blocks of a single size, with lists
//! so short that blocks move between threads often. At the end, each block must be in one list.

use super::atomic::Mutex;
use super::batch::{Batches, Cache, List};
use std::alloc::{Layout, alloc, dealloc, handle_alloc_error};
use std::cell::{Cell, RefCell};
use std::collections::HashSet;
use std::ptr::NonNull;
use std::rc::Rc;

pub(super) const ALIGN: usize = 64;
/// The number of blocks that move between threads at once.
const BATCH: usize = 2;

struct Pool {
    shared: Batches,
    /// The layout of all blocks, and the blocks.
    layout: Cell<Option<Layout>>,
    made: RefCell<Vec<NonNull<u8>>>,
}

thread_local! {
    /// The pool of the current schedule, all of whose threads run on one thread of the system.
    static POOL: RefCell<Option<Rc<Pool>>> = const { RefCell::new(None) };
}

/// The free blocks of a thread of the schedule.
struct Own {
    cache: Cache<BATCH>,
    pool: Rc<Pool>,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.cache.leave(&self.pool.shared);
    }
}

shuttle::thread_local! {
    static OWN: RefCell<Own> = RefCell::new(Own { cache: Cache::new(), pool: pool() });
}

fn pool() -> Rc<Pool> {
    POOL.with_borrow(|pool| pool.clone().expect("a schedule has begun"))
}

pub(super) fn begin() {
    let shared = Batches { full: Mutex::new(Vec::new()) };
    POOL.set(Some(Rc::new(Pool { shared, layout: Cell::default(), made: RefCell::default() })));
}

/// Frees the pool. All its blocks must be free, and all threads that used it must have ended.
pub(super) fn end() {
    let pool = POOL.take().expect("a schedule has begun");
    let mut free = HashSet::new();
    for mut list in pool.shared.full.lock().unwrap().drain(..) {
        while let Some(block) = list.pop() {
            assert!(free.insert(block), "a block is in two lists, or twice in one");
        }
    }
    let made = pool.made.take();
    assert_eq!(free.len(), made.len(), "a block is lost");
    made.into_iter().for_each(|block| unsafe { dealloc(block.as_ptr(), pool.layout.get().unwrap()) });
}

pub(super) const fn class_of(_: Layout) -> usize {
    0
}

pub(super) fn allocate(layout: Layout, _class: usize) -> NonNull<u8> {
    let pool = pool();
    assert_eq!(*pool.layout.get().get_or_insert(layout), layout, "all tasks have bodies of one type");
    pool.layout.set(Some(layout));
    let fresh = || {
        let mut list = List::EMPTY;
        for _ in 0..BATCH {
            let block = unsafe { NonNull::new(alloc(layout)) }.unwrap_or_else(|| handle_alloc_error(layout));
            pool.made.borrow_mut().push(block);
            unsafe { list.push(block) };
        }
        list
    };
    OWN.with(|own| own.borrow_mut().cache.take(&pool.shared, fresh))
}

pub(super) unsafe fn free(block: NonNull<u8>, _class: usize, layout: impl FnOnce() -> Layout) {
    unsafe { block.write_bytes(0, layout().size()) }; // so that a late reader finds an empty list and no edge
    OWN.with(|own| {
        let Own { cache, pool } = &mut *own.borrow_mut();
        unsafe { cache.put(block, &pool.shared) };
    });
}
