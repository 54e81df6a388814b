//! Waiting: for everything, for a region, for a value.
//!
//! A request for a region is itself a task that reads it, so dependences, poison and transfers home need no second
//! mechanism. Who hosts a unit executes tasks while it waits; others sleep.

use super::Runtime;
use super::core::{Core, Description};
use super::host::Host;
use crate::depend::{Side, Submitting, TaskRef};
use crate::error::{Failures, RunError, SubmitError, TakeError};
use crate::ids::SpaceId;
use crate::memory::{Element, HostBuffer, NoBody, Payload, Shape, Sole};
use crate::task::{AccessSpec, Data, Recorded, Region};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::panic::Location;
use std::sync::Arc;

impl Runtime {
    /// Waits until every task submitted so far is done.
    ///
    /// # Errors
    /// Every failure since the last call, each with its cause; all other tasks have run.
    pub fn wait(&self) -> Result<(), RunError> {
        self.outside_body("wait")?;
        self.wait_until(|| self.core.pending() == 0);
        let failures = self.core.engine.take_failures();
        if failures.is_empty() { Ok(()) } else { Err(RunError::Failed(Failures(failures))) }
    }

    /// Waits until the tasks submitted so far have given this region its value.
    ///
    /// # Errors
    /// If the region is not one of this runtime's, or the value was lost in a failure.
    #[track_caller]
    pub fn wait_on<T: Element, S: Shape>(&self, region: &Region<'_, T, S>) -> Result<(), RunError> {
        self.outside_body("wait_on")?;
        let task = self.internal_read(region, "wait_on", SpaceId::HOST, |_| ())?;
        self.await_value(&task)
    }

    /// Waits for a region's value and returns a copy of it: a vector, or an array for several dimensions.
    ///
    /// # Errors
    /// As for [`wait_on`](Self::wait_on).
    #[track_caller]
    pub fn read<T: Element, S: Shape>(&self, region: &Region<'_, T, S>) -> Result<S::Owned<T>, RunError> {
        self.outside_body("read")?;
        let value = Arc::new(Mutex::new(None));
        let result = value.clone();
        let task = self.internal_read(region, "read", SpaceId::HOST, move |view| {
            *result.lock() = Some(S::to_owned(&view));
        })?;
        self.await_value(&task)?;
        if region.data.cell.datum.phantom {
            let extents = region.block.extents();
            return Ok(S::from_vec(bytemuck::zeroed_vec(region.len()), &extents[..S::NDIM.unwrap_or(1)]));
        }
        let value = value.lock().take();
        Ok(value.expect("the task that reads the value has run"))
    }

    /// Waits for a data of one element and returns it.
    ///
    /// # Errors
    /// As for [`wait_on`](Self::wait_on), or if the data is empty.
    #[track_caller]
    pub fn read_scalar<T: Element>(&self, data: &Data<T>) -> Result<T, RunError> {
        Ok(self.read(&data.slice(0..1))?[0])
    }

    /// Waits for a data object's value and gives it back with its memory; tasks cannot use the data any more.
    ///
    /// # Errors
    /// If the data is not this runtime's or was taken before, or a part of it was lost in a failure. The error has the
    /// handle: the data stays registered, parts that are not lost can still be [`read`](Self::read), and what is lost can
    /// be mended ([`clear`](Self::clear), [`accept`](Self::accept)).
    #[track_caller]
    pub fn take<T: Element, S: Shape>(&self, data: Data<T, S>) -> Result<S::Owned<T>, TakeError<T, S>> {
        match self.try_take(&data) {
            Ok(buffer) => {
                let shape = data.shape();
                let elements = buffer.map_or_else(|| bytemuck::zeroed_vec(data.len()), HostBuffer::into_vec);
                Ok(S::from_vec(elements, &shape))
            }
            Err(error) => Err(TakeError::new(data, error)),
        }
    }

    /// Takes a data's memory, if it has any.
    #[track_caller]
    fn try_take<T: Element, S: Shape>(&self, data: &Data<T, S>) -> Result<Option<HostBuffer>, RunError> {
        self.outside_body("take")?;
        let value = self.internal_read(&data.all(), "take", SpaceId::HOST, |_| ())?;
        self.await_value(&value)?;
        let cell = data.cell.clone();
        let buffer: Arc<Mutex<Option<HostBuffer>>> = Arc::default();
        let result = buffer.clone();
        let everything = data.inout();
        everything.check(self.core.id).map_err(|refusal| refusal.of_task("take"))?;
        let Recorded(record) = everything.record();
        let taking = Sole(move |_: S::ViewMut<'_, T>| *result.lock() = cell.take_buffer());
        let payload = Payload::new((everything.store(),), taking, NoBody, NoBody, true);
        let side = Side { space: Some(SpaceId::HOST), forget: Some(record.datum.id), ..Side::default() };
        let task = self.core.submit(internal("take", side), payload, &[record], Submitting::share)?;
        let datum = &data.cell.datum;
        if let Err(error) = self.await_value(&task) {
            datum.set_taken(false); // lost by a task submitted just before: the rest stays
            return Err(error);
        }
        if datum.phantom {
            return Ok(None);
        }
        if let Some(devices) = self.core.devices() {
            devices.remove_home(datum.id);
        }
        let buffer = buffer.lock().take();
        Ok(Some(buffer.expect("the one task that takes the memory has run")))
    }

    /// Brings a region to an address space ahead of the tasks that will need it there. A hint: nobody waits for it.
    ///
    /// # Errors
    /// If the region is not one of this runtime's, or there is no such space.
    #[track_caller]
    pub fn prefetch<T: Element, S: Shape>(&self, region: &Region<'_, T, S>, space: SpaceId) -> Result<(), SubmitError> {
        self.copy_ahead(region, space, "prefetch").map(drop)
    }

    /// Makes a region valid in an address space, and waits until it is.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch), or if the value was lost in a failure.
    #[track_caller]
    pub fn copy<T: Element, S: Shape>(&self, region: &Region<'_, T, S>, space: SpaceId) -> Result<(), RunError> {
        self.outside_body("copy")?;
        let task = self.copy_ahead(region, space, "copy")?;
        self.await_value(&task)
    }

    #[track_caller]
    fn copy_ahead<T: Element, S: Shape>(
        &self,
        region: &Region<'_, T, S>,
        space: SpaceId,
        name: &'static str,
    ) -> Result<TaskRef, SubmitError> {
        let count = self.core.machine.num_spaces();
        if space.index() >= count {
            return Err(SubmitError::NoSuchSpace { space: space.to_string(), count });
        }
        region.check(self.core.id).map_err(|refusal| refusal.of_task(name))?;
        let needed_bytes = (region.len() * size_of::<T>()) as u64;
        let capacity_bytes = self.capacity_bytes(space);
        if needed_bytes > capacity_bytes {
            return Err(SubmitError::WorkingSet { task: name.to_owned(), needed_bytes, capacity_bytes });
        }
        self.internal_read(region, name, space, |_| ())
    }

    /// Submits a task of the runtime's own that reads `region`.
    #[track_caller]
    fn internal_read<T: Element, S: Shape>(
        &self,
        region: &Region<'_, T, S>,
        name: &'static str,
        space: SpaceId,
        body: impl for<'a> FnOnce(S::View<'a, T>) + Send + 'static,
    ) -> Result<TaskRef, SubmitError> {
        let access = region.input();
        access.check(self.core.id).map_err(|refusal| refusal.of_task(name))?;
        let Recorded(record) = access.record();
        let payload = Payload::new((access.store(),), Sole(body), NoBody, NoBody, true);
        let side = Side { space: Some(space), ..Side::default() };
        self.core.submit(internal(name, side), payload, &[record], Submitting::share)
    }

    fn await_value(&self, task: &TaskRef) -> Result<(), RunError> {
        self.wait_until(|| task.is_finished());
        task.poison().map_or(Ok(()), |cause| Err(RunError::Poisoned(cause)))
    }

    fn outside_body(&self, call: &'static str) -> Result<(), SubmitError> {
        if Host::in_body(self.core.id) { Err(SubmitError::InsideTask { call }) } else { Ok(()) }
    }

    /// Executes tasks, if this thread may, until `done`.
    pub(super) fn wait_until(&self, done: impl Fn() -> bool) {
        let core: &Core = &self.core;
        if let Some(simulation) = core.simulation() {
            return core.simulate_until(simulation, done);
        }
        while !done() {
            let hosted = Host::with(core.id, |host| match (host, &self.seat) {
                (Some(host), Some(seat)) => match seat.try_lock() {
                    Some(_seated) => {
                        host.run_until(core, &done);
                        true
                    }
                    None => false,
                },
                (None, Some(seat)) => match seat.try_lock() {
                    // Unit 0 has no thread of its own, and its host is elsewhere: this thread takes its place.
                    Some(guest) => {
                        Host::enter_inside(core.id);
                        guest.run_until(core, &done);
                        Host::leave_inside();
                        true
                    }
                    None => false,
                },
                _ => false,
            });
            if !hosted {
                core.waiters.sleep_unless(|| done() || self.seat.as_ref().is_some_and(|seat| !seat.is_locked()));
            }
        }
        if self.seat.is_some() {
            core.waiters.wake_all(); // the seat is free again: another waiter may take it
        }
    }
}

#[track_caller]
pub(super) fn internal(name: &'static str, side: Side) -> Description {
    let (name, location) = (Cow::Borrowed(name), Location::caller());
    Description { name, location, priority: 0, internal: true, side: Some(Box::new(side)) }
}
