//! The context in which a body runs: information that the body can query, and the addresses from which its views are
//! made.

use super::Group;
use crate::ids::{DeviceId, UnitId};
use crate::machine::UnitKind;
use crate::region::MAX_DIMS;
use std::any::Any;
use std::sync::{Arc, Weak};

/// The unit and the addresses that a body runs with.
#[derive(Debug)]
pub(crate) struct Env<'a> {
    pub(crate) context: &'a Context,
    /// The location of each access's region. A region without a location is in the host copy, and so are all regions if
    /// there is no list.
    pub(crate) sites: Option<&'a [Option<Site>]>,
}

/// Location of a region: the address of its first element, and its strides.
#[derive(Debug, Clone, Copy)]
pub struct Site {
    /// Address of the region's first element.
    pub first: *mut u8,
    /// Distance in elements from one index to the next, per dimension.
    pub strides: [usize; MAX_DIMS],
}

#[allow(unsafe_code)] // an address is not `Sync` by itself, and a body runs on its unit's pool
// SAFETY: a site is only an address, so sharing it is harmless by itself. Views are made from it only for a body that
// holds the region as its access declares, because the engine runs that body only when its dependences are satisfied.
// So no two threads get conflicting views.
unsafe impl Sync for Site {}

/// A runtime's front end as the lower layers see it, without its concrete type.
pub(crate) type Entrance = Arc<dyn Any + Send + Sync>;

/// Information about the unit that a body runs on (González-Tallada & Morancho 2023, Table 2, in Rust's terms).
///
/// ```
/// use thalweg::prelude::*;
/// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// let x = rt.data(vec![0; 1]);
/// rt.task("where", (x.output(),)).cpu(|at, (x,)| x[0] = if at.is_cpu() { at.inner_cores() } else { 0 }).submit()?;
/// assert_eq!(rt.read(&x)?, [1]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Clone)]
pub struct Context {
    /// The runtime's ID.
    pub(crate) runtime: u64,
    /// The front end through which the body submits children and creates data objects. There is one per host, so that
    /// hosts do not contend for a single reference count.
    pub(crate) entrance: Weak<Entrance>,
    pub(crate) unit: UnitId,
    pub(crate) kind: UnitKind,
    pub(crate) device: Option<DeviceId>,
    pub(crate) inner_cores: usize,
    /// The group of the task whose body got this context, if the task is a member of one.
    pub(crate) group: Option<Arc<Group>>,
}

impl Context {
    /// Returns the same context for the body of a member of this group.
    pub(crate) fn in_group(&self, group: &Arc<Group>) -> Self {
        Self { group: Some(group.clone()), ..self.clone() }
    }

    /// Returns the id of the compute unit.
    pub fn unit(&self) -> UnitId {
        self.unit
    }

    /// Returns the kind of processor that runs the body. This is the unit's kind, except that it is
    /// [`Cpu`](UnitKind::Cpu) if the hosting core of a device unit runs the body in host memory. The hosting core does
    /// so only if no device can run the task and the machine has no CPU unit.
    pub fn kind(&self) -> UnitKind {
        self.kind
    }

    /// Whether CPU cores run the body, in host memory.
    pub fn is_cpu(&self) -> bool {
        self.kind == UnitKind::Cpu
    }

    /// Returns the device that the task runs on, or `None` if cores run it.
    pub fn device(&self) -> Option<DeviceId> {
        self.device
    }

    /// Returns the number of cores that the unit has for parallelism inside the body. Rayon uses these cores
    /// automatically.
    pub fn inner_cores(&self) -> usize {
        self.inner_cores
    }
}
