//! Builder methods for bodies that call a device's interface directly.
//!
//! The layers below treat such a body as a body for accelerators that only devices of one interface can run, and that
//! these devices prefer to a body for any accelerator. This module wraps the body so that it gets a task of that
//! interface instead of a launcher.

use super::for_each::LoopBuilder;
use super::record::Recorded;
use super::submit::TaskBuilder;
use crate::kernel::{Cuda, Hip, Launcher, OpenCl, RawTask};
use crate::machine::UnitKind;
use crate::memory::{AccessList, Common, DeviceBody, IntoOutcome, Keep, Share, SharedDeviceBody, Slot};
use crate::task::{Accesses, LoopAccesses};
use std::sync::Arc;

impl<A: Accesses, C, K> TaskBuilder<'_, A, C, K> {
    /// Adds a body for devices of the interface that this kind of unit uses.
    pub(super) fn for_interface(mut self, kind: UnitKind, body: DeviceBody<'static, A::Stored>) -> Self {
        let driver = &self.entrance.driver;
        self.kinds = self.kinds.with(kind);
        if kind == UnitKind::OpenCl {
            self.kinds = self.kinds.with(UnitKind::Fpga);
        }
        // The interfaces of all units of kind `GPU` are known here. There may be several such units, and the policy
        // chooses one of them.
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

/// Defines one method of each builder whose bodies are called more than once. `$life` is the lifetime for which bodies
/// have to be valid; `$kept` contains the corresponding generic parameters.
macro_rules! raw_body_of {
    ($method:ident, $kind:ident;
     $([$($kept:tt)*] $builder:ty, $accesses:ident, $life:lifetime: $each:literal;)*) => {$(
        impl<$($kept)* A: $accesses, C> $builder {
            #[doc = concat!("As [`TaskBuilder::", stringify!($method), "`]", $each)]
            pub fn $method<F, R>(mut self, body: F) -> Self
            where
                F: for<'t, 'd, 'a> Fn(&'t mut RawTask<'d, $kind>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + Sync
                    + $life,
                R: IntoOutcome + $life,
            {
                let body: SharedDeviceBody<$life, A::Stored> =
                    Arc::new(move |launcher, views| body(&mut RawTask::<$kind>::of(launcher)?, views).into_outcome());
                let Common(body) = self.sharing().share_device::<A::Stored>(Common(body));
                self.bodies().add_own(UnitKind::$kind, body);
                self
            }
        }
    )*};
}

/// Defines the three methods of each builder; `$kind` is the interface, and the kind of its units.
macro_rules! raw_bodies {
    ($(
        $(#[$doc:meta])*
        $method:ident, $kind:ident;
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
                F: for<'t, 'd, 'a> FnOnce(&'t mut RawTask<'d, $kind>, <A::Stored as AccessList>::DeviceViews<'a>) -> R
                    + Send
                    + 'b,
                R: IntoOutcome + 'b,
            {
                let body = move |launcher: &mut Launcher<'_>, views: <A::Stored as AccessList>::DeviceViews<'_>| {
                    body(&mut RawTask::<$kind>::of(launcher)?, views).into_outcome()
                };
                let Common(body) = self.keep.device::<A::Stored, _, _>(body);
                self.for_interface(UnitKind::$kind, body)
            }
        )*}

        $(raw_body_of! {
            $method, $kind;
            ['b, K: Share<'b>,] LoopBuilder<'_, A, C, K>, LoopAccesses, 'b: ", for each iteration.";
            [] TaskBuilder<'_, A, C, Recorded<'_, A::Stored>>, Accesses, 'static: ", for each replay.";
        })*
    };
}

raw_bodies! {
    /// Sets a body for CUDA devices that calls CUDA, or a library such as cuBLAS, directly. CUDA devices prefer it to
    /// the body for all accelerators. The body gets a [`RawTask`] (whose documentation has an example), and for every
    /// access a view of the region's memory. It runs on the unit's hosting thread, where the device's context is
    /// current.
    ///
    /// The work that it enqueues on the task's stream comes after the work of all earlier tasks and before the work of
    /// all later tasks. The body does not wait for this work, and need not, because the task ends when all of it has
    /// ended. The work must touch only the declared regions, and write only regions declared for writing. The runtime
    /// cannot check this, which is why the calls are `unsafe`.
    ///
    /// If the body returns an error or panics, the task fails with that error once all work that it has enqueued has
    /// stopped; the stream continues with other tasks. If the device turns out to be lost by then, it counts as lost.
    ///
    /// A unit of kind `GPU` can run the task only if there are bodies for the interfaces of the devices of all such
    /// units. A second call replaces the body.
    cuda, Cuda;
    /// Sets a body for HIP devices that calls HIP, or a library such as rocBLAS, directly. In other respects it is like
    /// [`cuda`](Self::cuda).
    hip, Hip;
    /// Sets a body for OpenCL devices that calls OpenCL directly. It is like [`cuda`](Self::cuda), except that a region
    /// is at an offset in a buffer.
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
    ///         // SAFETY: the buffer has these bytes, which are the task's.
    ///         // The call reads the pattern before it returns.
    ///         let filled = unsafe {
    ///             cl3::command_queue::enqueue_fill_buffer(
    ///                 cx.queue(), buffer, (&raw const zero).cast(), 4, first_byte, bytes, 0, std::ptr::null(),
    ///             )
    ///         };
    ///         let event = filled.map_err(|code| format!("clEnqueueFillBuffer: error {code}"))?;
    ///         // SAFETY: the event has no other owner.
    ///         unsafe { cl3::event::release_event(event) }.map_err(|code| format!("clReleaseEvent: error {code}"))
    ///     })
    ///     .submit()?;
    /// assert_eq!(rt.take(x)?, [0.0; 1000]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    opencl, OpenCl;
}
