//! The runtime as the owner of data objects: requests of their handles, and the release of an object whose handles are
//! all gone, in the order of dependences.

use super::any_driver::{AnyDriver, WeakDriver};
use crate::depend::{AccessRecord, Mode, Side, Submitting, TaskRef};
use crate::driver::admission::Description;
use crate::driver::waiters::own_waker;
use crate::error::SubmitError;
use crate::ids::SpaceId;
use crate::memory::{DataCell, Overwrites, Payload, Unseen};
use crate::region::Block;
use crate::sync::CallSite;
use crate::sync::{Pooled, drop_quietly};
use crate::task::{Owner, ReleasedCell};
use std::borrow::Cow;
use std::sync::Arc;

/// Submits a task that frees each data object whose handles are gone.
pub(super) struct Releaser(WeakDriver);

impl Releaser {
    pub(super) fn new(driver: &AnyDriver) -> Self {
        Self(driver.downgrade())
    }
}

impl Owner for Releaser {
    fn release(&self, ReleasedCell(cell): ReleasedCell) {
        let Some(driver) = self.0.upgrade() else { return };
        if driver.shared().is_in_child() {
            return driver.shared().keep(cell);
        }
        let released = release(&driver, cell.clone(), false);
        // In all other cases, the object has been taken since the last check, so there is nothing to free.
        let is_late = |refusal: &SubmitError| {
            use SubmitError::{Abandoned, Broken, InsidePolicy, ShutDown};
            matches!(refusal, ShutDown | Abandoned | Broken { .. } | InsidePolicy { .. })
        };
        if released.is_err_and(|refusal| is_late(&refusal)) {
            driver.shared().keep(cell);
        }
    }

    fn pin_memory(&self, cell: &DataCell) -> bool {
        self.0.upgrade().is_some_and(|driver| driver.pin_memory(cell))
    }

    fn valid_in(&self, cell: &DataCell, block: &Block) -> Vec<SpaceId> {
        self.0.upgrade().map_or_else(Vec::new, |driver| driver.shared().engine.valid_in(cell.datum.id, block))
    }
}

/// Submits the task that frees the home of a data object after all tasks that use the object. If `awaited`, this thread
/// will wait for the task.
pub(super) fn release(driver: &AnyDriver, cell: Arc<DataCell>, awaited: bool) -> Result<TaskRef, SubmitError> {
    // SAFETY of the order: this task overwrites all of the data, so it comes after every task that uses it.
    let whole = cell.datum.whole();
    let record = AccessRecord { datum: &cell.datum, block: &whole, mode: Mode::Out };
    let kept = cell.clone();
    // The home is dropped here, as a part of a task, whichever thread has the last share of the cell.
    let forget = move |()| drop_quietly(|| drop(kept.take_home()));
    // Access the whole data object, because even after a task that uses it has ended, its children may still use it.
    let payload = Payload::sole(Unseen::<Overwrites>::new(&cell), forget);
    let awaited_by = awaited.then(own_waker);
    let (forget_data, here) = (Some(cell.datum.id), awaited); // an awaited release belongs to a scope: nothing is freed
    let side = Side { space: Some(SpaceId::HOST), forget: forget_data, awaited_by, here, ..Side::default() };
    let (name, location) = (Cow::Borrowed("release"), CallSite::caller());
    let description =
        Description { name, location, priority: 0, internal: true, side: Some(Pooled::new(side)), child: None };
    driver.submit(description, payload, &[record], Submitting::share)
}
