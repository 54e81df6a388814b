//! The history of a multi-dimensional data object that is written tile by tile: one fragment for each tile.
//!
//! Most programs write an array in tiles of one extent and read these tiles in full or in part: with halos, faces,
//! single rows. If every write covers whole tiles, a task that reads any part of a tile conflicts with every task that
//! writes the tile. So one [`Fragment`] per tile is exact without ever being cut, and the fragment is found by
//! arithmetic ([`Tiling`]). A task therefore costs only as much as the tiles that it accesses, without a search or a
//! table of blocks.
//!
//! A data object changes from an index ([`super::indexed`]) to this form as soon as everything written there consists
//! of tiles. The first write that does not consist of whole tiles changes it back to an index, or to parts if there are
//! open groups.
//!
//! Tiles that no task has accessed individually have no fragment of their own. They share a single fragment, which
//! records accesses to the whole array.
//!
//! Invariants:
//! 1. As long as a newcomer may have to wait for a task that reads part of a tile, the task is among the tile's readers
//!    and its block is among the strips.
//! 2. No part of a tile is read while a group is open there.
//! 3. The shared fragment stands for all tiles without their own fragment, and it has no open group.

mod strips;

use self::strips::Strips;
use super::fragment::Fragment;
use super::indexed::Indexed;
use super::register::Newcomer;
use super::{AccessRecord, Mode, TaskRef};
use crate::ids::TaskId;
use crate::region::{Block, Cell, Part, RegionMap, Span, Tiling};
use crate::sync::Flow;

/// Number of consecutive tiles whose fragments are allocated together.
const CHUNK: usize = 64;

/// An access to more tiles than this is cheaper in an index or parts if few of the tiles have fragments. A write this
/// wide is always cheaper there, so after more than this many wide writes, tiles are considered unsuitable for the
/// array.
const WIDE: usize = 64;

/// The accesses to one data object.
pub(super) struct Tiled {
    whole: Block,
    tiling: Tiling,
    chunks: Vec<Option<Box<[Option<Fragment>; CHUNK]>>>,
    /// The fragment shared by all tiles without their own.
    others: Fragment,
    /// Number of tiles with their own fragment.
    own: usize,
    has_groups: bool,
    /// The blocks that were read of partially read tiles.
    strips: Strips,
    wide_writes: usize,
}

impl Tiled {
    /// Returns the maximum number of tiles for an array with this many written parts. With more tiles, the fragments
    /// might be scattered over too large a table.
    pub(super) fn most_tiles(parts: usize) -> usize {
        CHUNK * (64 + 16 * parts)
    }

    /// Makes a history in which everything was written by one task, or by none.
    pub(super) fn new(whole: Block, tiling: Tiling, written_by: &[TaskRef]) -> Self {
        let mut others = Fragment::default();
        others.repeat(true, written_by);
        let chunks = (0..tiling.len().div_ceil(CHUNK)).map(|_| None).collect();
        Self { whole, tiling, chunks, others, own: 0, has_groups: false, strips: Strips::default(), wide_writes: 0 }
    }

    /// The number of tiles with a fragment plus the number of strips.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.own + self.strips.len()
    }

    /// Enters an access of `newcomer` to a non-empty block. Returns false, without entering anything, if the block does
    /// not suit the tiles.
    #[inline]
    pub(super) fn enter(&mut self, access: usize, record: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) -> bool {
        let Some(span) = self.tiling.span(record.block) else { return false };
        self.has_groups |= !Indexed::takes(record.mode);
        match span.only() {
            Some(tile) if span.is_exact() => {
                self.tile(tile).enter(access, &Part::Box(record.block), record.mode, newcomer);
            }
            _ if span.is_exact() => return self.enter_several(&span, access, record, newcomer),
            _ if self.has_groups || !matches!(record.mode, Mode::In | Mode::After | Mode::Outcome) => return false,
            _ if self.has_few_of(&span) => return false,
            _ => {
                // The exact part does not matter, because no group is open.
                span.for_each(|tile| {
                    self.tile(tile).enter(access, &Part::Box(record.block), record.mode, newcomer);
                });
                self.keep_strip(newcomer.id(), newcomer.address(), record.block);
            }
        }
        true
    }

    /// Enters an access to several whole tiles.
    fn enter_several(
        &mut self,
        span: &Span,
        access: usize,
        record: &AccessRecord<'_>,
        newcomer: &mut Newcomer<'_>,
    ) -> bool {
        let is_plain = Indexed::takes(record.mode);
        if *record.block == self.whole && is_plain {
            self.enter_all(access, record, newcomer);
            return true;
        }
        if span.len() > WIDE && record.mode.writes() {
            self.wide_writes += 1;
            if self.wide_writes > WIDE || !is_plain {
                return false;
            }
        }
        if self.has_few_of(span) {
            return false;
        }
        span.for_each(|place| {
            let tile = self.tiling.tile(place);
            self.tile(place).enter(access, &Part::Box(&tile), record.mode, newcomer);
        });
        true
    }

    /// Enters an access to the whole array.
    fn enter_all(&mut self, access: usize, record: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        self.for_each_own(|tile, fragment| fragment.enter(access, &Part::Box(&tile), record.mode, newcomer));
        if self.own == self.tiling.len() {
            self.others = Fragment::default();
        }
        self.others.enter(access, &Part::Box(record.block), record.mode, newcomer);
        if record.mode.writes() {
            self.chunks.iter_mut().for_each(|chunk| *chunk = None);
            self.strips.clear();
            (self.own, self.has_groups) = (0, false);
        }
    }

    /// Makes the newcomer wait for all tasks; `flow` determines whether the newcomer inherits the last writers' poison.
    #[cold]
    pub(super) fn wait_for_all(&mut self, flow: Flow, newcomer: &mut Newcomer<'_>) {
        self.for_each_own(|tile, fragment| fragment.wait_for_all(&Part::Box(&tile), flow, newcomer));
        if self.own < self.tiling.len() {
            self.others.wait_for_all(&Part::Box(&self.whole), flow, newcomer);
        }
    }

    /// Visits the tasks that produced the contents of each part of a region. Returns false if these tasks are not known
    /// yet.
    #[cold]
    pub(super) fn sources(&self, block: &Block, mut found: impl FnMut(Block, &TaskRef)) -> bool {
        let mut are_known = true;
        self.tiling.span(block).into_iter().for_each(|span| {
            span.for_each(|place| {
                if let Some(part) = self.tiling.tile(place).intersection(block) {
                    let fragment = self.own_at(place).unwrap_or(&self.others);
                    are_known &= fragment.sources(|task| found(part, task));
                }
            });
        });
        are_known
    }

    /// Enters tasks that were already entered in another form of the history: the readers of a block, or the writer of
    /// a block that consists of whole tiles.
    pub(super) fn repeat(&mut self, block: &Block, writes: bool, tasks: &[TaskRef]) {
        let Some(span) = self.tiling.span(block) else { return };
        span.for_each(|place| self.tile(place).repeat(writes, tasks));
        if !span.is_exact() {
            tasks.iter().for_each(|task| self.keep_strip(task.shared().id, task.address(), block));
        }
    }

    /// Returns the same history with an index, if there are no groups.
    #[cold]
    pub(super) fn to_indexed(&self) -> Option<Indexed> {
        let mut indexed = Indexed::new(self.whole);
        let (writer, read_by) = self.others.plain()?;
        // A reader in the shared fragment has read all tiles without their own fragment. Strips do not matter here,
        // because every tile with a strip has its own fragment.
        indexed.repeat(&self.whole, true, writer);
        indexed.repeat(&self.whole, false, read_by);
        let (strips, mut readers) = (self.strips.of_tasks(), Vec::new());
        for (tile, fragment) in self.own() {
            let (writer, read_by) = fragment.plain()?;
            indexed.repeat(&tile, true, writer);
            readers.push((tile, read_by));
        }
        for (tile, tasks) in readers {
            // Use only the piece of a strip inside this tile, because the strip's other tiles may have been written
            // since.
            strips.for_each_reader(tasks, &tile, |task, read| {
                if let Some(part) = read.intersection(&tile) {
                    indexed.repeat(&part, false, std::slice::from_ref(task));
                }
            });
        }
        indexed.stay_for_now();
        Some(indexed)
    }

    /// Returns the same history by parts.
    #[cold]
    pub(super) fn to_parts(&self, ndim: usize) -> RegionMap<Fragment> {
        let mut parts = RegionMap::new(self.whole, ndim, self.others.clone());
        let strips = self.strips.of_tasks();
        for (tile, fragment) in self.own() {
            let mut read = Vec::new();
            strips.for_each_reader(fragment.readers(), &tile, |task, part| {
                if part != tile {
                    read.push((task.clone(), part));
                }
            });
            let mut without = fragment.clone();
            without.forget_readers(|task| read.iter().any(|(other, _)| other.address() == task.address()));
            parts.visit(&tile, |_, part| *part = without.clone());
            for (task, part) in read {
                if let Some(part) = part.intersection(&tile) {
                    parts.visit(&part, |_, of_part| of_part.repeat(false, std::slice::from_ref(&task)));
                }
            }
        }
        parts
    }

    /// Whether the span has many tiles, few of which have a fragment. Entering an access here would create a fragment
    /// for each of them.
    #[inline]
    fn has_few_of(&self, span: &Span) -> bool {
        let len = span.len();
        len > WIDE && {
            let mut own = 0;
            span.for_each(|place| own += usize::from(self.own_at(place).is_some()));
            4 * own < len
        }
    }

    fn own_at(&self, place: &Cell) -> Option<&Fragment> {
        let index = self.tiling.index(place);
        self.chunks[index / CHUNK].as_ref()?[index % CHUNK].as_ref()
    }

    /// Returns a tile's own fragment, creating it if necessary.
    #[inline]
    fn tile(&mut self, place: &Cell) -> &mut Fragment {
        let index = self.tiling.index(place);
        let chunk = self.chunks[index / CHUNK].get_or_insert_with(|| Box::new([const { None }; CHUNK]));
        chunk[index % CHUNK].get_or_insert_with(|| {
            self.own += 1;
            self.others.clone()
        })
    }

    fn own(&self) -> impl Iterator<Item = (Block, &Fragment)> {
        let chunks = self.chunks.iter().enumerate().filter_map(|(n, chunk)| Some((n * CHUNK, chunk.as_ref()?)));
        let fragments = chunks.flat_map(|(first, chunk)| (first..).zip(&**chunk));
        fragments.filter_map(|(index, fragment)| Some((self.tiling.at(index), fragment.as_ref()?)))
    }

    fn for_each_own(&mut self, mut visit: impl FnMut(Block, &mut Fragment)) {
        for (n, chunk) in self.chunks.iter_mut().enumerate() {
            for (index, fragment) in (n * CHUNK..).zip(chunk.iter_mut().flat_map(|chunk| &mut **chunk)) {
                if let Some(fragment) = fragment {
                    visit(self.tiling.at(index), fragment);
                }
            }
        }
    }

    #[inline]
    fn keep_strip(&mut self, task: TaskId, address: usize, block: &Block) {
        if self.strips.is_full() {
            let readers = self.own().flat_map(|(_, fragment)| fragment.readers()).map(TaskRef::address).collect();
            self.strips.look_through(&readers, self.own);
        }
        self.strips.keep(task, address, block);
    }
}

#[cfg(test)]
mod tests {
    use super::strips::FEW as FEW_STRIPS;
    use crate::depend::Mode;
    use crate::depend::tests::Program;
    use crate::region::Block;
    use std::ops::Range;

    const TILE: usize = 8;

    fn tile(i: usize, j: usize) -> Block {
        Block::new(&[i * TILE..(i + 1) * TILE, j * TILE..(j + 1) * TILE])
    }

    fn square(side: usize) -> impl Iterator<Item = (usize, usize)> {
        (0..side).flat_map(move |i| (0..side).map(move |j| (i, j)))
    }

    /// Returns the number of tiles with a fragment and the number of strips, or `None` if the history is not by
    /// tiles.
    fn size(program: &Program) -> Option<(usize, usize)> {
        program.datum.history.lock().by_tiles().map(|tiled| (tiled.own, tiled.strips.len()))
    }

    fn finish_all(program: &mut Program) {
        while let Some(number) = program.ready().first() {
            program.finish(*number);
        }
    }

    /// Makes a program that has written all tiles of a square, and finished.
    fn written(side: usize) -> Program {
        let mut program = Program::over(&[side * TILE, side * TILE]);
        for (i, j) in square(side) {
            program.submit(&[(Mode::Out, tile(i, j))]);
        }
        finish_all(&mut program);
        assert_eq!(size(&program), Some((side * side, 0)));
        program
    }

    #[test]
    fn tiles_with_halos_come_after_their_neighbours() {
        let side = 12;
        let mut program = written(side);
        let [reads, updates] = program.sweep(TILE, side);
        assert_eq!(reads, 0, "all are finished");
        let along = 3 * side - 2; // pairs of neighbours, and of a tile with itself
        assert_eq!(updates, (along * along) as u64);
        assert_eq!(size(&program), Some((side * side, side * side)));
    }

    /// Makes a program in which faces of the first tile are read by unfinished tasks.
    fn with_faces(faces: &[Range<usize>]) -> Program {
        let mut program = written(6);
        for rows in faces {
            program.submit(&[(Mode::In, Block::new(&[rows.clone(), 0..3 * TILE]))]);
        }
        program
    }

    #[test]
    fn access_that_fits_no_tile_waits_only_for_overlapping_ones() {
        for mode in [Mode::Inout, Mode::Commutative] {
            let mut program = with_faces(&[0..1, 7..8]);
            let edges = [0..1, 1..7, 7..8, 0..8].map(|rows| program.submit(&[(mode, Block::new(&[rows, 0..TILE]))]));
            assert_eq!(size(&program), None);
            // The last comes after the first three; if the tasks join each other, after the readers that those have
            // waited for.
            assert_eq!(edges[..3], [1, 0, 1], "{mode:?}");
        }
    }

    #[test]
    fn reader_of_tile_and_part_of_it_reads_whole_tile() {
        let mut program = written(6);
        let face = Block::new(&[0..1, 0..TILE]);
        program.submit(&[(Mode::In, face), (Mode::In, tile(0, 0))]);
        assert_eq!(program.submit(&[(Mode::Inout, Block::new(&[4..5, 0..2 * TILE]))]), 1);
    }

    #[test]
    fn reader_of_all_and_part_of_a_tile_reads_all() {
        let mut program = written(6);
        let whole = program.datum.whole();
        program.submit(&[(Mode::Out, whole)]);
        program.submit(&[(Mode::In, whole), (Mode::In, Block::new(&[0..1, 0..TILE]))]);
        let edges = program.submit(&[(Mode::Out, Block::new(&[5 * TILE + 4..5 * TILE + 5, 0..2 * TILE]))]);
        assert_eq!((edges, size(&program)), (2, None), "after the tasks that wrote and read all");
    }

    /// Converts the history to an index, and then to parts, by accesses to rows at the end that fit no tile.
    fn to_parts_by_the_way(program: &mut Program) {
        let row = |at| Block::new(&[6 * TILE - at..6 * TILE - at + 1, 0..2]);
        program.submit(&[(Mode::Out, row(1))]);
        program.submit(&[(Mode::Commutative, row(2))]);
        assert_eq!(size(program), None);
    }

    #[test]
    fn reader_before_a_write_is_not_kept_after_it() {
        for reads_all in [false, true] {
            let mut program = written(6);
            if reads_all {
                program.submit(&[(Mode::Out, program.datum.whole())]);
                program.finish(36);
            }
            let first = program.tasks.len() as u64;
            let read = if reads_all { program.datum.whole() } else { Block::new(&[0..1, 0..3 * TILE]) };
            program.submit(&[(Mode::In, read)]);
            program.submit(&[(Mode::Out, tile(0, 0))]);
            to_parts_by_the_way(&mut program);
            program.submit(&[(Mode::Out, tile(0, 0))]);
            program.finish(first);
            let (writer, last) = (first + 1, first + 4);
            assert!(program.ready().contains(&writer) && !program.ready().contains(&last), "reads all: {reads_all}");
            program.finish(writer);
            assert!(program.ready().contains(&last));
        }
    }

    #[test]
    fn join_stands_for_everything_its_tasks_have_read() {
        for readers in 1..=crate::depend::join::MOST as u64 + 2 {
            let mut program = written(6);
            let first = program.tasks.len() as u64;
            (0..readers).for_each(|_| _ = program.submit(&[(Mode::In, tile(1, 1))]));
            program.submit(&[(Mode::In, Block::new(&[TILE..TILE + 1, TILE..3 * TILE]))]);
            program.submit(&[(Mode::Out, Block::new(&[2 * TILE - 1..2 * TILE, TILE..2 * TILE]))]);
            (first + 1..=first + readers).for_each(|number| program.finish(number));
            assert_eq!(program.ready(), [first], "{readers} readers");
            program.finish(first);
            assert_eq!(program.ready(), [first + readers + 1], "{readers} readers");
        }
    }

    #[test]
    fn task_does_not_wait_for_itself_through_a_join() {
        let row = |at: usize| Block::new(&[at..at + 1, 0..TILE]);
        for others in 0..=crate::depend::join::MOST as u64 + 1 {
            let mut program = written(6);
            let first = program.tasks.len() as u64;
            (0..others).for_each(|_| _ = program.submit(&[(Mode::In, row(0))]));
            program.submit(&[(Mode::In, row(1)), (Mode::In, row(2)), (Mode::In, row(3)), (Mode::Out, row(5))]);
            (first..first + others).for_each(|number| program.finish(number));
            assert_eq!(program.ready(), [first + others], "{others} others");
        }
    }

    #[test]
    fn write_of_all_drops_all_tiles() {
        let mut program = with_faces(&[0..1, 7..8]);
        assert_eq!(program.submit(&[(Mode::Inout, program.datum.whole())]), 2);
        assert_eq!(size(&program), Some((0, 0)));
        assert_eq!(program.submit(&[(Mode::In, program.datum.whole())]), 1);
        assert_eq!(program.submit(&[(Mode::Out, tile(2, 2))]), 1);
        assert_eq!(size(&program), Some((1, 0)));
    }

    #[test]
    fn strips_of_finished_tasks_are_forgotten() {
        let mut program = written(6);
        for n in 0..100 * FEW_STRIPS {
            program.submit(&[(Mode::In, Block::new(&[0..1, n % 8..17]))]);
            finish_all(&mut program);
        }
        assert!(size(&program).is_some_and(|(_, strips)| strips < 8 * FEW_STRIPS), "{:?}", size(&program));
    }

    #[test]
    fn wide_read_of_shared_tiles_makes_no_fragments() {
        let mut program = Program::over(&[64 * TILE, 64 * TILE]);
        program.submit(&[(Mode::Out, program.datum.whole())]);
        for (i, j) in square(5) {
            program.submit(&[(Mode::Inout, tile(i, j))]);
        }
        assert_eq!(size(&program), Some((25, 0)));
        let edges = program.submit(&[(Mode::In, Block::new(&[2 * TILE..64 * TILE, 0..64 * TILE]))]);
        assert_eq!((edges, size(&program)), (16, None), "after the tasks on 15 tiles and the task on all");
    }

    #[test]
    fn wide_writes_end_tiling() {
        let mut program = written(16);
        let mut writes = 0;
        while size(&program).is_some() {
            writes += 1;
            assert!(writes < 100);
            program.submit(&[(Mode::Inout, Block::new(&[0..8 * TILE, 0..16 * TILE]))]);
        }
    }
}
