//! Thalweg: a dataflow task-graph runtime.
//!
//! A program submits tasks and says of each which regions of which data it reads, writes or updates. The runtime finds
//! the order, chooses a compute unit for every task, brings the data to that unit's memory, runs the task there, and
//! brings data home when somebody asks for it.
//!
//! ```
//! use thalweg::prelude::*;
//!
//! let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
//! let x = rt.data(vec![1.0f64; 1000]);
//! let total = rt.scalar(0.0);
//! for part in blocks(1000, 250) {
//!     rt.task("square", (x.slice(part.clone()).inout(),))
//!         .cpu(|_, (x,)| x.iter_mut().for_each(|x| *x = *x * *x + 1.0))
//!         .submit()?;
//!     rt.task("sum", (x.slice(part).input(), total.reduction(Sum)))
//!         .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
//!         .submit()?;
//! }
//! assert_eq!(rt.read_scalar(&total)?, 2000.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! The words are the field's own (OmpSs, StarPU): see `ARCHITECTURE.md` for them and for the layers below.

pub mod error;
pub mod ids;
pub mod kernel;
pub mod machine;
pub mod memory;
pub mod region;
pub mod sched;
pub mod task;

mod coherence;
mod depend;
mod device;
mod engine;
mod runtime;
mod sealed;
mod sim;
mod sync;

#[cfg(feature = "cli")]
pub mod cli;

pub use depend::{Context, Dependence, GraphTask, Mode, TaskGraph};
pub use device::EmulatedDevice;
pub use runtime::{Builder, LinkStatistics, RunningTask, Runtime, Stall, Statistics, TaskBuilder, TaskHandle};
pub use sim::{MachineFileError, SimulatedMachine};

/// The devices of this machine, as `thalweg doctor` shows them.
pub mod devices {
    pub use crate::device::{DeviceFacts, Interface, Measurement, interfaces, measurement};
}

/// What most programs need.
pub mod prelude {
    pub use crate::error::{BuildError, DeviceError, RunError, SubmitError};
    pub use crate::ids::{DeviceId, SpaceId, TaskId, UnitId};
    pub use crate::machine::UnitKind;
    pub use crate::memory::{Element, Max, Min, Reduction, Sum};
    pub use crate::task::{Data, IterationSpace, Region, blocks};
    pub use crate::{Context, EmulatedDevice, Runtime, SimulatedMachine, TaskHandle};
    pub use ndarray::{Ix1, Ix2, Ix3, Ix4};
}
