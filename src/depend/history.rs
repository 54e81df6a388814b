//! The history of one data object: the tasks that accessed each part last.
//!
//! A history has one of five equivalent forms:
//! - *One part*: the initial form of multi-dimensional data objects, kept as long as every task accesses the whole data
//!   object. (If indices exceed 31 bits, the initial form is an index.)
//! - *By parts*: exact and without restrictions. One-dimensional data objects always use this form. Others use it while
//!   there are tasks that join each other, until none of these tasks matters any more ([`super::settled`]).
//! - *A list* of the latest accesses ([`super::recent`]), used from the first access that does not cover the whole data
//!   object: fast for a small number of crossing blocks. Nothing is cut; entries hidden by later writes are dropped.
//! - *An index* ([`super::indexed`]), for many such blocks. Writes cut older writes; blocks that are read stay whole.
//! - *Tiles* ([`super::tiled`]): the fastest form, applicable if everything written consists of tiles of one extent.
//!   Each tile is one fragment, found by arithmetic (`region/tiling.rs`) and never cut.
//!
//! Cuts are undone over time: when there are many parts, or accesses visit many parts, the map forgets ended tasks and
//! unites equal neighbours (`region/wear.rs`). So the cost per access stays constant.

use super::fragment::Fragment;
use super::indexed::Indexed;
use super::join::Tasks;
use super::lists;
use super::recent::Recent;
use super::register::Newcomer;
use super::settled::{self, Costs};
use super::tiled::Tiled;
use super::{AccessRecord, Datum, Mode, TaskRef};
use crate::region::{Block, NarrowBlock, Part, RegionMap};
use crate::sync::Flow;

/// The accesses to one data object that newcomers may still have to wait for.
pub(super) struct History {
    form: Form,
    /// Boxed so that the fields that every task reads fit in few cache lines.
    extra: Option<Box<Extra>>,
}

/// State that few histories have.
#[derive(Default)]
struct Extra {
    /// Cost of accesses while a multi-dimensional history is by parts.
    costs: Costs,
    /// Tasks that declare an empty region. Only a task that gives up the memory waits for them.
    onlookers: Tasks,
}

enum Form {
    /// One part of a multi-dimensional data object: every task has accessed the whole data object, either from the
    /// beginning or since a write of the whole.
    Whole(Fragment),
    /// By parts of the data object.
    Parts(RegionMap<Fragment>),
    /// As a list of a few accesses, as they were declared.
    Recent(Recent),
    /// As an index of many accesses, as they were declared.
    Indexed(Box<Indexed>),
    /// By tiles.
    Tiled(Box<Tiled>),
}

impl History {
    /// Makes the history of a data object that no task has accessed.
    pub(super) fn new(whole: Block, ndim: usize) -> Self {
        let form = match ndim {
            0 | 1 => Form::Parts(RegionMap::new(whole, ndim, Fragment::default())),
            _ if Recent::suits(&whole) => Form::Whole(Fragment::default()),
            _ => Form::Indexed(Box::new(Indexed::new(whole))),
        };
        Self { form, extra: None }
    }

    /// Enters the `index`-th access of `newcomer`.
    #[inline(always)] // on the path of every task
    pub(super) fn enter(&mut self, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        let undivided = match &mut self.form {
            Form::Parts(parts) => parts.undivided(access.block),
            Form::Whole(fragment) if is_whole(access) => Some(fragment),
            _ => None,
        };
        match undivided {
            Some(fragment) => fragment.enter(index, &Part::Box(access.block), access.mode, newcomer),
            None => self.enter_region(index, access, newcomer),
        }
    }

    /// Like [`Self::enter`], for a region that probably adjoins the most recently entered region.
    #[inline]
    pub(super) fn enter_next(&mut self, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        if let Form::Parts(parts) = &mut self.form
            && let Some(fragment) = parts.next_if(access.block)
        {
            return fragment.enter(index, &Part::Box(access.block), access.mode, newcomer);
        }
        self.enter(index, access, newcomer);
    }

    /// Makes the newcomer, which gives up the memory, wait for all tasks, including tasks that refer to the data object
    /// without touching its memory. The newcomer itself is not recorded in the history.
    #[cold]
    pub(super) fn wait_for_all(&mut self, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        let flow = lists::flow(access.mode);
        match &mut self.form {
            Form::Whole(fragment) => fragment.wait_for_all(&Part::Box(&access.datum.whole()), flow, newcomer),
            Form::Parts(parts) => {
                parts.visit(access.block, |part, fragment| fragment.wait_for_all(&part, flow, newcomer));
            }
            Form::Recent(recent) => recent.wait_for_all(flow, newcomer),
            Form::Indexed(indexed) => indexed.wait_for_all(access.block, flow, newcomer),
            Form::Tiled(tiled) => tiled.wait_for_all(flow, newcomer),
        }
        for task in self.extra.iter().flat_map(|extra| &extra.onlookers) {
            newcomer.wait_for(task, Flow::Order);
        }
    }

    /// Visits the tasks that produced the contents of each part of a region. Returns false if these tasks are not known
    /// yet.
    #[cold]
    pub(super) fn sources(&self, block: &Block, mut found: impl FnMut(Block, &TaskRef)) -> bool {
        let mut are_known = true;
        match &self.form {
            Form::Whole(fragment) => are_known = fragment.sources(|task| found(*block, task)),
            Form::Parts(parts) => {
                parts.peek(block, |part, fragment| are_known &= fragment.sources(|task| found(part, task)));
            }
            Form::Recent(recent) => recent.sources(block, found),
            Form::Indexed(indexed) => indexed.sources(block, found),
            Form::Tiled(tiled) => are_known = tiled.sources(block, found),
        }
        are_known
    }

    /// Whether an unfinished task declares an empty region of the data object.
    pub(super) fn is_looked_on(&self) -> bool {
        self.extra.iter().flat_map(|extra| &extra.onlookers).any(|task| !task.is_finished())
    }

    #[inline(never)] // keeps the path for undivided data objects short
    fn enter_region(&mut self, index: usize, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        match &mut self.form {
            Form::Whole(_) if access.block.is_empty() => self.look_on(newcomer),
            Form::Whole(fragment) => {
                self.form = divide(fragment, access.datum);
                self.enter_region(index, access, newcomer);
            }
            Form::Parts(parts) => {
                let visited = enter_parts(parts, index, access, newcomer);
                if visited == 0 {
                    self.look_on(newcomer);
                } else if let Some(boxes) = parts.boxes()
                    && self.extra.get_or_insert_default().costs.count(access.mode, visited, boxes)
                    && !newcomer.keeps_finished()
                    && let Some(indexed) = settled::to_indexed(parts, access.datum.whole())
                {
                    self.form = Form::Indexed(Box::new(indexed));
                }
            }
            Form::Recent(recent) => {
                let Some(region) = NarrowBlock::new(access.block) else { return self.look_on(newcomer) };
                if recent.has_room(access.mode, newcomer) {
                    return recent.enter(region, access.mode, newcomer);
                }
                self.form = Form::Indexed(Box::new(recent.to_indexed(access.datum.whole())));
                self.enter_region(index, access, newcomer);
            }
            Form::Indexed(_) | Form::Tiled(_) if access.block.is_empty() => self.look_on(newcomer),
            Form::Tiled(tiled) => {
                if !tiled.enter(index, access, newcomer) {
                    let indexed = if Indexed::takes(access.mode) { tiled.to_indexed() } else { None };
                    self.form = match indexed {
                        Some(indexed) => Form::Indexed(Box::new(indexed)),
                        None => Form::Parts(tiled.to_parts(access.datum.ndim())),
                    };
                    self.enter_region(index, access, newcomer);
                }
            }
            Form::Indexed(indexed) if Indexed::takes(access.mode) => {
                if access.mode.writes()
                    && let Some(tiled) = indexed.try_tiles(&access.datum.whole(), access.block)
                {
                    self.form = Form::Tiled(Box::new(tiled));
                    return self.enter_region(index, access, newcomer);
                }
                indexed.enter(access.block, access.mode, newcomer);
                if access.mode.writes() && access.block.contains(&access.datum.whole()) && indexed.is_short() {
                    self.begin_again(access, newcomer);
                }
            }
            Form::Indexed(indexed) => {
                self.form = Form::Parts(indexed.to_parts(access.datum.whole(), access.datum.ndim()));
                self.enter_region(index, access, newcomer);
            }
        }
    }

    /// Restarts the history as one part. This is correct because the newcomer waits for everything that other tasks did
    /// and overwrites the whole data object, so no earlier access matters any more.
    #[cold]
    fn begin_again(&mut self, access: &AccessRecord<'_>, newcomer: &mut Newcomer<'_>) {
        if Recent::suits(access.block) {
            let mut whole = Fragment::default();
            whole.repeat(true, &[newcomer.share()]);
            self.form = Form::Whole(whole);
        }
    }

    /// Whether the history is a list.
    #[cfg(test)]
    pub(super) fn is_recent(&self) -> bool {
        matches!(self.form, Form::Recent(_))
    }

    /// Returns the history if it is by tiles.
    #[cfg(test)]
    pub(super) fn by_tiles(&self) -> Option<&Tiled> {
        if let Form::Tiled(tiled) = &self.form { Some(tiled) } else { None }
    }

    /// The number of parts or entries.
    #[cfg(test)]
    pub(super) fn len(&self) -> usize {
        match &self.form {
            Form::Whole(_) => 1,
            Form::Parts(parts) => parts.len(),
            Form::Recent(recent) => recent.len(),
            Form::Indexed(indexed) => indexed.len(),
            Form::Tiled(tiled) => tiled.len(),
        }
    }

    /// Returns the capacity of the longest task list in a history by parts.
    #[cfg(test)]
    pub(super) fn longest_list(&self) -> usize {
        let Form::Parts(parts) = &self.form else { return 0 };
        let mut longest = 0;
        parts.peek(&Block::whole(&[usize::MAX]), |_, fragment| longest = longest.max(fragment.longest_list()));
        longest
    }

    /// Enters an access to an empty region.
    #[cold]
    fn look_on(&mut self, newcomer: &mut Newcomer<'_>) {
        let onlookers = &mut self.extra.get_or_insert_default().onlookers;
        lists::make_room(onlookers, Flow::Order, newcomer);
        onlookers.push(newcomer.share());
    }
}

/// Whether an access covers its whole data object and the data object is not empty.
#[inline]
fn is_whole(access: &AccessRecord<'_>) -> bool {
    *access.block == access.datum.whole() && !access.block.is_empty()
}

/// Converts a history of one part to the form for its first access that does not cover the whole data object.
#[cold]
fn divide(fragment: &mut Fragment, datum: &Datum) -> Form {
    let whole = datum.whole();
    match (NarrowBlock::new(&whole), fragment.plain()) {
        (Some(block), Some((writer, readers))) => Form::Recent(Recent::of_one_part(block, writer, readers)),
        _ => Form::Parts(RegionMap::new(whole, datum.ndim(), std::mem::take(fragment))),
    }
}

/// Enters an access part by part; returns the number of parts.
pub(super) fn enter_parts(
    parts: &mut RegionMap<Fragment>,
    index: usize,
    access: &AccessRecord<'_>,
    newcomer: &mut Newcomer<'_>,
) -> usize {
    let mut visited = 0;
    parts.visit(access.block, |part, fragment| {
        visited += 1;
        fragment.enter(index, &part, access.mode, newcomer);
    });
    if matches!(access.mode, Mode::Out | Mode::Inout | Mode::Accept) {
        parts.unite_if_many(access.block, visited);
    }
    if parts.wear(visited, |fragment| fragment.forget_ended(newcomer), Fragment::is_like) {
        newcomer.forget_latest();
    }
    visited
}
