//! Scratch memory of the tasks on a stream.
//!
//! Tasks on a stream run one after the other, so each of them may use the same blocks. The parts of a graph may run at
//! the same time. A part therefore gets only blocks whose previous users it runs after, or new blocks; so branches of
//! the graph use separate memory, and scratch memory orders none of its parts. Only if memory is short, a part
//! *shares* a block with another branch and runs after that branch's part.
//!
//! Invariants:
//! 1. The users of a block within one session are ordered: each runs after the one before it.
//! 2. A part never gets the same block twice, nor one that a part holds which it continues.
//! 3. Blocks are chosen in the order in which the task before used them, among blocks of one capacity. So a replay gets
//!    the addresses of the replay before it, and its graph need not be changed.

/// The maximum number of blocks that the parts of a graph use at once. Devices run at most 128 kernels at a time.
const MOST_BLOCKS: usize = 128;

/// A block of scratch memory.
pub(super) struct Block<M> {
    pub(super) capacity: usize,
    pub(super) _memory: M,
    pub(super) base: usize,
}

/// The scratch memory that a task has while it is being enqueued.
pub(super) struct Scratch<M> {
    /// Blocks that the task has not used so far.
    free: Vec<Block<M>>,
    /// The blocks in use, each with the last part that uses it.
    used: Vec<(Block<M>, u32)>,
    /// The index of the current part.
    part: u32,
    /// For each part, and for each of the first blocks in `used`: the last user, plus 1, among this part and the parts
    /// that it runs after; 0 if there is none. The rows of all parts follow each other.
    known: Vec<u32>,
    /// The position in `known` at which the row of each part ends. The last row is that of the current part.
    ends: Vec<usize>,
}

impl<M> Scratch<M> {
    /// Creates the scratch memory of a task that is a single part.
    pub(super) fn new(free: Vec<Block<M>>) -> Self {
        Self { free, used: Vec::new(), part: 0, known: Vec::new(), ends: vec![0] }
    }

    /// Begins the parts of a graph. Nothing may have been taken before.
    pub(super) fn begin_graph(&mut self) {
        self.ends.clear();
    }

    /// Begins the next part, which runs after the parts in `after`.
    pub(super) fn begin_part(&mut self, after: &[u32]) {
        self.part = self.ends.len() as u32;
        let begin = self.known.len();
        for part in after {
            self.know(begin, *part);
        }
        self.ends.push(self.known.len());
    }

    /// Begins the next part, which runs after the current part and those in `after`, and which also uses the blocks of
    /// the current part.
    pub(super) fn continue_part(&mut self, after: &[u32]) {
        let before = self.part;
        let after: Vec<u32> = [before].into_iter().chain(after.iter().copied()).collect();
        self.begin_part(&after);
        for at in (0..self.used.len()).filter(|at| self.used[*at].1 == before).collect::<Vec<_>>() {
            self.mark(at);
        }
    }

    /// Adds what a part knows to the row that begins at `begin`, which is the last.
    fn know(&mut self, begin: usize, part: u32) {
        let row = self.row(part);
        self.known.resize(self.known.len().max(begin + row.len()), 0);
        for (offset, at) in row.enumerate() {
            self.known[begin + offset] = self.known[begin + offset].max(self.known[at]);
        }
    }

    fn row(&self, part: u32) -> std::ops::Range<usize> {
        let part = part as usize;
        part.checked_sub(1).map_or(0, |before| self.ends[before])..self.ends[part]
    }

    /// Takes a block of this capacity that the current part need not share, and returns its base.
    pub(super) fn take(&mut self, capacity: usize) -> Option<usize> {
        let row = &self.known[self.row(self.part)];
        let is_ours = |at: usize, user: u32| user != self.part && row.get(at) == Some(&(user + 1));
        let mut used = self.used.iter().enumerate();
        let at = match used.position(|(at, (block, user))| block.capacity == capacity && is_ours(at, *user)) {
            Some(at) => {
                self.mark(at);
                at
            }
            None => {
                let at = self.free.iter().position(|block| block.capacity == capacity)?;
                let block = self.free.remove(at);
                self.add(block);
                self.used.len() - 1
            }
        };
        Some(self.used[at].0.base)
    }

    /// Adds a block, which the current part uses.
    pub(super) fn add(&mut self, block: Block<M>) {
        self.used.push((block, self.part));
        self.mark(self.used.len() - 1);
    }

    /// Records that the current part uses a block.
    fn mark(&mut self, at: usize) {
        self.used[at].1 = self.part;
        let row = self.row(self.part);
        self.known.resize(self.known.len().max(row.start + at + 1), 0);
        self.known[row.start + at] = self.part + 1;
        *self.ends.last_mut().expect("the current part has a row") = self.known.len();
    }

    /// Takes a block of at least this capacity that a part of another branch uses. Returns the block's base and that
    /// part, after which the current part must run.
    pub(super) fn share(&mut self, capacity: usize) -> Option<(usize, u32)> {
        let used = self.used.iter().enumerate();
        let fits = used.filter(|(_, (block, user))| block.capacity >= capacity && *user != self.part);
        let (user, _, at) = fits.map(|(at, (block, user))| (*user, block.capacity, at)).min()?;
        self.know(self.row(self.part).start, user);
        self.mark(at);
        Some((self.used[at].0.base, user))
    }

    /// Returns whether the parts may use a further block of this size, given the total size that they may use.
    pub(super) fn may_grow(&self, bytes: usize, most_bytes: u64) -> bool {
        let in_use: usize = self.used.iter().map(|(block, _)| block.capacity).sum();
        self.used.len() < MOST_BLOCKS && in_use.saturating_add(bytes) as u64 <= most_bytes
    }

    /// Removes the blocks that the task has not used so far.
    pub(super) fn take_free(&mut self) -> Vec<Block<M>> {
        std::mem::take(&mut self.free)
    }

    /// Removes all blocks: those in use, in the order of their first use, and then the others.
    pub(super) fn drain(&mut self) -> impl Iterator<Item = Block<M>> {
        self.used.drain(..).map(|(block, _)| block).chain(self.free.drain(..))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A heap that never runs out, and the scratch memory of one session.
    struct Session(Scratch<()>, usize);

    impl Session {
        fn graph() -> Self {
            let mut scratch = Scratch::new(Vec::new());
            scratch.begin_graph();
            Self(scratch, 1 << 20)
        }

        fn take(&mut self, bytes: usize) -> usize {
            self.0.take(bytes).unwrap_or_else(|| {
                self.1 -= bytes; // as some systems do
                self.0.add(Block { capacity: bytes, _memory: (), base: self.1 });
                self.1
            })
        }
    }

    #[test]
    fn branches_use_separate_blocks_and_a_chain_uses_one() {
        let mut session = Session::graph();
        let mut bases = Vec::new();
        for part in 0..12u32 {
            session.0.begin_part(part.checked_sub(3).as_slice()); // three chains, interleaved
            bases.push(session.take(100));
        }
        let (first, later) = bases.split_at(3);
        assert!(first[0] != first[1] && first[1] != first[2] && first[0] != first[2]);
        assert!(later.chunks(3).all(|round| round == first), "{bases:?}");
        session.0.begin_part(&[9, 10, 11]);
        let again: Vec<_> = (0..3).map(|_| session.take(100)).collect();
        assert_eq!(again, first, "a part after all branches may use the blocks of all of them");
        assert!(!bases.contains(&session.take(100)), "but none of them twice");
    }

    #[test]
    fn shared_block_orders_its_users() {
        let mut session = Session::graph();
        session.0.begin_part(&[]);
        let base = session.take(100);
        session.0.begin_part(&[]);
        assert_eq!(session.0.take(100), None);
        assert_eq!(session.0.share(200), None, "the only block is too small");
        assert_eq!(session.0.share(100), Some((base, 0)));
        assert_eq!(session.0.share(100), None, "a part never gets a block twice");
        session.0.begin_part(&[1]);
        assert_eq!(session.0.take(100), Some(base));
    }

    proptest! {
        /// In random graphs, the users of a block are ordered by the edges, and a replay gets the same blocks.
        #[test]
        fn users_of_a_block_are_ordered(
            parts in prop::collection::vec((prop::collection::vec(any::<u32>(), 0..3), 0..3usize, 0..4u8), 1..60),
        ) {
            let mut session = Session::graph();
            let mut choices: Vec<Vec<Vec<usize>>> = Vec::new();
            for _ in 0..3 {
                let mut reach: Vec<Vec<bool>> = Vec::new();
                let mut users: std::collections::HashMap<usize, usize> = Default::default();
                let mut taken = Vec::new();
                for (part, (after, blocks, kind)) in parts.iter().enumerate() {
                    let continues = *kind == 0 && part > 0;
                    let after: Vec<u32> = after.iter().filter(|_| part > 0).map(|n| n % part.max(1) as u32).collect();
                    let mut row = vec![false; parts.len()];
                    let before = continues.then(|| part as u32 - 1);
                    for other in after.iter().chain(&before) {
                        row[*other as usize] = true;
                        row.iter_mut().zip(&reach[*other as usize]).for_each(|(ours, theirs)| *ours |= theirs);
                    }
                    reach.push(row);
                    if continues {
                        session.0.continue_part(&after);
                        users.values_mut().filter(|user| **user == part - 1).for_each(|user| *user = part);
                    } else {
                        session.0.begin_part(&after);
                    }
                    let bases: Vec<usize> = (0..*blocks).map(|n| session.take(100 << n)).collect();
                    for base in &bases {
                        if let Some(user) = users.insert(*base, part) {
                            prop_assert!(user != part, "part {} gets a block twice", part);
                            prop_assert!(reach[part][user], "part {} shares a block with part {}", part, user);
                        }
                    }
                    taken.push(bases);
                }
                choices.push(taken);
                let mut next = Scratch::new(session.0.drain().collect());
                next.begin_graph();
                session.0 = next;
            }
            prop_assert_eq!(&choices[0], &choices[1], "a steady replay keeps its addresses");
            prop_assert_eq!(&choices[1], &choices[2]);
        }
    }
}
