//! A kernel with its arguments, as a task keeps them. The Python package compiles this file as well.

use thalweg::dynamic::{AnyArgument, AnyDeviceView, AnyKernel};
use thalweg::error::DeviceError;
use thalweg::kernel::{Launcher, Threads};

/// A launch of a kernel.
#[derive(Clone)]
pub(crate) struct Launch {
    pub(crate) kernel: AnyKernel,
    pub(crate) threads: Threads,
    pub(crate) arguments: Vec<Given>,
}

/// An argument of a kernel.
#[derive(Clone, Copy)]
pub(crate) enum Given {
    /// The access of the task with this index.
    Access(usize),
    Number(AnyArgument<'static, 'static>),
}

impl Launch {
    /// Enqueues the kernel for a task with these views.
    pub(crate) fn enqueue(&self, launcher: &mut Launcher<'_>, views: &[AnyDeviceView<'_>]) -> Result<(), DeviceError> {
        let argument = |given: &Given| match *given {
            Given::Access(index) => AnyArgument::Region(&views[index]),
            Given::Number(number) => number,
        };
        let arguments: Vec<_> = self.arguments.iter().map(argument).collect();
        self.kernel.launch(launcher, self.threads, &arguments)
    }
}
