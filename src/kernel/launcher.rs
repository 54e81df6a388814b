//! Enqueuing of kernels from a task's body.
//!
//! A `.gpu` body does not compute: it gets a [`Launcher`] and the addresses of its regions on the device, and enqueues
//! kernels.

use super::value::ArgumentValue;
use super::{
    Arguments, DeviceRegion, Graphs, Kept, Kernel, KernelText, ModuleKernel, ModuleParameters, Parameters, RawHandles,
    Scalar, Scratch,
};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::fmt;

/// The operations of a device that a launcher needs.
pub(crate) trait Enqueue {
    /// Enqueues a kernel with this many groups, after everything that was enqueued before.
    fn launch(&mut self, kernel: &KernelText, groups: [u32; 3], arguments: &[ArgumentValue])
    -> Result<(), DeviceError>;

    /// Returns the limits of a group of threads on the device.
    #[cfg_attr(not(feature = "macros"), allow(dead_code, reason = "generated code alone asks for them"))]
    fn limits(&self) -> Limits;

    /// Allocates memory that lasts as long as the work that this task enqueues; returns its handle.
    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError>;

    /// For a task across several devices: sends everything that is enqueued from here on to the device of this part.
    /// For any other task, all parts are on its one device.
    fn select(&mut self, _part: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Whether kernels here can access memory of the task, given by its handle, even if it is another device's.
    fn reach(&mut self, _base: usize) -> bool {
        true
    }

    /// Checks that a kernel may be given all these arguments: it must reach those in the memory of another part's
    /// device, and the task must not write to these.
    fn check_reach(&mut self, _kernel: &KernelText, _arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Returns the kind of units whose interface this is.
    fn interface(&self) -> UnitKind;

    /// Binds the device to the calling thread, for a body that calls the interface itself from here on.
    fn raw(&mut self) -> Result<RawHandles, DeviceError>;

    /// Returns the values that users keep with the stream.
    fn kept(&mut self) -> &mut Kept;

    /// Begins to record launches, part by part; [`Self::launch_graph`] launches all of them.
    fn begin_graph(&mut self);

    /// Begins the next part of the recorded launches.
    fn begin_part(&mut self);

    /// Drops the current part, which has failed: nothing of it is launched.
    fn drop_part(&mut self);

    /// Launches the recorded parts, each `after` the parts with these numbers. Uses the state that the device keeps
    /// in `known`, and updates it.
    fn launch_graph(&mut self, after: &[Box<[u32]>], known: &mut Graphs) -> Result<(), DeviceError>;
}

/// The limits of a group of threads on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads_per_group: u64,
    pub(crate) local_bytes: u64,
}

impl Default for Limits {
    /// The limits that every CUDA and HIP device meets.
    fn default() -> Self {
        Self { threads_per_group: 1024, local_bytes: 48 << 10 }
    }
}

/// A task's access to its device: enqueues kernels, which run one after another.
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

    /// Returns the kind of units whose interface the work is enqueued with.
    pub(crate) fn interface(&self) -> UnitKind {
        self.device.interface()
    }

    /// For a task across devices ([`TaskBuilder::across_devices`](crate::TaskBuilder::across_devices)): sends
    /// everything that is enqueued from here on to the device of this part; initially, that is part 0. Kernels on one
    /// device run one after another; between devices there is no order. If the task works on one device, all parts
    /// are there.
    ///
    /// # Errors
    /// Returns an error if the task has no such part. This is detected only if it works on several devices.
    pub fn part(&mut self, part: usize) -> Result<&mut Self, DeviceError> {
        self.device.select(part)?;
        Ok(self)
    }

    /// For a task across devices: whether kernels of the part that was selected last can access a region of another
    /// part in place. If so, the region may be passed to them: to a kernel of a [`Program`](super::Program) if the
    /// task writes neither the region nor anything in the same piece of memory, and to other kernels as their
    /// `unsafe` promises allow. CUDA and HIP are asked for access from one device to the other; OpenCL moves buffers
    /// to where they are used.
    pub fn reaches(&mut self, region: &impl DeviceRegion) -> bool {
        self.device.reach(region.place().base)
    }

    /// Enqueues a kernel with at least this many threads, rounded up to whole groups. The kernel must handle the
    /// excess threads. Without threads nothing is enqueued.
    ///
    /// # Errors
    /// Returns [`DeviceError::Bounds`] if the kernel's head allows it, with these arguments, to touch elements
    /// outside a region; [`DeviceError::Elsewhere`] if an argument lies in another device's memory and the task writes
    /// to it, or the kernel does not reach it; [`DeviceError::Geometry`] if a dimension has 2³¹ threads or more. Also
    /// returns an error if the kernel's program does not compile for the device, or the device refuses. Nothing is
    /// enqueued then.
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
        let text = kernel.text();
        let Some(groups) = groups(text, threads.into())? else { return Ok(()) };
        self.values.clear();
        arguments.values(&mut self.values);
        text.bounds.check(text.name, &text.names, &self.values)?;
        self.device.check_reach(text, &self.values)?;
        self.device.launch(text, groups, &self.values)
    }

    /// As [`launch`](Self::launch), for a kernel that is written for one interface, or separately for several. See
    /// [`Module`](super::Module) for how regions are passed.
    ///
    /// # Errors
    /// Returns [`DeviceError::Geometry`] if a dimension has 2³¹ threads or more; [`DeviceError::NoCompiler`] if the
    /// module has no code for the device's interface. Also returns an error if its text does not compile, or the
    /// device refuses its code. Nothing is enqueued then.
    ///
    /// # Safety
    /// With these arguments and this many threads, rounded up to whole groups, the kernel touches no memory but its
    /// own and, of each buffer, elements of the region that was given for it; from a [`Read`](super::Read), it only
    /// reads. If its parameters could not be compared with `P` (compiled code, [`ModuleKernel::unchecked`]), they are
    /// those of `P`.
    #[allow(unsafe_code)] // `unsafe` marks a promise of the caller; nothing unsafe is done here
    pub unsafe fn launch_module<P, A>(
        &mut self,
        kernel: &ModuleKernel<P>,
        threads: impl Into<Threads>,
        arguments: A,
    ) -> Result<(), DeviceError>
    where
        P: ModuleParameters,
        A: Arguments<P>,
    {
        let text = kernel.text();
        let Some(groups) = groups(text, threads.into())? else { return Ok(()) };
        self.values.clear();
        arguments.values(&mut self.values);
        self.device.launch(text, groups, &self.values)
    }

    /// Returns the limits of a group of threads on the device.
    #[cfg(feature = "macros")]
    pub(crate) fn limits(&self) -> Limits {
        self.device.limits()
    }

    /// Allocates memory for `len` elements, for the work that this task enqueues from here on.
    ///
    /// # Errors
    /// Returns an error if the device lacks the memory.
    pub fn scratch<T: Scalar>(&mut self, len: usize) -> Result<Scratch<'a, T>, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        Ok(Scratch::new(self.device.scratch(bytes)?, len))
    }
}

/// Returns the number of groups that hold these threads, or `None` if there are no threads.
fn groups(kernel: &KernelText, Threads(threads): Threads) -> Result<Option<[u32; 3]>, DeviceError> {
    if threads.contains(&0) {
        return Ok(None);
    }
    let mut groups = [0; 3];
    for d in 0..3 {
        let count = threads[d].div_ceil(kernel.group[d] as usize);
        // Threads count themselves as `int`: with more, some would have negative numbers.
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
