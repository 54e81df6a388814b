//! One data, as the dependence layer sees it: a shape, and who used which part last.

use super::Mode;
use super::history::History;
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::{Block, MAX_DIMS};
use crate::sync::{Lock, prefetch};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// In which memories a data object can be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residence {
    /// At home, and in replicas on devices: an array.
    Anywhere,
    /// At home alone: a value.
    Home,
    /// In none: a token.
    Nowhere,
}

/// A registered data without its memory: what dependences and placement need to know.
///
/// Fields stand in the order of use: what every submission looks at comes first, then the history, then the rest.
#[repr(C)]
pub(crate) struct Datum {
    shape: [usize; MAX_DIMS],
    pub(crate) id: DataId,
    ndim: u8,
    taken: AtomicBool,
    /// Without memory: nothing may look at its elements.
    pub(crate) phantom: bool,
    pub(crate) residence: Residence,
    pub(super) history: Lock<History>,
    pub(crate) element_bytes: usize,
    /// The task in whose body it was made, if it was.
    made_by: Option<TaskId>,
    /// Where it lies in memory of others, if it does.
    adopted_in: Option<SpaceId>,
    /// Devices use it where it is at home.
    unified: bool,
    name: OnceLock<String>,
}

impl Datum {
    pub(crate) fn new(id: DataId, shape: &[usize], element_bytes: usize, phantom: bool) -> Self {
        let whole = Block::whole(shape);
        let mut padded = [1; MAX_DIMS];
        padded[..shape.len()].copy_from_slice(shape);
        Self {
            id,
            name: OnceLock::new(),
            shape: padded,
            ndim: shape.len() as u8,
            element_bytes,
            history: Lock::new(History::new(whole, shape.len())),
            taken: AtomicBool::new(false),
            phantom,
            residence: Residence::Anywhere,
            made_by: None,
            adopted_in: None,
            unified: false,
        }
    }

    /// One element that is never copied: a value, or a token.
    pub(crate) fn whole_in(residence: Residence, id: DataId) -> Self {
        Self { residence, ..Self::new(id, &[1], 0, false) }
    }

    /// One that is alike, which nobody has accessed.
    pub(super) fn alike(&self) -> Self {
        let shape = &self.shape[..self.ndim()];
        Self { residence: self.residence, ..Self::new(self.id, shape, self.element_bytes, self.phantom) }
    }

    /// It is made in the body of this task.
    pub(crate) fn set_made_by(&mut self, task: TaskId) {
        self.made_by = Some(task);
    }

    /// It lies in this memory, which belongs to others.
    pub(crate) fn set_adopted_in(&mut self, space: SpaceId) {
        self.adopted_in = Some(space);
    }

    /// Devices use it where it is at home.
    pub(crate) fn set_unified(&mut self) {
        self.unified = true;
    }

    /// Whether devices use it where it is at home.
    pub(crate) fn is_unified(&self) -> bool {
        self.unified
    }

    /// Whether it takes none of what the runtime has of this memory: it lies there in memory of others, or at home.
    pub(crate) fn is_beside(&self, space: SpaceId) -> bool {
        self.adopted_in == Some(space) || self.unified && !space.is_host()
    }

    /// Whether it was made in the body of this task: then nobody else declared it before.
    pub(crate) fn is_made_by(&self, task: TaskId) -> bool {
        self.made_by == Some(task)
    }

    /// Will soon be locked: brings the history to the cache meanwhile.
    #[inline]
    pub(crate) fn expect_access(&self) {
        prefetch(&self.history);
    }

    /// Names the data for messages; the first name stays.
    pub(crate) fn set_name(&self, name: String) {
        let _ = self.name.set(name);
    }

    /// All of it.
    #[inline]
    pub(crate) fn whole(&self) -> Block {
        Block::from_corners([0; MAX_DIMS], self.shape)
    }

    /// Extents of all [`MAX_DIMS`] dimensions; those the data does not have are 1.
    #[inline]
    pub(crate) fn shape(&self) -> &[usize; MAX_DIMS] {
        &self.shape
    }

    /// How many dimensions there are.
    pub(crate) fn ndim(&self) -> usize {
        self.ndim.into()
    }

    /// A region of this data in words.
    pub(crate) fn describe(&self, block: &Block) -> String {
        match self.residence {
            Residence::Anywhere => block.display(self.ndim.into()).to_string(),
            Residence::Home | Residence::Nowhere => "all".to_owned(),
        }
    }

    /// Whether a task that has not ended names the data object and touches none of it.
    pub(crate) fn is_looked_on(&self) -> bool {
        self.history.lock().is_looked_on()
    }

    /// Whether the memory was given back, or is about to be.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Marks the memory as given back, or not after all.
    pub(crate) fn set_taken(&self, taken: bool) {
        self.taken.store(taken, Ordering::Release);
    }
}

impl fmt::Display for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.residence {
            Residence::Anywhere => "data",
            Residence::Home => "value",
            Residence::Nowhere => "token",
        };
        match self.name.get() {
            Some(name) => write!(f, "{what} `{name}`"),
            None => write!(f, "{what} {}", self.id.0),
        }
    }
}

impl fmt::Debug for Datum {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self} {:?}", self.whole())
    }
}

/// One declared access: a region and a mode.
#[derive(Debug, Clone, Copy)]
pub(crate) struct AccessRecord<'a> {
    pub(crate) datum: &'a Datum,
    pub(crate) block: &'a Block,
    pub(crate) mode: Mode,
}

impl AccessRecord<'_> {
    /// Whether the order of the two matters.
    pub(crate) fn conflicts_with(&self, other: &AccessRecord<'_>) -> bool {
        std::ptr::eq(self.datum, other.datum)
            && (self.mode.writes() || other.mode.writes())
            && self.block.overlaps(other.block)
    }

    /// The bytes of the region.
    pub(crate) fn bytes(&self) -> u64 {
        (self.block.volume() * self.datum.element_bytes) as u64
    }

    /// The bytes that it needs there of what the runtime has: none where the data object lies in memory of others or in unified
    /// memory, but for a reduction, which has a replica of its own.
    pub(crate) fn bytes_in(&self, space: SpaceId) -> u64 {
        let is_there = self.datum.is_beside(space) && !matches!(self.mode, Mode::Reduction(_));
        if self.mode.sees_nothing() || is_there { 0 } else { self.bytes() }
    }

    /// Whether there is memory for all of the region in one piece, where it is not at home: not of unified memory.
    pub(crate) fn needs_buffer(&self) -> bool {
        let is_there = self.datum.unified && !matches!(self.mode, Mode::Reduction(_));
        !self.mode.sees_nothing() && !is_there
    }

    /// Whether the task has to work at home: values are nowhere else, and atomic updates are so in one memory only.
    pub(crate) fn is_at_home(&self) -> bool {
        match self.datum.residence {
            Residence::Anywhere => self.mode == Mode::Concurrent,
            Residence::Home => !self.mode.sees_nothing(),
            Residence::Nowhere => false,
        }
    }
}
