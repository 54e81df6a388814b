//! Kernels that tasks run on accelerators, as texts that CUDA, HIP and OpenCL all compile.
//!
//! A [`Program`] is a text in the dialect of `kernels/dialect.h`; a [`Kernel`] is one function of it, with the types
//! of its parameters. A task's `.gpu` body gets a [`Launcher`] and a view of each of its regions, and enqueues
//! kernels with them. Code that is written for one interface is a [`Module`]; a body for one interface may call that
//! interface itself (`raw.rs`).
//!
//! Nothing here opens a device or compiles a text; `device/` does that. Invariants:
//! 1. A [`Kernel`]'s parameters are those of its text: this is checked when the constant is evaluated, so that a
//!    program with wrong types does not compile.
//! 2. A region that a task may only read cannot be passed for a parameter that a kernel writes ([`Argument`]).
//! 3. No kernel is launched whose head allows it to touch memory that does not belong to its task (`bounds.rs`).
//!    Whether texts honour their heads cannot be checked: the author who makes a [`Program`] of a text vouches for
//!    it.

mod argument;
mod bounds;
mod cursor;
mod graphs;
mod launcher;
mod module;
mod module_head;
mod program;
mod raw;
mod scalar;
mod signature;
mod value;
mod view;

pub use argument::{Argument, Arguments, Parameters, Read, Write};
pub use launcher::{Launcher, Threads};
pub use module::{CParameter, CType, Module, ModuleError, ModuleKernel, ModuleParameter, ModuleParameters, Plain};
pub use program::{Kernel, Program};
pub use raw::{CudaTask, DeviceRegion, HipTask, OpenClRegion, OpenClTask};
pub use scalar::Scalar;
pub use signature::{ElementType, MOST_PARAMETERS, Parameter, SignatureError};
pub use view::{DeviceView, DeviceViewMut, Scratch};

pub(crate) use graphs::Graphs;
pub(crate) use launcher::{Enqueue, Limits};
pub(crate) use module::Code;
pub(crate) use program::{KernelText, Source};
pub(crate) use raw::{Kept, RawHandles};
pub(crate) use value::{ArgumentValue, Value};
pub(crate) use view::DeviceSite;
