//! A task's stream and regions as cudarc's types, for bodies that call libraries and kernels through cudarc.
//!
//! cudarc's values free their memory or stream when they are dropped. Invariants:
//! 1. cudarc never destroys a stream of the runtime, because it only borrows the stream.
//! 2. cudarc never frees a region, because its slices stay in a [`Cudarc`], which leaks them. Bodies get views.

use crate::kernel::{Cuda, DeviceRegion, DeviceView, DeviceViewMut, RawTask};
use cudarc::driver::{CudaContext, CudaSlice, CudaStream, CudaView, CudaViewMut, DriverError};
use std::cell::RefCell;
use std::ffi::c_void;
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

/// A stream as cudarc's type. Each stream keeps one.
struct Borrowed(Arc<CudaStream>);

impl Borrowed {
    /// # Safety
    /// The stream belongs to the device's primary context, and exists as long as the result and everything that
    /// retains it.
    unsafe fn new(device: i32, stream: *mut c_void) -> Result<Self, DriverError> {
        let context = CudaContext::new(device as usize)?;
        // SAFETY: this context creates no slices that need events: a region is ordered by the runtime, and the caller
        // of `RawTask::cudarc` orders all other memory that it uses on further streams.
        unsafe { context.disable_event_tracking() };
        // SAFETY: the caller's promise.
        Ok(Self(unsafe { context.wrap_borrowed_stream(stream.cast()) }))
    }
}

/// A task's stream and regions as [cudarc](crate::cudarc)'s types: the result of [`RawTask::cudarc`], which has an
/// example.
pub struct Cudarc {
    stream: Arc<CudaStream>,
    /// The slices that views refer to. Each is a box that only this value frees.
    slices: RefCell<Vec<NonNull<CudaSlice<u8>>>>,
}

impl Cudarc {
    /// Returns the task's stream. The device's primary context is its context.
    pub fn stream(&self) -> &Arc<CudaStream> {
        &self.stream
    }

    /// Returns a region that the task reads. If its elements are not adjacent, the view includes the elements between
    /// them, which may belong to other tasks.
    pub fn view<'v, T>(&'v self, region: &'v DeviceView<'_, T>) -> CudaView<'v, T> {
        let (slice, len) = self.slice(region);
        // SAFETY: the region has elements of this type, and the slice contains `len` of them.
        unsafe { slice.transmute(len) }.expect("the slice has as many bytes")
    }

    /// Like [`view`](Self::view), for writing.
    pub fn view_mut<'v, T>(&'v self, region: &'v mut DeviceViewMut<'_, T>) -> CudaViewMut<'v, T> {
        let (slice, len) = self.slice(region);
        // SAFETY: the region has elements of this type, and the slice contains `len` of them.
        unsafe { slice.transmute_mut(len) }.expect("the slice has as many bytes")
    }

    /// Returns a slice of the bytes from the region's first element to its last, and their number of elements.
    #[allow(clippy::mut_from_ref, reason = "each call returns another slice")]
    fn slice<R: DeviceRegion>(&self, region: &R) -> (&mut CudaSlice<u8>, usize) {
        let (site, bytes) = (region.place(), size_of::<R::Element>());
        let len = site.span();
        let address = (site.base + site.offset_bytes) as u64;
        // SAFETY: the region is in memory that exists until the task has ended. Bytes are valid whatever they are.
        let slice = unsafe { self.stream.upgrade_device_ptr(address, len * bytes) };
        let mut slice = NonNull::from(Box::leak(Box::new(slice)));
        self.slices.borrow_mut().push(slice);
        // SAFETY: the box was just made, nothing else refers to its contents, and only `drop` frees it.
        (unsafe { slice.as_mut() }, len)
    }
}

impl Drop for Cudarc {
    fn drop(&mut self) {
        for slice in self.slices.take() {
            // SAFETY: the box was leaked by `slice`, is in this list once, and the views' lifetimes have ended.
            unsafe { Box::from_raw(slice.as_ptr()) }.leak();
        }
    }
}

impl fmt::Debug for Cudarc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Cudarc").field(&self.stream).finish()
    }
}

/// A task on a CUDA stream, with cudarc.
impl RawTask<'_, Cuda> {
    /// Returns the task's stream and regions as [cudarc](crate::cudarc)'s types, so that its cuBLAS and cuFFT and
    /// kernels written for it work on them. Requires the feature `cuda`.
    ///
    /// A value that retains the stream, such as a `CudaBlas`, belongs in [`keep`](Self::keep). The stream's context
    /// tracks no events: join a further stream with the task's by `CudaStream::join`, before and after.
    ///
    /// # Errors
    /// Returns the driver's error.
    ///
    /// # Safety
    /// The stream, and whatever retains it, must be dropped before the runtime; values in `keep` are. All work that
    /// touches the task's regions must be enqueued on the stream, or be joined with it before the body returns. Work
    /// must touch no elements of a view that do not belong to the region.
    ///
    /// ```
    /// use thalweg::cudarc::driver::DriverError;
    /// use thalweg::prelude::*;
    /// fn copy(rt: &Runtime, x: &Data<f32>, y: &Data<f32>) -> Result<TaskId, SubmitError> {
    ///     rt.task("copy", (x.input(), y.output()))
    ///         .cpu(|_, (x, y)| y.copy_from_slice(x))
    ///         .cuda(|cx, (x, mut y)| {
    ///             // SAFETY: only the copy is enqueued, on the task's stream.
    ///             let cuda = unsafe { cx.cudarc()? };
    ///             let mut y = cuda.view_mut(&mut y);
    ///             cuda.stream().memcpy_dtod(&cuda.view(&x), &mut y)
    ///         })
    ///         .submit()
    /// }
    /// # let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// # let (x, y) = (rt.data(vec![1.0; 4]), rt.data(vec![2.0; 4]));
    /// # copy(&rt, &x, &y)?;
    /// # assert_eq!(rt.take(y)?, [1.0; 4]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub unsafe fn cudarc(&mut self) -> Result<Cudarc, DriverError> {
        let device = self.device();
        // SAFETY: the stream is created in the device's primary context. It is destroyed after the values that are
        // kept with it, and the caller promises to drop all others before the runtime.
        let Borrowed(stream) = self.keep(|stream| unsafe { Borrowed::new(device, stream) })?;
        Ok(Cudarc { stream: stream.clone(), slices: RefCell::default() })
    }
}
