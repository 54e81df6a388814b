//! Scan of all places where a runtime's tasks can be, and of the tasks that wait for those tasks.
//!
//! The places are visited one after another. While a place is visited, its tasks cannot end:
//!
//! | place | what keeps a task there |
//! | --- | --- |
//! | bodies that run or wait | the look at its thread (`sync/exposed.rs`) |
//! | the list of suspended bodies | its lock |
//! | queues of the driver | the queue's lock; a deque has none, so its tasks are taken out and put back |
//! | stages of placement | placement's lock |
//! | tasks that continue without a thread | the lock of the detachment |
//! | turns of commutative tasks, reductions, gates of replays | the queue's lock; it is found through a task that has a place there |
//!
//! The scan produces no text, and it neither runs, moves nor drops a task.

use crate::depend::{Body, Meta, Own, OwnedTask, ReadyStage, ShownTask, Task, TaskQueue, Walk, WalkedTask, running};
use crate::driver::deadlock::{key_of_task, keys};
use crate::driver::shared::Shared;
use crate::ids::{DeviceId, TaskId, UnitId};
use crate::sync::CallSite;
use crate::sync::{Key, Next, drop_quietly};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::cell::RefCell;
use std::time::Duration;

/// The queues of a driver, as a scan sees them.
pub(crate) trait Queues {
    /// Calls `see` with each task in a lock-protected queue, while that lock is held.
    fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Spot));

    /// Calls `see` with up to `most` tasks from queues without a lock. The tasks are taken out and put back before
    /// this returns, which changes their order.
    fn visit_deques(&self, most: usize, see: &mut dyn FnMut(&OwnedTask)) {
        let _ = (most, see);
    }
}

/// Where a driver keeps a task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// The task is ready, and any unit may run it.
    Ready,
    /// The task was given to a unit, which has not begun it yet.
    Given(UnitId),
    /// The task is in a device's queue.
    OnDevice(DeviceId),
    /// A simulated unit has been running the task for this long.
    Simulated(UnitId, Duration),
}

/// State of a task that waits for no other task through an edge.
pub(super) enum Standing {
    /// The task's body has begun on this unit, and may be waiting in a call.
    Begun {
        unit: UnitId,
        waits_at: Option<CallSite>,
        /// Key of the event that the body waits for, if its thread has nothing else to do.
        key: Option<Key>,
        /// Index of the root that runs on top of this body, on the same stack.
        on_top: Option<usize>,
    },
    /// The task's body waits, but no thread shows it.
    Waits {
        key: Key,
    },
    /// The task's body has returned on this unit.
    Detached(UnitId),
    At(Spot),
    /// The task is in the charge of placement.
    Placed,
    /// The task waits in a queue of the dependence layer, at this region.
    Queued {
        queue: usize,
        region: String,
        stage: ReadyStage,
    },
}

/// A task that waits for no other task through an edge.
pub(super) struct Root {
    pub(super) id: TaskId,
    pub(super) name: Cow<'static, str>,
    pub(super) location: CallSite,
    pub(super) internal: bool,
    pub(super) standing: Standing,
    /// Whether the event with the scan's goal key can happen only after the task has ended.
    pub(super) is_goal: bool,
}

/// Goal of a scan, and its findings.
pub(super) struct Scan<'s> {
    shared: &'s Shared,
    goal: Option<Key>,
    walk: Walk,
    /// The tasks without predecessors that were found so far.
    pub(super) roots: Vec<Root>,
    /// For each queue, the root whose turn it is there.
    holders: FxHashMap<usize, usize>,
    queues: Found,
    /// For each suspended task, by its address, the key that the task waits for.
    keys: FxHashMap<Key, Key>,
}

/// Callback for each task that a scan meets, with the index of the root from which the task was reached, and that
/// root.
pub(super) type See<'a> = dyn FnMut(&WalkedTask<'_>, usize, &Root) -> Next + 'a;

impl<'s> Scan<'s> {
    /// Prepares a scan that meets at most `most` tasks. If there is a `goal`, roots are compared with it.
    pub(super) fn new(shared: &'s Shared, goal: Option<Key>, most: usize) -> Self {
        let (roots, holders, queues, keys) = Default::default();
        Self { shared, goal, walk: Walk::at_most(most), roots, holders, queues, keys }
    }

    /// Visits all places until `see` stops the scan. Takes at most `taken` tasks out of deques.
    pub(super) fn run(&mut self, queues: &dyn Queues, taken: usize, see: &mut See<'_>) {
        let Self { shared, goal, walk, roots, holders, queues: found, keys } = self;
        let mut known = Known { goal: *goal, roots, holders, found };
        walk.begin_at_suspended(
            &shared.suspended,
            &mut |task, key| {
                keys.insert(task.address(), key);
                false
            },
            &mut |_| Next::Stop,
        );
        for (slot, exposed) in shared.running.iter().enumerate() {
            let unit = shared.machine.units()[if slot < shared.machine.num_units() { slot } else { 0 }].id;
            let begun = RefCell::new(&mut known);
            walk.begin_at_exposed(
                exposed,
                &mut |ShownTask { task, body, owned, waits_at, is_top }| {
                    let key = keys.remove(&key_of_task(task));
                    let mut known = begun.borrow_mut();
                    let on_top = if is_top { None } else { known.roots.len().checked_sub(1) };
                    known.enter(task, body, owned, Standing::Begun { unit, waits_at, key, on_top });
                },
                &mut |met| begun.borrow_mut().show(&met, see),
            );
        }
        let begun = RefCell::new(&mut known);
        walk.begin_at_suspended(
            &shared.suspended,
            &mut |task, key| {
                let is_new = keys.contains_key(&task.address());
                if is_new {
                    begun.borrow_mut().enter_suspended(task, key);
                }
                is_new
            },
            &mut |met| begun.borrow_mut().show(&met, see),
        );
        let mut begin_at_owned = |walk: &mut Walk, known: &mut Known<'_>, task: &OwnedTask, standing: Standing| {
            if !walk.has_stopped() {
                known.enter(task, task.body(), task.owned(), standing);
                walk.begin_at_owned(task, &mut |met| known.show(&met, see));
            }
        };
        queues.visit(&mut |task, spot| begin_at_owned(walk, &mut known, task, Standing::At(spot)));
        if !walk.has_stopped() {
            shared.engine.visit_placed(&mut |task| begin_at_owned(walk, &mut known, task, Standing::Placed));
            shared.away.visit(&mut |task, unit| begin_at_owned(walk, &mut known, task, Standing::Detached(unit)));
        }
        if !walk.has_stopped() && taken > 0 {
            let spot = || Standing::At(Spot::Ready);
            queues.visit_deques(taken, &mut |task| begin_at_owned(walk, &mut known, task, spot()));
        }
        // A task in a queue may also have places in further queues, which are appended during this loop.
        let mut next = 0;
        while let Some(queue) = known.found.all.get(next).cloned().filter(|_| !walk.has_stopped()) {
            next += 1;
            queue.visit(shared.engine.width(), &mut |task, stage| {
                let (queue, region) = (queue.address(), queue.describe(task.body()));
                begin_at_owned(walk, &mut known, task, Standing::Queued { queue, region, stage });
            });
        }
    }

    /// Returns the root that blocks another root: it holds the turn that the other root waits for, belongs to the
    /// replay whose end the other root waits for, or runs on top of the other root's body.
    pub(super) fn holder_of(&self, root: &Root) -> Option<&Root> {
        let holder = match root.standing {
            Standing::Queued { queue, .. } => self.holders.get(&queue).copied(),
            Standing::Begun { waits_at: Some(_), on_top, .. } => on_top,
            _ => None,
        };
        holder.map(|number| &self.roots[number])
    }

    /// Returns whether there were more tasks than the scan could visit.
    pub(super) fn is_exhausted(&self) -> bool {
        self.walk.is_exhausted()
    }
}

impl Drop for Scan<'_> {
    /// Dropping the last reference to a graph's replays drops the bodies of the graph.
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        running::inside(self.shared.id, || drop_quietly(|| drop(queues)));
    }
}

/// The parts of a scan that grow during its walk.
struct Known<'a> {
    goal: Option<Key>,
    roots: &'a mut Vec<Root>,
    holders: &'a mut FxHashMap<usize, usize>,
    found: &'a mut Found,
}

/// Queues in the order in which they were found, and the set of their addresses.
#[derive(Default)]
struct Found {
    all: Vec<TaskQueue>,
    known: FxHashSet<usize>,
}

impl Found {
    fn add(&mut self, queue: TaskQueue) {
        if self.known.insert(queue.address()) {
            self.all.push(queue);
        }
    }
}

impl Known<'_> {
    /// Adds a root, and the queues in which it has a place.
    fn enter(&mut self, task: &Task, body: &(dyn Body + 'static), own: &Own, standing: Standing) {
        let mut is_goal = false;
        let parent = own.child.as_ref().map(|child| child.parent().clone());
        let goal = self.goal;
        keys(task, body, Some(&parent), &mut |key| {
            is_goal |= Some(key) == goal;
            is_goal
        });
        self.push(task.shared(), standing, is_goal);
        let root = self.roots.len() - 1;
        TaskQueue::of(own, &mut |queue, has_turn| {
            if has_turn {
                self.holders.insert(queue.address(), root);
            }
            self.found.add(queue);
        });
    }

    fn enter_suspended(&mut self, task: &Task, key: Key) {
        let is_goal = self.goal == Some(key_of_task(task));
        self.push(task.shared(), Standing::Waits { key }, is_goal);
    }

    fn push(&mut self, meta: &Meta, standing: Standing, is_goal: bool) {
        let Meta { id, location, internal, .. } = *meta;
        self.roots.push(Root { id, name: meta.name.clone(), location, internal, standing, is_goal });
    }

    /// Passes a task that was reached from the latest root to `see`.
    fn show(&mut self, met: &WalkedTask<'_>, see: &mut See<'_>) -> Next {
        let number = self.roots.len() - 1;
        if let Some(gates) = met.owned_in_round().and_then(TaskQueue::at_end) {
            self.holders.insert(gates.address(), number);
            self.found.add(gates);
        }
        see(met, number, &self.roots[number])
    }
}
