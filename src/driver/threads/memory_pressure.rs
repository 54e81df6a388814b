//! Room for memory that a body requests while it is being enqueued. This is scratch memory that the device refuses at
//! first, or memory of kernel buffers that is allocated only at this point, as OpenCL may do.
//!
//! The body cannot be called again, so its thread waits here while idle replicas are evicted from the device and tasks
//! in flight on the device end. Tasks that this thread would enqueue next cannot end before the body does, so they
//! release their memory and are placed again. This module neither runs nor enqueues tasks.

use super::devices::Devices;
use super::state::Threads;
use crate::device::TaskSession;
use crate::driver::Driver;
use crate::engine::{Event, Hope};
use crate::error::DeviceError;
use crate::ids::DeviceId;
use crate::kernel::{ArgumentValue, Enqueue, Graphs, Groups, Kept, KernelText, Limits, RawHandles, Until};
use crate::machine::UnitKind;
use std::time::Duration;

/// How long to sleep between two checks. Copies that make room take longer than this.
const LOOK_EVERY: Duration = Duration::from_micros(20);

/// The device on which room is made, and the thread that makes the room.
pub(super) struct Room<'a> {
    pub(super) threads: &'a Threads,
    pub(super) unit: usize,
    pub(super) slot: usize,
    /// The devices of the unit.
    pub(super) all: &'a [DeviceId],
    pub(super) devices: &'a Devices,
    pub(super) device: DeviceId,
}

impl Room<'_> {
    /// Evicts idle replicas from the device, which has refused `bytes` bytes. Returns `Ok` if the request may be
    /// retried; otherwise returns the number of bytes in use on the device.
    fn make(&self, bytes: u64) -> Result<(), u64> {
        let Self { threads, devices, device, .. } = self;
        let engine = &threads.shared.engine;
        let before = devices.released();
        self.give_back_next();
        loop {
            let Hope { more_to_come, in_use_bytes } = threads.react(|out| engine.make_room(device.space(), bytes, out));
            let in_flight = devices.queue(*device).has_tasks();
            let ended = threads.collect(self.all, self.slot, devices);
            self.give_back_next(); // completed copies may have launched more tasks
            match () {
                () if devices.released() != before => return Ok(()),
                () if ended => {}
                () if !more_to_come && !in_flight => return Err(in_use_bytes),
                () => std::thread::sleep(LOOK_EVERY),
            }
        }
    }

    /// Hands the device's tasks that this thread would enqueue next back to placement. They get memory later.
    fn give_back_next(&self) {
        let Self { threads, device, .. } = self;
        let launches: Vec<_> = std::iter::from_fn(|| threads.ready.pop_launch(self.unit)).collect();
        // The launches are put back in reverse order, so that the first launch is at the front of the inbox again.
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

/// A session that makes room when the device refuses memory.
pub(super) struct Roomy<'a> {
    pub(super) session: &'a mut dyn TaskSession,
    pub(super) room: &'a Room<'a>,
}

impl Roomy<'_> {
    /// Repeats a request to the device for as long as something could still free memory there. When nothing is left to
    /// free, tries once more, because memory that the device refused before may be available by then.
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

    fn launch(&mut self, kernel: &KernelText, groups: Groups, arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
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

    fn begin_part(&mut self, after: &[u32]) {
        self.session.begin_part(after);
    }

    fn continue_part(&mut self, after: &[u32]) {
        self.session.continue_part(after);
    }

    fn drop_part(&mut self) {
        self.session.drop_part();
    }

    fn launch_loop(&mut self, until: &Until) -> Result<(), DeviceError> {
        self.until_there_is_room(|session| session.launch_loop(until))
    }

    fn launch_graph(&mut self, known: &mut Graphs) -> Result<(), DeviceError> {
        self.until_there_is_room(|session| session.launch_graph(known))
    }
}
