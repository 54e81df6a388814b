//! Task submission and data registration. They are separate from the [`Runtime`](super::Runtime) that a program owns
//! because bodies use them as well.
//!
//! Dropping a runtime ends it, whereas dropping a door ends nothing. Nothing in this module executes a task or waits.

use super::any_driver::AnyDriver;
use super::capacities::Capacities;
use super::open_scopes::OpenScopes;
use super::release::Releaser;
use crate::depend::running;
use crate::driver::shared::Shared;
use crate::driver::threads::Threads;
use crate::ids::{DataId, DeviceId, SpaceId};
use crate::memory::adopted::{Claim, DeviceArray, ForeignArray, ImportError};
use crate::memory::dlpack::{DlDataType, DlDevice, DlElement, Layout, Tensor};
use crate::memory::{DataCell, Element, HostBuffer, Shape, Unified, shared_pages};
use crate::sync::{InChild, tell_in_child};
use crate::task::{Data, Owner, Token, Value};
use ndarray::{Array, Dimension, IntoDimension};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};

/// The entrance through which tasks and data objects enter the runtime; see the module documentation.
pub(crate) struct Door {
    pub(crate) driver: AnyDriver,
    /// The driver's ID, and whether any of its threads may run any task. Both are stored here because every submission
    /// needs them.
    pub(super) id: u64,
    pub(super) on_fast_path: bool,
    pub(super) capacities: Capacities,
    /// The size of the largest data object whose reductions are combined where they run.
    in_place_bytes: u64,
    owner: Arc<Releaser>,
    next_data: AtomicU64,
    pub(super) scopes: OpenScopes,
    /// A reference to this door, for owners that may outlive the runtime.
    this: Weak<Self>,
}

impl Door {
    pub(super) fn new(driver: AnyDriver, capacities: Capacities) -> Arc<Self> {
        let door = Arc::new_cyclic(|this| Self {
            this: this.clone(),
            id: driver.shared().id,
            on_fast_path: driver.on_fast_path(),
            owner: Arc::new(Releaser::new(&driver)),
            next_data: AtomicU64::new(0),
            scopes: OpenScopes::default(),
            in_place_bytes: in_place_bytes(&driver),
            capacities,
            driver,
        });
        tell_in_child(Arc::downgrade(&door) as Weak<dyn InChild>);
        door
    }

    /// A weak reference to the door.
    pub(super) fn downgrade(&self) -> Weak<Self> {
        self.this.clone()
    }

    /// The state that all threads share.
    pub(super) fn shared(&self) -> &Shared {
        self.driver.shared()
    }

    /// Returns the ID for a new data object.
    pub(super) fn next_data(&self) -> DataId {
        DataId(self.next_data.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers an array of this shape; `home` creates its elements.
    fn register<T: Element, S: Shape>(&self, home: impl FnOnce(DataId) -> HostBuffer, shape: &[usize]) -> Data<T, S> {
        let id = self.next_data();
        Data::new(self.enter(DataCell::new::<T>(self.id, id, shape, home(id))), self.owner())
    }

    /// Registers a new data object. If it is created in a task's body, that task's children may access it.
    pub(super) fn enter(&self, mut cell: DataCell) -> DataCell {
        self.mark(&mut cell);
        if !self.shared().is_in_child() {
            self.driver.register(&cell);
        }
        cell
    }

    /// Records in a new data object where its reductions run, whether a limit of host memory applies to it, and, if a
    /// task's body runs here, that the task's children may access it.
    pub(super) fn mark(&self, cell: &mut DataCell) {
        if self.driver.lets_homes_leave() && !cell.is_own_array() {
            cell.datum.set_adopted_in(SpaceId::HOST); // so the limit does not apply
        }
        if self.in_place_bytes > 0 && cell.datum.bytes() <= self.in_place_bytes {
            cell.datum.set_reduced_in_place();
        }
        if let Some(task) = running::task_here(self.id) {
            cell.datum.set_made_by(task);
        }
    }

    pub(super) fn vector<T: Element>(&self, elements: Vec<T>) -> Data<T> {
        let shape = [elements.len()];
        self.register(|_| HostBuffer::new(elements), &shape)
    }

    pub(super) fn array<T: Element, S: Shape>(&self, array: Array<T, S>) -> Data<T, S> {
        let shape = array.shape().to_vec();
        let elements = if array.is_standard_layout() {
            let (elements, offset) = array.into_raw_vec_and_offset();
            let first = offset.unwrap_or(0);
            let len: usize = shape.iter().product();
            if first == 0 && elements.len() == len { elements } else { elements[first..first + len].to_vec() }
        } else {
            array.iter().copied().collect()
        };
        self.register(|_| HostBuffer::new(elements), &shape)
    }

    #[track_caller]
    pub(super) fn zeros<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        let shape = shape.into_dimension();
        let len = elements_of::<T>(shape.slice());
        if self.driver.simulated().is_some() {
            let phantom = DataCell::phantom::<T>(self.id, self.next_data(), shape.slice());
            return Data::new(phantom, self.owner());
        }
        if self.driver.lets_homes_leave() {
            return Data::new(
                self.enter(DataCell::reserved::<T>(self.id, self.next_data(), shape.slice())),
                self.owner(),
            );
        }
        self.register(|id| HostBuffer::zeros::<T>(len, id.0), shape.slice())
    }

    #[track_caller]
    pub(super) fn zeros_together<T: Element, I: IntoDimension>(
        &self,
        shapes: impl IntoIterator<Item = I>,
    ) -> Vec<Data<T, I::Dim>>
    where
        I::Dim: Shape,
    {
        let shapes: Vec<I::Dim> = shapes.into_iter().map(IntoDimension::into_dimension).collect();
        let mut lens = Vec::with_capacity(shapes.len());
        for shape in &shapes {
            lens.push(elements_of::<T>(shape.slice())); // not in a closure, which would lose the caller's location
        }
        if self.driver.simulated().is_some() {
            return shapes.into_iter().map(|shape| self.zeros(shape)).collect();
        }
        let parts = shared_pages::zeros::<T>(&lens, self.next_data.load(Ordering::Relaxed));
        let register = |(shape, part): (I::Dim, _)| {
            let cell = DataCell::together::<T>(self.id, self.next_data(), shape.slice(), part);
            Data::new(self.enter(cell), self.owner())
        };
        shapes.into_iter().zip(parts).map(register).collect()
    }

    #[track_caller]
    pub(super) fn device_only<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        if self.driver.simulated().is_some() {
            return self.zeros(shape);
        }
        let shape = shape.into_dimension();
        elements_of::<T>(shape.slice());
        Data::new(self.enter(DataCell::reserved::<T>(self.id, self.next_data(), shape.slice())), self.owner())
    }

    #[track_caller]
    pub(super) fn unified<T: Element, I: IntoDimension>(&self, shape: I) -> Data<T, I::Dim>
    where
        I::Dim: Shape,
    {
        let shape = shape.into_dimension();
        let len = elements_of::<T>(shape.slice());
        let real = self.driver.real().filter(|_| !self.shared().is_in_child());
        let home = real.and_then(|threads| {
            let home = Unified::zeros::<T>(threads.unified(len * size_of::<T>())?, len)?;
            Some((threads, home))
        });
        let Some((threads, home)) = home else { return self.zeros(shape) };
        let cell = self.enter(DataCell::unified::<T>(self.id, self.next_data(), shape.slice(), home));
        threads.alias(&cell);
        Data::new(cell, self.owner())
    }

    pub(super) fn adopt<T: DlElement, S: Shape>(&self, tensor: Tensor) -> Result<Data<T, S>, ImportError> {
        let layout = (size_of::<T>(), align_of::<T>());
        Ok(Data::new(self.adopt_as::<T>(tensor, T::DATA_TYPE, S::NDIM, layout)?, self.owner()))
    }

    /// Adopts a tensor whose elements are of this type, size and alignment. If the runtime has to make a home, it
    /// allocates it as `T`, whose alignment is no less.
    pub(super) fn adopt_as<T: Element>(
        &self,
        tensor: Tensor,
        data_type: DlDataType,
        dimensions: Option<usize>,
        element: (usize, usize),
    ) -> Result<DataCell, ImportError> {
        let id = self.next_data();
        let to_adopt = || {
            self.shared().in_own_process().map_err(|forked| forked.to_string())?;
            let layout = tensor.check(data_type, dimensions, element)?;
            let on = self.device_of(tensor.device(), &layout)?;
            let claim = Claim::of(layout.first.addr(), layout.span_bytes, &format!("data object {}", id.0))?;
            Ok((layout, on, claim))
        };
        let (layout, on, claim) = match to_adopt() {
            Ok(found) => found,
            Err(problem) => return Err(ImportError::new(tensor, problem)),
        };
        let Some((threads, device)) = on else {
            let home = ForeignArray::new::<T>(tensor, &layout, claim);
            return Ok(self.enter(DataCell::foreign(self.id, id, &layout, element, home)));
        };
        let home = DeviceArray::new::<T>(tensor, &layout, element.0, claim);
        let cell = self.enter(DataCell::adopted(self.id, id, &layout, element, (device.space(), home)));
        if layout.span_bytes > 0 {
            threads.adopt(&cell.datum, device, layout.first.expose_provenance(), layout.strides);
        }
        Ok(cell)
    }

    /// Returns the device with this memory and the driver's threads, `None` if it is host memory, or the reason why the
    /// memory cannot be adopted.
    fn device_of(&self, memory: DlDevice, layout: &Layout) -> Result<Option<(&Threads, DeviceId)>, String> {
        if memory.is_host() {
            return Ok(None);
        }
        let found = match self.driver.real() {
            Some(threads) => threads
                .device_of(memory, layout.first.expose_provenance(), layout.span_bytes)
                .map(|device| Some((&**threads, device))),
            None => Err("a simulation has no device memory; try a real runtime".to_owned()),
        };
        found.map_err(|problem| format!("it is in {memory}, and {problem}"))
    }

    pub(super) fn value<T: Send + Sync + 'static>(&self, value: T) -> Value<T> {
        Value::new(self.enter(DataCell::value(self.id, self.next_data(), value)), self.owner())
    }

    pub(super) fn token(&self) -> Token {
        Token::new(self.enter(DataCell::token(self.id, self.next_data())), self.owner())
    }

    /// The owner that frees data objects whose handles are gone.
    pub(super) fn owner(&self) -> Weak<dyn Owner> {
        Arc::downgrade(&self.owner) as Weak<dyn Owner>
    }
}

/// Returns the size of the largest data object whose reductions are combined where they run: 0 unless all tasks run on
/// one device, and otherwise so little that the object and its contributions fit the device together.
fn in_place_bytes(driver: &AnyDriver) -> u64 {
    /// The part of a device's memory that the object may take.
    const PART_OF_MEMORY: u64 = 8;
    let machine = &driver.shared().machine;
    let is_one_device = driver.runs_on_devices() && machine.num_devices() == 1 && machine.num_cpu_units() == 0;
    if is_one_device { machine.capacity_bytes(DeviceId(0).space()) / PART_OF_MEMORY } else { 0 }
}

impl InChild for Door {
    fn is_in_child(&self) {
        self.shared().enter_child();
    }
}

/// Returns the number of elements of an array, after checking that its offsets and bytes can be counted.
///
/// # Panics
/// Panics if they cannot be counted.
#[track_caller]
fn elements_of<T>(shape: &[usize]) -> usize {
    assert!(
        is_countable(shape, size_of::<T>()),
        "cannot register an array of {shape:?} elements of {} bytes each: the size overflows `isize`; try smaller \
         extents, or several arrays",
        size_of::<T>()
    );
    shape.iter().product()
}

/// Returns whether the offsets and bytes of an array can be counted. An extent of 0 must not hide the other extents,
/// because strides are computed from them.
pub(super) fn is_countable(shape: &[usize], element_bytes: usize) -> bool {
    let mut extents = shape.iter().filter(|extent| **extent > 0);
    let most = extents.try_fold(element_bytes.max(1), |product, extent| product.checked_mul(*extent));
    most.is_some_and(|most| isize::try_from(most).is_ok())
}

#[cfg(test)]
mod tests {
    use crate::prelude::*;
    use std::sync::atomic::Ordering;

    /// Regression test: 32-bit IDs wrapped around to the IDs of live data objects, whose accesses were then confused.
    #[test]
    fn data_numbers_exceed_32_bits() {
        let rt = Runtime::builder().compute_units("1:CPU:1").build().unwrap();
        let first = rt.data(vec![1u8]);
        rt.door.next_data.store(u32::MAX.into(), Ordering::Relaxed);
        let others = [rt.data(vec![2u8]), rt.data(vec![3u8])];
        let (x, y) = (first.inout(), others[1].inout());
        rt.task("both", (x, y)).cpu(|_, (x, y)| std::mem::swap(&mut x[0], &mut y[0])).submit().unwrap();
        assert_eq!((rt.read(&first).unwrap(), rt.read(&others[1]).unwrap()), (vec![3], vec![1]));
    }
}
