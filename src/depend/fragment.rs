//! State that the dependence layer keeps for one part of a data object, and the rules by which an access changes it.
//!
//! The history of a part is a sequence of *groups*: one writer, or several tasks whose accesses join each other
//! (concurrent, commutative, or reductions with the same operation). Between groups there are readers. For a newcomer,
//! only the last group and the readers after that group matter:
//!
//! | newcomer | waits for | then |
//! | --- | --- | --- |
//! | `in` | the group (value) | is one of the readers |
//! | `after`, `outcome` | the group (order) | is one of the readers |
//! | `out` | the readers, or else the group (order) | is the new group; no readers |
//! | `inout` | the readers (order) and the group (value) | is the new group; no readers |
//! | `accept` | the readers and the group (order) | is the new group; no readers |
//! | joins the group, no readers yet | the tasks that the group's first member waited for | is one of the group |
//! | `concurrent` … otherwise | as `inout` | opens a new group; no readers |
//!
//! An accumulating group is closed before its value is used: it is replaced by a join that combines the members'
//! contributions ([`super::accumulation`]).
//!
//! An access that uses the group's value waits for the group even if there are readers, because the fact that a reader
//! has run does not prove that the value it read is good.

use super::accumulation::Accumulation;
use super::domain::live_domain;
use super::join::{Predecessor, Tasks, WORTH_A_JOIN, matters};
use super::lists::{add_reader, flow, forget, make_room};
use super::reduction::Lane;
use super::register::Newcomer;
use super::turns::Line;
use super::{Mode, TaskRef};
use crate::region::Part;
use crate::sync::Flow;
use std::borrow::Cow;
use std::sync::Arc;

/// The last group and its readers. Splitting a part clones its fragment.
#[derive(Clone, Default)]
pub(crate) struct Fragment {
    /// The group's first member; most groups have no other.
    first: Option<TaskRef>,
    readers: Tasks,
    /// Whether some readers hold the part for their children.
    has_weak_readers: bool,
    /// Present only if other tasks may join the group.
    open: Option<Box<OpenGroup>>,
}

/// State that a newcomer needs to join a group.
#[derive(Clone)]
struct OpenGroup {
    mode: Mode,
    others: Tasks,
    before: Vec<Predecessor>,
    order: Order,
}

/// How the members of a group are ordered among themselves, in addition to edges.
#[derive(Clone)]
enum Order {
    /// Members need no order.
    Free,
    /// Members take turns to run.
    Line(Arc<Line>),
    /// Members take turns to combine their contributions.
    Lane(Arc<Lane>),
    /// Members combine their contributions in the order of submission, where they run. Each follows the member before
    /// it, but does not inherit its failure.
    Chain,
    /// Members share replicas, to which they add.
    Replicas(Arc<Accumulation>),
    /// The only member holds the part for its children: later tasks wait for what the children do with the part.
    Weak,
}

impl Fragment {
    /// Enters an access of `newcomer` into the history of `part`. A commutative task gets a turn to wait for; a
    /// reduction gets a ticket for its turn to combine.
    #[inline(always)] // on the path of every task
    pub(super) fn enter(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        match mode {
            Mode::In | Mode::After | Mode::Outcome => {
                if self.open.is_some() {
                    self.close_group(part, newcomer);
                }
                self.wait_for_group(part, newcomer, flow(mode));
                add_reader(&mut self.readers, newcomer);
            }
            Mode::Out => {
                // A task that holds the part weakly has not waited for anything, and its readers have not waited on its
                // behalf either. So the newcomer must also wait for the group.
                if self.readers.is_empty() || self.is_held_weakly() || self.has_weak_readers {
                    self.wait_for_group(part, newcomer, Flow::Order);
                }
                self.wait_for_readers(part, newcomer);
                self.replace(newcomer);
            }
            Mode::Inout | Mode::Accept => {
                if self.open.is_some() {
                    self.close_accumulation(part, newcomer);
                }
                self.wait_for_group(part, newcomer, flow(mode));
                self.wait_for_readers(part, newcomer);
                self.replace(newcomer);
            }
            Mode::WeakIn => self.enter_weak_reader(part, newcomer),
            Mode::WeakInout => self.enter_weak_writer(part, newcomer),
            Mode::Concurrent | Mode::Commutative | Mode::Reduction(_) => self.join(access, part, mode, newcomer),
        }
    }

    #[cold]
    fn enter_weak_reader(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        if self.open.is_some() {
            self.close_group(part, newcomer);
        }
        let (first, open) = (self.first.clone(), self.open.clone());
        let group = Self { first, readers: Tasks::new(), has_weak_readers: false, open };
        newcomer.hand_down(part, &group);
        make_room(&mut self.readers, Flow::Order, newcomer);
        self.readers.push(newcomer.share());
        self.has_weak_readers = true;
    }

    #[cold]
    fn enter_weak_writer(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        if self.open.is_some() {
            self.close_accumulation(part, newcomer);
        }
        newcomer.hand_down(part, &self.for_children());
        self.replace(newcomer);
        let (mode, others, before, order) = (Mode::WeakInout, Tasks::new(), Vec::new(), Order::Weak);
        self.open = Some(Box::new(OpenGroup { mode, others, before, order }));
    }

    /// Returns the initial history for the children of a task that holds the part weakly. The children must not join a
    /// reduction group that began before their parent: tasks submitted after the parent, which wait for the children,
    /// may already have earlier turns in that group, which would be a deadlock.
    fn for_children(&self) -> Cow<'_, Self> {
        let mut history = Cow::Borrowed(self);
        if self.open.as_ref().is_some_and(|open| matches!(open.order, Order::Lane(_) | Order::Chain))
            && let Some(open) = &mut history.to_mut().open
        {
            (open.mode, open.order) = (Mode::Inout, Order::Free);
        }
        history
    }

    /// Visits the tasks that an access of this mode would have to follow, each with a flag that tells whether it holds
    /// the part weakly.
    pub(super) fn predecessors(&self, mode: Mode, mut found: impl FnMut(Predecessor, bool)) {
        let others = self.open.iter().flat_map(|open| &open.others);
        self.first.iter().chain(others).for_each(|task| found((task.clone(), flow(mode)), self.is_held_weakly()));
        if mode.writes() {
            let is_weak = |task: &TaskRef| self.has_weak_readers && task.shared().domain.get().is_some();
            self.readers.iter().for_each(|task| found((task.clone(), Flow::Order), is_weak(task)));
        }
    }

    /// Visits the tasks that produced the current contents. Returns false if these contents are yet to be produced, by
    /// children or by a future join.
    pub(super) fn sources(&self, mut found: impl FnMut(&TaskRef)) -> bool {
        let others = self.open.iter().flat_map(|open| &open.others);
        self.first.iter().chain(others).for_each(&mut found);
        !matches!(self.open.as_deref(), Some(OpenGroup { order: Order::Weak | Order::Replicas(_), .. }))
    }

    /// Whether the group is a task that holds the part weakly.
    fn is_held_weakly(&self) -> bool {
        matches!(self.open.as_deref(), Some(OpenGroup { order: Order::Weak, .. }))
    }

    /// Whether a newcomer may still have to wait for a task here, or to inherit a failure.
    pub(super) fn matters(&self) -> bool {
        let others = self.open.iter().flat_map(|open| &open.others);
        self.first.iter().chain(others).any(|task| matters(task, Flow::Value))
            || self.readers.iter().any(|task| matters(task, Flow::Order))
    }

    /// Forgets tasks that no newcomer has to wait for or inherit a failure from.
    pub(super) fn forget_ended(&mut self, newcomer: &Newcomer<'_>) {
        let is_accumulated = matches!(self.open.as_deref(), Some(OpenGroup { order: Order::Replicas(_), .. }));
        if newcomer.keeps_finished() || is_accumulated {
            return;
        }
        let others = self.open.iter().flat_map(|open| &open.others);
        if !self.first.iter().chain(others).any(|task| still_matters(task, Flow::Value)) {
            (self.first, self.open) = (None, None);
        }
        // A group that was read is closed, and stays closed as long as it matters, because a task that joined the group
        // would not inherit its failures.
        let kept = self.open.as_ref().and_then(|_| self.readers.last().cloned());
        self.readers.retain(|task| still_matters(task, Flow::Order));
        if self.readers.is_empty() {
            self.readers.extend(kept);
        }
        self.has_weak_readers &= !self.readers.is_empty();
    }

    /// Whether the two fragments are indistinguishable to every newcomer.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.first.as_ref(), other.first.as_ref());
        let have_one_group = match (self.open.as_deref(), other.open.as_deref()) {
            (None, None) => true,
            (Some(one), Some(two)) => one.is_like(two),
            _ => false,
        };
        one.map(TaskRef::address) == two.map(TaskRef::address)
            && are_the_same(&self.readers, &other.readers)
            && self.has_weak_readers == other.has_weak_readers
            && have_one_group
    }

    /// Enters tasks that were already entered in another form of the history.
    pub(super) fn repeat(&mut self, writes: bool, tasks: &[TaskRef]) {
        if writes {
            self.readers.clear();
            self.first = tasks.first().cloned();
        } else {
            self.readers.extend(tasks.iter().cloned());
        }
    }

    /// Returns the writer and the readers, if the fragment holds nothing else.
    pub(super) fn plain(&self) -> Option<(&[TaskRef], &[TaskRef])> {
        (self.open.is_none() && !self.has_weak_readers).then_some((self.first.as_slice(), &self.readers))
    }

    /// Returns the writer and the readers that still matter, provided that a newcomer needs nothing else: no group can
    /// be joined or has contributions to combine, and no task holds the part weakly.
    pub(super) fn settled(&self) -> Option<(Option<&TaskRef>, impl Iterator<Item = &TaskRef>)> {
        let is_over = match self.open.as_deref() {
            None => false,
            Some(OpenGroup { order: Order::Replicas(_), .. }) => return None,
            Some(open) if self.first.iter().chain(&open.others).any(|task| matters(task, Flow::Value)) => return None,
            Some(_) => true,
        };
        let readers = || self.readers.iter().filter(|task| matters(task, Flow::Order));
        if self.has_weak_readers && readers().any(|task| task.shared().domain.get().is_some()) {
            return None;
        }
        Some((self.first.as_ref().filter(|first| !is_over && matters(first, Flow::Value)), readers()))
    }

    pub(super) fn readers(&self) -> &[TaskRef] {
        &self.readers
    }

    /// Removes the readers for which `is_forgotten` returns true, because they have read only a piece of the part.
    pub(super) fn forget_readers(&mut self, is_forgotten: impl Fn(&TaskRef) -> bool) {
        self.readers.retain(|task| !is_forgotten(task));
    }

    /// Makes the newcomer wait for all tasks here; `flow` determines whether the newcomer inherits the last group's
    /// poison.
    pub(super) fn wait_for_all(&mut self, part: &Part<'_>, flow: Flow, newcomer: &mut Newcomer<'_>) {
        if flow == Flow::Value {
            self.close_accumulation(part, newcomer);
        }
        self.wait_for_group(part, newcomer, flow);
        self.wait_for_readers(part, newcomer);
    }

    #[cfg(test)]
    pub(super) fn longest_list(&self) -> usize {
        self.open
            .iter()
            .flat_map(|open| [open.others.capacity(), open.before.len()])
            .fold(self.readers.capacity(), usize::max)
    }

    #[inline(always)] // on the path of every task
    fn wait_for_group(&self, part: &Part<'_>, newcomer: &mut Newcomer<'_>, flow: Flow) {
        match (&self.first, &self.open) {
            (Some(first), None) => newcomer.wait_for(first, flow),
            (Some(first), Some(open)) => open.wait_for(first, part, newcomer, flow),
            (None, _) => {}
        }
    }

    #[inline(always)] // on the path of every task
    fn wait_for_readers(&self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        match self.has_weak_readers {
            false => self.readers.iter().for_each(|reader| newcomer.wait_for(reader, Flow::Order)),
            true => self.wait_for_weak_readers(part, newcomer),
        }
    }

    #[cold]
    fn wait_for_weak_readers(&self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        for reader in &self.readers {
            match reader.shared().domain.get() {
                Some(_) => newcomer.wait_at(reader, Flow::Order, part),
                None => newcomer.wait_for(reader, Flow::Order),
            }
        }
    }

    #[inline(always)] // on the path of every task
    fn replace(&mut self, newcomer: &mut Newcomer<'_>) {
        forget(&mut self.readers);
        self.has_weak_readers = false;
        if self.open.is_some() {
            self.leave_group(newcomer);
        }
        self.first = Some(newcomer.share());
    }

    /// Closes the group that could be joined, because a newcomer replaces it.
    #[cold]
    fn leave_group(&mut self, newcomer: &mut Newcomer<'_>) {
        if let Some(open) = self.open.take() {
            open.order.leave_to(newcomer);
        }
    }

    fn join(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        match &mut self.open {
            Some(open) if self.readers.is_empty() && open.mode.shares_group(mode) => {
                for (predecessor, flow) in &open.before {
                    newcomer.wait_for(predecessor, *flow);
                }
                if !newcomer.keeps_finished() {
                    open.before.retain(|(task, flow)| matters(task, *flow));
                }
                if matches!(open.order, Order::Chain)
                    && let Some(last) = open.others.last().or(self.first.as_ref())
                {
                    newcomer.wait_for(last, Flow::Order);
                }
                make_room(&mut open.others, Flow::Value, newcomer);
                open.others.push(newcomer.share());
            }
            _ => self.open_group(part, mode, newcomer),
        }
        match self.open.as_mut().map(|open| &mut open.order) {
            Some(Order::Line(line)) => {
                *line = line.within(part.block());
                newcomer.side().turns.join(line);
            }
            Some(Order::Lane(lane)) => newcomer.take_ticket(access, lane, part.block()),
            Some(Order::Replicas(group)) => newcomer.enlist(access, group, &part.block()),
            Some(Order::Free | Order::Chain | Order::Weak) | None => {}
        }
    }

    /// Begins a group that others may join.
    fn open_group(&mut self, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        self.close_accumulation(part, newcomer);
        if self.is_held_weakly() {
            self.first = self.first.take().map(|task| newcomer.join_at(&task, Flow::Value, part));
        }
        if std::mem::take(&mut self.has_weak_readers) {
            let weak = |task: &&mut TaskRef| task.shared().domain.get().is_some();
            self.readers.iter_mut().filter(weak).for_each(|task| *task = newcomer.join_at(task, Flow::Order, part));
        }
        let others = self.open.take().map(|open| open.others).unwrap_or_default();
        let group = self.first.take().into_iter().chain(others).map(|task| (task, Flow::Value));
        let mut before: Vec<Predecessor> =
            group.chain(self.readers.drain(..).map(|task| (task, Flow::Order))).collect();
        if before.len() > WORTH_A_JOIN && !newcomer.keeps_finished() {
            before.retain(|(task, flow)| matters(task, *flow));
            if before.len() > WORTH_A_JOIN {
                before = vec![(newcomer.join(before), Flow::Value)];
            }
        }
        for (predecessor, flow) in &before {
            newcomer.wait_for(predecessor, *flow);
        }
        let order = match mode {
            Mode::Commutative => Order::Line(Line::new(newcomer.data(), part.block())),
            Mode::Reduction(operation) if operation.is_accumulated() => Order::Replicas(Accumulation::new()),
            _ if newcomer.is_reduced_in_place() => Order::Chain,
            Mode::Reduction(operation) => Order::Lane(Lane::new(operation.is_in_any_order())),
            _ => Order::Free,
        };
        self.replace(newcomer);
        self.open = Some(Box::new(OpenGroup { mode, others: Tasks::new(), before, order }));
    }

    /// Closes the group to further members before its first reader is entered. If the group is large, it is replaced by
    /// a join that readers wait for.
    #[cold]
    fn close_group(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        self.close_accumulation(part, newcomer);
        let Some(OpenGroup { others, .. }) = self.open.as_deref_mut() else { return };
        if others.len() < WORTH_A_JOIN || newcomer.keeps_finished() {
            return;
        }
        others.retain(|task| matters(task, Flow::Value));
        if others.len() < WORTH_A_JOIN {
            return;
        }
        let members = self.first.iter().chain(&*others).map(|task| (task.clone(), Flow::Value));
        (self.first, self.open) = (Some(newcomer.join(members.collect())), None);
    }
}

impl Fragment {
    /// Closes an accumulating group at `part`: no further task can join the group there, and later tasks wait for the
    /// accumulated value. If finished tasks are kept, later tasks also wait for the group's members.
    #[cold]
    fn close_accumulation(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        let Some(OpenGroup { mode, others, order, .. }) = self.open.as_deref_mut() else { return };
        let (Order::Replicas(_), Some(first)) = (&*order, &self.first) else { return };
        let members = [first].into_iter().chain(&*others).map(|task| (task.clone(), Flow::Value)).collect();
        let Order::Replicas(group) = std::mem::replace(order, Order::Free) else { return };
        let join = newcomer.join_accumulation(members, group, part.block());
        if newcomer.keeps_finished() {
            others.push(join);
            *mode = Mode::Inout;
        } else {
            (self.first, self.open) = (Some(join), None);
        }
    }
}

impl OpenGroup {
    /// Whether the two groups are indistinguishable to every newcomer, given that their first members are the same.
    fn is_like(&self, other: &Self) -> bool {
        let waits_alike =
            |(one, two): (&Predecessor, &Predecessor)| (one.0.address(), one.1) == (two.0.address(), two.1);
        let are_one = match (&self.order, &other.order) {
            (Order::Free, Order::Free) | (Order::Chain, Order::Chain) | (Order::Weak, Order::Weak) => true,
            (Order::Line(one), Order::Line(two)) => Arc::ptr_eq(one, two),
            (Order::Lane(one), Order::Lane(two)) => Arc::ptr_eq(one, two),
            _ => false, // replicas refer to the exact parts of their group
        };
        are_one
            && self.mode == other.mode
            && are_the_same(&self.others, &other.others)
            && self.before.len() == other.before.len()
            && self.before.iter().zip(&other.before).all(waits_alike)
    }

    /// Makes the newcomer wait for the group, whose first member is `first`.
    #[inline(never)]
    fn wait_for(&self, first: &TaskRef, part: &Part<'_>, newcomer: &mut Newcomer<'_>, flow: Flow) {
        match self.order {
            Order::Weak => newcomer.wait_at(first, flow, part),
            _ => newcomer.wait_for(first, flow),
        }
        self.others.iter().for_each(|other| newcomer.wait_for(other, flow));
    }
}

impl Order {
    /// Leaves the group to be dropped by a caller that holds no locks, because the group may hold the last reference to
    /// the user's operation.
    fn leave_to(self, newcomer: &mut Newcomer<'_>) {
        if let Order::Replicas(group) = self {
            newcomer.leave(group);
        }
    }
}

/// Like [`matters`], but first makes the task's domain forget its ended tasks.
fn still_matters(task: &TaskRef, flow: Flow) -> bool {
    if task.is_finished()
        && let Some(domain) = live_domain(task)
    {
        domain.forget_ended();
    }
    matters(task, flow)
}

/// Whether two lists contain the same tasks in the same order.
fn are_the_same(one: &[TaskRef], other: &[TaskRef]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.address() == other.address())
}
