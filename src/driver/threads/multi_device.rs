//! Tasks across the devices of their unit: a single body, one session per device, and an end when the last session has
//! ended.
//!
//! The unit's hosting thread opens the sessions, calls the body once, and closes the sessions. From then on, each
//! device has its part in flight independently. If a part fails, the task fails immediately, so that nothing more is
//! placed on a lost device. But the task ends only when all of its parts have ended, because the other devices
//! continue to use its memory.
//!
//! There is no ordering between the devices. A kernel on one device may read another device's memory only in regions
//! that the task does not write ([`Sessions::check_reach`]).

use super::accelerators::{Refused, call_body};
use super::devices::Devices;
use super::host::Host;
use super::memory_pressure::{Room, Roomy};
use super::state::Threads;
use crate::depend::{AccessRecord, OwnedTask};
use crate::device::{OnDevice, TaskSession, Took};
use crate::driver::Driver;
use crate::engine::{Across, Command, Event, Launch, Nanos, Outcome, ReplicaRef};
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, UnitId};
use crate::kernel::{ArgumentValue, Enqueue, Graphs, Groups, Kept, KernelText, Limits, RawHandles, Value};
use crate::machine::UnitKind;
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::sync::Arc;

/// A task that is in flight on several devices.
pub(super) struct InParts(Mutex<State>);

struct State {
    /// The task; `None` once it has ended.
    task: Option<OwnedTask>,
    /// The replica that each access uses.
    places: Arc<[ReplicaRef]>,
    /// Number of devices on which the task has not ended yet.
    left: usize,
    /// Whether a part has failed and the engine was notified of the failure.
    failed: bool,
    /// Time on the slowest device so far, in nanoseconds.
    elapsed_ns: Nanos,
    /// Time on all devices together, if they note times.
    on_device: Option<OnDevice>,
}

/// Result of enqueueing a task.
enum Enqueued {
    /// The task is in flight on these devices, of which there may be none. If the task has failed, the second field
    /// contains the device and the error.
    InFlight(Vec<DeviceId>, Option<(DeviceId, DeviceError)>),
    /// A device had no memory for the task, and the body was not called.
    NoMemory(DeviceId, DeviceError),
    /// The task has failed, and no part of it is in flight. The listed devices were lost.
    Failed(FailureReason, Vec<DeviceId>),
}

impl Enqueued {
    /// Classifies an error that occurred before the body was called.
    fn before(device: DeviceId, error: DeviceError) -> Self {
        match Refused::before(error) {
            Refused::NoMemory(error) => Self::NoMemory(device, error),
            Refused::Failed(reason) | Refused::FailedAndLost(reason, _) => {
                let is_loss = matches!(&reason, FailureReason::Device(error) if error.is_loss());
                Self::Failed(reason, if is_loss { vec![device] } else { Vec::new() })
            }
        }
    }
}

impl InParts {
    /// Calls `see` with the task while the lock is held, unless the task has ended.
    pub(super) fn visit(&self, see: &mut dyn FnMut(&OwnedTask)) {
        self.0.lock().task.iter().for_each(see);
    }
}

impl Threads {
    /// Issues a task to several accelerators.
    pub(super) fn issue_across(&self, host: &Host, devices: &Devices, mut launch: Launch, across: &Across) {
        let (engine, slot) = (&self.shared.engine, Some(host.slot()));
        self.react(|out| {
            if let Some(outcome) = self.shared.refusal(&launch.task) {
                return self.shared.end(launch.task, outcome, slot, out);
            }
            let room = |device: &DeviceId| {
                let (unit, slot, all) = (host.unit, host.slot(), &host.devices[..]);
                Room { threads: self, unit, slot, all, devices, device: *device }
            };
            let rooms: Vec<_> = across.devices.iter().map(room).collect();
            let enqueued = host.inside(|| enqueue(self.shared.id, rooms, devices, &mut launch, across));
            let (task, places) = (launch.task, launch.places);
            match enqueued {
                Enqueued::InFlight(on, failure) => {
                    let failed = failure.is_some();
                    if let Some((device, error)) = failure {
                        self.part_failed(&task, device, error, devices, out);
                    }
                    if on.is_empty() {
                        return self.shared.end(task, Outcome::PartFailed, slot, out);
                    }
                    let (id, left) = (task.shared().id, on.len());
                    let state = State { task: Some(task), places, left, failed, elapsed_ns: 0, on_device: None };
                    let parts = Arc::new(InParts(Mutex::new(state)));
                    on.iter().for_each(|device| devices.queue(*device).push_part(id, parts.clone()));
                }
                Enqueued::NoMemory(device, error) => engine.on(Event::Refused(task, Some((device, error))), out),
                Enqueued::Failed(reason, lost) => {
                    lost.iter().for_each(|device| devices.queue(*device).lose());
                    engine.on(Event::PartFailed(&task, &lost, reason), out);
                    self.shared.end(task, Outcome::PartFailed, slot, out);
                }
            }
        });
    }

    /// Ends a device's part of a task. If that was the last part, ends the task as well.
    pub(super) fn part_ended(
        &self,
        parts: &InParts,
        device: DeviceId,
        result: Result<Took, DeviceError>,
        (devices, slot): (&Devices, usize),
        out: &mut Vec<Command>,
    ) {
        let mut state = parts.0.lock();
        match result {
            Ok(Took { elapsed_ns, on_device, .. }) => {
                state.elapsed_ns = state.elapsed_ns.max(elapsed_ns);
                let both = |part: OnDevice| state.on_device.map_or(part, |others| others.with(part));
                state.on_device = on_device.map(both).or(state.on_device);
            }
            Err(error) => {
                let task = state.task.as_ref().expect("the task has not ended on all devices");
                self.part_failed(task, device, error, devices, out);
                state.failed = true;
            }
        }
        state.left -= 1;
        if state.left > 0 {
            return;
        }
        let task = state.task.take().expect("a task ends once");
        if !state.failed
            && let Some(error) = devices.overrun(&task, &state.places)
        {
            self.part_failed(&task, device, error, devices, out);
            state.failed = true;
        }
        let outcome = if state.failed {
            Outcome::PartFailed
        } else {
            task.body().keep();
            Outcome::Done(self.span(state.elapsed_ns))
        };
        let times = (Some(device), state.on_device, None);
        drop(state);
        self.shared.trace_measured(&task, UnitId(slot as u16), times, &outcome);
        self.shared.end(task, outcome, Some(slot), out);
    }

    /// Reports the failure of a device and the resulting failure of the task.
    fn part_failed(
        &self,
        task: &OwnedTask,
        device: DeviceId,
        error: DeviceError,
        devices: &Devices,
        out: &mut Vec<Command>,
    ) {
        devices.lose(Some(device), &error);
        let lost = if error.is_loss() { &[device][..] } else { &[] };
        self.shared.engine.on(Event::PartFailed(task, lost, FailureReason::Device(error)), out);
    }
}

/// Opens a session on each device, calls the body with all sessions, and closes them.
fn enqueue(runtime: u64, rooms: Vec<Room<'_>>, devices: &Devices, launch: &mut Launch, across: &Across) -> Enqueued {
    let Launch { task, places, .. } = launch;
    let sites = match devices.device_sites(task, places) {
        Ok(sites) => sites,
        Err((device, error)) => return Enqueued::before(device, error),
    };
    let number = |device: &DeviceId| across.devices.iter().position(|other| other == device);
    let parts = across.parts.iter().filter_map(number).collect();
    let (mut owners, mut access) = (FxHashMap::default(), 0);
    task.body().accesses(&mut |AccessRecord { datum, block, mode }| {
        // All devices can reach unified memory, so a region in it is identified by its own address.
        let is_everybodys = datum.is_unified() && (!mode.writes() || block.is_empty());
        let owner = places[access].space.device().and_then(|device| number(&device));
        if let Some(owner) = owner.filter(|_| !is_everybodys) {
            let (_, writes) = owners.entry(sites[access].base).or_insert((owner, false));
            *writes |= mode.writes();
        }
        access += 1;
    });
    let mut sessions = Sessions { rooms, sessions: Vec::new(), parts, current: 0, owners };
    for device in &across.devices {
        let accelerator = devices.accelerator(*device).expect("the device is an accelerator");
        match accelerator.open(task.shared().id, &[], &[]) {
            Ok(session) => sessions.sessions.push(session),
            Err(error) => return Enqueued::before(*device, error),
        }
    }
    let Err(reason) = call_body(runtime, task, &mut sessions, &sites) else { return sessions.close(&across.devices) };
    let current = across.devices[sessions.current];
    let is_loss = matches!(&reason, FailureReason::Device(error) if error.is_loss());
    let mut lost = sessions.abandon(&across.devices);
    if is_loss && !lost.contains(&current) {
        lost.push(current); // the error itself reports the loss
    }
    Enqueued::Failed(reason, lost)
}

/// The sessions of one task. One of them is current and receives the enqueued work.
struct Sessions<'a> {
    /// The room of each session, in session order.
    rooms: Vec<Room<'a>>,
    sessions: Vec<Box<dyn TaskSession + 'a>>,
    /// For each part, the index of its session.
    parts: Vec<usize>,
    current: usize,
    /// For each memory handle, the session that owns the memory, and whether the task writes it.
    owners: FxHashMap<usize, (usize, bool)>,
}

impl Sessions<'_> {
    fn roomy(&mut self) -> Roomy<'_> {
        Roomy { session: &mut *self.sessions[self.current], room: &self.rooms[self.current] }
    }

    /// Closes all sessions after the body has enqueued all of its work.
    fn close(self, devices: &[DeviceId]) -> Enqueued {
        let (mut in_flight, mut failure) = (Vec::new(), None);
        for (session, device) in self.sessions.into_iter().zip(devices) {
            let ended =
                if failure.is_none() { session.close(true).map(|_| true) } else { session.abandon().map(|()| false) };
            match ended {
                Ok(true) => in_flight.push(*device),
                Ok(false) => {}
                Err(error) if failure.is_none() => {
                    failure = Some((*device, error));
                }
                Err(_) => {} // the next user of the device will find the error
            }
        }
        Enqueued::InFlight(in_flight, failure)
    }

    /// After the body has failed, waits until all sessions have stopped. Returns the devices that were lost.
    fn abandon(self, devices: &[DeviceId]) -> Vec<DeviceId> {
        let sessions = self.sessions.into_iter().zip(devices);
        let lost = sessions.filter_map(|(session, device)| {
            let loss = session.abandon().err().filter(DeviceError::is_loss)?;
            log!(error, "{loss}");
            Some(*device)
        });
        lost.collect()
    }

    /// Returns whether the current device can reach memory of another device.
    fn reaches(&mut self, base: usize, owner: usize) -> bool {
        let domain = |session: usize| {
            let Room { devices, device, .. } = &self.rooms[session];
            devices.domain(*device)
        };
        owner == self.current || domain(owner) == domain(self.current) && self.sessions[self.current].reach(base)
    }
}

impl Enqueue for Sessions<'_> {
    fn select(&mut self, part: usize) -> Result<(), DeviceError> {
        let parts = self.parts.len();
        self.current = *self.parts.get(part).ok_or(DeviceError::NoPart { part, parts })?;
        Ok(())
    }

    fn reach(&mut self, base: usize) -> bool {
        match self.owners.get(&base) {
            Some((owner, _)) => self.reaches(base, *owner),
            None => true,
        }
    }

    fn check_reach(&mut self, kernel: &KernelText, arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        for ArgumentValue(value) in arguments {
            let Value::Memory { base, .. } = value else { continue };
            let Some((owner, writes)) = self.owners.get(base).copied().filter(|(owner, _)| *owner != self.current)
            else {
                continue;
            };
            let problem = if writes {
                "and the task writes there; try launching it with `Launcher::on_part` on the part that owns the region"
            } else if !self.reaches(*base, owner) {
                "which this device cannot reach; try a region of the part itself, which is copied"
            } else {
                continue;
            };
            return Err(DeviceError::Elsewhere { kernel: kernel.name.to_owned(), problem });
        }
        Ok(())
    }

    fn scratch(&mut self, bytes: usize) -> Result<usize, DeviceError> {
        let base = self.roomy().scratch(bytes)?;
        self.owners.insert(base, (self.current, true));
        Ok(base)
    }

    fn limits(&self) -> Limits {
        self.sessions[self.current].limits()
    }

    fn launch(&mut self, kernel: &KernelText, groups: Groups, arguments: &[ArgumentValue]) -> Result<(), DeviceError> {
        self.roomy().launch(kernel, groups, arguments)
    }

    fn interface(&self) -> UnitKind {
        self.sessions[self.current].interface()
    }

    fn raw(&mut self) -> Result<RawHandles, DeviceError> {
        self.sessions[self.current].raw()
    }

    fn kept(&mut self) -> &mut Kept {
        self.sessions[self.current].kept()
    }

    fn begin_graph(&mut self) {
        unreachable!("recorded tasks use one device");
    }

    fn begin_part(&mut self, _: &[u32]) {
        unreachable!("recorded tasks use one device");
    }

    fn continue_part(&mut self, _: &[u32]) {
        unreachable!("recorded tasks use one device");
    }

    fn drop_part(&mut self) {
        unreachable!("recorded tasks use one device");
    }

    fn launch_graph(&mut self, _: &mut Graphs) -> Result<(), DeviceError> {
        unreachable!("recorded tasks use one device");
    }
}
