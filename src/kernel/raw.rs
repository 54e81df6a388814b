//! Task bodies that call a device's interface directly, or a library built on that interface.
//!
//! Such a body receives everything it needs for those calls as plain addresses: its task's stream or queue, and the
//! locations of its regions in device memory. Users can therefore use whichever bindings they like. The runtime's
//! guarantees are the same as for any other task: work that the body enqueues on the stream or queue runs after the
//! task's predecessors and before its successors.
//!
//! This file never calls an interface. `device/` does so, when a body requests the handles and when the body has
//! returned. Invariants:
//! 1. While the body runs, the device is bound to the calling thread. The body may leave the thread bound to another
//!    device: the runtime does not rely on the binding afterwards.
//! 2. A kept handle belongs to one stream. It is dropped before the stream is destroyed, while the device is bound to
//!    the thread and no lock is held.

use super::view::{DeviceSite, DeviceView, DeviceViewMut};
use super::{Enqueue, Launcher};
use crate::error::DeviceError;
use crate::sealed::Sealed;
use std::any::{Any, TypeId};
use std::ffi::c_void;
use std::fmt;
use std::marker::PhantomData;
use std::ptr;

/// Handles to pass to an interface's functions, as addresses and numbers.
#[derive(Debug, Clone, Copy)]
pub(crate) struct RawHandles {
    /// The stream or queue.
    pub(crate) stream: usize,
    /// The context; 0 if the interface has none.
    pub(crate) context: usize,
    /// The device, as an index or an address.
    pub(crate) device: usize,
}

/// User-defined values stored with a stream, at most one of each type.
#[derive(Default)]
pub(crate) struct Kept(Vec<(TypeId, Box<dyn Any + Send>)>);

impl Kept {
    /// Returns the stored value of type `H`; creates it with `make` if there is none.
    fn of<H: Send + 'static, E>(&mut self, make: impl FnOnce() -> Result<H, E>) -> Result<&mut H, E> {
        let known = self.0.iter().position(|(of, _)| *of == TypeId::of::<H>());
        let n = match known {
            Some(n) => n,
            None => {
                self.0.push((TypeId::of::<H>(), Box::new(make()?)));
                self.0.len() - 1
            }
        };
        Ok(self.0[n].1.downcast_mut().expect("each value is kept under its type"))
    }

    /// Adds the values from `others`; returns the values whose types are already present.
    pub(crate) fn join(&mut self, others: Self) -> Self {
        let (twice, new) = others.0.into_iter().partition(|(of, _)| self.0.iter().any(|(known, _)| known == of));
        self.0.extend::<Vec<_>>(new);
        Self(twice)
    }

    /// Removes the most recently added value, so that the caller can drop it at a point where user-defined
    /// destructors may run.
    pub(crate) fn pop(&mut self) -> Option<Box<dyn Any + Send>> {
        self.0.pop().map(|(_, one)| one)
    }
}

impl fmt::Debug for Kept {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Kept({})", self.0.len())
    }
}

/// A region in device memory: a [`DeviceView`] or a [`DeviceViewMut`].
///
/// ```
/// use thalweg::kernel::{Cuda, DeviceRegion, RawTask};
/// /// Returns an address in the form that bindings of the CUDA driver take.
/// fn address(cx: &RawTask<'_, Cuda>, region: &impl DeviceRegion) -> u64 {
///     cx.ptr(region) as u64
/// }
/// ```
pub trait DeviceRegion: Sealed {
    /// The type of the elements.
    type Element;

    #[doc(hidden)]
    fn place(&self) -> &DeviceSite;
}

impl<T> DeviceRegion for DeviceView<'_, T> {
    type Element = T;

    fn place(&self) -> &DeviceSite {
        self.site()
    }
}

impl<T> DeviceRegion for DeviceViewMut<'_, T> {
    type Element = T;

    fn place(&self) -> &DeviceSite {
        self.site()
    }
}

fn address(site: &DeviceSite) -> usize {
    site.base + site.offset_bytes
}

/// An interface that bodies can call directly: [`Cuda`], [`Hip`] or [`OpenCl`].
#[doc(hidden)] // no program needs to be generic over it
pub trait RawInterface: Sealed {
    const NAME: &'static str;
}

/// An interface whose device memory has addresses: [`Cuda`] or [`Hip`].
#[doc(hidden)]
pub trait Addressed: RawInterface {}

macro_rules! interfaces {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Debug)]
        pub enum $name {}

        impl Sealed for $name {}

        impl RawInterface for $name {
            const NAME: &'static str = stringify!($name);
        }
    )*};
}

interfaces! {
    /// The interface CUDA, as the parameter of a [`RawTask`].
    Cuda;
    /// The interface HIP, as the parameter of a [`RawTask`].
    Hip;
    /// The interface OpenCL, as the parameter of a [`RawTask`].
    OpenCl;
}

impl Addressed for Cuda {}
impl Addressed for Hip {}

/// A task whose body calls the interface `I` itself. On a stream of CUDA or HIP, see
/// [`TaskBuilder::cuda`](crate::TaskBuilder::cuda) and [`hip`](crate::TaskBuilder::hip); in a queue of OpenCL, see
/// [`TaskBuilder::opencl`](crate::TaskBuilder::opencl), which has an example.
///
/// Addresses are of type `*mut c_void` or `*mut T`; `cast` converts them to the types of your bindings (a `CUstream` or
/// `cudaStream_t`, a `CUcontext`).
///
/// ```
/// use thalweg::prelude::*;
/// # mod library {
/// #     use std::ffi::c_void;
/// #     pub struct Handle(pub usize);
/// #     impl Handle { pub fn on(stream: *mut c_void) -> Result<Self, std::fmt::Error> { Ok(Self(stream.addr())) } }
/// #     pub unsafe fn scale(_: &Handle, _: usize, _: f32, _: *mut f32) -> Result<(), std::fmt::Error> { Ok(()) }
/// # }
/// fn scale(rt: &Runtime, x: &Data<f32>) -> Result<TaskId, SubmitError> {
///     rt.task("scale", (x.inout(),))
///         .cpu(|_, (x,)| x.iter_mut().for_each(|x| *x *= 2.0))
///         .cuda(|cx, (mut x,)| {
///             let address = cx.ptr_mut(&mut x);
///             let handle = cx.keep(library::Handle::on)?; // one for each stream
///             // SAFETY: the work on the task's stream writes only the x.len() elements of its region.
///             unsafe { library::scale(handle, x.len(), 2.0, address) }
///         })
///         .submit()
/// }
/// # let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
/// # let x = rt.data(vec![1.0; 4]);
/// # scale(&rt, &x)?;
/// # assert_eq!(rt.take(x)?, [2.0; 4]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct RawTask<'a, I> {
    launcher: &'a mut dyn Enqueue,
    handles: RawHandles,
    interface: PhantomData<fn() -> I>,
}

impl<'a, I: RawInterface> RawTask<'a, I> {
    pub(crate) fn of(launcher: &'a mut Launcher<'_>) -> Result<Self, DeviceError> {
        let launcher = launcher.device();
        let handles = launcher.raw()?;
        Ok(Self { launcher, handles, interface: PhantomData })
    }

    /// Returns a value that is kept with the stream or queue, such as a library handle. The value is created when a
    /// task on this stream first asks for a value of its type; later tasks on the stream get the same value. There are
    /// several streams, each with its own value. To keep two values of the same type, wrap them in different types of
    /// your own.
    ///
    /// The value is dropped when the runtime ends, while the stream still exists and the device is bound to the thread
    /// that drops it. That need not be the thread that made it.
    ///
    /// # Errors
    /// Returns the error of `make`.
    pub fn keep<H, E>(&mut self, make: impl FnOnce(*mut c_void) -> Result<H, E>) -> Result<&mut H, E>
    where
        H: Send + 'static,
    {
        let stream = ptr::with_exposed_provenance_mut(self.handles.stream);
        self.launcher.kept().of(|| make(stream))
    }

    /// For a task across devices, switches to the device of the given part and binds it to the thread. See
    /// [`Launcher::on_part`].
    ///
    /// # Errors
    /// Returns the errors of [`Launcher::on_part`]; also returns an error if the interface fails, or if the part's
    /// device uses a different interface from the one that this body calls.
    pub fn on_part(&mut self, part: usize) -> Result<&mut Self, DeviceError> {
        let interface = self.launcher.interface();
        self.launcher.select(part)?;
        if self.launcher.interface() != interface {
            return Err(DeviceError::OtherInterface { part, interface: self.launcher.interface().keyword() });
        }
        self.handles = self.launcher.raw()?;
        Ok(self)
    }

    /// Returns a launcher that enqueues kernels of a [`Program`](super::Program) in between the work that the body
    /// enqueues itself.
    pub fn launcher(&mut self) -> Launcher<'_> {
        Launcher::new(&mut *self.launcher)
    }

    /// Allocates device memory for `len` elements of `T`.
    fn allocate<T>(&mut self, len: usize) -> Result<*mut c_void, DeviceError> {
        let bytes = len.saturating_mul(size_of::<T>());
        self.launcher.scratch(bytes).map(ptr::with_exposed_provenance_mut)
    }
}

impl<I: RawInterface> fmt::Debug for RawTask<'_, I> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "RawTask<{}>({:?})", I::NAME, self.handles)
    }
}

/// A task on a stream of CUDA or HIP.
impl<I: Addressed> RawTask<'_, I> {
    /// Returns the stream. All work that touches the task's regions must be enqueued on this stream, or be ordered by
    /// events both after the stream's earlier work and before its later work.
    pub fn stream(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.handles.stream)
    }

    /// Returns the device's index.
    pub fn device(&self) -> i32 {
        self.handles.device as i32
    }

    /// Returns the device address of the region's first element. The address must not be dereferenced on the host.
    pub fn ptr<R: DeviceRegion>(&self, region: &R) -> *const R::Element {
        ptr::with_exposed_provenance(address(region.place()))
    }

    /// Like [`ptr`](Self::ptr), for writing.
    pub fn ptr_mut<T>(&self, region: &mut DeviceViewMut<'_, T>) -> *mut T {
        ptr::with_exposed_provenance_mut(address(region.place()))
    }

    /// Allocates device memory for `len` elements, for use by the work that this task enqueues. The contents are
    /// undefined.
    ///
    /// # Errors
    /// Returns an error if the device does not have enough free memory.
    pub fn scratch<T>(&mut self, len: usize) -> Result<*mut T, DeviceError> {
        self.allocate::<T>(len).map(<*mut c_void>::cast)
    }
}

/// A task on a CUDA stream.
impl RawTask<'_, Cuda> {
    /// Returns the device's primary context, which is current.
    pub fn context(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.handles.context)
    }
}

/// A region in an OpenCL buffer.
///
/// ```
/// use thalweg::kernel::{DeviceRegion, OpenCl, OpenClRegion, RawTask};
/// /// Returns the arguments of `clSetKernelArg` for a region: its buffer, and the index of its first element there.
/// fn arguments<R: DeviceRegion>(cx: &RawTask<'_, OpenCl>, region: &R) -> (*mut std::ffi::c_void, u64) {
///     let OpenClRegion { buffer, first_byte } = cx.region(region);
///     (buffer, (first_byte / size_of::<R::Element>()) as u64)
/// }
/// ```
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OpenClRegion {
    /// The buffer, a `cl_mem`. It may also contain regions of other tasks.
    pub buffer: *mut c_void,
    /// Offset of the region in the buffer, in bytes.
    pub first_byte: usize,
}

/// A task in an OpenCL queue.
impl RawTask<'_, OpenCl> {
    /// Returns the queue, an in-order `cl_command_queue`. The runtime does not surround the body's work with
    /// barriers.
    pub fn queue(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.handles.stream)
    }

    /// Returns the `cl_context` that the buffers belong to.
    pub fn context(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.handles.context)
    }

    /// Returns the device's `cl_device_id`.
    pub fn device(&self) -> *mut c_void {
        ptr::with_exposed_provenance_mut(self.handles.device)
    }

    /// Returns the location of a region.
    pub fn region<R: DeviceRegion>(&self, region: &R) -> OpenClRegion {
        let DeviceSite { base, offset_bytes, .. } = *region.place();
        OpenClRegion { buffer: ptr::with_exposed_provenance_mut(base), first_byte: offset_bytes }
    }

    /// Like [`region`](Self::region), for writing.
    pub fn region_mut<T>(&self, region: &mut DeviceViewMut<'_, T>) -> OpenClRegion {
        self.region(region)
    }

    /// Allocates device memory for `len` elements, for use by the work that this task enqueues. The contents are
    /// undefined.
    ///
    /// # Errors
    /// Returns an error if the device does not have enough free memory.
    pub fn scratch<T>(&mut self, len: usize) -> Result<OpenClRegion, DeviceError> {
        Ok(OpenClRegion { buffer: self.allocate::<T>(len)?, first_byte: 0 })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_value_of_each_type_is_kept() {
        let mut kept = Kept::default();
        assert_eq!(*kept.of(|| Ok::<_, ()>(1u32)).unwrap(), 1);
        assert_eq!(*kept.of(|| Ok::<_, ()>(2u32)).unwrap(), 1);
        assert_eq!(kept.of(|| Err::<u64, _>("no")), Err("no"));
        assert_eq!(*kept.of(|| Ok::<_, ()>(3u64)).unwrap(), 3, "a value that could not be made is made later");
        let mut others = Kept::default();
        others.of(|| Ok::<_, ()>(4u64)).unwrap();
        others.of(|| Ok::<_, ()>("new")).unwrap();
        let twice = kept.join(others);
        assert_eq!((twice.0.len(), kept.0.len()), (1, 3));
    }
}
