//! Conversion of a history by parts back to an index, once none of the tasks that joined each other matters any more.
//!
//! Groups and weak accesses need a history by parts ([`super::fragment`]), in which blocks that cross each other are
//! cut. Usually they occur only once: a group fills an array, and the rest of the program sweeps over the array with
//! halos. So a history by parts adds up the cost of its accesses, and is converted to an index ([`super::indexed`])
//! when this cost reaches the cost of the conversion.
//!
//! The conversion never forgets a task that a newcomer would have to wait for or inherit a failure from.
//!
//! Invariant: attempts to convert cost no more than the accesses that precede them, however often groups recur.

use super::Mode;
use super::fragment::Fragment;
use super::indexed::Indexed;
use super::shares::Shares;
use crate::region::{Block, RegionMap};

/// A history with fewer parts than this is treated as if it had this many when deciding about an attempt.
const FEW: usize = if cfg!(test) { 4 } else { 64 };

/// An attempt costs at most as much as this many accesses per existing part.
const ACCESSES_PER_PART: usize = 4;

/// The cost of accesses since the last attempt or the last group: 1 per access, plus [`ACCESSES_PER_PART`] for each
/// part beyond the first that the access visited.
#[derive(Default)]
pub(super) struct Costs(usize);

impl Costs {
    /// Counts an access that visited `visited` of `parts` parts. Returns whether an attempt is due.
    pub(super) fn count(&mut self, mode: Mode, visited: usize, parts: usize) -> bool {
        if !Indexed::takes(mode) {
            self.0 = 0;
            return false;
        }
        self.0 += 1 + ACCESSES_PER_PART * (visited - 1);
        let is_time = self.0 > ACCESSES_PER_PART * parts.max(FEW);
        if is_time {
            self.0 = 0;
        }
        is_time
    }
}

/// Returns the same history with an index, unless a group still matters somewhere.
#[cold]
pub(super) fn to_indexed(parts: &RegionMap<Fragment>, whole: Block) -> Option<Indexed> {
    let (mut written, mut read, mut are_settled) = (Shares::default(), Shares::default(), true);
    parts.peek(&whole, |part, fragment| match fragment.settled() {
        Some((writer, readers)) => {
            writer.into_iter().for_each(|task| written.add(task.address(), || task.clone(), part));
            readers.for_each(|task| read.add(task.address(), || task.clone(), part));
        }
        None => are_settled = false,
    });
    if !are_settled {
        return None;
    }
    let mut indexed = Indexed::new(whole);
    // Readers can be entered last, because no remaining reader read its part before the part was written.
    written.blocks().for_each(|(task, block)| indexed.repeat(&block, true, std::slice::from_ref(task)));
    read.blocks().for_each(|(task, block)| indexed.repeat(&block, false, std::slice::from_ref(task)));
    Some(indexed)
}

#[cfg(test)]
mod tests {
    use crate::depend::tests::Program;
    use crate::depend::{Mode, OpId};
    use crate::region::Block;

    const TILE: usize = 8;
    const SIDE: usize = 6;

    #[test]
    fn history_returns_to_tiles_when_group_has_ended() {
        for group in [Mode::Concurrent, Mode::Commutative, Mode::Reduction(OpId(1))] {
            let mut program = Program::over(&[SIDE * TILE; 2]);
            let row = Block::new(&[SIDE * TILE - 1..SIDE * TILE, 0..TILE]);
            (0..2).for_each(|_| _ = program.submit(&[(group, row)]));
            let tile_of_row = Block::new(&[(SIDE - 1) * TILE..SIDE * TILE, 0..TILE]);
            (0..100).for_each(|_| _ = program.submit(&[(Mode::Inout, Block::new(&[0..TILE, 0..TILE]))]));
            let by_tiles = |program: &Program| program.datum.history.lock().by_tiles().is_some();
            assert!(!by_tiles(&program), "{group} is pending");
            (0..2).for_each(|number| program.finish(number));
            (0..3).for_each(|_| _ = program.sweep(TILE, SIDE));
            assert!(by_tiles(&program), "{group} has ended");
            assert_eq!(program.submit(&[(Mode::In, tile_of_row)]), 1, "only its last writer is unfinished");
        }
    }

    #[test]
    fn uncombined_accumulation_prevents_conversion() {
        let mut program = Program::over(&[SIDE * TILE; 2]);
        let row = Block::new(&[SIDE * TILE - 1..SIDE * TILE, 0..TILE]);
        program.submit(&[(Mode::Reduction(OpId(1 | 3 << 30)), row)]);
        program.finish(0);
        for _ in 0..20 {
            (0..TILE).for_each(|i| _ = program.submit(&[(Mode::In, Block::new(&[i..i + 3, i..i + 3]))]));
        }
        assert!(program.datum.history.lock().longest_list() > 0, "it is by parts");
    }
}
