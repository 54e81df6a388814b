//! Enqueueing kernels from a task's body.
//!
//! A `.gpu` body does not compute anything itself. It receives a [`Launcher`] and the device addresses of its
//! regions, and uses them to enqueue kernels.

use super::value::ArgumentValue;
use super::{
    Arguments, DeviceRegion, Graphs, Groups, Kept, Kernel, KernelText, LaunchShape, ModuleKernel, ModuleParameters,
    Parameters, RawHandles, Scalar, Scratch, Until,
};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::fmt;

/// The operations of a device that a launcher needs.
pub(crate) trait Enqueue {
    /// Enqueues a kernel with the given number of groups, after all previously enqueued work.
    fn launch(&mut self, kernel: &KernelText, groups: Groups, arguments: &[ArgumentValue]) -> Result<(), DeviceError>;

    /// Returns the device's limits on thread groups.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "generated code alone asks for them"))]
    fn limits(&self) -> Limits;

    /// Allocates memory that stays valid until the work enqueued by this task has finished; returns the handle of the
    /// memory.
    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError>;

    /// For a task that spans several devices, directs all work enqueued from here on to the device of the given part.
    /// For any other task, all parts are on the same device, and the call has no effect.
    fn select(&mut self, _part: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns whether kernels on the current device can access the task's memory with handle `_base`, even if that
    /// memory belongs to another device.
    fn reach(&mut self, _base: usize) -> bool {
        true
    }

    /// Checks that a kernel may be given all of these arguments: the kernel must be able to reach arguments in the
    /// memory of another part's device, and the task must not write to those arguments.
    fn check_reach(&mut self, _kernel: &KernelText, _arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns the kind of units that use this interface.
    fn interface(&self) -> UnitKind;

    /// Binds the device to the calling thread, because the body is about to call the interface itself.
    fn raw(&mut self) -> Result<RawHandles, DeviceError>;

    /// Returns the user-defined values that are stored with the stream.
    fn kept(&mut self) -> &mut Kept;

    /// Begins to record launches, grouped into parts; [`Self::launch_graph`] launches all recorded parts.
    fn begin_graph(&mut self);

    /// Begins the next part of the recording, which runs after the parts with the indices in `after`.
    fn begin_part(&mut self, after: &[u32]);

    /// Begins another part that continues the current one: it runs after the current part and after those in `after`,
    /// and uses the same scratch memory.
    fn continue_part(&mut self, after: &[u32]);

    /// Discards the current part, and the parts that it continues, because it has failed: none of their kernels are
    /// launched.
    fn drop_part(&mut self);

    /// Launches the recorded parts again and again, until the device finds that a number is small. The device must have
    /// loops.
    fn launch_loop(&mut self, _until: &Until) -> Result<(), DeviceError> {
        unreachable!("only one device repeats launches")
    }

    /// Launches the recorded parts. Uses and updates the device's state in `known`.
    fn launch_graph(&mut self, known: &mut Graphs) -> Result<(), DeviceError>;
}

/// A device's limits on thread groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads_per_group: u64,
    pub(crate) local_bytes: u64,
}

impl Default for Limits {
    /// Returns the limits that every CUDA and HIP device supports.
    fn default() -> Self {
        Self { threads_per_group: 1024, local_bytes: 48 << 10 }
    }
}

/// A task's access to its device. Kernels enqueued with a launcher run one after another.
///
/// ```no_run
/// use thalweg::kernel::{Kernel, Program, Read, Write};
/// use thalweg::prelude::*;
///
/// const TEXT: &str = "KERNEL(256, 1, 1) axpy(double a, IN(double, x, n), INOUT(double, y, n), int n)
///                     { REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] += a * x[i]; }";
/// // SAFETY: only the first n elements of x and y are touched.
/// const BLAS: Program = unsafe { Program::new("axpy.cl", TEXT) };
/// static AXPY: Kernel<(f64, Read<f64>, Write<f64>, i32)> = Kernel::new(&BLAS, "axpy");
///
/// let rt = Runtime::builder().compute_units("1:CPU:1,1:OPENCL:1").build()?;
/// let (x, y) = (rt.data(vec![1.0; 1000]), rt.data(vec![2.0; 1000]));
/// rt.task("axpy", (x.input(), y.inout()))
///     .cpu(|_, (x, y)| y.iter_mut().zip(x).for_each(|(y, x)| *y += 3.0 * x))
///     .gpu(|launcher, (x, mut y)| launcher.launch(&AXPY, x.len(), (3.0, &x, &mut y, x.len() as i32)))
///     .submit()?;
/// assert_eq!(rt.take(y)?, [5.0; 1000]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Launcher<'a> {
    device: &'a mut dyn Enqueue,
    values: Vec<ArgumentValue>,
}

impl<'a> Launcher<'a> {
    pub(crate) fn new(device: &'a mut dyn Enqueue) -> Self {
        Self { device, values: Vec::new() }
    }

    pub(crate) fn device(&mut self) -> &mut dyn Enqueue {
        &mut *self.device
    }

    /// Returns the kind of units whose interface the launcher enqueues work with.
    pub(crate) fn interface(&self) -> UnitKind {
        self.device.interface()
    }

    /// For a task across devices ([`TaskBuilder::across_devices`](crate::TaskBuilder::across_devices)): directs all
    /// work enqueued from here on to the device of the given part. Initially, part 0 is selected. Kernels on one
    /// device run one after another; kernels on different devices are not ordered. If the task runs on a single
    /// device, all parts are on that device.
    ///
    /// # Errors
    /// Returns an error if the task has no such part. The error is detected only if the task runs on several devices.
    pub fn on_part(&mut self, part: usize) -> Result<&mut Self, DeviceError> {
        self.device.select(part)?;
        Ok(self)
    }

    /// For a task across devices, returns whether kernels of the currently selected part can access a region of
    /// another part in place. If so, the region may be passed to a kernel of a [`Program`](super::Program), provided
    /// that the task writes neither the region nor anything else in the same piece of memory. It may be passed to
    /// other kernels as their `unsafe` promises allow. With CUDA and HIP, this depends on peer access between the two
    /// devices, which the runtime tries to enable; OpenCL moves buffers to where they are used.
    pub fn reaches(&mut self, region: &impl DeviceRegion) -> bool {
        self.device.reach(region.place().base)
    }

    /// Enqueues a kernel with the given number of threads, rounded up to whole groups. The kernel must handle the
    /// excess threads. If the number of threads is 0, nothing is enqueued.
    ///
    /// # Errors
    /// Returns [`DeviceError::Bounds`] if the kernel's head allows it, with these arguments, to touch elements
    /// outside a region; [`DeviceError::Elsewhere`] if an argument is in another device's memory and either the task
    /// writes to the argument or the kernel cannot reach it; [`DeviceError::Geometry`] if a dimension has 2³¹ threads
    /// or more. Also returns an error if the kernel's program does not compile for the device, or if the device
    /// refuses the launch. In all of these cases, nothing is enqueued.
    pub fn launch<P, A>(
        &mut self,
        kernel: &Kernel<P>,
        threads: impl Into<Threads>,
        arguments: A,
    ) -> Result<(), DeviceError>
    where
        P: Parameters,
        A: Arguments<P>,
    {
        self.launch_values(kernel.text(), threads.into(), |values| arguments.values(values))
    }

    /// Enqueues a kernel of a [`Program`](super::Program) with these values, whose types are those of its parameters.
    pub(crate) fn launch_values(
        &mut self,
        text: &KernelText,
        threads: Threads,
        put: impl FnOnce(&mut Vec<ArgumentValue>),
    ) -> Result<(), DeviceError> {
        let Some(groups) = groups(text, threads)? else { return Ok(()) };
        self.values.clear();
        put(&mut self.values);
        text.bounds.check(text.name, &text.names, &self.values)?;
        self.device.check_reach(text, &self.values)?;
        self.device.launch(text, groups.into(), &self.values)
    }

    /// Like [`launch`](Self::launch), but for a kernel that is written for one specific interface, or separately for
    /// each of several. See [`Module`](super::Module) for how regions are passed. `shape` is a number of threads, or a
    /// [`LaunchShape`], which may also request shared memory, clusters, or a cooperative launch.
    ///
    /// # Errors
    /// Returns [`DeviceError::Geometry`] if a dimension has 2³¹ threads or more; [`DeviceError::NoCompiler`] if the
    /// module has no code for the device's interface; [`DeviceError::Unsupported`] if the device does not have what the
    /// shape requests. Also returns an error if the module's text does not compile, or
    /// if the device refuses its code. In all of these cases, nothing is enqueued.
    ///
    /// # Safety
    /// With these arguments and this many threads, rounded up to whole groups, the kernel must touch no memory except
    /// its own and, in each buffer, elements of the region that was passed for that buffer. It must not write to a
    /// [`Read`](super::Read) buffer. If the kernel's parameters could not be compared with `P` (compiled code,
    /// [`ModuleKernel::unchecked`]), they must be the parameters described by `P`.
    #[allow(unsafe_code)] // `unsafe` marks a promise of the caller; nothing unsafe is done here
    pub unsafe fn launch_module<P, A>(
        &mut self,
        kernel: &ModuleKernel<P>,
        shape: impl Into<LaunchShape>,
        arguments: A,
    ) -> Result<(), DeviceError>
    where
        P: ModuleParameters,
        A: Arguments<P>,
    {
        let (text, shape) = (kernel.text(), shape.into());
        let Some(groups) = groups(text, shape.threads)? else { return Ok(()) };
        self.values.clear();
        arguments.values(&mut self.values);
        self.device.launch(text, shape.groups(groups), &self.values)
    }

    /// Returns the device's limits on thread groups.
    #[cfg(feature = "macros")]
    pub(crate) fn limits(&self) -> Limits {
        self.device.limits()
    }

    /// Allocates device memory for `len` elements, for use by the work that this task enqueues from here on.
    ///
    /// # Errors
    /// Returns an error if the device does not have enough free memory.
    pub fn scratch<T: Scalar>(&mut self, len: usize) -> Result<Scratch<'a, T>, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        Ok(Scratch::new(self.device.scratch(bytes)?, len))
    }
}

/// Returns the number of groups needed for the given threads in each dimension, or `None` if there are no threads.
fn groups(kernel: &KernelText, Threads(threads): Threads) -> Result<Option<[u32; 3]>, DeviceError> {
    if threads.contains(&0) {
        return Ok(None);
    }
    let mut groups = [0; 3];
    for d in 0..3 {
        let count = threads[d].div_ceil(kernel.group[d] as usize);
        // Kernels compute thread indices as `int`, so with more threads some indices would be negative.
        let fits = count.checked_mul(kernel.group[d] as usize).is_some_and(|threads| i32::try_from(threads).is_ok());
        if !fits {
            return Err(DeviceError::Geometry { kernel: kernel.name.to_owned(), threads });
        }
        groups[d] = count as u32;
    }
    Ok(Some(groups))
}

impl fmt::Debug for Launcher<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Launcher").finish_non_exhaustive()
    }
}

/// The number of threads of a launch, in up to three dimensions: `n`, `[x, y]` or `[x, y, z]`.
///
/// ```
/// use thalweg::kernel::Threads;
/// assert_eq!(Threads::from(1000), Threads([1000, 1, 1]));
/// assert_eq!(Threads::from([64, 32]), Threads([64, 32, 1]));
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads(pub [usize; 3]);

impl From<usize> for Threads {
    fn from(x: usize) -> Self {
        Self([x, 1, 1])
    }
}

impl From<[usize; 2]> for Threads {
    fn from([x, y]: [usize; 2]) -> Self {
        Self([x, y, 1])
    }
}

impl From<[usize; 3]> for Threads {
    fn from(threads: [usize; 3]) -> Self {
        Self(threads)
    }
}
