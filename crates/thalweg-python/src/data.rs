//! Data objects, their parts, and accesses.

use crate::array::{Home, Layout, MAX_DIMS};
use crate::error::{Refused, run_error, submit_error};
use crate::gil;
use crate::place;
use crate::runtime::Shell;
use numpy::PyUntypedArray;
use pyo3::exceptions::{PyIndexError, PyTypeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyEllipsis, PySlice, PyTuple};
use smallvec::SmallVec;
use std::ops::Range;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::Duration;
use thalweg::dlpack::{DlDevice, Tensor};
use thalweg::dynamic::{AnyAccess, AnyData, AnyRegion, Op};

/// A data object as all its parts know it.
pub(crate) struct Owner {
    pub(crate) shell: Arc<Shell>,
    pub(crate) home: Home,
    /// `None` once the data object was taken.
    data: Mutex<Option<AnyData>>,
    text: String,
    is_readonly: bool,
    returned: Arc<Returned>,
}

/// Whether the runtime has given adopted memory back.
#[derive(Default)]
pub(crate) struct Returned(Mutex<bool>, Condvar);

/// Owner of a tensor of an adopted array. The array is dropped on any thread; without the GIL, the reference is left
/// to the next thread that has it.
pub(crate) struct Lent {
    _array: Py<PyAny>,
    returned: Arc<Returned>,
}

impl Lent {
    pub(crate) fn new(array: Bound<'_, PyAny>) -> (Self, Arc<Returned>) {
        let returned = Arc::<Returned>::default();
        (Self { _array: array.unbind(), returned: returned.clone() }, returned)
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        *self.returned.0.lock().unwrap_or_else(PoisonError::into_inner) = true;
        self.returned.1.notify_all();
    }
}

impl Owner {
    pub(crate) fn data(&self) -> PyResult<AnyData> {
        let data = self.data.lock().unwrap_or_else(PoisonError::into_inner).clone();
        data.ok_or_else(|| self.taken())
    }

    /// Returns a box of the data object.
    #[inline]
    pub(crate) fn block(&self, ranges: &[Range<usize>]) -> PyResult<AnyRegion> {
        // Under the lock, so that the handles are counted once.
        let block = self.data.lock().unwrap_or_else(PoisonError::into_inner).as_ref().map(|data| data.block(ranges));
        block.ok_or_else(|| self.taken())
    }

    #[cold]
    fn taken(&self) -> PyErr {
        Refused::new_err(format!("cannot use {}: it was taken; try registering its array again", self.text))
    }

    /// Submits a task that brings the value home.
    pub(crate) fn settle(&self) {
        if let Ok(data) = self.data() {
            let last = self.shell.rt.task("settle", vec![data.all().inout()]).host(|_, _| ());
            _ = last.submit(); // a missing value stays missing
        }
    }
}

type Ranges = SmallVec<[Range<usize>; MAX_DIMS]>;

/// A data object, or a box in it. Slicing gives boxes, like NumPy's views; integers remove a dimension.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Data {
    owner: Arc<Owner>,
    ranges: Ranges,
    /// The dimensions that an integer index has removed, as bits.
    dropped: u8,
}

/// Registers a NumPy array in place.
#[allow(unsafe_code)] // the tensor is made of a bare address
pub(crate) fn adopt(shell: &Arc<Shell>, array: &Bound<'_, PyAny>, name: Option<String>) -> PyResult<Data> {
    let Ok(array) = array.cast::<PyUntypedArray>() else {
        return Err(PyTypeError::new_err(format!(
            "cannot register {} as data: it is no NumPy array; try `numpy.asarray(x)`, or `from_dlpack` for an array of \
             another library",
            array.get_type().name()?
        )));
    };
    let layout =
        Layout::of(array).map_err(|problem| Refused::new_err(format!("cannot register an array: {problem}")))?;
    let (lent, returned) = Lent::new(array.clone().into_any());
    let data_type = layout.dtype.data_type().expect("numbers have a type of DLPack");
    // SAFETY: `Lent` keeps the array and thereby its elements alive. That only tasks touch them is the caller's
    // promise, as for all NumPy arrays that several threads share.
    let tensor =
        unsafe { Tensor::from_parts(lent, layout.first, DlDevice::HOST, data_type, &layout.shape, &layout.strides) };
    let data = AnyData::from_dlpack(&shell.rt, tensor).map_err(|error| Refused::new_err(error.to_string()))?;
    let home = Home::new(array, &layout);
    Ok(Data::new(shell, data, home, name, !layout.is_writable, returned))
}

impl Data {
    pub(crate) fn new(
        shell: &Arc<Shell>,
        data: AnyData,
        home: Home,
        name: Option<String>,
        is_readonly: bool,
        returned: Arc<Returned>,
    ) -> Self {
        let data = if let Some(name) = &name { data.named(name.clone()) } else { data };
        let ranges = data.shape().into_iter().map(|extent| 0..extent).collect();
        let text = format!("{data:?}");
        let data = Mutex::new(Some(data));
        let owner = Arc::new(Owner { shell: shell.clone(), home, data, text, is_readonly, returned });
        shell.enter(&owner);
        Self { owner, ranges, dropped: 0 }
    }

    fn region(&self) -> PyResult<AnyRegion> {
        self.owner.block(&self.ranges)
    }

    fn extents(&self) -> impl Iterator<Item = usize> {
        let kept = |d: &usize| self.dropped & (1 << d) == 0;
        (0..self.ranges.len()).filter(kept).map(|d| self.ranges[d].len())
    }

    fn part(&self, ranges: Ranges, dropped: u8) -> Self {
        Self { owner: self.owner.clone(), ranges, dropped }
    }

    fn access(&self, mode: Mode) -> PyResult<Access> {
        if self.owner.is_readonly && !matches!(mode, Mode::Input | Mode::After) {
            return Err(Refused::new_err(format!(
                "cannot write {}: its NumPy array is read-only; try registering a copy",
                self.owner.text
            )));
        }
        let (owner, ranges) = (self.owner.clone(), self.ranges.clone());
        Ok(Access { owner, ranges, dropped: self.dropped, mode, held: Mutex::default() })
    }

    fn wait_for(
        &self,
        py: Python<'_>,
        call: &str,
        timeout: Option<Duration>,
        task: &thalweg::TaskHandle,
    ) -> PyResult<()> {
        gil::wait_for(py, call, timeout, task.wait_async())?.map_err(|error| run_error(py, error))
    }
}

#[pymethods]
impl Data {
    /// The number of elements along each dimension.
    #[getter]
    fn shape<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyTuple>> {
        PyTuple::new(py, self.extents().collect::<Vec<_>>())
    }

    /// The number of dimensions.
    #[getter]
    fn ndim(&self) -> usize {
        self.extents().count()
    }

    /// The type of the elements.
    #[getter]
    fn dtype<'py>(&self, py: Python<'py>) -> Bound<'py, PyAny> {
        self.owner.home.descr(py)
    }

    fn __len__(&self) -> PyResult<usize> {
        self.extents().next().ok_or_else(|| PyTypeError::new_err("a part without dimensions has no length"))
    }

    fn __repr__(&self) -> String {
        let all = || self.ranges.iter().map(|range| format!("{}:{}", range.start, range.end)).collect::<Vec<_>>();
        format!("<thalweg.Data [{}] of {}>", all().join(", "), self.owner.text)
    }

    /// Returns a box of this one, as NumPy's basic slicing without steps.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     a = rt.data(np.zeros((4, 6)))
    /// ...     (a[1:3].shape, a[-1].shape, a[..., 2:4].shape)
    /// ((2, 6), (6,), (4, 2))
    fn __getitem__(&self, index: &Bound<'_, PyAny>) -> PyResult<Self> {
        let given: SmallVec<[Bound<'_, PyAny>; 4]> = match index.cast::<PyTuple>() {
            Ok(tuple) => tuple.iter().collect(),
            Err(_) => std::iter::once(index.clone()).collect(),
        };
        let kept: SmallVec<[usize; MAX_DIMS]> =
            (0..self.ranges.len()).filter(|d| self.dropped & (1 << d) == 0).collect();
        let is_ellipsis = |item: &Bound<'_, PyAny>| item.is_instance_of::<PyEllipsis>();
        let ellipses = given.iter().filter(|item| is_ellipsis(item)).count();
        if given.len() - ellipses > kept.len() || ellipses > 1 {
            return Err(PyIndexError::new_err(format!(
                "cannot take [{index}] of {}: it has {} dimensions; try as many indices or fewer",
                self.__repr__(),
                kept.len()
            )));
        }
        let (mut ranges, mut dropped, mut position) = (self.ranges.clone(), self.dropped, 0);
        for item in &given {
            if is_ellipsis(item) {
                position += kept.len() - (given.len() - 1);
                continue;
            }
            let d = kept[position];
            let Range { start, end } = self.ranges[d].clone();
            if let Ok(slice) = item.cast::<PySlice>() {
                let found = slice.indices((end - start) as isize)?;
                if found.step != 1 {
                    return Err(PyIndexError::new_err(format!(
                        "cannot take [{index}] of {}: regions have no steps; try a contiguous range",
                        self.__repr__()
                    )));
                }
                let first = start + found.start as usize;
                ranges[d] = first..first + found.slicelength;
            } else {
                let number: isize = item.extract().map_err(|_| {
                    PyTypeError::new_err(format!(
                        "cannot take [{index}] of {}: a region is a box; try integers, slices and `...`",
                        self.__repr__()
                    ))
                })?;
                let extent = (end - start) as isize;
                let at = if number < 0 { number + extent } else { number };
                if !(0..extent).contains(&at) {
                    return Err(PyIndexError::new_err(format!(
                        "index {number} is out of bounds for {extent} elements"
                    )));
                }
                ranges[d] = start + at as usize..start + at as usize + 1;
                dropped |= 1 << d;
            }
            position += 1;
        }
        Ok(self.part(ranges, dropped))
    }

    /// Returns the boxes of these extents that cover this one, in row-major order; the last ones may be smaller.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     [part.shape for part in rt.data(np.zeros((4, 5))).blocks(4, 2)]
    /// [(4, 2), (4, 2), (4, 1)]
    #[pyo3(signature = (*extents))]
    fn blocks(&self, extents: Vec<usize>) -> PyResult<Vec<Self>> {
        let kept: Vec<usize> = (0..self.ranges.len()).filter(|d| self.dropped & (1 << d) == 0).collect();
        if extents.is_empty() || extents.len() > kept.len() || extents.contains(&0) {
            return Err(PyValueError::new_err(format!(
                "cannot divide {} into blocks of {extents:?}: it has {} dimensions; try an extent of 1 or more for each",
                self.__repr__(),
                kept.len()
            )));
        }
        let mut parts = vec![self.ranges.clone()];
        for (extent, d) in extents.iter().zip(kept) {
            let Range { start, end } = self.ranges[d].clone();
            let pieces = (start..end).step_by(*extent).map(|first| first..first.saturating_add(*extent).min(end));
            let pieces: Vec<_> = pieces.collect();
            let with = |ranges: &Ranges, piece: &Range<usize>| {
                let mut ranges = ranges.clone();
                ranges[d] = piece.clone();
                ranges
            };
            parts = parts.iter().flat_map(|ranges| pieces.iter().map(|piece| with(ranges, piece))).collect();
        }
        Ok(parts.into_iter().map(|ranges| self.part(ranges, self.dropped)).collect())
    }

    /// The task reads the region; its body gets a read-only array.
    fn input(&self) -> PyResult<Access> {
        self.access(Mode::Input)
    }

    /// The task overwrites all of the region and does not read its former content.
    fn output(&self) -> PyResult<Access> {
        self.access(Mode::Output)
    }

    /// The task reads and writes the region.
    fn inout(&self) -> PyResult<Access> {
        self.access(Mode::Inout)
    }

    /// Like `inout`, but the task runs in any order with other commutative tasks, one at a time.
    fn commutative(&self) -> PyResult<Access> {
        self.access(Mode::Commutative)
    }

    /// The task is ordered as if it read the region; its body gets no array.
    fn after(&self) -> PyResult<Access> {
        self.access(Mode::After)
    }

    /// The body gets a private array, which is combined with the region by `"sum"`, `"min"` or `"max"`.
    fn reduction(&self, operation: &str) -> PyResult<Access> {
        let op = match operation {
            "sum" => Op::Sum,
            "min" => Op::Min,
            "max" => Op::Max,
            other => {
                let problem = "the operation is unknown; try `sum`, `min` or `max`";
                return Err(PyValueError::new_err(format!("cannot reduce by `{other}`: {problem}")));
            }
        };
        self.access(Mode::Reduction(op))
    }

    /// Waits for the region's value and returns a copy of it.
    #[pyo3(signature = (timeout = None))]
    #[allow(unsafe_code)] // the task writes to memory of NumPy
    fn read<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        gil::may_wait("read")?;
        let timeout = gil::duration("read", timeout)?;
        if self.owner.shell.has_ended()
            && let Some(array) = self.owner.home.array(py)
        {
            // No task is left, and the value is home.
            let slices: Vec<_> =
                self.ranges.iter().map(|range| PySlice::new(py, range.start as isize, range.end as isize, 1)).collect();
            let part = array.get_item(PyTuple::new(py, slices)?)?;
            return part.call_method1("reshape", (self.shape(py)?,))?.call_method0("copy");
        }
        let (array, copy) = self.owner.home.fresh(py, &self.extents().collect::<Vec<_>>())?;
        let (region, kept, copy) = (self.region()?, array.clone().unbind(), copy.expose_provenance());
        let bytes = region.bytes();
        let task = self.owner.shell.rt.task("read", vec![region.input()]).submitted_at(place::here(py)).host(
            move |_, views| {
                let kept = kept; // so that the array outlives an interrupted wait
                let first = std::ptr::with_exposed_provenance_mut(copy);
                // SAFETY: the array is new, has this number of bytes, and is returned only after this task.
                views[0].copy_to(unsafe { std::slice::from_raw_parts_mut(first, bytes) });
                drop(kept);
            },
        );
        let task = task.submit_handle().map_err(|error| submit_error(&error))?;
        self.wait_for(py, "read", timeout, &task)?;
        Ok(array)
    }

    #[pyo3(signature = (dtype = None, copy = None))]
    fn __array__<'py>(
        &self,
        py: Python<'py>,
        dtype: Option<&Bound<'py, PyAny>>,
        copy: Option<bool>,
    ) -> PyResult<Bound<'py, PyAny>> {
        if copy == Some(false) {
            let problem = "its value is read from the runtime; try `take`, which returns the array itself";
            return Err(PyValueError::new_err(format!("cannot make an array without a copy: {problem}")));
        }
        let read = self.read(py, None)?;
        if let Some(dtype) = dtype { read.call_method1("astype", (dtype,)) } else { Ok(read) }
    }

    /// Submits a task that overwrites the region with these values, which are converted, broadcast and copied now.
    fn write(&self, py: Python<'_>, values: &Bound<'_, PyAny>) -> PyResult<()> {
        let _checked = self.access(Mode::Output)?;
        let numpy = py.import("numpy")?;
        let values = numpy.call_method1("asarray", (values, self.dtype(py)))?;
        let values = numpy.call_method1("broadcast_to", (values, self.shape(py)?))?.call_method0("tobytes")?;
        let bytes = values.cast::<PyBytes>()?.as_bytes().to_vec();
        self.region()?.write(&self.owner.shell.rt, bytes).map_err(|error| submit_error(&error))
    }

    /// Waits for all tasks of the data object, and returns its array itself, which belongs to the caller from now on.
    /// The data object and all its parts can no longer be used.
    ///
    /// >>> import numpy as np, thalweg as tw
    /// >>> a = np.zeros(3)
    /// >>> with tw.Runtime("1:CPU:1") as rt:
    /// ...     x = rt.data(a)
    /// ...     task = rt.task(x.inout())(lambda x: x.fill(1))
    /// ...     x.take() is a
    /// True
    #[pyo3(signature = (timeout = None))]
    fn take<'py>(&self, py: Python<'py>, timeout: Option<f64>) -> PyResult<Bound<'py, PyAny>> {
        gil::may_wait("take")?;
        let timeout = gil::duration("take", timeout)?;
        let owner = &self.owner;
        let Some(array) = owner.home.array(py) else {
            let problem = "its memory belongs to another library; try `read`";
            return Err(Refused::new_err(format!("cannot take {}: {problem}", owner.text)));
        };
        let data = owner.data()?;
        if !owner.shell.has_ended() {
            let access = if owner.is_readonly { data.all().input() } else { data.all().inout() };
            let last = owner.shell.rt.task("take", vec![access]).submitted_at(place::here(py)).host(|_, _| ());
            let last = last.submit_handle();
            self.wait_for(py, "take", timeout, &last.map_err(|error| submit_error(&error))?)?;
        }
        drop(data);
        drop(owner.data.lock().unwrap_or_else(PoisonError::into_inner).take());
        gil::wait(py, "take", timeout, |slice| {
            let is_returned = owner.returned.0.lock().unwrap_or_else(PoisonError::into_inner);
            let waited = owner.returned.1.wait_timeout_while(is_returned, slice, |is_returned| !*is_returned);
            (*waited.unwrap_or_else(PoisonError::into_inner).0).then_some(())
        })?;
        Ok(array.clone())
    }
}

#[derive(Clone, Copy)]
pub(crate) enum Mode {
    Input,
    Output,
    Inout,
    Commutative,
    After,
    Reduction(Op),
}

/// A region and what a task does with it.
#[pyclass(module = "thalweg", frozen)]
pub(crate) struct Access {
    pub(crate) owner: Arc<Owner>,
    ranges: Ranges,
    pub(crate) dropped: u8,
    mode: Mode,
    /// The tensors of the `with` blocks that hold the region.
    pub(crate) held: Mutex<Vec<Tensor>>,
}

impl Access {
    pub(crate) fn any(&self) -> PyResult<AnyAccess> {
        let region = self.owner.block(&self.ranges)?;
        Ok(match self.mode {
            Mode::Input => region.input(),
            Mode::Output => region.output(),
            Mode::Inout => region.inout(),
            Mode::Commutative => region.commutative(),
            Mode::After => region.after(),
            Mode::Reduction(op) => region.reduction(op),
        })
    }

    /// Returns whether the task may write the region.
    pub(crate) fn is_written(&self) -> bool {
        !matches!(self.mode, Mode::Input | Mode::After)
    }

    /// Returns whether the region can be given to code outside of tasks.
    pub(crate) fn can_be_held(&self) -> bool {
        matches!(self.mode, Mode::Input | Mode::Inout)
    }

    /// Returns whether a body gets an array for the access.
    pub(crate) fn is_shown(&self) -> bool {
        !matches!(self.mode, Mode::After)
    }
}
