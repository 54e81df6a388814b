//! Kernels that tasks run on accelerators, written in a dialect that CUDA, HIP and OpenCL can all compile.
//!
//! A [`Program`] is source text in the dialect defined by `kernels/dialect.h`; a [`Kernel`] is one function of a
//! program, together with its parameter types. A task's `.gpu` body receives a [`Launcher`] and a view of each of the
//! task's regions, and uses them to enqueue kernels. Code that is written for one specific interface is a [`Module`],
//! and a body written for one interface may call that interface itself (`raw.rs`).
//!
//! This module neither opens devices nor compiles programs; `device/` does both. Invariants:
//! 1. A [`Kernel`]'s parameter types match its text. This is checked during constant evaluation, so a program with
//!    the wrong types does not compile.
//! 2. A region that a task may only read cannot be passed for a parameter that a kernel writes ([`Argument`]).
//! 3. No kernel is launched whose signature allows it to touch memory outside its task's regions (`bounds.rs`). Whether
//!    a kernel's code respects its signature cannot be checked; the creator of a [`Program`] vouches for it.

mod argument;
mod bounds;
mod combination;
mod cursor;
mod graphs;
mod groups;
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
pub use groups::LaunchShape;
pub use launcher::{Launcher, Threads};
#[doc(hidden)]
pub use module::{CParameter, ModuleParameter};
pub use module::{CType, Module, ModuleError, ModuleKernel, ModuleParameters, Plain};
#[doc(hidden)] // inference finds it
pub use program::Compiled;
pub use program::{Kernel, Program};
#[doc(hidden)] // inference finds them
pub use raw::{Addressed, RawInterface};
pub use raw::{Cuda, DeviceRegion, Hip, OpenCl, OpenClRegion, RawTask};
pub use scalar::Scalar;
pub(crate) use signature::MOST_PARAMETERS;
pub use signature::SignatureError;
#[doc(hidden)]
pub use signature::{ElementType, Parameter};
pub use view::{DeviceView, DeviceViewMut, Scratch};

pub(crate) use combination::{Combination, Operation};
pub(crate) use graphs::{Graphs, Until};
pub(crate) use groups::Groups;
pub(crate) use launcher::{Enqueue, Limits};
pub(crate) use module::Code;
pub(crate) use program::{KernelText, Source};
pub(crate) use raw::{Kept, RawHandles};
pub(crate) use value::{ArgumentValue, Value};
pub(crate) use view::DeviceSite;
