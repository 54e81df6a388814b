//! Methods by which the builders of loops and recorded tasks take bodies that are called many times.

use super::bodies::Bodies;
use super::for_each::LoopBuilder;
use super::record::Recorded;
use super::submit::TaskBuilder;
use crate::Context;
use crate::kernel::Launcher;
use crate::memory::{AccessList, Common, IntoOutcome, Owned, Share, SharedDeviceBody, SharedHostBody};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

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
