//! The history of a multi-dimensional data object while it is short: a list of the latest accesses, exactly as
//! declared.
//!
//! A history by parts ([`super::fragment`]) is exact for every element, whatever the program does, but crossing blocks
//! cut a data object into many parts: a mesh zone whose four faces are exchanged is cut into thirty parts, and a task
//! on the whole zone visits all of them. As a list, the same history has nine entries of one cache line each, and
//! nothing is ever cut. So a data object takes this form at the first access that does not cover it entirely. The form
//! changes to an index ([`super::indexed`]) when the list gets long or when tasks join each other. The list may be long
//! only temporarily, for instance after a replay has entered every part that its tasks use. Therefore a data object
//! returns to this form after a write of the whole data object, if only few accesses were entered since the previous
//! such write.
//!
//! The rules are those of [`super::fragment`], with "part" read as "element": an entry matters to a newcomer only to
//! the extent that later writes have left it visible.
//!
//! Invariants:
//! 1. Entries are in submission order, and no entry's block is empty.
//! 2. An entry is never consulted for elements that later writes cover, because the tasks that wrote these elements
//!    have already waited for the entry's tasks.
//! 3. All tasks of a read entry come after every older overlapping write and before every younger one.

use super::indexed::Indexed;
use super::join::{Tasks, matters};
use super::lists;
use super::register::Newcomer;
use super::{Mode, TaskRef};
use crate::region::{Block, NarrowBlock};
use crate::sync::Flow;
use arrayvec::ArrayVec;
use smallvec::smallvec;

/// The maximum number of entries; searching more costs more than looking up parts.
pub(super) const MOST: usize = 16;

/// Forgetting must leave at most this many entries; otherwise the list would soon be full again.
const LEAVE: usize = MOST / 2;

/// The latest accesses to a data object.
#[derive(Default)]
pub(super) struct Recent(Vec<Entry>);

/// One writer or several readers of the same block.
struct Entry {
    block: NarrowBlock,
    writes: bool,
    tasks: Tasks,
}

impl Entry {
    /// Whether no newcomer needs to wait for the entry's tasks or inherit their failures. An entry that is over may be
    /// removed only if the entries that it hides may become visible again.
    fn is_over(&self) -> bool {
        let flow = if self.writes { Flow::Value } else { Flow::Order };
        !self.tasks.iter().any(|task| matters(task, flow))
    }
}

impl Recent {
    /// Whether the history of a data object of several dimensions can take this form.
    pub(super) fn suits(whole: &Block) -> bool {
        NarrowBlock::holds(whole)
    }

    /// Makes the history of a data object that at most one task has written as a whole, and that other tasks have read
    /// since.
    pub(super) fn of_one_part(block: NarrowBlock, writer: &[TaskRef], readers: &[TaskRef]) -> Self {
        let entries = [(true, writer), (false, readers)].into_iter().filter(|(_, tasks)| !tasks.is_empty());
        Self(entries.map(|(writes, tasks)| Entry { block, writes, tasks: tasks.iter().cloned().collect() }).collect())
    }

    /// The number of entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// Whether an access of this mode can be entered. Forgets entries if there is no room.
    #[inline]
    pub(super) fn has_room(&mut self, mode: Mode, newcomer: &Newcomer<'_>) -> bool {
        let kept = Indexed::takes(mode);
        kept && (self.0.len() < MOST || (!newcomer.keeps_finished() && self.forget()))
    }

    /// Enters an access of `newcomer` for which there is room.
    #[inline]
    pub(super) fn enter(&mut self, region: NarrowBlock, mode: Mode, newcomer: &mut Newcomer<'_>) {
        let (writes, flow) = (mode.writes(), super::lists::flow(mode));
        let (mut same_readers, mut ordered, mut covered, mut is_newest) = (None, false, false, true);
        for (index, Entry { block, writes: wrote, tasks }) in self.0.iter().enumerate().rev() {
            if !block.overlaps(&region) {
                continue;
            }
            covered |= writes && region.contains(block);
            if *wrote {
                if !ordered && (is_newest || self.is_visible_in(&region, index)) {
                    wait_for_all(tasks, flow, newcomer);
                }
                is_newest = false;
            } else if writes {
                if is_newest || self.is_visible_in(&region, index) {
                    wait_for_all(tasks, Flow::Order, newcomer);
                    // A task that overwrites everything that the readers used need not be ordered with the writes that
                    // precede these readers.
                    ordered |= mode == Mode::Out && block.contains(&region);
                }
            } else if is_newest && *block == region {
                same_readers = Some(index);
            }
        }
        if covered {
            self.0.retain(|entry| !region.contains(&entry.block));
        }
        match same_readers {
            Some(index) => lists::add_reader(&mut self.0[index].tasks, newcomer),
            None => self.0.push(Entry { block: region, writes, tasks: smallvec![newcomer.share()] }),
        }
    }

    /// Visits the last writer of each part of a region.
    #[cold]
    pub(super) fn sources(&self, block: &Block, mut found: impl FnMut(Block, &TaskRef)) {
        let mut rest = vec![*block];
        for Entry { block: wrote, tasks, .. } in self.0.iter().rev().filter(|entry| entry.writes) {
            let wrote = wrote.widen();
            let mut older = Vec::new();
            for part in rest {
                if let Some(common) = part.intersection(&wrote) {
                    tasks.iter().for_each(|task| found(common, task));
                    part.subtract(&wrote, |piece| older.push(piece));
                } else {
                    older.push(part);
                }
            }
            rest = older;
        }
    }

    /// Makes the newcomer wait for all tasks; `flow` determines whether the newcomer inherits the last writers' poison.
    #[cold]
    pub(super) fn wait_for_all(&self, flow: Flow, newcomer: &mut Newcomer<'_>) {
        for (entry, visible) in self.0.iter().zip(self.visible()) {
            let flow = if entry.writes && visible { flow } else { Flow::Order };
            wait_for_all(&entry.tasks, flow, newcomer);
        }
    }

    /// Whether later writes have left any element of an entry visible inside `region`.
    #[inline]
    fn is_visible_in(&self, region: &NarrowBlock, index: usize) -> bool {
        let later_writes = self.0[index + 1..].iter().filter(|entry| entry.writes).map(|entry| &entry.block);
        !self.0[index].block.is_covered_within(region, later_writes)
    }

    /// Returns, for each entry, whether later writes leave any of its elements visible.
    fn visible(&self) -> [bool; MOST] {
        let mut visible = [false; MOST];
        for (index, Entry { block, .. }) in self.0.iter().enumerate() {
            visible[index] = self.is_visible_in(block, index);
        }
        visible
    }

    /// Forgets entries that no newcomer can need any more; returns whether that was enough.
    #[cold]
    fn forget(&mut self) -> bool {
        let mut kept: ArrayVec<NarrowBlock, MOST> = ArrayVec::new();
        let mut visible = self.visible().into_iter();
        self.0.retain(|entry| {
            // Even a write that is over still hides older entries.
            let hides = entry.writes && kept.iter().any(|older| older.overlaps(&entry.block));
            let keep = visible.next() == Some(true) && (hides || !entry.is_over());
            if keep {
                kept.push(entry.block);
            }
            keep
        });
        self.0.len() <= LEAVE
    }

    /// Returns the same history with an index.
    #[cold]
    pub(super) fn to_indexed(&self, whole: Block) -> Indexed {
        let mut indexed = Indexed::new(whole);
        for Entry { block, writes, tasks } in &self.0 {
            indexed.repeat(&block.widen(), *writes, tasks);
        }
        indexed
    }
}

#[inline]
fn wait_for_all(tasks: &[TaskRef], flow: Flow, newcomer: &mut Newcomer<'_>) {
    for task in tasks {
        newcomer.wait_for(task, flow);
    }
}
