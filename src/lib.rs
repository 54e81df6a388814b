//! Thalweg: a dataflow task-graph runtime.
//!
//! A program submits tasks and declares the regions of data that each task reads, writes or updates. The runtime
//! determines the order, chooses a compute unit for every task, copies the data to that unit's memory, runs the task
//! there, and copies data back to host memory when the program requests it.
//!
//! ```
//! use thalweg::prelude::*;
//!
//! let rt = Runtime::builder().compute_units("1:CPU:1,1:EMU:1").build()?;
//! let x = rt.data(vec![1.0f64; 1000]);
//! let total = rt.scalar(0.0);
//! for part in x.blocks(250) {
//!     rt.task("square", (part.inout(),)).cpu(|_, (x,)| x.iter_mut().for_each(|x| *x = *x * *x + 1.0)).submit()?;
//!     rt.task("sum", (part.input(), total.reduction(Sum)))
//!         .cpu(|_, (x, total)| total[0] += x.iter().sum::<f64>())
//!         .submit()?;
//! }
//! assert_eq!(rt.read(&total)?[0], 2000.0);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Examples and documentation
//!
//! Each example in the repository shows one idea, starting with the simplest. To run the first one, use `cargo run
//! --release --example 01_hello`.
//!
//! | example | idea | items used |
//! | --- | --- | --- |
//! | `01_hello` | the order of tasks follows from their data | [`Runtime::data`], [`Runtime::task`], [`Runtime::take`] |
//! | `02_reduction` | private replicas; sums that do not depend on timing | [`Runtime::for_each`], [`task::Region::reduction`] |
//! | `03_stencil` | halos without barriers | [`task::Partition::grow`] |
//! | `04_pipeline` | several frames in flight, one log in order | [`task::Data::inout`] |
//! | `05_matmul` | tiles, and updates in any order | [`task::Data::tiles`], [`task::Region::commutative`] |
//! | `06_gpu_axpy` | a body for accelerators | [`kernel`], [`TaskBuilder::gpu`] |
//! | `07_failure` | poison, and how to recover from it | [`Runtime::wait`], [`Runtime::clear`] |
//! | `08_simulate` | a simulated machine | `Builder::simulate` |
//! | `09_own_scheduler` | a custom policy | [`sched::Policy`], [`Builder::policy`] |
//! | `10_own_opencl` | your own kernels, launched by the runtime or by direct calls of OpenCL | [`kernel::Module`], [`TaskBuilder::opencl`], [`kernel::RawTask`] |
//! | `11_cublas` | a library on the task's stream | [`TaskBuilder::cuda`], [`kernel::RawTask::keep`] |
//! | `13_several_devices` | a part for each device, and a task across all of them | [`LoopBuilder::spread`], [`TaskBuilder::across_devices`], [`TaskBuilder::on_device`] |
//!
//! There are also complete programs: `jacobi`, `cg`, `sparse` (a matrix as a value), `ingest` (asynchronous input),
//! `npb_mz` (the multi-zone NAS Parallel Benchmarks), `matmul` and `fft2d` (work divided between CPU and devices,
//! optimized for time or energy), and `schedulers`, which compares work distributions. The guide in `docs/guide` is a
//! step-by-step introduction to regions, values and results, scopes, detached completion, failure and recovery,
//! debugging, embedding in a service, units and placement, schedulers, accelerators, and porting from OmpSs, OpenMP or
//! StarPU.
//!
//! # Features
//!
//! All features are off by default: `cuda`, `hip` and `opencl` enable units of these kinds, `sim` enables simulated
//! machines and everything else that is read from TOML files, `profile` enables profiles by measurement, `graph`
//! provides the task graph as a petgraph value, and `macros` turns functions that contain loops into tasks
//! (`thalweg::loops`).
//!
//! The terminology follows OmpSs and StarPU; `ARCHITECTURE.md` lists the terms, and describes the layers below.

// Some parts of the runtime serve only a single feature, so dead code is detected only in builds with all features.
#![cfg_attr(
    not(all(
        feature = "cuda",
        feature = "hip",
        feature = "opencl",
        feature = "sim",
        feature = "graph",
        feature = "progress",
        feature = "signals"
    )),
    allow(dead_code, unused_imports)
)]
#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(missing_debug_implementations)]
#![warn(clippy::return_self_not_must_use)]

/// The version of `bytemuck` whose `Pod` elements must implement. Derive or implement it with this version.
pub use bytemuck;
/// The version of `cudarc` whose types [`kernel::RawTask::cudarc`] returns.
#[cfg(feature = "cuda")]
pub use cudarc;
/// The version of `ndarray` whose arrays a program registers, and whose views its bodies get. Arrays of other versions
/// are different types and cannot be used.
pub use ndarray;

#[macro_use]
mod log;
#[macro_use]
mod tuples;

pub mod check;
pub mod energy;
pub mod error;
pub mod ids;
pub mod kernel;
#[cfg(feature = "macros")]
pub mod loops;
pub mod machine;
#[cfg(feature = "profile")]
pub mod measure;
pub mod memory;
pub mod region;
pub mod sched;
pub mod task;

mod coherence;
mod depend;
mod device;
mod driver;
mod engine;
mod explore;
mod runtime;
mod sealed;
#[cfg(feature = "sim")]
mod sim;
mod sync;
mod trace;

pub use coherence::Eviction;
pub use depend::{Context, Mode};
#[cfg(feature = "graph")]
pub use depend::{Dependence, GraphTask, TaskGraph};
pub use device::EmulatedDevice;
#[doc(hidden)] // inference finds them
pub use runtime::{Accept, Clear, LoopBody, Returning};
#[cfg(unix)]
pub use runtime::{ArrayFile, FileArray};
pub use runtime::{
    Builder, CancelOnDrop, Explanation, LinkStatistics, LoopBuilder, Pending, PendingTask, PendingTasks, Reading,
    Recorder, Recording, ResultFuture, RunningTask, Runtime, Scope, Stall, Statistics, TaskBuilder, TaskGroup,
    TaskHandle, WaitReason, WaitStep,
};
#[cfg(feature = "sim")]
pub use sim::{MachineFileError, SimulatedMachine};
pub use sync::CallSite;

/// The devices of this machine, as `thalweg doctor` shows them, and kernels compiled for devices of any machine.
pub mod devices {
    #[cfg(feature = "cuda")]
    pub use crate::device::Cudarc;
    #[cfg(any(feature = "cuda", feature = "hip"))]
    pub use crate::device::compile_for;
    pub use crate::device::{DeviceFacts, Interface, interfaces};
    #[cfg(any(feature = "cuda", feature = "hip", feature = "opencl"))]
    pub use crate::device::{Measurement, measurement};
}

/// Data objects and accesses whose types are known only at run time, for language bindings and interpreters.
///
/// A task's accesses are a `Vec` of [`AnyAccess`](dynamic::AnyAccess), and its body gets a `Vec` of
/// [`AnyView`](dynamic::AnyView). In every other respect, including checks, errors, poison and dependences, the task is
/// like any other. See [`AnyData`](dynamic::AnyData) for an example.
#[cfg(feature = "dynamic")]
pub mod dynamic {
    pub use crate::memory::dynamic::{AnyArgument, AnyDeviceView, AnyKernel, AnyView, Dtype, Op};
    pub use crate::task::dynamic::{AnyAccess, AnyData, AnyRegion};
}

/// Exchange of arrays with other libraries through DLPack: [`Runtime::from_dlpack`] imports an array of another
/// library, and [`Tensor::of`](dlpack::Tensor::of) makes one for another library.
pub mod dlpack {
    pub use crate::memory::adopted::ImportError;
    pub use crate::memory::dlpack::{DlDataType, DlDevice, DlElement, DlManagedTensor, DlTensor, Tensor};
}

/// The names that most programs need.
pub mod prelude {
    #[cfg(feature = "sim")]
    pub use crate::SimulatedMachine;
    pub use crate::error::{BuildError, DeviceError, RunError, SubmitError};
    pub use crate::ids::{DeviceId, SpaceId, TaskId, UnitId};
    pub use crate::machine::UnitKind;
    pub use crate::memory::{Completion, Element, Lent, LentValue, Max, MemoryKind, Min, Reduction, Sum};
    pub use crate::task::{Data, Face, IterationSpace, Parameter, Partition, Region, Resource, Token, Value, blocks};
    pub use crate::{Context, EmulatedDevice, Pending, Recorder, Recording, Runtime, TaskHandle};
    #[doc(no_inline)]
    pub use ndarray::{Ix1, Ix2, Ix3, Ix4};
}
