//! What the tasks of a loop share, and the replays of a recorded task: bodies that are called many times, a priority, and the
//! device that all are for.
//!
//! The builders of both describe them by the same methods, which are here. The body for CPU units is none of these: it
//! keeps its type, so that it is called without a pointer to it.

use super::for_each::LoopBuilder;
use super::record::{LoopRecorder, TaskRecorder};
use super::submit::TaskBuilder;
use crate::Context;
use crate::error::BoxError;
use crate::ids::DeviceId;
use crate::kernel::Launcher;
use crate::machine::UnitKind;
use crate::memory::{AccessList, ForDevices, IntoOutcome, Slot};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

type Emulated<S> =
    Arc<dyn for<'c, 'a> Fn(&'c Context, <S as AccessList>::Views<'a>) -> Result<(), BoxError> + Send + Sync>;

/// What a task or a loop has beside its body for CPU units.
pub(super) struct Bodies<S: AccessList> {
    /// Whether the one for CPU units is for no others.
    pub(super) host_only: bool,
    pub(super) priority: i32,
    pub(super) device: Option<DeviceId>,
    pub(super) emulated: Option<Emulated<S>>,
    pub(super) gpu: Option<ForDevices<S>>,
    /// Those for one interface, by the kind of its units.
    pub(super) own: Vec<(UnitKind, ForDevices<S>)>,
}

impl<S: AccessList> Default for Bodies<S> {
    fn default() -> Self {
        Self { host_only: false, priority: 0, device: None, emulated: None, gpu: None, own: Vec::new() }
    }
}

impl<S: AccessList> Clone for Bodies<S> {
    fn clone(&self) -> Self {
        let (emulated, gpu, own) = (self.emulated.clone(), self.gpu.clone(), self.own.clone());
        Self { emulated, gpu, own, ..*self }
    }
}

impl<S: AccessList> Bodies<S> {
    /// Adds a body for the devices of one interface; a second one replaces the first.
    pub(super) fn add_own<F>(&mut self, kind: UnitKind, body: F)
    where
        F: for<'l, 'd, 'a> Fn(&'l mut Launcher<'d>, S::DeviceViews<'a>) -> Result<(), BoxError> + Send + Sync + 'static,
    {
        self.own.retain(|(known, _)| *known != kind);
        self.own.push((kind, Arc::new(body)));
    }

    /// Gives a task all of these.
    pub(super) fn give<'t, A, C>(&self, task: TaskBuilder<'t, A, C>) -> TaskBuilder<'t, A, C>
    where
        A: Accesses<Stored = S>,
        C: Slot<S>,
    {
        let mut task = task.priority(self.priority);
        if let Some(device) = self.device {
            task = task.on_device(device);
        }
        if let Some(body) = self.emulated.clone() {
            task = task.emulated(move |context, views| body(context, views));
        }
        if let Some(body) = self.gpu.clone() {
            task = task.gpu(move |launcher, views| body(launcher, views));
        }
        for (kind, body) in &self.own {
            let body = body.clone();
            task = task.for_interface(*kind, move |launcher, views| body(launcher, views));
        }
        task
    }
}

macro_rules! described_alike {
    ($($builder:ident of $accesses:ident;)*) => {$(
        impl<A: $accesses, C> $builder<'_, A, C> {
            /// A body for emulated devices, preferred there over the one for CPU units.
            pub fn emulated<F, R>(mut self, body: F) -> Self
            where
                F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + 'static,
                R: IntoOutcome + 'static,
            {
                self.bodies().emulated = Some(Arc::new(move |context, views| body(context, views).into_outcome()));
                self
            }

            /// The body for accelerators, as [`TaskBuilder::gpu`](crate::TaskBuilder::gpu) takes it.
            pub fn gpu<F, R>(mut self, body: F) -> Self
            where
                F: for<'l, 'd, 'a> Fn(&'l mut Launcher<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + Sync
                    + 'static,
                R: IntoOutcome + 'static,
            {
                self.bodies().gpu = Some(Arc::new(move |launcher, views| body(launcher, views).into_outcome()));
                self
            }

            /// Among ready tasks, larger priorities go first. A hint; the default is 0.
            pub fn priority(mut self, priority: i32) -> Self {
                self.bodies().priority = priority;
                self
            }
        }
    )*};
}

described_alike! {
    LoopBuilder of LoopAccesses;
    TaskRecorder of Accesses;
    LoopRecorder of LoopAccesses;
}

impl<A: Accesses, C> TaskRecorder<'_, A, C> {
    /// The task runs on this device, as [`TaskBuilder::on_device`](crate::TaskBuilder::on_device) says. An index of an
    /// iteration space goes before it.
    pub fn on_device(mut self, device: DeviceId) -> Self {
        self.bodies().device = Some(device);
        self
    }
}
