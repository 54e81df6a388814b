//! The history of a data object of several dimensions with many blocks: accesses as they were declared, found by a tree.
//!
//! Blocks that are read overlap each other: every tile of a stencil is read with a halo, so its neighbours' halos cross it.
//! Were parts cut wherever such blocks cross ([`super::fragment`]), a tile would be 9 parts in two dimensions and 27 in
//! three, and a task would visit 5² or 5³ of them. Here only writes cut, and only what was written before; a block that
//! is read stays whole, beside those that it overlaps.
//!
//! The rules are those of [`super::fragment`]. What the readers of a part are follows from the times of accesses: who has
//! read a block after a part was written, and overlaps it, is one of the part's readers.
//!
//! Tasks that join each other (groups) have no place here; with the first of them, the history goes over to parts.
//!
//! Invariants:
//! 1. Every element belongs to one part of `written`, with the task that wrote it last and when.
//! 2. Each block that is read has one entry. Its tasks have all read at its time or before, and at least one at its time;
//!    those that are missing are finished, or somebody has overwritten all that they read.

use super::fragment::{self, Fragment};
use super::join::Tasks;
use super::register::Newcomer;
use super::{Mode, TaskRef};
use crate::region::{Block, BlockMap, BoxTree, RegionMap};
use crate::sync::Flow;
use rustc_hash::FxHashMap;

/// Before the first sweep there are so many entries of readers.
const FIRST_SWEEP: usize = 256;

/// After a write of all of a block, more parts than this become one.
const PARTS_LEFT_APART: usize = 64;

/// The accesses to one data object.
pub(super) struct Indexed {
    written: BlockMap<Written>,
    read: Vec<Read>,
    /// The entry in `read` of each block.
    by_block: FxHashMap<Block, u32>,
    tree: BoxTree,
    /// Counts the accesses.
    now: u64,
    /// So many entries are swept before they get more.
    sweep_at: usize,
    /// The parts of the block that is being written, and when they were written before.
    overwritten: Vec<(Block, u64)>,
}

/// Who wrote a part last, and when.
#[derive(Clone)]
struct Written {
    by: Option<TaskRef>,
    at: u64,
}

/// Who has read a block; nobody, if that does not matter any more.
struct Read {
    block: Block,
    tasks: Tasks,
    at: u64,
}

impl Indexed {
    /// The history of a data object that nobody has accessed.
    pub(super) fn new(whole: Block) -> Self {
        Self {
            written: BlockMap::new(whole, Written { by: None, at: 0 }),
            read: Vec::new(),
            by_block: FxHashMap::default(),
            tree: BoxTree::new(),
            now: 0,
            sweep_at: FIRST_SWEEP,
            overwritten: Vec::new(),
        }
    }

    /// Whether accesses of this mode can be entered.
    #[inline]
    pub(super) fn takes(mode: Mode) -> bool {
        matches!(mode, Mode::In | Mode::Out | Mode::InOut)
    }

    /// Enters an access of `newcomer` to a block that is not empty.
    #[inline]
    pub(super) fn enter(&mut self, block: &Block, mode: Mode, newcomer: &mut Newcomer<'_>) {
        self.now += 1;
        if mode == Mode::In {
            self.enter_reader(block, newcomer);
        } else {
            self.enter_writer(block, if mode.reads() { Flow::Value } else { Flow::Order }, newcomer);
        }
    }

    /// Enters tasks that have been entered before, in another form of the history.
    pub(super) fn repeat(&mut self, block: &Block, writes: bool, tasks: &[TaskRef]) {
        self.now += 1;
        let Self { written, now, .. } = self;
        if writes {
            written.visit(block, |_, part| *part = Written { by: tasks.first().cloned(), at: *now });
            return;
        }
        let at = *now;
        let read = self.entry(*block);
        read.tasks.extend(tasks.iter().cloned());
        read.at = at;
    }

    /// The same history, by parts.
    #[cold]
    pub(super) fn to_parts(&self, whole: Block, ndim: usize) -> RegionMap<Fragment> {
        let mut parts = RegionMap::new(whole, ndim, Fragment::default());
        self.written.peek(&whole, |block, written| {
            parts.visit(&block, |_, fragment| fragment.repeat(true, written.by.as_slice()));
        });
        for read in self.read.iter().filter(|read| !read.tasks.is_empty()) {
            self.written.peek(&read.block, |block, written| {
                if written.at < read.at {
                    parts.visit(&block, |_, fragment| fragment.repeat(false, &read.tasks));
                }
            });
        }
        parts
    }

    fn enter_reader(&mut self, block: &Block, newcomer: &mut Newcomer<'_>) {
        let mut oldest = u64::MAX;
        self.written.peek(block, |_, written| {
            oldest = oldest.min(written.at);
            if let Some(task) = &written.by {
                newcomer.wait_for(task, Flow::Value);
            }
        });
        if self.read.len() >= self.sweep_at && !self.by_block.contains_key(block) {
            self.sweep(!newcomer.keeps_finished());
        }
        let now = self.now;
        let read = self.entry(*block);
        if oldest > read.at {
            read.tasks.clear(); // all of it was overwritten since
        }
        fragment::make_room(&mut read.tasks, Flow::Order, newcomer);
        read.tasks.push(newcomer.share());
        read.at = now;
    }

    fn enter_writer(&mut self, block: &Block, flow: Flow, newcomer: &mut Newcomer<'_>) {
        let Self { written, read, tree, now, overwritten, .. } = self;
        overwritten.clear();
        written.visit(block, |part, written| {
            overwritten.push((part, written.at));
            if let Some(task) = &written.by {
                newcomer.wait_for(task, flow);
            }
            *written = Written { by: Some(newcomer.share()), at: *now };
        });
        tree.find(block, |index| {
            let read = &mut read[index as usize];
            if overwritten.iter().any(|(part, at)| *at < read.at && part.overlaps(&read.block)) {
                read.tasks.iter().for_each(|task| newcomer.wait_for(task, Flow::Order));
            }
            let is_over = || !newcomer.keeps_finished() && read.tasks.iter().all(|task| task.is_finished());
            if block.contains(&read.block) || is_over() {
                fragment::forget(&mut read.tasks);
            }
        });
        if overwritten.len() > PARTS_LEFT_APART {
            written.unite(block);
        }
    }

    /// The entry of a block that is read, perhaps a new one.
    fn entry(&mut self, block: Block) -> &mut Read {
        let Self { read, by_block, tree, .. } = self;
        let index = *by_block.entry(block).or_insert_with(|| {
            let index = u32::try_from(read.len()).expect("there are less than 2³¹ blocks");
            tree.insert(block, index);
            read.push(Read { block, tasks: Tasks::new(), at: 0 });
            index
        });
        &mut read[index as usize]
    }

    /// Forgets entries whose tasks have finished, or whose block was overwritten since.
    #[cold]
    fn sweep(&mut self, forget_finished: bool) {
        let entries = std::mem::take(&mut self.read);
        self.by_block.clear();
        self.tree.clear();
        for Read { block, tasks, at } in entries {
            let mut is_visible = false;
            self.written.peek(&block, |_, written| is_visible |= written.at < at);
            if is_visible && !tasks.iter().all(|task| forget_finished && task.is_finished()) {
                let read = self.entry(block);
                (read.tasks, read.at) = (tasks, at);
            }
        }
        self.sweep_at = (2 * self.read.len()).max(FIRST_SWEEP);
        self.by_block.shrink_to(self.sweep_at);
        self.read.shrink_to(self.sweep_at);
    }
}
