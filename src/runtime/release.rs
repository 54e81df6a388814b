//! Freeing data whose handles are all gone, in the order of dependences.

use super::any_driver::{AnyDriver, WeakDriver};
use crate::depend::{AccessRecord, Mode, Side};
use crate::driver::shared::Description;
use crate::error::SubmitError;
use crate::ids::SpaceId;
use crate::memory::{Declared, Out, Payload};
use crate::task::{Owner, ReleasedCell};
use ndarray::Ix1;
use std::borrow::Cow;
use std::panic::Location;

/// Submits a task for each data object whose handles are gone, which frees it.
pub(super) struct Releaser(WeakDriver);

impl Releaser {
    pub(super) fn new(driver: &AnyDriver) -> Self {
        Self(driver.downgrade())
    }
}

impl Owner for Releaser {
    fn release(&self, ReleasedCell(cell): ReleasedCell) {
        let Some(driver) = self.0.upgrade() else { return };
        // SAFETY of the order: this task overwrites all of the data, so it comes after every task that uses it.
        let whole = cell.datum.whole();
        let record = AccessRecord { datum: &cell.datum, block: &whole, mode: Mode::Out };
        let kept = cell.clone();
        let forget = move |_: &mut [u8]| drop(kept);
        let nothing = Out::<u8, Ix1>(Declared::of_nothing(&cell));
        let payload = Payload::sole(nothing, forget);
        let side = Side { space: Some(SpaceId::HOST), forget: Some(cell.datum.id), ..Side::default() };
        let (name, location) = (Cow::Borrowed("release"), Location::caller());
        let description =
            Description { name, location, priority: 0, internal: true, side: Some(Box::new(side)), parent: None };
        let released = driver.submit(description, payload, &[record], |_| ());
        // Otherwise it was taken between the last look and now, and there is nothing to free.
        if let Err(SubmitError::ShutDown | SubmitError::Broken { .. } | SubmitError::InsidePolicy { .. }) = released {
            driver.shared().keep(cell); // other threads may still be using it
        }
    }
}
