//! Bodies for devices that are called many times, by the tasks of a loop or by the replays of a recorded task.
//!
//! The builders of loops and recorded tasks take such bodies with the same methods (`shared_bodies.rs`). The body for
//! CPU units is handled separately: it keeps its type, so that it is called without an indirection.

use super::submit::TaskBuilder;
use crate::machine::UnitKind;
use crate::memory::{AccessList, ForDevices, SharedHostBody, Slot};
use crate::task::Accesses;

/// The bodies of a loop or of a recorded task, except the body for CPU units.
pub(super) struct Bodies<S: AccessList> {
    pub(super) emulated: Option<SharedHostBody<'static, S>>,
    pub(super) gpu: Option<ForDevices<S>>,
    /// Bodies for a single interface, each with the kind of that interface's units.
    pub(super) own: Vec<(UnitKind, ForDevices<S>)>,
}

impl<S: AccessList> Default for Bodies<S> {
    fn default() -> Self {
        Self { emulated: None, gpu: None, own: Vec::new() }
    }
}

impl<S: AccessList> Clone for Bodies<S> {
    fn clone(&self) -> Self {
        Self { emulated: self.emulated.clone(), gpu: self.gpu.clone(), own: self.own.clone() }
    }
}

impl<S: AccessList> Bodies<S> {
    /// Adds a body for the devices of one interface; a second body for the same interface replaces the first.
    pub(super) fn add_own(&mut self, kind: UnitKind, body: ForDevices<S>) {
        self.own.retain(|(known, _)| *known != kind);
        self.own.push((kind, body));
    }

    /// Adds all of these bodies to a task.
    pub(super) fn give<'t, A, C>(&self, mut task: TaskBuilder<'t, A, C>) -> TaskBuilder<'t, A, C>
    where
        A: Accesses<Stored = S>,
        C: Slot<S>,
    {
        if let Some(body) = self.emulated.clone() {
            task = task.emulated(move |context, views| body(context, views));
        }
        if let Some(body) = self.gpu.clone() {
            task = task.gpu(move |launcher, views| body(launcher, views));
        }
        for (kind, body) in &self.own {
            let body = body.clone();
            task = task.for_interface(*kind, Box::new(move |launcher, views| body(launcher, views)));
        }
        task
    }
}
