//! Turns of tasks that are ready, but may not run all at once: commutative tasks, which run one at a time per region,
//! and tasks that use a counted resource.
//!
//! Every part of a data object that commutative tasks share has a *line*, in which they wait for their turn, first
//! come, first served. So has every resource. A line has a capacity. A turn takes an amount of it: all of it, a single
//! unit of it if tasks share the line, or the amount of a resource that the task uses. The first task in a line waits
//! until its amount is free, and the others wait after it, so that small amounts never starve a large one.
//!
//! Once a task has no unfinished predecessors, it enters its lines one after the other, in the global order of lines,
//! and keeps the turns that it already has while it waits for the next one. A task that has ended gives up its turns,
//! and hands them to the first tasks in their lines. It examines no other waiting tasks and no other lines.
//!
//! If a part is split while its group is open, tasks on different pieces need not exclude each other, but they must
//! exclude tasks on the whole part. So each piece gets its own line inside the whole part's line: tasks on the piece
//! *share* their turn in the outer line and hold the inner line exclusively. Lines are nested only a few levels deep.
//! Even smaller pieces keep the existing line, which orders more than necessary but is always correct.
//!
//! Invariants:
//! 1. Two overlapping members of a group have a line in common in which at least one of them does not share its turn.
//! 2. All tasks pass through lines in the same order: lines of parts come before those of resources. The tasks in a
//!    line wait only for tasks that are further along in this order or that have all their turns and are running, so
//!    there is no deadlock. A task that is submitted inside a body uses only resources that come after those of the
//!    body's task ([`Ancestry`](super::node::Ancestry)), so a body that waits for such a task is further along, too.
//! 3. The amounts of all turns that tasks have in a line never exceed the line's capacity.
//! 4. While a line is locked, tasks are only moved; no task is run or dropped.

use super::OwnedTask;
use crate::ids::DataId;
use crate::region::Block;
use parking_lot::Mutex;
use smallvec::SmallVec;
use std::cmp::Reverse;
use std::collections::VecDeque;
use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// Maximum nesting depth of lines, including the outermost.
const MOST_NESTED: u32 = 4;

/// The amount of a turn that is exclusive, and the capacity of a part's line.
const ALL: u64 = u64::MAX;

/// A queue in which tasks wait for their turn.
pub(crate) struct Line {
    place: Place,
    outer: Option<Arc<Line>>,
    depth: u32,
    /// Position in the global order of lines. An inner line comes after its outer line.
    number: Number,
    capacity: u64,
    queue: Mutex<Queue>,
}

/// The object of a line, which its tasks share.
#[derive(Debug)]
pub(super) enum Place {
    /// A part of a data object. It may have been split since the line was created.
    Part(DataId, Block),
    /// A counted resource with this name.
    Resource(Box<str>),
}

/// Position of a line: whether it is a resource's, and when it was created.
pub(super) type Number = (bool, u64);

struct Queue {
    /// The part of the capacity that no task has.
    free: u64,
    /// The waiting tasks, each with the amount that it needs.
    waiting: VecDeque<(OwnedTask, u64)>,
    /// Number of times that a task was examined.
    #[cfg(test)]
    looks: usize,
}

/// A task's turn in a line, whether or not the task has it yet.
#[derive(Debug, Clone)]
struct Turn {
    line: Arc<Line>,
    /// The amount of the line's capacity that the turn takes.
    amount: u64,
}

/// The turns of one task, in the order in which the task takes them.
#[derive(Debug, Default)]
pub(crate) struct Turns {
    all: SmallVec<[Turn; 1]>,
    /// Number of turns that the task already has.
    got: usize,
}

/// A task's wait for a resource.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Shortfall {
    pub(crate) needed: u64,
    pub(crate) free: u64,
    pub(crate) capacity: u64,
    /// Number of tasks that get the resource before the task does.
    pub(crate) before: usize,
}

impl Line {
    fn make(place: Place, outer: Option<Arc<Self>>, capacity: u64) -> Arc<Self> {
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let depth = outer.as_ref().map_or(1, |outer| outer.depth + 1);
        let number = (matches!(place, Place::Resource(_)), NEXT.fetch_add(1, Ordering::Relaxed));
        let queue = Queue {
            free: capacity,
            waiting: VecDeque::new(),
            #[cfg(test)]
            looks: 0,
        };
        Arc::new(Self { place, outer, depth, number, capacity, queue: Mutex::new(queue) })
    }

    /// Creates the line for a group that begins at this part of a data object.
    pub(super) fn new(data: DataId, part: Block) -> Arc<Self> {
        Self::make(Place::Part(data, part), None, ALL)
    }

    /// Creates the line of a resource whose tasks use at most `capacity` of it at a time.
    pub(crate) fn of_resource(name: &str, capacity: u64) -> Arc<Self> {
        Self::make(Place::Resource(name.into()), None, capacity)
    }

    /// Returns the line for `part`, which must be this line's part or a piece of it. Creates an inner line if
    /// necessary.
    pub(super) fn within(self: &Arc<Self>, part: Block) -> Arc<Self> {
        match self.place {
            Place::Part(data, own) if own != part && self.depth < MOST_NESTED => {
                Self::make(Place::Part(data, part), Some(self.clone()), ALL)
            }
            _ => self.clone(),
        }
    }

    /// Returns the object that the line's tasks share.
    pub(super) fn place(&self) -> &Place {
        &self.place
    }

    /// Returns the name of the line's resource; empty if the line is a part's.
    pub(crate) fn name(&self) -> &str {
        match &self.place {
            Place::Resource(name) => name,
            Place::Part(..) => "",
        }
    }

    /// Returns the line's position in the global order of lines.
    pub(super) fn number(&self) -> Number {
        self.number
    }

    /// Returns the sum of the amounts that tasks can have at a time.
    pub(crate) fn capacity(&self) -> u64 {
        self.capacity
    }

    /// Calls `see` with each task that waits here, and with its wait, under the lock.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Shortfall)) {
        let queue = self.queue.lock();
        for (before, (task, needed)) in queue.waiting.iter().enumerate() {
            see(task, Shortfall { needed: *needed, free: queue.free, capacity: self.capacity, before });
        }
    }

    /// Returns the task if it gets its turn at once; otherwise the task waits in the line.
    fn enter(&self, task: OwnedTask, amount: u64) -> Option<OwnedTask> {
        let mut queue = self.queue.lock();
        #[cfg(test)]
        (queue.looks += 1);
        if queue.waiting.is_empty() && amount <= queue.free {
            queue.free -= amount;
            return Some(task);
        }
        queue.waiting.push_back((task, amount));
        None
    }

    /// Ends the turn of a task that has ended; returns the tasks whose turn it is now.
    fn leave(&self, amount: u64) -> SmallVec<[OwnedTask; 1]> {
        let mut next = SmallVec::new();
        let mut queue = self.queue.lock();
        queue.free += amount;
        while let Some((_, needed)) = queue.waiting.front().filter(|(_, needed)| *needed <= queue.free) {
            let needed = *needed;
            #[cfg(test)]
            (queue.looks += 1);
            queue.free -= needed;
            next.extend(queue.waiting.pop_front().map(|(task, _)| task));
        }
        next
    }
}

impl fmt::Debug for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let queue = self.queue.lock();
        write!(f, "Line({:?}: {} of {} free, ", self.place, queue.free, self.capacity)?;
        write!(f, "{} waiting)", queue.waiting.len())
    }
}

impl Turns {
    /// Adds a turn in `line`, and shared turns in the lines that enclose it.
    pub(super) fn join(&mut self, line: &Arc<Line>) {
        self.all.push(Turn { line: line.clone(), amount: ALL });
        let mut outer = line.outer.as_ref();
        while let Some(line) = outer {
            self.all.push(Turn { line: line.clone(), amount: 1 });
            outer = line.outer.as_ref();
        }
    }

    /// Adds a turn in the line of a resource. A further turn in the same line increases the amount. Returns the sum.
    pub(crate) fn use_resource(&mut self, line: &Arc<Line>, amount: u64) -> u64 {
        match self.all.iter_mut().find(|turn| Arc::ptr_eq(&turn.line, line)) {
            Some(turn) => {
                turn.amount = turn.amount.saturating_add(amount);
                turn.amount
            }
            None => {
                self.all.push(Turn { line: line.clone(), amount });
                amount
            }
        }
    }

    /// Whether there are no turns.
    pub(crate) fn is_empty(&self) -> bool {
        self.all.is_empty()
    }

    /// Visits the lines of the task's resources.
    pub(crate) fn resources(&self) -> impl Iterator<Item = &Arc<Line>> {
        self.all.iter().map(|turn| &turn.line).filter(|line| matches!(line.place, Place::Resource(_)))
    }

    /// Returns the same turns, none of them taken.
    pub(super) fn again(&self) -> Self {
        Self { all: self.all.clone(), got: 0 }
    }

    /// Sorts the turns into line order. Called when the turns for all parts have been added.
    pub(super) fn settle(&mut self) {
        // If a task holds a line exclusively for one of its parts, it does not also need a shared turn there for
        // another part.
        self.all.sort_unstable_by_key(|turn| (turn.line.number, Reverse(turn.amount)));
        self.all.dedup_by_key(|turn| turn.line.number);
    }

    /// Visits the task's lines, each with a flag that tells whether the task has its turn there.
    pub(super) fn lines(&self) -> impl Iterator<Item = (&Arc<Line>, bool)> {
        self.all.iter().enumerate().map(|(at, turn)| (&turn.line, at < self.got))
    }

    /// Returns the next line to wait in, and the amount that the task needs there.
    fn next(&self) -> Option<(Arc<Line>, u64)> {
        self.all.get(self.got).map(|turn| (turn.line.clone(), turn.amount))
    }
}

/// Returns a ready task if it has all its turns; otherwise the task waits in one of its lines.
pub(crate) fn take_turns(mut task: OwnedTask) -> Option<OwnedTask> {
    while let Some((line, amount)) = turns_of(&mut task).and_then(|turns| turns.next()) {
        task = line.enter(task, amount)?;
        got_turn(&mut task);
    }
    Some(task)
}

/// Ends the turns of a task that has ended. Hands each task that now has all its turns to `ready`.
pub(crate) fn give_up_turns(task: &mut OwnedTask, mut ready: impl FnMut(OwnedTask)) {
    let turns = turns_of(task).map(std::mem::take).unwrap_or_default();
    debug_assert_eq!(turns.got, turns.all.len(), "a task runs when it has all its turns");
    for turn in turns.all {
        for mut next in turn.line.leave(turn.amount) {
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

/// Returns `None` if the task's commutative accesses are all empty, and it uses no resource.
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
    fn large_amount_is_not_starved_by_small_ones_and_comes_after_turns_at_parts() {
        let license = Line::of_resource("license", 3);
        let x = Line::new(DATA, part(0..1));
        let using = |id, amount, lines: &[&Arc<Line>]| {
            let mut task = task(id, lines);
            let turns = &mut task.owned_mut().get_or_insert_default().turns;
            turns.use_resource(&license, amount);
            turns.settle();
            take_turns(task)
        };
        let mut running: Vec<_> =
            [(0, 2), (1, 3), (2, 1), (3, 1)].into_iter().filter_map(|(id, amount)| using(id, amount, &[])).collect();
        assert_eq!(ids(&running), [0], "the others wait after the task that needs all");
        running.extend(using(4, 1, &[&x]));
        assert!(using(5, 1, &[&x]).is_none(), "it waits at `x` and holds no license");
        assert_eq!(license.queue.lock().waiting.len(), 4);
        assert_eq!(run_all(running), [0, 1, 2, 3, 4, 5]);
        assert_eq!(license.queue.lock().free, 3);
    }

    #[test]
    fn task_in_two_pieces_of_a_line_takes_it_once() {
        let whole = Line::new(DATA, part(0..8));
        let [left, right] = [part(0..4), part(4..8)].map(|piece| whole.within(piece));
        let both = take_turns(task(0, &[&left, &whole, &right])).expect("no task was before it");
        assert!(take_turns(task(1, &[&left])).is_none());
        assert_eq!(run_all(vec![both]), [0, 1]);
        assert_eq!(whole.queue.lock().free, ALL);
    }
}
