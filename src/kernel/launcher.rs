//! Enqueuing kernels from a task's body.

use super::value::ArgumentValue;
use super::{
    Arguments, DeviceRegion, Graphs, Kept, Kernel, KernelText, ModuleKernel, ModuleParameters, Parameters, RawHandles,
    Scalar, Scratch,
};
use crate::error::DeviceError;
use crate::machine::UnitKind;
use std::fmt;

/// What a device does for a launcher.
pub(crate) trait Enqueue {
    /// Enqueues a kernel with this many groups, behind what was enqueued before.
    fn launch(&mut self, kernel: &KernelText, groups: [u32; 3], arguments: &[ArgumentValue])
    -> Result<(), DeviceError>;

    /// What a group can have on the device.
    fn limits(&self) -> Limits;

    /// Memory that lasts as long as what this task enqueues; its handle.
    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError>;

    /// Of a task across several devices: what is enqueued from here on goes to that of a part. Of any other, all parts are on
    /// the one device.
    fn select(&mut self, _part: usize) -> Result<(), DeviceError> {
        Ok(())
    }

    /// Whether kernels here reach memory of the task, by its handle, also if that is another device's.
    fn reach(&mut self, _base: usize) -> bool {
        true
    }

    /// Whether a kernel may be given all of this: it reaches it, and what others write is not among it.
    fn check_reach(&mut self, _kernel: &KernelText, _arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        Ok(())
    }

    /// The kind of units whose interface it is.
    fn interface(&self) -> UnitKind;

    /// Makes the device the calling thread's, for a body that enqueues by itself from here on.
    fn raw(&mut self) -> Result<RawHandles, DeviceError>;

    /// What users keep with the stream.
    fn kept(&mut self) -> &mut Kept;

    /// What is launched from here on is written down, part by part, and launched as a whole by [`Self::launch_graph`].
    fn begin_graph(&mut self);

    /// What is launched from here on is the next part.
    fn begin_part(&mut self);

    /// The part has failed: nothing of it is launched.
    fn drop_part(&mut self);

    /// Launches what was written down: each part `after` those of these numbers. What the device has `known` of it is used
    /// and kept.
    fn launch_graph(&mut self, after: &[Box<[u32]>], known: &mut Graphs) -> Result<(), DeviceError>;
}

/// What a group of threads can have on a device.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Limits {
    pub(crate) threads_per_group: u64,
    pub(crate) local_bytes: u64,
}

impl Default for Limits {
    /// What every device of CUDA and HIP has.
    fn default() -> Self {
        Self { threads_per_group: 1024, local_bytes: 48 << 10 }
    }
}

/// A task's way to its device: enqueues kernels, which run one after another.
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

    /// The kind of units whose interface takes what is enqueued.
    pub(crate) fn interface(&self) -> UnitKind {
        self.device.interface()
    }

    /// Of a task across devices ([`TaskBuilder::across_devices`](crate::TaskBuilder::across_devices)): what is enqueued from here
    /// on goes to the device of this part; at first that is part 0's. On each device one kernel runs after another; between
    /// devices there is no order. Where the task works on one device, all parts are there.
    ///
    /// # Errors
    /// If the task has no such part. That is found where it works on several devices.
    pub fn part(&mut self, part: usize) -> Result<&mut Self, DeviceError> {
        self.device.select(part)?;
        Ok(self)
    }

    /// Of a task across devices: whether kernels of the part that was chosen last reach a region of another part, in place. If
    /// so, they may be given it: a kernel of a [`Program`](super::Program) if the task writes neither the region nor what lies in
    /// one piece of memory with it, others as their own `unsafe` promises say. CUDA and HIP are asked for access from the one
    /// device to the other; OpenCL brings buffers to where they are used.
    pub fn reaches(&mut self, region: &impl DeviceRegion) -> bool {
        self.device.reach(region.place().base)
    }

    /// Enqueues a kernel with at least this many threads: as many whole groups as that takes. The kernel sees to the
    /// threads that are too many. Without threads nothing is enqueued.
    ///
    /// # Errors
    /// [`DeviceError::Bounds`] if the kernel's head allows it, with these arguments, to touch what is not in a region;
    /// [`DeviceError::Elsewhere`] if an argument lies in another device's memory and is written, or not reached;
    /// [`DeviceError::Geometry`] if a dimension has 2³¹ threads or more; or if the kernel's program does not compile
    /// for the device, or the device refuses. Nothing is enqueued then.
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

    /// As [`launch`](Self::launch), of a kernel that is written for one interface, or for several one by one. See
    /// [`Module`](super::Module) for how regions are passed.
    ///
    /// # Errors
    /// [`DeviceError::Geometry`] if a dimension has 2³¹ threads or more; [`DeviceError::NoCompiler`] if the module has no
    /// code for the device's interface; or if its text does not compile, or the device refuses its code. Nothing is
    /// enqueued then.
    ///
    /// # Safety
    /// With these arguments and as many threads, rounded up to whole groups, the kernel touches no memory but its own and,
    /// of each buffer, elements of the region that was given for it; of a [`Read`](super::Read), it only reads. Where its
    /// parameters could not be compared with `P` (compiled code, [`ModuleKernel::unchecked`]), they are those.
    #[allow(unsafe_code)] // a promise that is asked for; nothing unsafe is done here
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

    /// What a group can have on the device.
    #[cfg(feature = "macros")]
    pub(crate) fn limits(&self) -> Limits {
        self.device.limits()
    }

    /// Memory for `len` elements, for what this task enqueues from here on.
    ///
    /// # Errors
    /// If the device lacks the memory.
    pub fn scratch<T: Scalar>(&mut self, len: usize) -> Result<Scratch<'a, T>, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        Ok(Scratch::new(self.device.scratch(bytes)?, len))
    }
}

/// So many groups that they have these threads; nothing if there are none.
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

/// How many threads a kernel gets, in up to three dimensions: `n`, `[x, y]` or `[x, y, z]`.
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
