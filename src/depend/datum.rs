//! A data object as the dependence layer sees it: its shape, and the history of its accesses.

use super::Mode;
use super::history::History;
use crate::ids::{DataId, SpaceId, TaskId};
use crate::region::{Block, MAX_DIMS};
use crate::sync::{Lock, prefetch};
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

/// The memories that can hold a data object.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Residence {
    /// An array: host memory, and replicas on devices.
    Anywhere,
    /// A value: host memory only.
    Home,
    /// A token: no memory at all.
    Nowhere,
}

/// A registered data object without its memory: everything that dependences and placement need to know.
///
/// Fields are in the order of use: first the fields that every submission reads, then the history, then the rest.
#[repr(C)]
pub(crate) struct Datum {
    shape: [usize; MAX_DIMS],
    pub(crate) id: DataId,
    ndim: u8,
    taken: AtomicBool,
    /// The data object has no memory, so its elements must never be read or written.
    pub(crate) phantom: bool,
    pub(crate) residence: Residence,
    pub(super) history: Lock<History>,
    pub(crate) element_bytes: usize,
    /// The task in whose body the data object was made, if any.
    made_by: Option<TaskId>,
    /// The address space of the foreign memory that holds the data object, if any.
    adopted_in: Option<SpaceId>,
    /// Devices use the host copy in place.
    unified: bool,
    /// All reductions to the data object run in the same device's memory.
    reduced_in_place: bool,
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
            reduced_in_place: false,
        }
    }

    /// Creates a single-element data object that is never copied: a value or a token.
    pub(crate) fn whole_in(residence: Residence, id: DataId) -> Self {
        Self { residence, ..Self::new(id, &[1], 0, false) }
    }

    /// Creates a data object with the same properties and an empty history.
    pub(super) fn alike(&self) -> Self {
        let shape = &self.shape[..self.ndim()];
        let (residence, reduced_in_place) = (self.residence, self.reduced_in_place);
        Self { residence, reduced_in_place, ..Self::new(self.id, shape, self.element_bytes, self.phantom) }
    }

    /// Records that the data object was created in the body of this task.
    pub(crate) fn set_made_by(&mut self, task: TaskId) {
        self.made_by = Some(task);
    }

    /// Records that the data object lies in foreign memory in this address space.
    pub(crate) fn set_adopted_in(&mut self, space: SpaceId) {
        self.adopted_in = Some(space);
    }

    /// Records that devices use the host copy in place.
    pub(crate) fn set_unified(&mut self) {
        self.unified = true;
    }

    /// Records that all reductions to the data object run in the same device's memory, or in host memory if that
    /// device is lost.
    pub(crate) fn set_reduced_in_place(&mut self) {
        self.reduced_in_place = true;
    }

    /// Whether devices use the host copy in place.
    pub(crate) fn is_unified(&self) -> bool {
        self.unified
    }

    /// Whether the data object takes none of the runtime's memory in this address space, because it lies there in
    /// foreign memory or because devices use the host copy.
    pub(crate) fn is_beside(&self, space: SpaceId) -> bool {
        self.adopted_in == Some(space) || self.unified && !space.is_host()
    }

    /// Whether the data object was created in the body of this task. If so, no earlier task can have declared an access
    /// to it.
    pub(crate) fn is_made_by(&self, task: TaskId) -> bool {
        self.made_by == Some(task)
    }

    /// Prefetches the history, which will be locked soon.
    #[inline]
    pub(crate) fn expect_access(&self) {
        prefetch(&self.history);
    }

    /// Sets the name used in messages, unless a name was already set.
    pub(crate) fn set_name(&self, name: String) {
        let _ = self.name.set(name);
    }

    /// Returns the whole data object as a block.
    #[inline]
    pub(crate) fn whole(&self) -> Block {
        Block::from_corners([0; MAX_DIMS], self.shape)
    }

    /// Returns the extents of all [`MAX_DIMS`] dimensions; unused dimensions have extent 1.
    #[inline]
    pub(crate) fn shape(&self) -> &[usize; MAX_DIMS] {
        &self.shape
    }

    /// Returns the size of the data object in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.whole().volume() * self.element_bytes) as u64
    }

    /// Returns the number of dimensions.
    pub(crate) fn ndim(&self) -> usize {
        self.ndim.into()
    }

    /// Describes a region of the data object for messages.
    pub(crate) fn describe(&self, block: &Block) -> String {
        match self.residence {
            Residence::Anywhere => block.display(self.ndim.into()).to_string(),
            Residence::Home | Residence::Nowhere => "all".to_owned(),
        }
    }

    /// Whether an unfinished task declares an empty region of the data object.
    pub(crate) fn is_looked_on(&self) -> bool {
        self.history.lock().is_looked_on()
    }

    /// Whether the memory was given back, or is about to be.
    #[inline]
    pub(crate) fn is_taken(&self) -> bool {
        self.taken.load(Ordering::Acquire)
    }

    /// Marks the memory as given back, or reverts the mark if it was not given back after all.
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
    /// Whether the two accesses must be ordered.
    pub(crate) fn conflicts_with(&self, other: &AccessRecord<'_>) -> bool {
        std::ptr::eq(self.datum, other.datum)
            && (self.mode.writes() || other.mode.writes())
            && self.block.overlaps(other.block)
    }

    /// Whether the access is a reduction whose contribution is combined in the memory where its task runs. Such an
    /// access is an update of the region, in submission order, that begins at the end of the task's body.
    pub(crate) fn is_reduced_in_place(&self) -> bool {
        self.datum.reduced_in_place && self.mode.is_combined_by_devices()
    }

    /// Returns the size of the region in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        (self.block.volume() * self.datum.element_bytes) as u64
    }

    /// Returns the number of bytes of the runtime's memory that the access needs in this address space. The result is 0
    /// if the data object is in foreign or unified memory there, unless the access is a reduction, which needs its own
    /// replica.
    pub(crate) fn bytes_in(&self, space: SpaceId) -> u64 {
        let is_there = self.datum.is_beside(space) && !matches!(self.mode, Mode::Reduction(_));
        if self.mode.sees_nothing() || is_there { 0 } else { self.bytes() }
    }

    /// Whether the access, if it runs outside host memory, needs a buffer for its whole region. Unified memory needs no
    /// buffer, except for a reduction.
    pub(crate) fn needs_buffer(&self) -> bool {
        let is_there = self.datum.unified && !matches!(self.mode, Mode::Reduction(_));
        !self.mode.sees_nothing() && !is_there
    }

    /// Whether the task must work in host memory, because values exist nowhere else and because atomic updates are
    /// atomic only within a single memory.
    pub(crate) fn is_at_home(&self) -> bool {
        match self.datum.residence {
            Residence::Anywhere => self.mode == Mode::Concurrent,
            Residence::Home => !self.mode.sees_nothing(),
            Residence::Nowhere => false,
        }
    }
}
