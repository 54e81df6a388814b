//! Bodies for accelerators: launches of kernels, and Python callables that enqueue work on their task's stream.

use crate::body::{CANCELLED, Callable, Slot};
use crate::cuda_array::{CUDA, ROCM};
use crate::data::Access;
use crate::device_array::{DeviceArray, Elements};
use crate::kernel::Launch;
use crate::runtime::Shell;
use crate::task::{callable, check};
use pyo3::prelude::*;
use pyo3::types::PyTuple;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use thalweg::TaskBuilder;
use thalweg::dlpack::DlDevice;
use thalweg::dynamic::{AnyAccess, AnyDeviceView};
use thalweg::error::BoxError;
use thalweg::kernel::{Addressed, RawTask};

/// The stream of a body for CUDA or HIP. All work of the body is enqueued on it, and the body does not wait for it.
///
/// `cupy.cuda.ExternalStream(stream.handle)` and `torch.cuda.ExternalStream(stream.handle)` use it, and so do libraries
/// that know `__cuda_stream__`.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Stream {
    /// The address of the stream: a `CUstream` or `hipStream_t`.
    #[pyo3(get)]
    handle: usize,
    /// The index of the device.
    #[pyo3(get)]
    device: i32,
}

#[pymethods]
impl Stream {
    fn __cuda_stream__(&self) -> (i32, usize) {
        (0, self.handle)
    }

    fn __repr__(&self) -> String {
        format!("<thalweg.Stream {:#x} of device {}>", self.handle, self.device)
    }
}

/// A callable with the dimensions that an integer index has removed from each access, as bits; `None` for an access
/// without a view.
struct StreamBody {
    callable: Callable,
    dropped: Vec<Option<u8>>,
}

impl StreamBody {
    /// Calls the callable on the thread that leads the device. `device_type` is DLPack's number.
    fn run<I: Addressed>(
        self,
        raw: &RawTask<'_, I>,
        device_type: i32,
        views: &[AnyDeviceView<'_>],
    ) -> Result<(), BoxError> {
        struct Returned(Arc<AtomicBool>);
        impl Drop for Returned {
            fn drop(&mut self) {
                self.0.store(true, Ordering::Release);
            }
        }
        let returned = Returned(Arc::default());
        let (handle, device) = (raw.stream().addr(), raw.device());
        let array = |view: &AnyDeviceView<'_>, dropped: u8| {
            let kept = |d: &usize| dropped & (1 << d) == 0;
            let list = |list: [usize; 4]| (0..view.ndim()).filter(kept).map(|d| list[d]).collect();
            let elements = Elements {
                first: raw.ptr(view).addr(),
                shape: list(view.extents()),
                strides: list(view.strides()),
                dtype: view.dtype(),
                is_read_only: !view.is_writable(),
                device: DlDevice { device_type, device_id: device },
            };
            DeviceArray::of_body(elements, &returned.0, handle)
        };
        self.callable.run(self.dropped, |py, callable, dropped| {
            let mut arguments = vec![Bound::new(py, Stream { handle, device })?.into_any()];
            for (view, dropped) in views.iter().zip(dropped) {
                if let Some(dropped) = dropped {
                    arguments.push(Bound::new(py, array(view, *dropped))?.into_any());
                }
            }
            callable.call1(PyTuple::new(py, arguments)?)
        })
    }
}

/// A task's bodies for accelerators. At most one of them runs.
pub(crate) struct DeviceBodies {
    launches: Vec<Launch>,
    cuda: Option<StreamBody>,
    hip: Option<StreamBody>,
    slot: Arc<Slot>,
    is_cancelled: Arc<AtomicBool>,
}

type Given<'a, 'py> = Option<&'a Bound<'py, PyAny>>;

impl DeviceBodies {
    /// Returns the bodies, and the state that they share with their task.
    pub(crate) fn new(
        shell: &Shell,
        (gpu, cuda, hip): (Given<'_, '_>, Given<'_, '_>, Given<'_, '_>),
        accesses: &mut dyn Iterator<Item = &Access>,
    ) -> PyResult<(Self, Arc<Slot>)> {
        let slot = Arc::<Slot>::default();
        let dropped: Vec<_> = accesses.map(|access| access.is_shown().then_some(access.dropped)).collect();
        let launches = gpu.map(|gpu| Launch::list(gpu, dropped.len())).transpose()?.unwrap_or_default();
        let on_stream = |given: Given<'_, '_>| {
            let Some(given) = given else { return Ok(None) };
            check(given)?;
            let callable = callable(shell, given, Some(slot.clone()));
            Ok::<_, PyErr>(Some(StreamBody { callable, dropped: dropped.clone() }))
        };
        let (cuda, hip) = (on_stream(cuda)?, on_stream(hip)?);
        let is_cancelled = shell.is_cancelled.clone();
        Ok((Self { launches, cuda, hip, slot: slot.clone(), is_cancelled }, slot))
    }

    /// Returns the name of the first kernel.
    pub(crate) fn name(&self) -> &'static str {
        self.launches.first().map_or("task", Launch::name)
    }

    /// Adds the bodies to a task.
    pub(crate) fn add(self, mut builder: TaskBuilder<'_, Vec<AnyAccess>>) -> TaskBuilder<'_, Vec<AnyAccess>> {
        let Self { launches, cuda, hip, slot, is_cancelled } = self;
        if !launches.is_empty() {
            builder = builder.gpu(move |launcher, views| {
                if !slot.begin() || is_cancelled.load(Ordering::Relaxed) {
                    return Err(BoxError::from(CANCELLED));
                }
                let enqueued = launches.iter().try_for_each(|launch| launch.enqueue(launcher, &views));
                slot.returned(None);
                enqueued.map_err(BoxError::from)
            });
        }
        if let Some(body) = cuda {
            builder = builder.cuda(move |raw, views| body.run(raw, CUDA, &views));
        }
        if let Some(body) = hip {
            builder = builder.hip(move |raw, views| body.run(raw, ROCM, &views));
        }
        builder
    }
}
