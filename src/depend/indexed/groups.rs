//! Accesses of tasks that join others, or that hold a block for their children, in a history with an index.

use super::{Indexed, Written};
use crate::depend::Mode;
use crate::depend::fragment::Fragment;
use crate::depend::join::Tasks;
use crate::depend::lists;
use crate::depend::register::Newcomer;
use crate::region::{Block, Part};
use crate::sync::Flow;

impl Indexed {
    /// Enters an access that can join others.
    pub(super) fn join(&mut self, index: usize, block: &Block, mode: Mode, newcomer: &mut Newcomer<'_>) {
        let Self { written, read, boxes, now, .. } = self;
        let mut parts = 0;
        written.visit(block, |part, Written { by, at, before }| {
            parts += 1;
            let readers = |newcomer: &mut Newcomer<'_>| {
                let mut readers = Tasks::new();
                boxes.find(&part, |index| {
                    let read = &read[index as usize];
                    if *at < read.at {
                        read.for_each(&part, newcomer, |task| readers.push(task));
                    }
                });
                readers
            };
            if by.join(index, &Part::Box(&part), mode, newcomer, readers) {
                (*before, *at) = (*at, *now);
            }
        });
        self.wear(parts, newcomer);
    }

    #[cold]
    pub(super) fn enter_weak_writer(&mut self, block: &Block, newcomer: &mut Newcomer<'_>) {
        let Self { written, read, boxes, now, .. } = self;
        let mut parts = 0;
        written.visit(block, |part, Written { by, at, before }| {
            parts += 1;
            by.close_accumulation(&Part::Box(&part), newcomer);
            newcomer.hand_down(&Part::Box(&part), |own| *own = Fragment::unread(by.for_children()));
            by.hold_weakly(newcomer);
            (*before, *at) = (*at, *now);
        });
        boxes.find(block, |index| {
            let read = &mut read[index as usize];
            if let Some(common) = block.intersection(&read.block).filter(|_| !read.tasks.is_empty()) {
                written.peek(&common, |part, written| {
                    if written.before < read.at {
                        newcomer.hand_down(&Part::Box(&part), |own| own.add_readers(&read.tasks, read.is_weak));
                    }
                });
            }
            if block.contains(&read.block) {
                read.forget();
            }
        });
        self.wear(parts, newcomer);
    }

    #[cold]
    pub(super) fn enter_weak_reader(&mut self, block: &Block, newcomer: &mut Newcomer<'_>) {
        self.close_groups(block, newcomer);
        let (mut oldest, mut parts) = (u64::MAX, 0);
        self.written.peek(block, |part, written| {
            parts += 1;
            oldest = oldest.min(written.at);
            newcomer.hand_down(&Part::Box(&part), |own| *own = Fragment::unread(written.by.clone()));
        });
        let read = self.read_now(block, parts, oldest, newcomer);
        lists::make_room(&mut read.tasks, Flow::Order, newcomer);
        read.tasks.push(newcomer.share());
        read.is_weak = true;
    }

    /// Closes the groups in a block that is about to be read.
    #[cold]
    pub(super) fn close_groups(&mut self, block: &Block, newcomer: &mut Newcomer<'_>) {
        let is_open = |written: &Written| written.by.is_open();
        self.written.visit_if(block, is_open, |part, written| written.by.close(&Part::Box(&part), newcomer));
    }
}

#[cfg(test)]
mod tests {
    use crate::depend::tests::Program;
    use crate::depend::{Mode, OpId};
    use crate::region::Block;

    const TILE: usize = 8;
    const SIDE: usize = 6;
    const ACCUMULATE: Mode = Mode::Reduction(OpId(1 | 3 << 30));
    const GROUPS: [Mode; 4] = [Mode::Concurrent, Mode::Commutative, Mode::Reduction(OpId(1)), ACCUMULATE];

    fn tile(i: usize, j: usize) -> Block {
        Block::new(&[i * TILE..(i + 1) * TILE, j * TILE..(j + 1) * TILE])
    }

    /// A row of the last tiles.
    fn row() -> Block {
        Block::new(&[SIDE * TILE - 1..SIDE * TILE, 0..TILE])
    }

    fn is_by_tiles(program: &Program) -> bool {
        program.datum.history.lock().by_tiles().is_some()
    }

    #[test]
    fn history_returns_to_tiles_when_group_has_ended() {
        for group in GROUPS {
            let mut program = Program::over(&[SIDE * TILE; 2]);
            (0..2).for_each(|_| _ = program.submit(&[(group, row())]));
            (0..100).for_each(|_| _ = program.submit(&[(Mode::Inout, tile(0, 0))]));
            assert!(!is_by_tiles(&program), "{group} is pending");
            (0..2).for_each(|number| program.finish(number));
            (0..100).for_each(|_| _ = program.submit(&[(Mode::Inout, tile(0, 0))]));
            let is_combined = group != ACCUMULATE;
            assert!(!is_by_tiles(&program) || is_combined, "contributions have yet to be combined");
            (0..3).for_each(|_| _ = program.sweep(TILE, SIDE));
            assert!(is_by_tiles(&program), "{group} has ended");
            assert_eq!(program.submit(&[(Mode::In, tile(SIDE - 1, 0))]), 1, "only its last writer is unfinished");
        }
    }

    #[test]
    fn group_is_closed_only_where_it_was_read() {
        for group in GROUPS {
            let mut program = Program::over(&[SIDE * TILE; 2]);
            program.submit(&[(group, tile(0, 0))]);
            program.submit(&[(Mode::In, Block::new(&[0..1, 0..2 * TILE]))]);
            program.submit(&[(group, Block::new(&[1..TILE, 0..TILE]))]);
            assert_eq!(program.ready(), [0, 2], "{group}: the rows that were not read can be joined");
            program.submit(&[(group, Block::new(&[0..1, 0..TILE]))]);
            program.finish(0);
            assert_eq!(program.ready(), [1, 2], "{group}: the row that was read cannot");
            program.finish(1);
            assert_eq!(program.ready(), [2, 3]);
        }
    }

    #[test]
    fn blocks_that_are_read_do_not_cut_each_other_after_a_group() {
        for group in GROUPS {
            let mut program = Program::over(&[SIDE * TILE; 2]);
            (0..2).for_each(|_| _ = program.submit(&[(group, program.datum.whole())]));
            program.submit(&[(Mode::In, program.datum.whole())]);
            let [reads, updates] = program.sweep(TILE, SIDE);
            assert!(reads <= 2 * (SIDE * SIDE) as u64, "{group}: {reads} edges");
            let along = 3 * SIDE - 2; // pairs of neighbours, and of a tile with itself
            // A writer waits for the readers of its tile, for the reader of all, and for the group.
            assert!(updates <= (along * along + 3 * SIDE * SIDE) as u64, "{group}: {updates} edges");
        }
    }
}
