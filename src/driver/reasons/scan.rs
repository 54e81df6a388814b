//! A scan of all places where a task of a runtime can be, and of the tasks that wait for these.
//!
//! The places are visited one after the other, and each keeps its tasks from ending while it is visited:
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
//! Nothing here is written in words, and no task is run, moved on or dropped.

use crate::depend::{Body, Meta, Own, OwnedTask, ReadyStage, ShownTask, Task, TaskQueue, Walk, WalkedTask, running};
use crate::driver::deadlock::{key_of_task, keys};
use crate::driver::shared::Shared;
use crate::ids::{DeviceId, TaskId, UnitId};
use crate::sync::{Key, Next, drop_quietly};
use rustc_hash::{FxHashMap, FxHashSet};
use std::borrow::Cow;
use std::cell::RefCell;
use std::panic::Location;
use std::time::Duration;

/// The queues of a driver, as a scan sees them.
pub(crate) trait Queues {
    /// Calls `see` with each task in a queue that has a lock, under that lock.
    fn visit(&self, see: &mut dyn FnMut(&OwnedTask, Spot));

    /// Calls `see` with the tasks in queues without a lock, at most this number. They are taken out, and put back
    /// before this returns; that changes their order.
    fn visit_deques(&self, most: usize, see: &mut dyn FnMut(&OwnedTask)) {
        let _ = (most, see);
    }
}

/// The place of a task that a driver has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Spot {
    /// It is ready, and any unit may run it.
    Ready,
    /// A unit has it, and has not begun it.
    Given(UnitId),
    /// It is in the queue of a device.
    OnDevice(DeviceId),
    /// A simulated unit has been running it for this long.
    Simulated(UnitId, Duration),
}

/// The state of a task that waits for no other task by an edge.
pub(super) enum Standing {
    /// Its body has begun on this unit, and perhaps waits in a call.
    Begun {
        unit: UnitId,
        waits_at: Option<&'static Location<'static>>,
        /// The key of the event that it waits for, if its thread has nothing else to do.
        key: Option<Key>,
        /// The root that runs on top of it on its stack.
        on_top: Option<usize>,
    },
    /// Its body waits, but on no thread that shows it.
    Waits {
        key: Key,
    },
    /// Its body has returned on this unit.
    Detached(UnitId),
    At(Spot),
    /// Placement has it.
    Placed,
    /// It waits in a queue of the dependence layer, at this region.
    Queued {
        queue: usize,
        region: String,
        stage: ReadyStage,
    },
}

/// A task that waits for no other task by an edge.
pub(super) struct Root {
    pub(super) id: TaskId,
    pub(super) name: Cow<'static, str>,
    pub(super) location: &'static Location<'static>,
    pub(super) internal: bool,
    pub(super) standing: Standing,
    /// Whether an event with the key that is searched for happens only after the task has ended.
    pub(super) is_goal: bool,
}

/// The target of a scan, and its findings.
pub(super) struct Scan<'s> {
    shared: &'s Shared,
    goal: Option<Key>,
    walk: Walk,
    /// The tasks without predecessors so far.
    pub(super) roots: Vec<Root>,
    /// The root of each queue that has its turn there.
    holders: FxHashMap<usize, usize>,
    queues: Found,
    /// The keys that suspended tasks wait for, by the tasks' addresses.
    keys: FxHashMap<Key, Key>,
}

/// Called with each task that a scan meets, and the number and the root from which it was reached.
pub(super) type See<'a> = dyn FnMut(&WalkedTask<'_>, usize, &Root) -> Next + 'a;

impl<'s> Scan<'s> {
    /// Prepares a scan that meets at most this number of tasks. If there is a `goal`, roots are compared with it.
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
        // Tasks in a queue may have places in further queues.
        let mut next = 0;
        while let Some(queue) = known.found.all.get(next).cloned().filter(|_| !walk.has_stopped()) {
            next += 1;
            queue.visit(shared.engine.width(), &mut |task, stage| {
                let (queue, region) = (queue.address(), queue.describe(task.body()));
                begin_at_owned(walk, &mut known, task, Standing::Queued { queue, region, stage });
            });
        }
    }

    /// Returns the root that holds up another one: it has the turn that the other waits for, is among the tasks of the
    /// replay whose end the other waits for, or runs on top of the other's body.
    pub(super) fn holder_of(&self, root: &Root) -> Option<&Root> {
        let holder = match root.standing {
            Standing::Queued { queue, .. } => self.holders.get(&queue).copied(),
            Standing::Begun { waits_at: Some(_), on_top, .. } => on_top,
            _ => None,
        };
        holder.map(|number| &self.roots[number])
    }

    /// Whether there were more tasks than the scan could meet.
    pub(super) fn is_exhausted(&self) -> bool {
        self.walk.is_exhausted()
    }
}

impl Drop for Scan<'_> {
    /// The last reference to the replays of a graph drops its bodies.
    fn drop(&mut self) {
        let queues = std::mem::take(&mut self.queues);
        running::inside(self.shared.id, || drop_quietly(|| drop(queues)));
    }
}

/// The parts of a scan that grow while its walk is under way.
struct Known<'a> {
    goal: Option<Key>,
    roots: &'a mut Vec<Root>,
    holders: &'a mut FxHashMap<usize, usize>,
    found: &'a mut Found,
}

/// Queues in the order in which they were found, and their addresses.
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
    /// Enters a root, and the queues in which it has a place.
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

    /// Shows a task that was reached from the latest root.
    fn show(&mut self, met: &WalkedTask<'_>, see: &mut See<'_>) -> Next {
        let number = self.roots.len() - 1;
        if let Some(gates) = met.owned_in_round().and_then(TaskQueue::at_end) {
            self.holders.insert(gates.address(), number);
            self.found.add(gates);
        }
        see(met, number, &self.roots[number])
    }
}
