//! The history of a multi-dimensional data object with many blocks: accesses exactly as declared, found through an
//! index of boxes.
//!
//! Blocks that tasks read usually overlap: a stencil reads each tile with a halo that crosses the neighbours' halos. If
//! parts were cut wherever such blocks cross ([`super::fragment`]), a tile would be 9 parts in two dimensions and 27 in
//! three, and a task would visit 5² or 5³ parts. In this form, only writes cut, and they cut only previously written
//! blocks. A block that is read stays whole and coexists with the blocks that it overlaps.
//!
//! The rules are those of [`super::fragment`]. The readers of a part are derived from access times: a task is one of
//! the part's readers if it read an overlapping block after the part was written.
//!
//! This form cannot represent tasks that join each other (groups): when the first such task is entered, the history is
//! converted to parts. If everything written consists of tiles of one extent, the history is converted to tiles
//! ([`super::tiled`]). If the whole data object is written again soon after the previous such write, the history
//! restarts as one part, and from there as a list ([`super::recent`]).
//!
//! Invariants:
//! 1. Every element belongs to one part of `written`, which records the task that wrote it last and when.
//! 2. Each block that is read has one entry. All tasks in the entry read the block at the entry's time or before, and
//!    at least one of them at exactly that time. A reader may be missing from the entry only if it has finished, or if
//!    other tasks have overwritten everything that it read.

use super::fragment::Fragment;
use super::join::{Tasks, matters};
use super::lists;
use super::recent;
use super::register::Newcomer;
use super::shares::Shares;
use super::tiled::Tiled;
use super::{Mode, TaskRef};
use crate::region::{Block, BlockMap, BoxSet, RegionMap, Tiling};
use crate::sync::Flow;
use arrayvec::ArrayVec;
use rustc_hash::FxHashMap;

/// Number of read entries that triggers the first sweep.
const FIRST_SWEEP: usize = if cfg!(test) { 16 } else { 256 };

/// If a written block consists of more parts than this, the parts are united.
const PARTS_LEFT_APART: usize = 64;

/// Up to this many parts are compared with each reader one by one; if there are more, they are looked up in the map.
const FEW: usize = 8;

/// Minimum number of written parts before they are compared with tiles.
const WORTH_TILES: usize = if cfg!(test) { 4 } else { 8 };

/// The accesses to one data object.
pub(super) struct Indexed {
    written: BlockMap<Written>,
    read: Vec<Read>,
    /// Index in `read` of each block's entry.
    by_block: FxHashMap<Block, u32>,
    boxes: BoxSet,
    /// Number of accesses so far, which serves as the current time.
    now: u64,
    /// Time of the last write of the whole data object.
    whole_at: u64,
    /// Number of entries at which a sweep takes place before another entry is added.
    sweep_at: usize,
    /// Time of the last sweep.
    swept_at: u64,
    /// Thresholds for comparing the parts with tiles: a number of parts, or a number of accesses, whichever is reached
    /// first.
    compare_at: (usize, u64),
}

/// The task that wrote a part last, the time of that write, and the time of the write before it.
#[derive(Clone)]
struct Written {
    by: Option<TaskRef>,
    at: u64,
    before: u64,
}

/// The tasks that have read a block; the list is empty once none of them matters any more.
struct Read {
    block: Block,
    tasks: Tasks,
    at: u64,
}

impl Indexed {
    /// Makes the history of a data object that no task has accessed.
    pub(super) fn new(whole: Block) -> Self {
        Self {
            written: BlockMap::new(whole, Written { by: None, at: 0, before: 0 }),
            read: Vec::new(),
            by_block: FxHashMap::default(),
            boxes: BoxSet::new(&whole),
            now: 0,
            whole_at: 0,
            sweep_at: FIRST_SWEEP,
            swept_at: 0,
            compare_at: (WORTH_TILES, u64::MAX),
        }
    }

    /// Called after a write of the whole data object. Returns whether a list would have had room for all accesses since
    /// the previous such write.
    #[inline]
    pub(super) fn is_short(&mut self) -> bool {
        let since = self.now - self.whole_at;
        self.whole_at = self.now;
        since < recent::MOST as u64
    }

    /// The number of parts that were written plus the number of blocks that were read.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.written.len() + self.read.len()
    }

    /// Whether accesses of this mode can be entered.
    #[inline]
    pub(super) fn takes(mode: Mode) -> bool {
        !mode.is_weak() && !matches!(mode, Mode::Concurrent | Mode::Commutative | Mode::Reduction(_))
    }

    /// Enters an access of `newcomer` to a non-empty block.
    #[inline]
    pub(super) fn enter(&mut self, block: &Block, mode: Mode, newcomer: &mut Newcomer<'_>) {
        self.now += 1;
        if mode.writes() {
            self.enter_writer(block, lists::flow(mode), newcomer);
        } else {
            self.enter_reader(block, lists::flow(mode), newcomer);
        }
    }

    /// Makes the newcomer wait for all tasks; `flow` determines whether the newcomer inherits the last writers' poison.
    #[cold]
    pub(super) fn wait_for_all(&self, whole: &Block, flow: Flow, newcomer: &mut Newcomer<'_>) {
        self.written.look(whole, |part| part.by.iter().for_each(|task| newcomer.wait_for(task, flow)));
        let readers = self.read.iter().flat_map(|read| &read.tasks);
        readers.for_each(|task| newcomer.wait_for(task, Flow::Order));
    }

    /// Visits the last writer of each part of a region.
    #[cold]
    pub(super) fn sources(&self, block: &Block, mut found: impl FnMut(Block, &TaskRef)) {
        self.written.peek(block, |part, written| written.by.iter().for_each(|task| found(part, task)));
    }

    /// Enters tasks that were already entered in another form of the history.
    pub(super) fn repeat(&mut self, block: &Block, writes: bool, tasks: &[TaskRef]) {
        self.now += 1;
        let Self { written, now, .. } = self;
        if writes {
            written.visit(block, |_, part| *part = Written { by: tasks.first().cloned(), at: *now, before: 0 });
            return;
        }
        let at = *now;
        let read = self.entry(*block);
        for task in tasks {
            if read.tasks.iter().all(|other| other.address() != task.address()) {
                read.tasks.push(task.clone());
            }
        }
        read.at = at;
    }

    /// Called before `block` is written. Returns the same history by tiles if `block` is a tile and everything written
    /// so far consists of such tiles.
    #[inline]
    pub(super) fn try_tiles(&mut self, whole: &Block, block: &Block) -> Option<Tiled> {
        let (parts, now) = self.compare_at;
        if self.written.len() >= parts || self.now >= now { self.compare_with_tiles(whole, block) } else { None }
    }

    /// Prevents a history that was converted from tiles from being converted back until it has several times as many
    /// parts, or until many sweeps have passed.
    pub(super) fn stay_for_now(&mut self) {
        let parts = self.written.len().max(WORTH_TILES);
        self.compare_at = (4 * parts, self.now + 64 * parts as u64);
    }

    #[cold]
    fn compare_with_tiles(&mut self, whole: &Block, block: &Block) -> Option<Tiled> {
        let parts = self.written.len();
        // Try again later, because a block at the array's end may be shorter than other tiles, and early writes that do
        // not fit the tiles may yet be overwritten by tiles.
        self.compare_at = (parts + parts / 4 + WORTH_TILES, self.now + 4 * parts as u64);
        let tiling = Tiling::new(whole, block).filter(|tiling| tiling.len() <= Tiled::most_tiles(parts))?;
        let tiles = |block: &Block| tiling.span(block).map_or(0, |span| span.len());
        let is_exact = |block: &Block| tiling.span(block).is_some_and(|span| span.is_exact());
        if self.written.parts().filter(|(part, _)| is_exact(part)).count() < parts / 4 {
            return None;
        }
        let address = |task: &Option<TaskRef>| task.as_ref().map_or(0, TaskRef::address);
        let mut written = Shares::default();
        self.written
            .parts()
            .for_each(|(part, written_by)| written.add(address(&written_by.by), || &written_by.by, *part));
        let written: Vec<_> = written.blocks().collect();
        if !written.iter().all(|(_, block)| is_exact(block)) {
            return None;
        }
        let most = written.iter().max_by_key(|(_, block)| tiles(block)).map_or(&None, |(task, _)| **task);
        let others = || written.iter().filter(|(task, _)| address(task) != address(most));
        let readers = || self.read.iter().filter(|read| !read.tasks.is_empty());
        let met = others().map(|(_, block)| tiles(block)).sum::<usize>()
            + readers().map(|read| tiles(&read.block)).sum::<usize>();
        if met > 16 * (parts + self.read.len()) {
            return None;
        }
        let mut tiled = Tiled::new(*whole, tiling, most.as_slice());
        others().for_each(|(task, block)| tiled.repeat(block, true, task.as_slice()));
        for read in readers() {
            let (mut all, mut some) = (true, Vec::new());
            self.written.peek(&read.block, |common, written| match written.at < read.at {
                true => some.push(common),
                false => all = false,
            });
            let visible = if all { vec![read.block] } else { some };
            visible.iter().for_each(|block| tiled.repeat(block, false, &read.tasks));
        }
        Some(tiled)
    }

    /// Returns the same history by parts.
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

    fn enter_reader(&mut self, block: &Block, flow: Flow, newcomer: &mut Newcomer<'_>) {
        let (mut oldest, mut parts) = (u64::MAX, 0);
        self.written.look(block, |written| {
            parts += 1;
            oldest = oldest.min(written.at);
            if let Some(task) = &written.by {
                newcomer.wait_for(task, flow);
            }
        });
        self.wear(parts, newcomer);
        // A stencil returns to all of its blocks, about one per part. These entries must be kept, however long one
        // sweep of the stencil takes.
        let is_full = self.read.len() >= self.sweep_at.max(4 * self.written.len());
        if is_full && !self.by_block.contains_key(block) {
            self.sweep(!newcomer.keeps_finished());
        }
        let now = self.now;
        let read = self.entry(*block);
        if oldest > read.at {
            read.tasks.clear(); // the whole block has been overwritten since
        }
        lists::add_reader(&mut read.tasks, newcomer);
        read.at = now;
    }

    fn enter_writer(&mut self, block: &Block, flow: Flow, newcomer: &mut Newcomer<'_>) {
        let Self { written, read, boxes, now, .. } = self;
        let mut overwritten: ArrayVec<(Block, u64), FEW> = ArrayVec::new();
        let mut parts = 0;
        written.visit(block, |part, written| {
            parts += 1;
            if parts <= FEW {
                overwritten.push((part, written.at));
            }
            if let Some(task) = &written.by {
                newcomer.wait_for(task, flow);
            }
            *written = Written { by: Some(newcomer.share()), at: *now, before: written.at };
        });
        let mut vacant = 0;
        boxes.find(block, |index| {
            let read = &mut read[index as usize];
            if read.tasks.is_empty() {
                vacant += 1;
                return;
            }
            let mut is_visible = false;
            if parts <= FEW {
                is_visible = overwritten.iter().any(|(part, at)| *at < read.at && part.overlaps(&read.block));
            } else if let Some(common) = block.intersection(&read.block) {
                written.look(&common, |written| is_visible |= written.before < read.at);
            }
            if is_visible {
                read.tasks.iter().for_each(|task| newcomer.wait_for(task, Flow::Order));
            }
            let is_over = || !newcomer.keeps_finished() && read.tasks.iter().all(|task| !matters(task, Flow::Order));
            if block.contains(&read.block) || is_over() {
                lists::forget(&mut read.tasks);
            }
        });
        if parts > PARTS_LEFT_APART {
            written.unite(block);
        }
        self.wear(parts, newcomer);
        if vacant > FIRST_SWEEP / 2 && vacant > self.read.len() / 2 {
            self.sweep(!newcomer.keeps_finished());
        }
    }

    /// Counts an access that visited this many parts. From time to time, unites parts whose writers no longer matter.
    ///
    /// Such a part counts as never written. This is correct because the readers that its writer waited for have ended,
    /// so no newcomer needs to wait for them.
    #[inline]
    fn wear(&mut self, parts: usize, newcomer: &mut Newcomer<'_>) {
        let keeps_finished = newcomer.keeps_finished();
        let settle = |written: &mut Written| {
            let is_over = written.by.as_ref().is_none_or(|task| !matters(task, Flow::Value));
            if is_over && !keeps_finished {
                *written = Written { by: None, at: 0, before: 0 };
            }
        };
        let address = |written: &Written| written.by.as_ref().map(TaskRef::address);
        let alike = |one: &Written, other: &Written| one.at == other.at && address(one) == address(other);
        if self.written.wear(parts, settle, alike) {
            newcomer.forget_latest();
        }
    }

    /// Returns the entry of a block that is read, adding an entry if there is none.
    fn entry(&mut self, block: Block) -> &mut Read {
        let Self { read, by_block, boxes, .. } = self;
        let index = *by_block.entry(block).or_insert_with(|| {
            let index = u32::try_from(read.len()).expect("there are fewer than 2³¹ blocks");
            boxes.insert(&block, index);
            read.push(Read { block, tasks: Tasks::new(), at: 0 });
            index
        });
        &mut read[index as usize]
    }

    /// Forgets entries that have not been used since the last sweep and that no task has to wait for, because their
    /// tasks have finished or their block was overwritten. All other entries are likely to be used again, for instance
    /// in the next time step of a stencil.
    #[cold]
    fn sweep(&mut self, forget_finished: bool) {
        let matters = |read: &Read| {
            let mut is_visible = false;
            self.written.look(&read.block, |written| is_visible |= written.at < read.at);
            is_visible && !read.tasks.iter().all(|task| forget_finished && !matters(task, Flow::Order))
        };
        let keeps: Vec<bool> = self.read.iter().map(|read| read.at > self.swept_at || matters(read)).collect();
        let kept = keeps.iter().filter(|keep| **keep).count();
        if 2 * kept <= self.read.len() {
            let mut keep = keeps.into_iter();
            let entries = std::mem::take(&mut self.read);
            self.by_block.clear();
            self.boxes.clear();
            for Read { block, tasks, at } in entries.into_iter().filter(|_| keep.next() == Some(true)) {
                let read = self.entry(block);
                (read.tasks, read.at) = (tasks, at);
            }
            self.by_block.shrink_to(2 * kept);
        }
        self.swept_at = self.now;
        self.sweep_at = (2 * self.read.len()).max(FIRST_SWEEP);
    }
}

#[cfg(test)]
mod tests {
    use crate::depend::Mode;
    use crate::depend::tests::Program;
    use crate::region::{Block, LOOKED_AT};

    const TILE: usize = 8;

    /// Makes a program over a square of tiles in which a block that is not a tile was written first.
    fn over_tiles(side: usize) -> Program {
        let mut program = Program::over(&[side * TILE, side * TILE]);
        write_no_tile(&mut program);
        program
    }

    /// Writes a block that is not a tile.
    fn write_no_tile(program: &mut Program) {
        program.submit(&[(Mode::Out, Block::new(&[3..7, 0..3]))]);
    }

    /// Sweeps over all tiles; returns the edges and the examined tree nodes per task.
    fn sweep(program: &mut Program, side: usize) -> (f64, f64) {
        let before = LOOKED_AT.get();
        let [reads, updates] = program.sweep(TILE, side);
        let tasks = (2 * side * side) as f64;
        ((reads + updates) as f64 / tasks, (LOOKED_AT.get() - before) as f64 / tasks)
    }

    #[test]
    fn cost_per_tile_with_halo_is_independent_of_tile_count() {
        let late = |side: usize| {
            let mut program = over_tiles(side);
            let sweep_and_write = |_| {
                write_no_tile(&mut program);
                sweep(&mut program, side)
            };
            (0..6).map(sweep_and_write).last().expect("there are six")
        };
        let ((few_edges, few_nodes), (many_edges, many_nodes)) = (late(8), late(24));
        // A reader comes after nine writers; a writer after nine readers and a writer.
        assert!(few_edges <= 9.5 && many_edges <= 9.5, "{few_edges} and {many_edges} edges");
        assert!(few_nodes > 1.0, "the index is not used");
        assert!(many_nodes < 2.0 * few_nodes, "{few_nodes} nodes per task of 64 tiles, {many_nodes} of 576");
    }

    #[test]
    fn blocks_overwritten_by_tiles_do_not_prevent_tiling() {
        for side in [3, 6, 20] {
            let mut program = over_tiles(side);
            let by_tiles = |program: &Program| program.datum.history.lock().by_tiles().is_some();
            assert!(!by_tiles(&program));
            (0..2).for_each(|_| _ = program.sweep(TILE, side));
            assert!(by_tiles(&program), "{side}² tiles");
        }
    }

    #[test]
    fn write_of_all_has_linear_cost_and_leaves_few_nodes() {
        let per_tile = |side: usize| {
            let mut program = over_tiles(side);
            program.sweep(TILE, side);
            write_no_tile(&mut program);
            let before = LOOKED_AT.get();
            for _ in 0..3 {
                program.submit(&[(Mode::Out, program.datum.whole())]);
            }
            let first = LOOKED_AT.get() - before;
            program.submit(&[(Mode::Out, program.datum.whole())]);
            assert!(LOOKED_AT.get() - before - first < 20, "entries that no task needs are still searched");
            first as f64 / (side * side) as f64
        };
        let (few, many) = (per_tile(20), per_tile(60));
        assert!(many < 2.0 * few, "{few} nodes per tile of 400, {many} of 3600");
    }
}
