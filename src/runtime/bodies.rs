//! What the tasks of a loop share, and the replays of a recorded task: bodies that are called many times, a priority, and the
//! device that all are for.
//!
//! The builders of both describe them by the same methods, which are here. The body for CPU units is none of these: it
//! keeps its type, so that it is called without a pointer to it.

use super::for_each::LoopBuilder;
use super::record::{LoopRecorder, TaskRecorder};
use super::submit::TaskBuilder;
use crate::Context;
use crate::depend::Group;
use crate::ids::DeviceId;
use crate::kernel::Launcher;
use crate::machine::UnitKind;
use crate::memory::{AccessList, Common, ForDevices, IntoOutcome, Keep, Owned, SharedDeviceBody, SharedHostBody, Slot};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

/// What a task or a loop has beside its body for CPU units.
pub(super) struct Bodies<S: AccessList> {
    /// Whether the one for CPU units is for no others.
    pub(super) host_only: bool,
    pub(super) priority: i32,
    /// The group that each is a member of, and that group's runtime.
    pub(super) group: Option<(u64, Arc<Group>)>,
    pub(super) device: Option<DeviceId>,
    pub(super) emulated: Option<SharedHostBody<'static, S>>,
    pub(super) gpu: Option<ForDevices<S>>,
    /// Those for one interface, by the kind of its units.
    pub(super) own: Vec<(UnitKind, ForDevices<S>)>,
}

impl<S: AccessList> Default for Bodies<S> {
    fn default() -> Self {
        Self { host_only: false, priority: 0, group: None, device: None, emulated: None, gpu: None, own: Vec::new() }
    }
}

impl<S: AccessList> Clone for Bodies<S> {
    fn clone(&self) -> Self {
        let (group, emulated) = (self.group.clone(), self.emulated.clone());
        Self { group, emulated, gpu: self.gpu.clone(), own: self.own.clone(), ..*self }
    }
}

impl<S: AccessList> Bodies<S> {
    /// Adds a body for the devices of one interface; a second one replaces the first.
    pub(super) fn add_own(&mut self, kind: UnitKind, body: ForDevices<S>) {
        self.own.retain(|(known, _)| *known != kind);
        self.own.push((kind, body));
    }

    /// Gives a task all of these.
    pub(super) fn give<'t, A, C>(&self, task: TaskBuilder<'t, A, C>) -> TaskBuilder<'t, A, C>
    where
        A: Accesses<Stored = S>,
        C: Slot<S>,
    {
        let mut task = task.priority(self.priority);
        task.hints.group.clone_from(&self.group);
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

/// `$life` is how long bodies have to be valid, and `$kept` has the parameters that say so.
macro_rules! described_alike {
    ($([$($kept:tt)*] $builder:ty, $accesses:ident, $life:lifetime;)*) => {$(
        impl<$($kept)* A: $accesses, C> $builder {
            /// A body for emulated devices, preferred there over the one for CPU units.
            pub fn emulated<F, R>(mut self, body: F) -> Self
            where
                F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + $life,
                R: IntoOutcome + $life,
            {
                let body: SharedHostBody<$life, A::Stored> =
                    Arc::new(move |context, views| body(context, views).into_outcome());
                let Common(body) = self.keep().host::<A::Stored>(Common(body));
                self.bodies().emulated = Some(body);
                self
            }

            /// The body for accelerators, as [`TaskBuilder::gpu`](crate::TaskBuilder::gpu) takes it.
            pub fn gpu<F, R>(mut self, body: F) -> Self
            where
                F: for<'l, 'd, 'a> Fn(&'l mut Launcher<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + Sync
                    + $life,
                R: IntoOutcome + $life,
            {
                let body: SharedDeviceBody<$life, A::Stored> =
                    Arc::new(move |launcher, views| body(launcher, views).into_outcome());
                let Common(body) = self.keep().device::<A::Stored>(Common(body));
                self.bodies().gpu = Some(body);
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
    ['b, K: Keep<'b>,] LoopBuilder<'_, A, C, K>, LoopAccesses, 'b;
    [] TaskRecorder<'_, A, C>, Accesses, 'static;
    [] LoopRecorder<'_, A, C>, LoopAccesses, 'static;
}

impl<A: Accesses, C> TaskRecorder<'_, A, C> {
    pub(super) fn keep(&self) -> Owned {
        Owned::NOTHING_BORROWED
    }
}

impl<A: LoopAccesses, C> LoopRecorder<'_, A, C> {
    pub(super) fn keep(&self) -> Owned {
        Owned::NOTHING_BORROWED
    }
}

impl<A: Accesses, C> TaskRecorder<'_, A, C> {
    /// The task runs on this device, as [`TaskBuilder::on_device`](crate::TaskBuilder::on_device) says. An index of an
    /// iteration space goes before it.
    pub fn on_device(mut self, device: DeviceId) -> Self {
        self.bodies().device = Some(device);
        self
    }
}
