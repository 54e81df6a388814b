//! Bodies for devices that are called many times, by the tasks of a loop or by the replays of a recorded task.
//!
//! The builders of loops and recorded tasks take such bodies with the same methods, which are defined here. The body
//! for CPU units is handled separately: it keeps its type, so that it is called without an indirection.

use super::for_each::LoopBuilder;
use super::record::Recorded;
use super::submit::TaskBuilder;
use crate::Context;
use crate::kernel::Launcher;
use crate::machine::UnitKind;
use crate::memory::{
    AccessList, Common, ForDevices, IntoOutcome, Owned, Share, SharedDeviceBody, SharedHostBody, Slot,
};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

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

/// `$life` is the lifetime for which bodies have to be valid; `$kept` contains the corresponding generic parameters.
macro_rules! described_alike {
    ($([$($kept:tt)*] $builder:ty, $accesses:ident, $life:lifetime;)*) => {$(
        impl<$($kept)* A: $accesses, C> $builder {
            /// Sets a body for emulated devices, which prefer it to the body for CPU units.
            pub fn emulated<F, R>(mut self, body: F) -> Self
            where
                F: for<'c, 'a> Fn(&'c Context, <A::Stored as AccessList>::Views<'a>) -> R + Send + Sync + $life,
                R: IntoOutcome + $life,
            {
                let body: SharedHostBody<$life, A::Stored> =
                    Arc::new(move |context, views| body(context, views).into_outcome());
                let Common(body) = self.sharing().share_host::<A::Stored>(Common(body));
                self.bodies().emulated = Some(body);
                self
            }

            /// Sets the body for accelerators, as [`TaskBuilder::gpu`](crate::TaskBuilder::gpu) does.
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
                let Common(body) = self.sharing().share_device::<A::Stored>(Common(body));
                self.bodies().gpu = Some(body);
                self
            }
        }
    )*};
}

described_alike! {
    ['b, K: Share<'b>,] LoopBuilder<'_, A, C, K>, LoopAccesses, 'b;
    [] TaskBuilder<'_, A, C, Recorded<'_, A::Stored>>, Accesses, 'static;
}

impl<A: Accesses, C> TaskBuilder<'_, A, C, Recorded<'_, A::Stored>> {
    pub(super) fn bodies(&mut self) -> &mut Bodies<A::Stored> {
        &mut self.keep.bodies
    }

    pub(super) fn sharing(&self) -> Owned {
        Owned::NOTHING_BORROWED
    }
}
