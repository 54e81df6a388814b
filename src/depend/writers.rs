//! The last tasks that changed one part of a data object: one writer, or several tasks whose accesses join each other
//! (concurrent, commutative, or reductions with the same operation).
//!
//! A group is *open* until a reader or another group comes after it. Only an open group can be joined. Closing an
//! accumulating group replaces it by a join that combines the members' contributions ([`super::accumulation`]).
//!
//! Invariant: a closed group stays closed as long as it matters, because a task that joined it would not inherit its
//! failures.

use super::accumulation::Accumulation;
use super::commutative::Line;
use super::domain::live_domain;
use super::join::{Predecessor, Tasks, WORTH_A_JOIN, matters};
use super::lists::make_room;
use super::reduction::Lane;
use super::register::Newcomer;
use super::{Mode, TaskRef};
use crate::region::Part;
use crate::sync::Flow;
use std::sync::Arc;

/// The last group of a part. Splitting a part clones its group.
#[derive(Clone, Default)]
pub(super) struct Writers {
    /// The group's first member; most groups have no other.
    first: Option<TaskRef>,
    /// Absent if the group is a writer.
    joint: Option<Box<Joint>>,
}

/// State of a group that is more than a writer.
#[derive(Clone)]
struct Joint {
    /// The mode of the members while the group is open, else [`Mode::Inout`], which nothing joins.
    mode: Mode,
    others: Tasks,
    /// Tasks that a newcomer waits for if it joins the group.
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

impl Writers {
    /// Makes the group of a writer that was already entered in another form of the history.
    pub(super) fn of(writer: Option<TaskRef>) -> Self {
        Self { first: writer, joint: None }
    }

    /// Returns the group as a list with its only task, or without any; `None` if the group is more than a writer.
    #[inline]
    pub(super) fn plain(&self) -> Option<&[TaskRef]> {
        self.joint.is_none().then_some(self.first.as_slice())
    }

    /// Returns the writer, provided that a newcomer needs nothing else: no group can be joined or has contributions to
    /// combine, and no task holds the part weakly. A group that no longer matters counts as no writer.
    pub(super) fn settled(&self, newcomer: &Newcomer<'_>) -> Option<Option<&TaskRef>> {
        let is_over = || !newcomer.keeps_finished() && !self.is_accumulated() && !self.matters();
        match self.joint {
            None => Some(self.first.as_ref()),
            Some(_) => is_over().then_some(None),
        }
    }

    /// Whether newcomers can join the group.
    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.joint.as_ref().is_some_and(|joint| joint.mode.joins(joint.mode))
    }

    /// Whether the group is a task that holds the part weakly.
    #[inline]
    pub(super) fn is_weak(&self) -> bool {
        matches!(self.joint.as_deref(), Some(Joint { order: Order::Weak, .. }))
    }

    /// Whether the members' contributions have yet to be combined.
    fn is_accumulated(&self) -> bool {
        matches!(self.joint.as_deref(), Some(Joint { order: Order::Replicas(_), .. }))
    }

    fn tasks(&self) -> impl Iterator<Item = &TaskRef> {
        self.first.iter().chain(self.joint.iter().flat_map(|joint| &joint.others))
    }

    /// Makes the newcomer wait for the group.
    #[inline(always)] // on the path of every task
    pub(super) fn wait(&self, part: &Part<'_>, flow: Flow, newcomer: &mut Newcomer<'_>) {
        match (&self.first, &self.joint) {
            (Some(first), None) => newcomer.wait_for(first, flow),
            (Some(first), Some(joint)) => joint.wait(first, part, flow, newcomer),
            (None, _) => {}
        }
    }

    /// Makes the newcomer the only member, a writer.
    #[inline(always)] // on the path of every task
    pub(super) fn replace(&mut self, newcomer: &mut Newcomer<'_>) {
        if self.joint.is_some() {
            self.leave(newcomer);
        }
        self.first = Some(newcomer.share());
    }

    /// Makes the newcomer the only member, which holds the part for its children.
    #[cold]
    pub(super) fn hold_weakly(&mut self, newcomer: &mut Newcomer<'_>) {
        self.replace(newcomer);
        let (mode, others, before, order) = (Mode::WeakInout, Tasks::new(), Vec::new(), Order::Weak);
        self.joint = Some(Box::new(Joint { mode, others, before, order }));
    }

    /// Drops all members but the first. Leaves replicas to be dropped by a caller that holds no locks, because they may
    /// hold the last reference to the user's operation.
    #[cold]
    fn leave(&mut self, newcomer: &mut Newcomer<'_>) {
        if let Some(Joint { order: Order::Replicas(group), .. }) = self.joint.take().map(|joint| *joint) {
            newcomer.leave(group);
        }
    }

    /// Enters an access that can join others. If the newcomer cannot join this group, it opens a new one, and waits for
    /// this group and for the `readers` since. Returns whether it has opened a new group.
    ///
    /// A commutative task gets a turn to wait for; a reduction gets a ticket for its turn to combine.
    pub(super) fn join<R: IntoIterator<Item = TaskRef>>(
        &mut self,
        access: usize,
        part: &Part<'_>,
        mode: Mode,
        newcomer: &mut Newcomer<'_>,
        readers: impl FnOnce(&mut Newcomer<'_>) -> R,
    ) -> bool {
        let joins = self.joint.as_ref().is_some_and(|joint| joint.mode.joins(mode));
        match &mut self.joint {
            Some(joint) if joins => joint.add(self.first.as_ref(), newcomer),
            _ => self.begin(part, mode, newcomer, readers),
        }
        match self.joint.as_mut().map(|joint| &mut joint.order) {
            Some(Order::Line(line)) => {
                *line = line.within(part.block());
                newcomer.side().turns.join(line);
            }
            Some(Order::Lane(lane)) => newcomer.take_ticket(access, lane, part.block()),
            Some(Order::Replicas(group)) => newcomer.enlist(access, group, &part.block()),
            Some(Order::Free | Order::Chain | Order::Weak) | None => {}
        }
        !joins
    }

    /// Begins a group that others may join.
    fn begin<R: IntoIterator<Item = TaskRef>>(
        &mut self,
        part: &Part<'_>,
        mode: Mode,
        newcomer: &mut Newcomer<'_>,
        readers: impl FnOnce(&mut Newcomer<'_>) -> R,
    ) {
        self.close_accumulation(part, newcomer);
        if self.is_weak() {
            self.first = self.first.take().map(|task| newcomer.join_at(&task, Flow::Value, part));
        }
        let mut before: Vec<Predecessor> = self.tasks().map(|task| (task.clone(), Flow::Value)).collect();
        before.extend(readers(newcomer).into_iter().map(|task| (task, Flow::Order)));
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
        self.joint = Some(Box::new(Joint { mode, others: Tasks::new(), before, order }));
    }

    /// Closes the group, because the newcomer reads the part. A large group is replaced by a join that readers wait
    /// for.
    #[cold]
    pub(super) fn close(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        self.close_accumulation(part, newcomer);
        let Some(joint) = self.joint.as_deref_mut().filter(|joint| !matches!(joint.order, Order::Weak)) else { return };
        (joint.mode, joint.order, joint.before) = (Mode::Inout, Order::Free, Vec::new());
        if joint.others.len() < WORTH_A_JOIN || newcomer.keeps_finished() {
            return;
        }
        joint.others.retain(|task| matters(task, Flow::Value));
        if joint.others.len() >= WORTH_A_JOIN {
            let members = self.tasks().map(|task| (task.clone(), Flow::Value)).collect();
            *self = Self::of(Some(newcomer.join(members)));
        }
    }

    /// Closes an accumulating group at `part`: no further task can join the group there, and later tasks wait for the
    /// accumulated value. If finished tasks are kept, later tasks also wait for the group's members.
    #[inline]
    pub(super) fn close_accumulation(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        if self.joint.is_some() {
            self.combine_accumulation(part, newcomer);
        }
    }

    #[cold]
    fn combine_accumulation(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        let Some(Joint { order: Order::Replicas(group), .. }) = self.joint.as_deref() else { return };
        let (group, members) = (group.clone(), self.tasks().map(|task| (task.clone(), Flow::Value)).collect());
        let join = newcomer.join_accumulation(members, group, part.block());
        match self.joint.as_deref_mut().filter(|_| newcomer.keeps_finished()) {
            Some(joint) => {
                joint.others.push(join);
                (joint.mode, joint.order) = (Mode::Inout, Order::Free);
            }
            None => *self = Self::of(Some(join)),
        }
    }

    /// Returns the initial group for the children of a task that holds the part weakly. The children must not join a
    /// reduction group that began before their parent: tasks submitted after the parent, which wait for the children,
    /// may already have earlier turns in that group, which would be a deadlock.
    pub(super) fn for_children(&self) -> Self {
        let mut group = self.clone();
        if let Some(joint) =
            group.joint.as_deref_mut().filter(|joint| matches!(joint.order, Order::Lane(_) | Order::Chain))
        {
            (joint.mode, joint.order) = (Mode::Inout, Order::Free);
        }
        group
    }

    /// Visits the members, each with a flag that tells whether it holds the part weakly.
    pub(super) fn for_each(&self, mut found: impl FnMut(&TaskRef, bool)) {
        self.tasks().for_each(|task| found(task, self.is_weak()));
    }

    /// Visits the tasks that produced the current contents. Returns false if these contents are yet to be produced, by
    /// children or by a future join.
    pub(super) fn sources(&self, found: impl FnMut(&TaskRef)) -> bool {
        self.tasks().for_each(found);
        !self.is_weak() && !self.is_accumulated()
    }

    /// Whether a newcomer may still have to wait for a member, or to inherit a failure from it.
    pub(super) fn matters(&self) -> bool {
        self.tasks().any(|task| matters(task, Flow::Value))
    }

    /// Forgets the group if no newcomer has to wait for any member or inherit a failure from it, and no contribution
    /// has to be combined.
    pub(super) fn forget_ended(&mut self) {
        if !self.is_accumulated() && !self.tasks().any(|task| still_matters(task, Flow::Value)) {
            *self = Self::default();
        }
    }

    /// Whether the two groups are indistinguishable to every newcomer.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        let (one, two) = (self.first.as_ref(), other.first.as_ref());
        one.map(TaskRef::address) == two.map(TaskRef::address)
            && match (self.joint.as_deref(), other.joint.as_deref()) {
                (None, None) => true,
                (Some(one), Some(two)) => one.is_like(two),
                _ => false,
            }
    }

    /// Returns the capacity of the longest task list.
    #[cfg(test)]
    pub(super) fn longest_list(&self) -> usize {
        self.joint.iter().map(|joint| joint.others.capacity().max(joint.before.len())).max().unwrap_or(0)
    }
}

impl Joint {
    /// Adds the newcomer, which waits for the tasks that the group's first member, `first`, waited for.
    fn add(&mut self, first: Option<&TaskRef>, newcomer: &mut Newcomer<'_>) {
        for (predecessor, flow) in &self.before {
            newcomer.wait_for(predecessor, *flow);
        }
        if !newcomer.keeps_finished() {
            self.before.retain(|(task, flow)| matters(task, *flow));
        }
        if matches!(self.order, Order::Chain)
            && let Some(last) = self.others.last().or(first)
        {
            newcomer.wait_for(last, Flow::Order);
        }
        make_room(&mut self.others, Flow::Value, newcomer);
        self.others.push(newcomer.share());
    }

    /// Makes the newcomer wait for the group, whose first member is `first`.
    #[inline(never)]
    fn wait(&self, first: &TaskRef, part: &Part<'_>, flow: Flow, newcomer: &mut Newcomer<'_>) {
        match self.order {
            Order::Weak => newcomer.wait_at(first, flow, part),
            _ => newcomer.wait_for(first, flow),
        }
        self.others.iter().for_each(|other| newcomer.wait_for(other, flow));
    }

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
}

/// Like [`matters`], but first makes the task's domain forget its ended tasks.
pub(super) fn still_matters(task: &TaskRef, flow: Flow) -> bool {
    if task.is_finished()
        && let Some(domain) = live_domain(task)
    {
        domain.forget_ended();
    }
    matters(task, flow)
}

/// Whether two lists contain the same tasks in the same order.
pub(super) fn are_the_same(one: &[TaskRef], other: &[TaskRef]) -> bool {
    one.len() == other.len() && one.iter().zip(other).all(|(one, other)| one.address() == other.address())
}
