//! Free blocks that move between threads. Each block is either in one list or taken by one thread, and earlier writes
//! to it are visible.

use super::batch::{Batches, Cache, List};
use super::{Traced, model};
use loom::sync::{Arc, Mutex};
use loom::thread;
use std::collections::HashSet;
use std::mem::MaybeUninit;
use std::ptr::NonNull;

/// Number of blocks that are transferred at once.
const BATCH: usize = 2;

/// A block, which begins with room for the link of a free block. The thread that has taken the block writes after this
/// room.
#[repr(C)]
struct Block {
    link: MaybeUninit<[usize; 8]>,
    used: Traced,
}

/// The state that all threads share.
struct World {
    shared: Batches,
    /// All blocks that were allocated.
    made: std::sync::Mutex<Vec<NonNull<Block>>>,
}

// SAFETY: loom runs one thread at a time and reports every race, so sharing cannot cause undefined behaviour unnoticed.
unsafe impl Send for World {}
// SAFETY: loom runs one thread at a time and reports every race, so sharing cannot cause undefined behaviour unnoticed.
unsafe impl Sync for World {}

/// Blocks that one thread takes and hands to another.
struct Taken(Vec<NonNull<u8>>);

// SAFETY: a taken block belongs only to the thread that took it, so it may move to another thread with the `Taken`.
// This test checks exactly that property.
unsafe impl Send for Taken {}

impl World {
    fn new() -> Arc<Self> {
        Arc::new(Self { shared: Batches { full: Mutex::new(Vec::new()) }, made: std::sync::Mutex::default() })
    }

    fn fresh(&self) -> List {
        let mut list = List::EMPTY;
        for _ in 0..BATCH {
            let block = Box::new(Block { link: MaybeUninit::uninit(), used: Traced::new(0) });
            let block = NonNull::from(Box::leak(block));
            self.made.lock().unwrap().push(block);
            unsafe { list.push(block.cast()) };
        }
        list
    }

    /// Takes `count` blocks, which then belong exclusively to the caller.
    fn take(&self, cache: &mut Cache<BATCH>, count: usize, mark: u32) -> Taken {
        let taken = (0..count).map(|_| cache.take(&self.shared, || self.fresh()));
        let taken = Taken(taken.inspect(|block| used(*block).write(mark)).collect());
        taken.check(mark);
        taken
    }

    /// Returns blocks that were marked with `mark`.
    fn put(&self, cache: &mut Cache<BATCH>, taken: Taken, mark: u32) {
        taken.check(mark);
        taken.0.into_iter().for_each(|block| unsafe { cache.put(block, &self.shared) });
    }

    /// Checks that every block is in exactly one list. All threads must have ended.
    fn check(&self) {
        let mut free = HashSet::new();
        for mut list in self.shared.full.lock().unwrap().drain(..) {
            while let Some(block) = list.pop() {
                used(block).write(0);
                assert!(free.insert(block), "a block is in two lists, or twice in one");
            }
        }
        let made = std::mem::take(&mut *self.made.lock().unwrap());
        assert_eq!(free.len(), made.len(), "a block is lost");
        made.into_iter().for_each(|block| drop(unsafe { Box::from_raw(block.as_ptr()) }));
    }
}

impl Taken {
    fn check(&self, mark: u32) {
        self.0.iter().for_each(|block| assert_eq!(used(*block).read(), mark, "two threads have one block"));
    }
}

fn used<'a>(block: NonNull<u8>) -> &'a Traced {
    unsafe { &block.cast::<Block>().as_ref().used }
}

#[test]
fn blocks_of_ended_threads_are_reusable() {
    model(3, || {
        let world = World::new();
        let life = |world: &World, blocks: usize, mark: u32| {
            let mut cache = Cache::new();
            let taken = world.take(&mut cache, blocks, mark);
            world.put(&mut cache, taken, mark);
            cache.leave(&world.shared);
        };
        life(&world, 3, 1);
        let threads = [2, 3].map(|mark| {
            let world = world.clone();
            thread::spawn(move || life(&world, 3, mark))
        });
        life(&world, 1, 4);
        threads.into_iter().for_each(|thread| thread.join().unwrap());
        world.check();
    });
}

#[test]
fn block_freed_by_another_thread_is_reusable() {
    model(3, || {
        let world = World::new();
        let mut cache = Cache::new();
        let taken = world.take(&mut cache, 3 * BATCH, 1);
        let freeing = {
            let world = world.clone();
            thread::spawn(move || {
                let mut cache = Cache::new();
                world.put(&mut cache, taken, 1);
                let again = world.take(&mut cache, 1, 2);
                world.put(&mut cache, again, 2);
                cache.leave(&world.shared);
            })
        };
        let more = world.take(&mut cache, 2 * BATCH, 3);
        world.put(&mut cache, more, 3);
        cache.leave(&world.shared);
        freeing.join().unwrap();
        world.check();
    });
}

#[test]
fn block_freed_after_its_threads_cache_is_gone_is_reusable() {
    model(3, || {
        let world = World::new();
        let mut cache = Cache::new();
        let taken = world.take(&mut cache, BATCH, 1);
        let ending = {
            let world = world.clone();
            thread::spawn(move || {
                taken.check(1);
                taken.0.into_iter().for_each(|block| unsafe { world.shared.put_alone(block) });
            })
        };
        let more = world.take(&mut cache, BATCH, 2);
        world.put(&mut cache, more, 2);
        cache.leave(&world.shared);
        ending.join().unwrap();
        world.check();
    });
}
