//! What the engine and the drivers need of a task's body, whatever its types.

use super::{AccessRecord, Accumulation};
use crate::error::BoxError;
use crate::ids::{DeviceId, UnitId};
use crate::kernel::{DeviceSite, Launcher};
use crate::machine::UnitKind;
use crate::region::{Block, MAX_DIMS};
use std::sync::Arc;

/// A typed closure with its accesses, seen from outside.
///
/// All of it goes by shared references, so that a body's accesses can be looked at while it runs: what changes is in cells.
/// A body is its owner's alone all the same, and never used by two threads at once, but for its accesses.
pub(crate) trait Body: Send {
    /// Visits the declared accesses in order. Reads nothing that changes while the body runs: another thread may look.
    fn accesses(&self, visit: &mut dyn FnMut(AccessRecord<'_>));

    /// Runs the body that fits the unit. May panic with whatever the user's code panics with.
    fn run(&self, env: &Env<'_>) -> Result<(), BoxError>;

    /// Runs the body for accelerators, which enqueues its work. May panic as [`Self::run`] may.
    fn enqueue(&self, launcher: &mut Launcher<'_>, sites: &[DeviceSite]) -> Result<(), BoxError>;

    /// Drops the user's closures without running them.
    fn discard(&self);

    /// Where a new private replica of the `access`-th access lies, and its bytes, if that is a reduction. It stays until
    /// the next one is made or the body is dropped.
    fn private(&self, access: usize) -> Option<(*mut u8, usize)>;

    /// Combines the private replica of the `access`-th access into the data object's home, within `block`. May panic with whatever
    /// the user's operation panics with.
    fn combine(&self, access: usize, block: &Block);

    /// The private replica of the `access`-th access, if there is one: its elements in row-major order, and its region.
    fn replica(&self, access: usize) -> Option<(&[u8], Block)>;

    /// Combines another replica into that of the `access`-th access, within `block`. May panic as [`Self::combine`] may.
    fn absorb(&self, access: usize, block: &Block, other: (&[u8], Block));

    /// Gives the memory of a private replica back.
    fn retire(&self, access: usize);

    /// The `access`-th access accumulates in this group, at this part. Called at submission, under a lock.
    fn enlist(&self, _access: usize, _group: &Arc<Accumulation>, _part: &Block) {}

    /// The work that was enqueued has ended well: gives replicas that are shared back. [`Self::run`] does so by itself.
    fn keep(&self) {}

    /// Of a join: what it does when all that it waits for has ended. May panic as [`Self::combine`] may.
    fn complete(&self) {}

    /// Which kinds of unit there is a body for.
    fn kinds(&self) -> Kinds;
}

/// Where and on what a body runs.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) context: &'a Context,
    /// Where each access's region lies; absent on the host, where data lie at home.
    pub(crate) sites: Option<&'a [Site]>,
}

/// Where a region lies: the address of its first element, and how far apart its elements are.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Address of the region's first element.
    pub first: *mut u8,
    /// Elements from one index to the next, per dimension.
    pub strides: [usize; MAX_DIMS],
}

#[allow(unsafe_code)] // raw addresses are not `Send` by themselves
// SAFETY: a site is only an address; whoever dereferences it answers for that.
unsafe impl Send for Site {}
#[allow(unsafe_code)] // as above
// SAFETY: as above.
unsafe impl Sync for Site {}

/// The kinds of unit that a task has bodies for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) struct Kinds(u8);

impl Kinds {
    /// No kind.
    pub(crate) const NONE: Self = Self(0);

    /// What a body for CPU units is for.
    pub(crate) const CPU: Self = Self::NONE.with(UnitKind::Cpu);
    /// What a body for emulated devices is for.
    pub(crate) const EMULATED: Self = Self::NONE.with(UnitKind::Emulated);
    /// What a body for accelerators is for.
    pub(crate) const ACCELERATED: Self = {
        let (mut kinds, mut next) = (Self::NONE, 0);
        while next < UnitKind::ALL.len() {
            kinds = kinds.with(UnitKind::ALL[next]);
            next += 1;
        }
        Self(kinds.0 & !Self::CPU.0 & !Self::EMULATED.0)
    };

    /// These and others.
    pub(crate) const fn and(self, others: Self) -> Self {
        Self(self.0 | others.0)
    }

    /// These and one more.
    pub(crate) const fn with(self, kind: UnitKind) -> Self {
        Self(self.0 | 1 << kind as u8)
    }

    /// Whether there is a body for units of this kind.
    pub(crate) fn has(self, kind: UnitKind) -> bool {
        self.0 & 1 << kind as u8 != 0
    }

    /// The kinds in words.
    pub(crate) fn describe(self) -> String {
        let kinds = UnitKind::ALL.into_iter().filter(|kind| self.has(*kind)).map(UnitKind::keyword);
        match kinds.collect::<Vec<_>>() {
            none if none.is_empty() => "no kind".to_owned(),
            some => some.join(" and "),
        }
    }
}

/// What a body can ask about the unit it runs on (González-Tallada & Morancho 2023, Table 2, in Rust's terms).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0; 1]);
/// rt.task("where", (x.output(),)).cpu(|at, (x,)| x[0] = if at.is_cpu() { at.inner_cores() } else { 0 }).submit()?;
/// assert_eq!(rt.read_scalar(&x)?, 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    pub(crate) unit: UnitId,
    pub(crate) kind: UnitKind,
    pub(crate) device: Option<DeviceId>,
    pub(crate) inner_cores: usize,
}

impl Context {
    /// The id of the compute unit.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// The unit's kind.
    pub fn kind(&self) -> UnitKind {
        self.kind
    }

    /// Whether the unit is a CPU unit.
    pub fn is_cpu(&self) -> bool {
        self.kind == UnitKind::Cpu
    }

    /// The device that the task runs on, on a device unit.
    pub fn device(&self) -> Option<DeviceId> {
        self.device
    }

    /// How many cores the unit has for parallelism inside the body; rayon uses them by itself.
    pub fn inner_cores(&self) -> usize {
        self.inner_cores
    }
}
