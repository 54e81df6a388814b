//! Turns of commutative tasks, which become ready in any order but run one at a time per region.
//!
//! Every part of a data object that commutative tasks share has a *line*, in which they wait for their turn, first
//! come, first served. Once a task has no unfinished predecessors, it enters the lines of all its parts one after the
//! other, in the order in which the lines were created, and keeps the turns that it already has while it waits for the
//! next one. A task that has run gives up its turns, handing each one to the first task in that line. It examines no
//! other waiting tasks and no other lines.
//!
//! If a part is split while its group is open, tasks on different pieces need not exclude each other, but they must
//! exclude tasks on the whole part. So each piece gets its own line inside the whole part's line: tasks on the piece
//! *share* their turn in the outer line and hold the inner line exclusively. Lines are nested only a few levels deep.
//! Even smaller pieces keep the existing line, which orders more than necessary but is always correct.
//!
//! Invariants:
//! 1. Two overlapping members of a group have a line in common in which at least one of them does not share its turn.
//! 2. All tasks pass through lines in the same order. The tasks in a line wait only for tasks that are further along in
//!    this order or that have all their turns and are running, so there is no deadlock.
//! 3. While a line is locked, tasks are only moved; no task is run or dropped.

use super::OwnedTask;
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum nesting depth of lines, including the outermost.
const MOST_NESTED: u32 = 4;

/// The queue in which the members of a group wait for their turn at one part.
pub(crate) struct Line {
    data: DataId,
    /// The part that the line was created for; it may have been split since.
    part: Block,
    outer: Option<Arc<Line>>,
    depth: u32,
    /// Position in the global order of lines. An inner line comes after its outer line.
    number: u64,
    queue: Mutex<Queue>,
}

#[derive(Default)]
struct Queue {
    /// Number of tasks that have their turn. Greater than 1 only if these tasks share the turn.
    holders: usize,
    shared: bool,
    waiting: VecDeque<(OwnedTask, bool)>,
    /// Number of times that a task was examined.
    #[cfg(test)]
    looks: usize,
}

/// A task's turn in a line, whether or not the task has it yet.
#[derive(Debug, Clone)]
pub(crate) struct Turn {
    line: Arc<Line>,
    /// Whether the task shares this turn with other tasks that also share theirs.
    shared: bool,
}

/// The turns of one task, in the order in which the task takes them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    all: SmallVec<[Turn; 1]>,
    /// Number of turns that the task already has.
    got: usize,
}

impl Line {
    /// Creates the line for a group that begins at this part of a data object.
    pub(super) fn new(data: DataId, part: Block) -> Arc<Self> {
        Arc::new(Self { data, part, outer: None, depth: 1, number: next_number(), queue: Mutex::default() })
    }

    /// Returns the line for `part`, which must be this line's part or a piece of it. Creates an inner line if
    /// necessary.
    pub(super) fn within(self: &Arc<Self>, part: Block) -> Arc<Self> {
        if self.part == part || self.depth == MOST_NESTED {
            return self.clone();
        }
        let (outer, depth) = (Some(self.clone()), self.depth + 1);
        Arc::new(Self { data: self.data, part, outer, depth, number: next_number(), queue: Mutex::default() })
    }

    /// Returns the data object and the part for which tasks wait here.
    pub(super) fn place(&self) -> (DataId, &Block) {
        (self.data, &self.part)
    }

    /// Calls `see` with each task that waits here, under the lock.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask)) {
        self.queue.lock().waiting.iter().for_each(|(task, _)| see(task));
    }

    /// Returns the task if it gets its turn at once; otherwise the task waits in the line.
    fn enter(&self, task: OwnedTask, shared: bool) -> Option<OwnedTask> {
        let mut queue = self.queue.lock();
        #[cfg(test)]
        (queue.looks += 1);
        if queue.holders == 0 || (shared && queue.shared && queue.waiting.is_empty()) {
            queue.holders += 1;
            queue.shared = shared;
            return Some(task);
        }
        queue.waiting.push_back((task, shared));
        None
    }

    /// Ends the turn of a task that has run; returns the tasks whose turn it is now.
    fn leave(&self) -> SmallVec<[OwnedTask; 1]> {
        let mut next = SmallVec::new();
        let mut queue = self.queue.lock();
        queue.holders -= 1;
        if queue.holders > 0 {
            return next;
        }
        // Take one task that needs the line exclusively, or all consecutive tasks that share.
        while queue.waiting.front().is_some_and(|(_, shared)| next.is_empty() || (queue.shared && *shared)) {
            #[cfg(test)]
            (queue.looks += 1);
            if let Some((task, shared)) = queue.waiting.pop_front() {
                queue.holders += 1;
                queue.shared = shared;
                next.push(task);
            }
        }
        next
    }
}

fn next_number() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(0);
    NEXT.fetch_add(1, Ordering::Relaxed)
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        write!(f, "Line({:?}: {} at work, {} waiting)", self.part, queue.holders, queue.waiting.len())
    }
}

impl Turns {
    /// Adds a turn in `line`, and shared turns in the lines that enclose it.
    pub(super) fn join(&mut self, line: &Arc<Line>) {
        self.all.push(Turn { line: line.clone(), shared: false });
        let mut outer = line.outer.as_ref();
        while let Some(line) = outer {
            self.all.push(Turn { line: line.clone(), shared: true });
            outer = line.outer.as_ref();
        }
    }

    /// Returns the same turns, none of them taken.
    pub(super) fn again(&self) -> Self {
        Self { all: self.all.clone(), got: 0 }
    }

    /// Sorts the turns into line order. Called when the turns for all parts have been added.
    pub(super) fn settle(&mut self) {
        // If a task holds a line exclusively for one of its parts, it does not also need a shared turn there for
        // another part.
        self.all.sort_unstable_by_key(|turn| (turn.line.number, turn.shared));
        self.all.dedup_by_key(|turn| turn.line.number);
    }

    /// Visits the task's lines, each with a flag that tells whether the task has its turn there.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Arc<Line>, bool)> {
        self.all.iter().enumerate().map(|(at, turn)| (&turn.line, at < self.got))
    }

    /// Returns the next line to wait in, and whether to share the turn there.
    fn next(&self) -> Option<(Arc<Line>, bool)> {
        self.all.get(self.got).map(|turn| (turn.line.clone(), turn.shared))
    }
}

/// Returns a ready task if it has all its turns; otherwise the task waits in one of its lines.
pub(crate) fn take_turns(mut task: OwnedTask) -> Option<OwnedTask> {
    while let Some((line, shared)) = turns_of(&mut task).and_then(|turns| turns.next()) {
        task = line.enter(task, shared)?;
        got_turn(&mut task);
    }
    Some(task)
}

/// Ends the turns of a task that has run. Hands each task that now has all its turns to `ready`.
pub(crate) fn give_up_turns(task: &mut OwnedTask, mut ready: impl FnMut(OwnedTask)) {
    let turns = turns_of(task).map(std::mem::take).unwrap_or_default();
    debug_assert_eq!(turns.got, turns.all.len(), "a task runs when it has all its turns");
    for turn in turns.all {
        for mut next in turn.line.leave() {
            got_turn(&mut next);
            if let Some(next) = take_turns(next) {
                ready(next);
            }
        }
    }
}

fn got_turn(task: &mut OwnedTask) {
    if let Some(turns) = turns_of(task) {
        turns.got += 1;
    }
}

/// Returns `None` if the task's commutative accesses are all empty.
fn turns_of(task: &mut OwnedTask) -> Option<&mut Turns> {
    task.owned_mut().as_mut().map(|side| &mut side.turns)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::depend::Own;
    use crate::depend::{Body, Kinds, Lane, Meta, Side, Submitting};
    use crate::ids::{DataId, TaskId};
    use crate::memory::{NoBody, Payload};
    use crate::sync::CallSite;
    use crate::sync::Pooled;
    use std::borrow::Cow;
    use std::sync::OnceLock;

    const DATA: DataId = DataId(0);

    /// Makes a ready task with a turn in each of these lines.
    fn task(id: u64, lines: &[&Arc<Line>]) -> OwnedTask {
        let (name, location) = (Cow::Borrowed("task"), CallSite::caller());
        let meta = Meta {
            id: TaskId(id),
            name,
            location,
            priority: 0,
            internal: false,
            queues: true,
            join: false,
            lane: Lane::new(0),
            domain: OnceLock::new(),
        };
        let mut side = Pooled::<Side>::default();
        lines.iter().for_each(|line| side.turns.join(line));
        side.turns.settle();
        let body = Payload::new((), NoBody, Kinds::NONE);
        Submitting::new(|| meta, Own { side: Some(side), child: None }, body, 0, |p| p as *mut (dyn Body + 'static))
            .commit()
            .expect("the task has no predecessor")
    }

    fn part(range: std::ops::Range<usize>) -> Block {
        Block::interval(range)
    }

    fn ids(tasks: &[OwnedTask]) -> Vec<u64> {
        tasks.iter().map(|task| task.shared().id.0).collect()
    }

    /// Runs every task that can run, each to its end before the next, and returns the order.
    fn run_all(mut ready: Vec<OwnedTask>) -> Vec<u64> {
        let mut order = Vec::new();
        while !ready.is_empty() {
            let mut task = ready.remove(0);
            order.push(task.shared().id.0);
            give_up_turns(&mut task, |next| ready.push(next));
        }
        order
    }

    #[test]
    fn line_is_first_come_first_served_and_examines_no_waiting_task_twice() {
        let line = Line::new(DATA, part(0..8));
        let n = 10_000;
        let ready: Vec<_> = (0..n).filter_map(|id| take_turns(task(id, &[&line]))).collect();
        assert_eq!(ids(&ready), [0]);
        assert_eq!(run_all(ready), (0..n).collect::<Vec<_>>());
        assert_eq!(line.queue.lock().looks as u64, 2 * n - 1); // once on arrival; all but the first once more
    }

    #[test]
    fn tasks_that_need_several_lines_do_not_deadlock() {
        let lines = [Line::new(DATA, part(0..1)), Line::new(DATA, part(1..2)), Line::new(DATA, part(2..3))];
        let n = 300;
        // Every pair of lines, named in either order.
        let pair = |id: u64| [&lines[id as usize % 3], &lines[(id as usize + 1 + id as usize / 3 % 2) % 3]];
        let ready = (0..n).filter_map(|id| take_turns(task(id, &pair(id)))).collect();
        let mut order = run_all(ready);
        order.sort_unstable();
        assert_eq!(order, (0..n).collect::<Vec<_>>());
    }

    #[test]
    fn pieces_of_a_part_exclude_the_whole_but_not_each_other() {
        let whole = Line::new(DATA, part(0..8));
        let [left, right] = [part(0..4), part(4..8)].map(|piece| whole.within(piece));
        let mut running: Vec<_> = [&left, &right, &left, &whole, &right, &left]
            .into_iter()
            .zip(0..)
            .filter_map(|(line, id)| take_turns(task(id, &[line])))
            .collect();
        assert_eq!(ids(&running), [0, 1], "one in each piece");
        let end = |running: &mut Vec<OwnedTask>| {
            let mut task = running.remove(0);
            give_up_turns(&mut task, |next| running.push(next));
            ids(running)
        };
        assert_eq!(end(&mut running), [1, 2], "the next task in the left piece came before the task on the whole");
        assert_eq!(end(&mut running), [2]);
        assert_eq!(end(&mut running), [3], "the task on the whole runs while later tasks wait");
        assert_eq!(end(&mut running), [4, 5]);
    }

    #[test]
    fn lines_of_bounded_depth_still_exclude() {
        let mut line = Line::new(DATA, part(0..100));
        let outermost = line.clone();
        for n in 1..100 {
            line = line.within(part(n..100));
        }
        assert_eq!(line.depth, MOST_NESTED);
        let (piece, whole) = (task(0, &[&line]), task(1, &[&outermost]));
        let piece = take_turns(piece).expect("no task was before it");
        assert!(take_turns(whole).is_none());
        assert_eq!(run_all(vec![piece]), [0, 1]);
    }

    #[test]
    fn task_in_two_pieces_of_a_line_takes_it_once() {
        let whole = Line::new(DATA, part(0..8));
        let [left, right] = [part(0..4), part(4..8)].map(|piece| whole.within(piece));
        let both = take_turns(task(0, &[&left, &whole, &right])).expect("no task was before it");
        assert!(take_turns(task(1, &[&left])).is_none());
        assert_eq!(run_all(vec![both]), [0, 1]);
        assert_eq!(whole.queue.lock().holders, 0);
    }
}
