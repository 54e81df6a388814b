//! Waiting: for all tasks, for a region, for a value.
//!
//! A request for a region is itself a task that reads the region, so dependences, poison and copies to the host need no
//! second mechanism. A thread that hosts a unit executes tasks while it waits; other threads sleep.

use super::admission::Results;
use super::door::Door;
use super::runtime::Runtime;
use crate::depend::{Domain, Side, Submitting, TaskRef, running};
use crate::driver::admission::Description;
use crate::driver::deadlock::{Circle, Vain, key_of_task};
use crate::driver::inside;
use crate::driver::progress::SoFar;
use crate::driver::waiters::{Awaited, own_waker};
use crate::engine::is_asked_by;
use crate::error::{Called, Failures, RunError, SubmitError, TaskFailure};
use crate::ids::{SpaceId, TaskId};
use crate::memory::{DataCell, Element, Payload, Shape};
use crate::sealed::INTERNAL;
use crate::sync::CallSite;
use crate::sync::{Pooled, mapped};
use crate::task::{AccessSpec, Input, IntoRegion, Predecessor, Region, UntypedAccess};
use parking_lot::Mutex;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::Waker;
use std::time::Duration;

impl Runtime {
    /// Waits until every task that any thread has submitted so far is done, including the tasks that its body submits.
    /// The call does not wait for tasks that other threads submit in the meantime.
    ///
    /// Several threads may wait at once. Each call returns every failure that no call had reported when it began, and
    /// the failures that happen during the call among the tasks that it waits for, even if other calls return them
    /// too. [`read`](Self::read), [`take`](Self::take) and similar calls return a failure as well, but they request
    /// data, not tasks: a later `wait` still returns it. Failures that no call of any kind has returned when the
    /// runtime is dropped are written to stderr.
    ///
    /// # Errors
    /// Returns these failures, each with its cause; all other tasks have run. The call is refused inside a body,
    /// because it would wait for itself, and after an internal error of the runtime, because tasks may never finish.
    #[track_caller]
    pub fn wait(&self) -> Result<(), RunError> {
        self.outside_body("wait")?;
        let (_, failures) = self.wait_for_all(None)?;
        if failures.is_empty() { Ok(()) } else { Err(RunError::Failed(Failures(failures))) }
    }

    /// Like [`wait`](Self::wait), but waits for at most `timeout`, which in a simulation is virtual time. Returns
    /// whether all tasks are done.
    ///
    /// If the thread hosts a unit, it executes tasks while it waits, so a body that computes on the thread delays the
    /// return. A body that itself waits does not ([`Builder::use_current_thread`](crate::Builder::use_current_thread)).
    ///
    /// If not all tasks are done, no failure is reported yet.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:CPU:1").build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// rt.task("waits", ()).cpu(move |_, ()| _ = opened.recv()).submit()?;
    /// assert!(!rt.wait_timeout(Duration::from_millis(1))?);
    /// drop(open);
    /// assert!(rt.wait_timeout(Duration::MAX)?);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait).
    #[track_caller]
    pub fn wait_timeout(&self, timeout: Duration) -> Result<bool, RunError> {
        self.outside_body("wait_timeout")?;
        let (done, failures) = self.wait_for_all(Some(self.now().saturating_add(timeout)))?;
        if failures.is_empty() { Ok(done) } else { Err(RunError::Failed(Failures(failures))) }
    }

    /// Waits while too many tasks are pending, as a submission does
    /// ([`max_pending_tasks`](crate::Builder::max_pending_tasks),
    /// [`max_pending_bytes`](crate::Builder::max_pending_bytes)), but at most for `timeout`. Returns whether the
    /// program may continue to submit: there is room, or waiting longer would not help.
    ///
    /// It is meant for programs whose submissions do not wait
    /// ([`throttle_submissions`](crate::Builder::throttle_submissions)). In a body, and in a simulation, the call
    /// returns at once.
    ///
    /// ```
    /// use std::time::Duration;
    /// use thalweg::prelude::*;
    /// let builder = Runtime::builder().compute_units("1:CPU:1").max_pending_tasks(2).throttle_submissions(false);
    /// let rt = builder.build()?;
    /// let (open, opened) = std::sync::mpsc::channel::<()>();
    /// rt.task("waits", ()).cpu(move |_, ()| _ = opened.recv()).submit()?;
    /// assert!(rt.wait_for_room(Duration::ZERO));
    /// for _ in 0..2 {
    ///     rt.task("nothing", ()).cpu(|_, ()| ()).submit()?;
    /// }
    /// assert!(!rt.wait_for_room(Duration::ZERO));
    /// drop(open);
    /// while !rt.wait_for_room(Duration::from_millis(50)) {} // here the program could do something else
    /// rt.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn wait_for_room(&self, timeout: Duration) -> bool {
        let threads = self.door.driver.real().filter(|_| !self.shared().is_in_child());
        threads.is_none_or(|threads| threads.wait_for_room(self.now().saturating_add(timeout)))
    }

    /// Ends the runtime: waits as [`wait`](Self::wait) does, and also for tasks that bodies submit in the meantime.
    /// Then the runtime's threads end, and all later submissions are refused. Data objects can no longer be read, so
    /// [`take`](Self::take) them first.
    ///
    /// Dropping a runtime does the same. However, a runtime in a `static` is never dropped, so tasks that are still
    /// pending when `main` returns are lost unless this method is called. A second call has no effect.
    ///
    /// ```
    /// use std::sync::LazyLock;
    /// use thalweg::prelude::*;
    ///
    /// static RT: LazyLock<Runtime> = LazyLock::new(|| Runtime::builder().compute_units("1:CPU:1").build().unwrap());
    /// RT.task("hello", ()).cpu(|_, ()| println!("hello")).submit()?;
    /// RT.shutdown()?; // without it the task may never run
    /// let refused = RT.task("late", ()).cpu(|_, ()| ()).submit().unwrap_err();
    /// assert_eq!(refused, SubmitError::ShutDown);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As for [`wait`](Self::wait); the runtime has ended nevertheless, unless the call is refused because it is
    /// inside a body.
    #[track_caller]
    pub fn shutdown(&self) -> Result<(), RunError> {
        self.outside_body("shutdown")?;
        self.door.scopes.close("shutdown")?;
        let waited = self.wait();
        self.shared().progress.begin_to_close();
        self.end();
        waited
    }

    /// Waits for all tasks submitted so far, at most until the time `until` on the driver's clock. Returns whether they
    /// are done, and the failures that this call has to report.
    #[track_caller]
    fn wait_for_all(&self, until: Option<Duration>) -> Result<(bool, Vec<Arc<TaskFailure>>), SubmitError> {
        let log = self.shared().engine.failures();
        let begun = log.begin();
        let waited = self.wait_in_rounds(until);
        // A wait that ends before all tasks are done reports none of their failures.
        let failures = log.end(begun, waited.as_ref().ok().copied().flatten().unwrap_or(TaskId(0)));
        let boundary = waited?;
        self.shared().broken()?;
        Ok((boundary.is_some(), failures))
    }

    /// Waits, and returns the ID of the first task that the call does not wait for; `None` if the time has run out.
    #[track_caller]
    fn wait_in_rounds(&self, until: Option<Duration>) -> Result<Option<TaskId>, SubmitError> {
        let shared = self.shared();
        let is_late = || until.is_some_and(|until| self.now() >= until);
        // Tasks that bodies submit are also awaited, so each time there are such tasks, another round is needed.
        loop {
            let nested = shared.nested.load(Ordering::Acquire);
            let so_far = loop {
                match shared.progress.so_far() {
                    Ok(so_far) => break so_far,
                    Err(first) => {
                        if self.wait_for_tasks(first, until)? && is_late() {
                            return Ok(None);
                        }
                    }
                }
                if shared.is_broken() {
                    break SoFar::none();
                }
            };
            let boundary = so_far.boundary;
            if self.wait_for_tasks(so_far, until)? && is_late() {
                return Ok(None);
            }
            if shared.is_broken() || shared.nested.load(Ordering::Acquire) == nested {
                return Ok(Some(boundary));
            }
        }
    }

    /// Waits for these tasks, and returns whether any of them are left.
    #[track_caller]
    fn wait_for_tasks(&self, tasks: SoFar, until: Option<Duration>) -> Result<bool, SubmitError> {
        let left = || self.shared().progress.left(&tasks);
        match until {
            None => {
                let waited = self.door.driver.advance_or_refuse(Awaited::Tasks(tasks.clone()), left);
                waited.map_err(|vain| in_vain("wait", vain))?;
            }
            Some(until) => {
                let left = || if self.now() < until { left() } else { 0 };
                self.door.driver.advance(Awaited::Until(tasks.clone(), until), left);
            }
        }
        Ok(left() > 0)
    }

    /// Waits for a region's value and returns a copy of it: a vector, or an array for several dimensions.
    ///
    /// # Errors
    /// Fails if the region does not belong to this runtime, or its value was lost in a failure.
    #[track_caller]
    pub fn read<'d, T: Element, S: Shape>(&self, region: impl IntoRegion<'d, T, S>) -> Result<S::Owned<T>, RunError> {
        self.may_wait("read")?;
        let region = region.into_region();
        let value = Arc::new(Mutex::new(None));
        let result = value.clone();
        let task = self.door.internal_read(region, "read", SpaceId::HOST, true, move |view| {
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

    /// Copies a region to an address space ahead of the tasks that will need it there. This is only a hint; the call
    /// does not wait.
    ///
    /// # Errors
    /// Fails if the region does not belong to this runtime, or the space does not exist.
    #[track_caller]
    pub fn prefetch<'d, T: Element, S: Shape>(
        &self,
        region: impl IntoRegion<'d, T, S>,
        space: SpaceId,
    ) -> Result<(), SubmitError> {
        self.copy_ahead(region.into_region(), space, "prefetch", false).map(drop)
    }

    /// Waits until the tasks submitted so far have given a region its value, and until that value is in an address
    /// space: `SpaceId::HOST`, or the memory of a device.
    ///
    /// # Errors
    /// As for [`prefetch`](Self::prefetch). Also fails if the value was lost in a failure.
    #[track_caller]
    pub fn fetch<'d, T: Element, S: Shape>(
        &self,
        region: impl IntoRegion<'d, T, S>,
        space: SpaceId,
    ) -> Result<(), RunError> {
        self.may_wait("fetch")?;
        let task = self.copy_ahead(region.into_region(), space, "fetch", true)?;
        self.await_value(&task)
    }

    #[track_caller]
    fn copy_ahead<T: Element, S: Shape>(
        &self,
        region: Region<'_, T, S>,
        space: SpaceId,
        name: &'static str,
        awaited: bool,
    ) -> Result<TaskRef, SubmitError> {
        region.check(self.door.id).map_err(|refusal| refusal.of_task(name)).called_here()?;
        let needed_bytes = (region.len() * size_of::<T>()) as u64;
        self.has_room_for((&region.data.cell, needed_bytes), name, space).called_here()?;
        self.door.internal_read(region, name, space, awaited, |_| ())
    }

    /// Checks that the space exists and has room for this many bytes of a data object.
    pub(super) fn has_room_for(
        &self,
        (cell, needed_bytes): (&DataCell, u64),
        name: &'static str,
        space: SpaceId,
    ) -> Result<(), SubmitError> {
        let count = self.shared().machine.num_spaces();
        if space.index() >= count {
            return Err(SubmitError::NoSuchSpace { space: space.to_string(), count });
        }
        let capacity_bytes = self.machine().capacity_bytes(space);
        if needed_bytes > capacity_bytes && !cell.datum.is_beside(space) {
            return Err(SubmitError::WorkingSet { task: name.into(), needed_bytes, capacity_bytes });
        }
        Ok(())
    }

    #[track_caller]
    pub(super) fn await_value(&self, task: &TaskRef) -> Result<(), RunError> {
        self.door.await_value(task)
    }

    pub(super) fn outside_body(&self, call: &'static str) -> Result<(), SubmitError> {
        self.door.outside_body(call)
    }

    pub(super) fn may_wait(&self, call: &'static str) -> Result<(), SubmitError> {
        self.door.may_wait(call)
    }
}

impl Door {
    /// Submits an internal task that reads `region`; if `awaited`, this thread will wait for it.
    #[track_caller]
    pub(super) fn internal_read<T: Element, S: Shape>(
        &self,
        region: Region<'_, T, S>,
        name: &'static str,
        space: SpaceId,
        awaited: bool,
        body: impl for<'a> FnOnce(S::View<'a, T>) + Send + 'static,
    ) -> Result<TaskRef, SubmitError> {
        let access = region.input();
        access.check(self.id).map_err(|refusal| refusal.of_task(name)).called_here()?;
        let UntypedAccess(record) = access.record();
        if awaited {
            running::ancestry(self.id).admit(name, &[record]).called_here()?; // it would wait for itself
        }
        self.internal_read_for(access, name, space, awaited.then(own_waker), body)
    }

    /// Like [`Self::internal_read`], for a caller that is notified through a waker.
    #[track_caller]
    pub(super) fn internal_read_for<T: Element, S: Shape>(
        &self,
        access: Input<'_, T, S>,
        name: &'static str,
        space: SpaceId,
        awaited_by: Option<Waker>,
        body: impl for<'a> FnOnce(S::View<'a, T>) + Send + 'static,
    ) -> Result<TaskRef, SubmitError> {
        let UntypedAccess(record) = access.record();
        let payload = Payload::sole(access.store(INTERNAL), body);
        let side = Side { space: Some(space), awaited_by, ..Side::default() };
        self.driver.submit(internal(name, side), payload, &[record], Submitting::share).called_here()
    }

    /// Submits a task that comes after all writers of a region and copies the region home. This thread will wait for
    /// the task.
    #[track_caller]
    pub(super) fn bring_home<T: Element, S: Shape>(&self, region: Region<'_, T, S>) -> Result<TaskRef, SubmitError> {
        let access = region.input();
        let UntypedAccess(record) = access.record();
        let payload = Payload::sole(access.store(INTERNAL), |_: S::View<'_, T>| ());
        let side = Side { space: Some(SpaceId::HOST), awaited_by: Some(own_waker()), here: true, ..Side::default() };
        self.driver.submit(internal("scope", side), payload, &[record], Submitting::share)
    }

    /// Waits for an internal task that notifies this thread. In a body, the wait is refused if the task waits for that
    /// body.
    #[track_caller]
    pub(super) fn await_end(&self, task: &TaskRef) -> Result<(), SubmitError> {
        let waited = self.driver.await_told(key_of_task(task), || u64::from(!task.is_finished()));
        waited.map_err(|vain| in_vain(&task.shared().name, vain))?;
        if task.is_finished() { Ok(()) } else { self.shared().broken() }
    }

    /// Like [`Self::await_end`], but never refuses the wait because of what the task waits for.
    #[track_caller]
    pub(super) fn await_end_in_any_case(&self, task: &TaskRef) -> Result<(), SubmitError> {
        self.driver.run_descendants(|| task.is_finished());
        self.driver.advance(Awaited::Told, || u64::from(!task.is_finished()));
        if task.is_finished() { Ok(()) } else { self.shared().broken() }
    }

    /// Waits for a request, an internal task that notifies this thread, and returns its outcome.
    #[track_caller]
    pub(super) fn await_value(&self, task: &TaskRef) -> Result<(), RunError> {
        self.await_end(task)?;
        self.outcome_of(task)
    }

    /// Returns the outcome of a request that has ended. Later waits still report the failure that left the value
    /// missing.
    pub(super) fn outcome_of(&self, task: &TaskRef) -> Result<(), RunError> {
        let Some(failure) = task.poison() else { return Ok(()) };
        self.shared().engine.failures().seen(std::slice::from_ref(&failure));
        Err(RunError::Poisoned(failure))
    }

    /// Refuses a call that would wait for all tasks if it is made inside a task.
    pub(super) fn outside_body(&self, call: &'static str) -> Result<(), SubmitError> {
        self.shared().in_own_process()?;
        self.outside_body_or(call, SubmitError::InsideTask { call })
    }

    /// Like [`Self::outside_body`], but returns the error `inside_task` if the call is made inside a task.
    fn outside_body_or(&self, call: &'static str, inside_task: SubmitError) -> Result<(), SubmitError> {
        match inside::in_body(self.id) {
            true if is_asked_by(self.id) => Err(SubmitError::InsidePolicy { call }),
            true if running::is_part(self.id) => Err(SubmitError::InsideFork { call }),
            true => Err(inside_task),
            false => Ok(()),
        }
    }

    /// Returns the error that refuses a wait because this thread cannot suspend its work.
    pub(super) fn unsuspended(&self, call: &'static str) -> SubmitError {
        if running::is_part(self.id) { SubmitError::InsideFork { call } } else { SubmitError::Unsuspended { call } }
    }

    /// Refuses a wait if this thread could do nothing else while it waits, which is the case inside a task but outside
    /// its body.
    pub(super) fn may_wait(&self, call: &'static str) -> Result<(), SubmitError> {
        self.shared().in_own_process()?;
        if self.driver.may_wait_in_body() {
            return Ok(());
        }
        match running::replayed_here(self.id) {
            Some(_) if running::may_wait(self.id) => Err(SubmitError::InsideReplay { call }),
            _ => self.outside_body_or(call, SubmitError::Unsuspended { call }),
        }
    }

    /// Like [`Self::may_wait`], for a wait for this task only. Inside a replay, a wait is allowed only for descendants
    /// of the same recorded task.
    pub(super) fn may_wait_for(&self, task: &TaskRef, call: &'static str) -> Result<(), SubmitError> {
        match running::replayed_here(self.id) {
            Some(replayed) if self.driver.may_wait_for_children() => self.is_within(replayed, task, call),
            _ => self.may_wait(call),
        }
    }

    /// Refuses to let a task inside a replay wait for a task that does not descend from the same recorded task.
    pub(super) fn is_within(&self, replayed: TaskId, task: &TaskRef, call: &'static str) -> Result<(), SubmitError> {
        let of_task = || task.shared().domain.get().and_then(|domain| domain.replayed());
        if task.is_finished() || of_task() == Some(replayed) { Ok(()) } else { Err(SubmitError::InsideReplay { call }) }
    }

    /// Refuses results that a child of this parent must not wait for.
    pub(super) fn admit_results(&self, parent: &Domain, results: Results<'_>) -> Result<(), SubmitError> {
        let Some(replayed) = parent.replayed() else { return Ok(()) };
        let mut admitted = Ok(());
        results(&mut |Predecessor(task, _)| {
            if admitted.is_ok() {
                admitted = self.is_within(replayed, task, "submit");
            }
        });
        admitted
    }
}

/// Returns the error that refuses a wait that would never end.
#[cold]
pub(super) fn in_vain(call: &str, vain: Vain) -> SubmitError {
    let call = call.to_owned();
    match vain {
        Vain::Circle(Circle { task, submitted_at, way }) => {
            SubmitError::Circular { call, task, submitted_at, way: way.into() }
        }
        Vain::NoStack { task, submitted_at } => SubmitError::NoStack { call, task, submitted_at, stacks: mapped() },
    }
}

#[track_caller]
pub(super) fn internal(name: &'static str, side: Side) -> Description {
    let (name, location) = (Cow::Borrowed(name), CallSite::caller());
    Description { name, location, priority: 0, internal: true, side: Some(Pooled::new(side)), child: None }
}
