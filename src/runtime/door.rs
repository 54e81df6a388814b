//! What submitting takes, apart from the runtime that a program owns: bodies get to it as well.
//!
//! A [`Runtime`](super::Runtime) is ended by whoever drops it; a door ends nothing. Nothing here executes a task or waits.

use super::any_driver::AnyDriver;
use super::capacities::Capacities;
use super::release::Releaser;
use crate::depend::running;
use crate::driver::shared::Shared;
use crate::ids::DataId;
use crate::memory::{DataCell, Element, HostBuffer, Shape};
use crate::task::{Data, Owner};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Weak};

/// Where tasks and data objects enter; see the module.
pub(crate) struct Door {
    pub(crate) driver: AnyDriver,
    /// The driver's id, and whether any of its threads may run any task: asked for by every submission.
    pub(super) id: u64,
    pub(super) on_fast_path: bool,
    pub(super) configuration: String,
    pub(super) capacities: Capacities,
    owner: Arc<Releaser>,
    next_data: AtomicU32,
}

impl Door {
    pub(super) fn new(driver: AnyDriver, configuration: String, capacities: Capacities) -> Self {
        Self {
            id: driver.shared().id,
            on_fast_path: driver.on_fast_path(),
            owner: Arc::new(Releaser::new(&driver)),
            next_data: AtomicU32::new(0),
            configuration,
            capacities,
            driver,
        }
    }

    /// What all threads share.
    pub(super) fn shared(&self) -> &Shared {
        self.driver.shared()
    }

    /// A new data object's id.
    pub(super) fn next_data(&self) -> DataId {
        DataId(self.next_data.fetch_add(1, Ordering::Relaxed))
    }

    /// Registers an array of this shape, whose elements `home` gives.
    pub(super) fn register<T: Element, S: Shape>(
        &self,
        home: impl FnOnce(DataId) -> HostBuffer,
        shape: &[usize],
    ) -> Data<T, S> {
        let id = self.next_data();
        let mut cell = DataCell::new::<T>(self.id, id, shape, home(id));
        if let Some(task) = running::with_task(self.id, |task| task.shared().id) {
            cell.datum.set_made_by(task);
        }
        self.driver.register(&cell);
        self.handle(cell)
    }

    pub(super) fn handle<T: Element, S: Shape>(&self, cell: DataCell) -> Data<T, S> {
        let owner: Weak<dyn Owner> = Arc::downgrade(&self.owner) as Weak<dyn Owner>;
        Data::new(cell, owner)
    }
}
