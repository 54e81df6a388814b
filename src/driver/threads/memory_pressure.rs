//! Room for what a body asks for while it is enqueued: scratch memory that the device refuses at first, or kernels whose
//! buffers get their memory only now, as OpenCL's may.
//!
//! The body can't be called again, so here its thread waits: what is idle on the device leaves, and what is in flight there
//! ends. Tasks that are next on this thread can't end before the body does; they give their memory back and come again.
//! What never happens here: no task is run or enqueued.

use super::devices::Devices;
use super::state::Threads;
use crate::device::TaskSession;
use crate::driver::Driver;
use crate::engine::{Event, Hope};
use crate::error::DeviceError;
use crate::ids::DeviceId;
use crate::kernel::{ArgumentValue, Enqueue, Graphs, Kept, KernelText, Limits, RawHandles};
use crate::machine::UnitKind;
use std::time::Duration;

/// How long to sleep between two looks: copies that make room take longer.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// Where room is made, and by which thread.
pub(super) struct Room<'a> {
    pub(super) threads: &'a Threads,
    pub(super) unit: usize,
    pub(super) slot: usize,
    /// Those of the unit.
    pub(super) all: &'a [DeviceId],
    pub(super) devices: &'a Devices,
    pub(super) device: DeviceId,
}

impl Room<'_> {
    /// Has something leave the device, which has refused so many bytes: true if it may be asked again, or else how many bytes
    /// are in use there.
    fn make(&self, bytes: u64) -> Result<(), u64> {
        let Self { threads, devices, device, .. } = self;
        let engine = &threads.shared.engine;
        let before = devices.released();
        self.give_back_next();
        loop {
            let Hope { more_to_come, in_use_bytes } = threads.react(|out| engine.make_room(device.space(), bytes, out));
            let in_flight = devices.queue(*device).has_tasks();
            let ended = threads.collect(self.all, self.slot, devices);
            self.give_back_next(); // copies may have launched others
            match () {
                () if devices.released() != before => return Ok(()),
                () if ended => {}
                () if !more_to_come && !in_flight => return Err(in_use_bytes),
                () => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Tasks of the device that this thread was to enqueue next come back for memory later.
    fn give_back_next(&self) {
        let Self { threads, device, .. } = self;
        let launches: Vec<_> = std::iter::from_fn(|| threads.ready.pop_launch(self.unit)).collect();
        // The first in line is put there last.
        for launch in launches.into_iter().rev() {
            let there = launch.across.as_ref().is_some_and(|across| across.devices.contains(device));
            if there || launch.device == Some(*device) {
                threads.react(|out| threads.shared.engine.on(Event::Refused(launch.task, None), out));
            } else {
                threads.ready.put_launch_back(launch);
            }
        }
    }
}

/// A session that makes room.
pub(super) struct Roomy<'a> {
    pub(super) session: &'a mut dyn TaskSession,
    pub(super) room: &'a Room<'a>,
}

impl Roomy<'_> {
    /// Asks the device again and again, while there is something that could leave. When nothing is left, it is asked once
    /// more: what it refused for others may be there by now.
    fn until_there_is_room<R>(
        &mut self,
        mut ask: impl FnMut(&mut dyn TaskSession) -> Result<R, DeviceError>,
    ) -> Result<R, DeviceError> {
        let mut is_last = false;
        loop {
            match ask(self.session) {
                Err(error @ DeviceError::OutOfMemory { needed_bytes, .. }) => match self.room.make(needed_bytes) {
                    Ok(()) => {}
                    Err(in_use) if is_last => return Err(error.with_in_use(in_use)),
                    Err(_) => is_last = true,
                },
                result => return result,
            }
        }
    }
}

impl Enqueue for Roomy<'_> {
    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError> {
        self.until_there_is_room(|session| session.scratch(bytes))
    }

    fn limits(&self) -> Limits {
        self.session.limits()
    }

    fn launch(
        &mut self,
        kernel: &KernelText,
        groups: [u32; 3],
        arguments: &[ArgumentValue],
    ) -> Result<(), DeviceError> {
        self.until_there_is_room(|session| session.launch(kernel, groups, arguments))
    }

    fn interface(&self) -> UnitKind {
        self.session.interface()
    }

    fn raw(&mut self) -> Result<RawHandles, DeviceError> {
        self.session.raw()
    }

    fn kept(&mut self) -> &mut Kept {
        self.session.kept()
    }

    fn begin_graph(&mut self) {
        self.session.begin_graph();
    }

    fn begin_part(&mut self) {
        self.session.begin_part();
    }

    fn drop_part(&mut self) {
        self.session.drop_part();
    }

    fn launch_graph(&mut self, after: &[Box<[u32]>], known: &mut Graphs) -> Result<(), DeviceError> {
        self.until_there_is_room(|session| session.launch_graph(after, known))
    }
}
