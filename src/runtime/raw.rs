//! Describing bodies that call a device's interface themselves.
//!
//! To the layers below, such a body is one for accelerators that devices of one interface alone can run, and prefer to one
//! for any: it is wrapped here so that it gets a task of that interface in place of a launcher.

use super::record::Recorded;
use super::{LoopBuilder, TaskBuilder};
use crate::kernel::{CudaTask, HipTask, Launcher, OpenClTask};
use crate::machine::UnitKind;
use crate::memory::{AccessList, Common, DeviceBody, IntoOutcome, Keep, Share, SharedDeviceBody, Slot};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

impl<A: Accesses, C, K> TaskBuilder<'_, A, C, K> {
    /// A body for the devices of the interface of this kind of unit.
    pub(super) fn for_interface(mut self, kind: UnitKind, body: DeviceBody<'static, A::Stored>) -> Self {
        let driver = &self.entrance.driver;
        self.kinds = self.kinds.with(kind);
        if kind == UnitKind::OpenCl {
            self.kinds = self.kinds.with(UnitKind::Fpga);
        }
        // What a unit of kind `GPU` has is known here; but it may have several, of which the policy chooses one.
        if driver.all_gpus_are_among(self.kinds) {
            self.kinds = self.kinds.with(UnitKind::Gpu);
        }
        if driver.runs_on_devices() {
            let own = &mut self.for_devices.get_or_insert_default().own;
            own.retain(|(known, _)| *known != kind);
            own.push((kind, body));
        }
        self
    }
}

/// One method of each builder whose body is called more than once. `$life` is how long bodies have to be valid, and `$kept` has
/// the parameters that say so.
macro_rules! raw_body_of {
    ($method:ident, $task:ident, $kind:ident;
     $([$($kept:tt)*] $builder:ty, $accesses:ident, $life:lifetime: $each:literal;)*) => {$(
        impl<$($kept)* A: $accesses, C> $builder {
            #[doc = concat!("As [`TaskBuilder::", stringify!($method), "`]", $each)]
            pub fn $method<F, R>(mut self, body: F) -> Self
            where
                F: for<'t, 'd, 'a> Fn(&'t mut $task<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + Sync
                    + $life,
                R: IntoOutcome + $life,
            {
                let body: SharedDeviceBody<$life, A::Stored> =
                    Arc::new(move |launcher, views| body(&mut $task::of(launcher)?, views).into_outcome());
                let Common(body) = self.sharing().share_device::<A::Stored>(Common(body));
                self.bodies().add_own(UnitKind::$kind, body);
                self
            }
        }
    )*};
}

/// The three methods of each builder, with how a wrapped body is added.
macro_rules! raw_bodies {
    ($(
        $(#[$doc:meta])*
        $method:ident, $task:ident, $kind:ident;
    )*) => {
        impl<'b, A, C, K> TaskBuilder<'_, A, C, K>
        where
            A: Accesses,
            C: Slot<A::Stored>,
            K: Keep<'b>,
        {$(
            $(#[$doc])*
            pub fn $method<F, R>(self, body: F) -> Self
            where
                F: for<'t, 'd, 'a> FnOnce(&'t mut $task<'d>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + 'b,
                R: IntoOutcome + 'b,
            {
                let body = move |launcher: &mut Launcher<'_>, views: <A::Stored as AccessList>::DeviceViews<'_>| {
                    body(&mut $task::of(launcher)?, views).into_outcome()
                };
                let Common(body) = self.keep.device::<A::Stored, _, _>(body);
                self.for_interface(UnitKind::$kind, body)
            }
        )*}

        $(raw_body_of! {
            $method, $task, $kind;
            ['b, K: Share<'b>,] LoopBuilder<'_, A, C, K>, LoopAccesses, 'b: ", for each iteration.";
            [] TaskBuilder<'_, A, C, Recorded<'_, A::Stored>>, Accesses, 'static: ", for each replay.";
        })*
    };
}

raw_bodies! {
    /// A body for CUDA devices that calls CUDA itself, or a library such as cuBLAS, preferred there over the one for all
    /// accelerators. It gets a [`CudaTask`], which has an example, and for every access a view of where the region lies; it
    /// runs on the unit's hosting thread, with the device's context current.
    ///
    /// What it enqueues on the task's stream comes behind the tasks before this one and in front of those behind. It does
    /// not wait for that, and need not: the task ends when all has. It is to touch the declared regions alone, and to write
    /// only what is declared so; the runtime has no means to see to that, which is what the `unsafe` of the calls is about.
    ///
    /// If it returns an error or panics, the task fails with that, when everything it has enqueued has stopped; the stream
    /// goes on with other tasks. If the device is found to be lost by then, it counts as lost.
    ///
    /// A unit of kind `GPU` runs the task if there are bodies for the interfaces of all such units' devices. A second
    /// body replaces the first.
    cuda, CudaTask, Cuda;
    /// A body for HIP devices that calls HIP itself, or a library such as rocBLAS. All is as for [`cuda`](Self::cuda).
    hip, HipTask, Hip;
    /// A body for OpenCL devices that calls OpenCL itself. All is as for [`cuda`](Self::cuda), but that a region lies in a
    /// buffer, from some byte on.
    ///
    /// ```no_run
    /// use thalweg::kernel::OpenClRegion;
    /// use thalweg::prelude::*;
    ///
    /// let rt = Runtime::builder().compute_units("1:OPENCL:1").build()?;
    /// let x = rt.data(vec![1.0f32; 1000]);
    /// rt.task("clear", (x.output(),))
    ///     .opencl(|cx, (mut x,)| {
    ///         let OpenClRegion { buffer, first_byte } = cx.region_mut(&mut x);
    ///         let (zero, bytes) = (0f32, x.len() * size_of::<f32>());
    ///         // SAFETY: the buffer has these bytes, which are the task's; what is filled in is read before this returns.
    ///         let filled = unsafe {
    ///             cl3::command_queue::enqueue_fill_buffer(
    ///                 cx.queue(), buffer, (&raw const zero).cast(), 4, first_byte, bytes, 0, std::ptr::null(),
    ///             )
    ///         };
    ///         let event = filled.map_err(|code| format!("clEnqueueFillBuffer: error {code}"))?;
    ///         // SAFETY: nobody else has the event.
    ///         unsafe { cl3::event::release_event(event) }.map_err(|code| format!("clReleaseEvent: error {code}"))
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [0.0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    opencl, OpenClTask, OpenCl;
}
