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
//! Groups are in [`super::writers`].
//!
//! An access that uses the group's value waits for the group even if there are readers, because the fact that a reader
//! has run does not prove that the value it read is good.

use super::join::{Predecessor, Tasks, matters};
use super::lists::{add_reader, flow, forget, make_room, wait_for_weak, weak_at};
use super::register::Newcomer;
use super::writers::{Writers, are_the_same, still_matters};
use super::{Mode, TaskRef};
use crate::region::Part;
use crate::sync::Flow;

/// The last group and its readers. Splitting a part clones its fragment.
#[derive(Clone, Default)]
pub(crate) struct Fragment {
    writers: Writers,
    readers: Tasks,
    /// Whether some readers hold the part for their children.
    has_weak_readers: bool,
}

impl Fragment {
    /// Makes the history of a part that was not read since this group.
    pub(super) fn unread(writers: Writers) -> Self {
        Self { writers, readers: Tasks::new(), has_weak_readers: false }
    }

    /// Enters an access of `newcomer` into the history of `part`.
    #[inline(always)] // on the path of every task
    pub(super) fn enter(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        match mode {
            Mode::In | Mode::After | Mode::Outcome => {
                if self.writers.plain().is_none() {
                    self.writers.close(part, newcomer);
                }
                self.writers.wait(part, flow(mode), newcomer);
                add_reader(&mut self.readers, newcomer);
            }
            Mode::Out => {
                // A task that holds the part weakly has not waited for anything, and its readers have not waited on its
                // behalf either. So the newcomer must also wait for the group.
                if self.readers.is_empty() || self.writers.is_weak() || self.has_weak_readers {
                    self.writers.wait(part, Flow::Order, newcomer);
                }
                self.wait_for_readers(part, newcomer);
                self.replace(newcomer);
            }
            Mode::Inout | Mode::Accept => {
                self.writers.close_accumulation(part, newcomer);
                self.writers.wait(part, flow(mode), newcomer);
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
        self.writers.close(part, newcomer);
        newcomer.hand_down(part, |own| *own = Self::unread(self.writers.clone()));
        make_room(&mut self.readers, Flow::Order, newcomer);
        self.readers.push(newcomer.share());
        self.has_weak_readers = true;
    }

    #[cold]
    fn enter_weak_writer(&mut self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        self.writers.close_accumulation(part, newcomer);
        newcomer.hand_down(part, |own| *own = Self { writers: self.writers.for_children(), ..self.clone() });
        self.forget_all_readers();
        self.writers.hold_weakly(newcomer);
    }

    fn join(&mut self, access: usize, part: &Part<'_>, mode: Mode, newcomer: &mut Newcomer<'_>) {
        let Self { writers, readers, has_weak_readers } = self;
        let is_new = writers.join(access, part, mode, newcomer, |newcomer| {
            let mut readers = std::mem::take(readers);
            if *has_weak_readers {
                readers.iter_mut().for_each(|task| *task = weak_at(task, part, newcomer));
            }
            readers
        });
        if is_new {
            self.forget_all_readers();
        }
    }

    /// Visits the tasks that an access of this mode would have to follow, each with a flag that tells whether it holds
    /// the part weakly.
    pub(super) fn predecessors(&self, mode: Mode, mut found: impl FnMut(Predecessor, bool)) {
        self.writers.for_each(|task, is_weak| found((task.clone(), flow(mode)), is_weak));
        if mode.writes() {
            let is_weak = |task: &TaskRef| self.has_weak_readers && task.shared().domain.get().is_some();
            self.readers.iter().for_each(|task| found((task.clone(), Flow::Order), is_weak(task)));
        }
    }

    /// Visits the tasks that produced the current contents. Returns false if these contents are yet to be produced, by
    /// children or by a future join.
    pub(super) fn sources(&self, found: impl FnMut(&TaskRef)) -> bool {
        self.writers.sources(found)
    }

    /// Whether a newcomer may still have to wait for a task here, or to inherit a failure.
    pub(super) fn matters(&self) -> bool {
        self.writers.matters() || self.readers.iter().any(|task| matters(task, Flow::Order))
    }

    /// Forgets tasks that no newcomer has to wait for or inherit a failure from.
    pub(super) fn forget_ended(&mut self, newcomer: &Newcomer<'_>) {
        if newcomer.keeps_finished() {
            return;
        }
        self.writers.forget_ended();
        self.readers.retain(|task| still_matters(task, Flow::Order));
        self.has_weak_readers &= !self.readers.is_empty();
    }

    /// Whether the two fragments are indistinguishable to every newcomer.
    pub(super) fn is_like(&self, other: &Self) -> bool {
        self.writers.is_like(&other.writers)
            && are_the_same(&self.readers, &other.readers)
            && self.has_weak_readers == other.has_weak_readers
    }

    /// Enters tasks that were already entered in another form of the history.
    pub(super) fn repeat(&mut self, writes: bool, tasks: &[TaskRef]) {
        if writes {
            self.readers.clear();
            self.writers = Writers::of(tasks.first().cloned());
        } else {
            self.readers.extend(tasks.iter().cloned());
        }
    }

    /// Adds readers that were already entered in another history. Some of them may hold the part for their children.
    #[cold]
    pub(super) fn add_readers(&mut self, tasks: &[TaskRef], some_are_weak: bool) {
        self.readers.extend(tasks.iter().cloned());
        self.has_weak_readers |= some_are_weak;
    }

    /// Returns the writer and the readers, if the fragment holds nothing else.
    pub(super) fn plain(&self) -> Option<(&[TaskRef], &[TaskRef])> {
        Some((self.writers.plain().filter(|_| !self.has_weak_readers)?, &self.readers))
    }

    pub(super) fn writers(&self) -> &Writers {
        &self.writers
    }

    pub(super) fn readers(&self) -> &[TaskRef] {
        &self.readers
    }

    /// Whether some readers hold the part for their children.
    pub(super) fn has_weak_readers(&self) -> bool {
        self.has_weak_readers
    }

    /// Makes the newcomer wait for all tasks here; `flow` determines whether the newcomer inherits the last group's
    /// poison.
    pub(super) fn wait_for_all(&mut self, part: &Part<'_>, flow: Flow, newcomer: &mut Newcomer<'_>) {
        if flow == Flow::Value {
            self.writers.close_accumulation(part, newcomer);
        }
        self.writers.wait(part, flow, newcomer);
        self.wait_for_readers(part, newcomer);
    }

    #[cfg(test)]
    pub(super) fn longest_list(&self) -> usize {
        self.readers.capacity().max(self.writers.longest_list())
    }

    #[inline(always)] // on the path of every task
    fn wait_for_readers(&self, part: &Part<'_>, newcomer: &mut Newcomer<'_>) {
        match self.has_weak_readers {
            false => self.readers.iter().for_each(|reader| newcomer.wait_for(reader, Flow::Order)),
            true => self.readers.iter().for_each(|reader| wait_for_weak(reader, part, newcomer)),
        }
    }

    #[inline(always)] // on the path of every task
    fn replace(&mut self, newcomer: &mut Newcomer<'_>) {
        self.forget_all_readers();
        self.writers.replace(newcomer);
    }

    #[inline(always)]
    fn forget_all_readers(&mut self) {
        forget(&mut self.readers);
        self.has_weak_readers = false;
    }
}
