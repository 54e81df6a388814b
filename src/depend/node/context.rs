//! Where a body runs: what it can ask, and what its views are made of.

use super::Group;
use crate::ids::{DeviceId, UnitId};
use crate::machine::UnitKind;
use crate::region::MAX_DIMS;
use std::any::Any;
use std::sync::{Arc, Weak};

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

#[allow(unsafe_code)] // an address is not `Sync` by itself, and a body runs on its unit's pool
// SAFETY: a site is only an address. Views are made of it for a body alone, which has the region as its access declares:
// the engine runs it when its dependences are satisfied.
unsafe impl Sync for Site {}

/// What a runtime's front door is to the layers below.
pub(crate) type Entrance = Arc<dyn Any + Send + Sync>;

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
    /// The runtime.
    pub(crate) runtime: u64,
    /// Where its children enter, as the runtime knows; one for each host, so that they do not all count at one place.
    pub(crate) entrance: Weak<Entrance>,
    pub(crate) unit: UnitId,
    pub(crate) kind: UnitKind,
    pub(crate) device: Option<DeviceId>,
    pub(crate) inner_cores: usize,
    /// The group of the task whose body got this context, if the task is a member of one.
    pub(crate) group: Option<Arc<Group>>,
}

impl Context {
    /// The same for the body of a member of this group.
    pub(crate) fn in_group(&self, group: &Arc<Group>) -> Self {
        Self { group: Some(group.clone()), ..self.clone() }
    }

    /// The id of the compute unit.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// The kind of what runs the body: the unit's, but [`Cpu`](UnitKind::Cpu) where the hosting core of a device unit runs it
    /// in host memory. That core does so if no device can run the task and the machine has no CPU unit.
    pub fn kind(&self) -> UnitKind {
        self.kind
    }

    /// Whether cores run the body, in host memory.
    pub fn is_cpu(&self) -> bool {
        self.kind == UnitKind::Cpu
    }

    /// The device that the task runs on; none if cores run it.
    pub fn device(&self) -> Option<DeviceId> {
        self.device
    }

    /// How many cores the unit has for parallelism inside the body; rayon uses them by itself.
    pub fn inner_cores(&self) -> usize {
        self.inner_cores
    }
}
