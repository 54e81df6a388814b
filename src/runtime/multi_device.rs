//! Description of tasks that run across all devices of their unit.
//!
//! The placement of the parts is in `engine/placement/multi_device.rs`.

use super::submit::TaskBuilder;
use crate::task::Accesses;
use std::sync::Arc;

impl<P: Accesses, C, K> TaskBuilder<'_, Vec<P>, C, K> {
    /// Makes the task run on all devices of its unit at once. Each element of the access list is a part, and part `i`
    /// is in the memory of device `i` modulo the number of devices. A single body is called for all parts, once all of
    /// them have arrived. The task ends when all devices have finished the work that the body enqueued, and fails as a
    /// whole.
    ///
    /// Use it for work that needs all devices in one call, such as a collective of a communication library, or kernels
    /// that read each other's memory in place. If the parts are independent, separate tasks are better; see
    /// [`LoopBuilder::spread`](crate::LoopBuilder::spread).
    ///
    /// - A body for accelerators chooses the device to enqueue on with
    ///   [`Launcher::on_part`](crate::kernel::Launcher::on_part), or with [`RawTask::on_part`](crate::kernel::RawTask::on_part)
    ///   and its counterparts. Work on different devices is not ordered.
    /// - A kernel on one part may be passed a region of another part, if no part writes the region and the kernel's
    ///   device can reach the region's memory ([`Launcher::reaches`](crate::kernel::Launcher::reaches)). If the region
    ///   must be copied instead, declare it among the part's own accesses.
    /// - On a unit of cores, of emulated devices or of a single device, the body gets all parts as well. If a device is
    ///   lost before the task has begun, its parts go to the other devices of the unit if they have room, otherwise to
    ///   other units.
    /// - The task begins only after its predecessors have ended, and its successors begin only after it has ended, even
    ///   on devices.
    ///
    /// If both `across_devices` and `on_device` are called, the last call wins.
    ///
    /// ```
    /// use thalweg::prelude::*;
    /// let rt = Runtime::builder().compute_units("1:EMU:2").build()?;
    /// let (x, y) = (rt.data((0..100).collect::<Vec<i64>>()), rt.zeros::<i64, _>(100));
    /// let parts: Vec<_> = x.blocks(50).iter().zip(&y.blocks(50)).map(|(x, y)| (x.input(), y.output())).collect();
    /// rt.task("rotate", parts)
    ///     .cpu(|_, mut parts| {
    ///         let n = parts.len();
    ///         for part in 0..n {
    ///             let x = parts[(part + 1) % n].0; // the other device's
    ///             parts[part].1.copy_from_slice(x);
    ///         }
    ///     })
    ///     .across_devices()
    ///     .submit()?;
    /// rt.wait()?;
    /// let devices = &rt.machine().units()[0].devices;
    /// assert_eq!(y.slice(50..).valid_in(), [devices[1].space()]);
    /// assert_eq!(rt.take(y)?[49..51], [99, 0]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// With kernels that each read the other device's region in place:
    ///
    /// ```no_run
    /// use thalweg::kernel::{Kernel, Program, Read, Write};
    /// use thalweg::prelude::*;
    ///
    /// const TEXT: &str = "KERNEL(256, 1, 1) copy(IN(double, x, n), OUT(double, y, n), int n)
    ///                     { REGION(x); REGION(y); int i = GLOBAL_ID(0); if (i < n) y[i] = x[i]; }";
    /// // SAFETY: only the first n elements of x and y are touched.
    /// const PROGRAM: Program = unsafe { Program::new("copy.cl", TEXT) };
    /// static COPY: Kernel<(Read<f64>, Write<f64>, i32)> = Kernel::new(&PROGRAM, "copy");
    ///
    /// let rt = Runtime::builder().compute_units("1:CUDA:2").build()?;
    /// let (x, y) = (rt.data(vec![1.0; 1000]), rt.zeros::<f64, _>(1000));
    /// let parts: Vec<_> = x.blocks(500).iter().zip(&y.blocks(500)).map(|(x, y)| (x.input(), y.output())).collect();
    /// rt.task("rotate", parts)
    ///     .gpu(|launcher, parts| {
    ///         let (x, y): (Vec<_>, Vec<_>) = parts.into_iter().unzip();
    ///         for (part, mut y) in y.into_iter().enumerate() {
    ///             let (x, n) = (&x[(part + 1) % x.len()], y.len());
    ///             launcher.on_part(part)?.launch(&COPY, n, (x, &mut y, n as i32))?;
    ///         }
    ///         Ok::<_, DeviceError>(())
    ///     })
    ///     .across_devices()
    ///     .submit()?;
    /// # use thalweg::error::DeviceError;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn across_devices(mut self) -> Self {
        let mut accesses = 0;
        let ends = self.accesses.iter().map(|part| {
            part.visit(&mut |_| accesses += 1);
            accesses
        });
        (self.hints.across, self.hints.device) = (Some(ends.collect::<Arc<[usize]>>()), None);
        self
    }
}
