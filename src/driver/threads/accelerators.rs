//! Tasks on accelerators: the unit's hosting thread enqueues them, and reports each task once it has ended.
//!
//! The hosting thread issues ready tasks and polls for tasks that have ended. It sleeps only after it has requested to
//! be woken by the next completion. Any thread may enqueue copies; it then notifies the hosting thread, which polls
//! for their completion too.

use super::device_queue::InFlight;
use super::devices::Devices;
use super::host::Host;
use super::memory_pressure::{Room, Roomy};
use super::state::Threads;
use crate::depend::{Mode, OwnedTask, running};
use crate::device::{Accelerator, Completion, Contribution, Mark};
use crate::driver::Driver;
use crate::driver::inside::end_child;
use crate::driver::shared::Shared;
use crate::engine::{Event, Launch, Outcome, ReplicaRef, releases_early};
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DeviceId, UnitId};
use crate::kernel::{Combination, DeviceSite, Enqueue, Launcher};
use crate::sync::Birth;
use crate::trace::Stage;
use std::panic::{AssertUnwindSafe, catch_unwind};

impl Threads {
    /// Issues a task to an accelerator.
    pub(super) fn issue(&self, host: &Host, devices: &Devices, device: DeviceId, mut launch: Launch) {
        let accelerator = devices.accelerator(device).expect("the device is an accelerator");
        let Shared { id, engine, .. } = &self.shared;
        self.react(|out| {
            if !(launch.after.is_empty() && launch.combines_after.is_empty()) {
                engine.on(Event::Issuing(&launch.task), out);
            }
            if let Some(outcome) = self.shared.refusal(&launch.task) {
                return self.shared.end(launch.task, outcome, Some(host.slot()), out);
            }
            if self.shared.sanitizes {
                launch.task.owned_mut().get_or_insert_default().awaited = true; // no successor overtakes the comparison
            }
            let room = Room { threads: self, unit: host.unit, slot: host.slot(), all: &host.devices, devices, device };
            let enqueued = host.inside(|| enqueue(*id, devices, &room, accelerator, &mut launch));
            if self.shared.sanitizes && enqueued.is_err() {
                devices.drop_guards(&launch.task);
            }
            match enqueued {
                Ok(share) => {
                    if let Some(tracer) = &self.shared.tracer {
                        tracer.stage(launch.task.shared().id, Stage::Issued);
                    }
                    engine.on(Event::Issued(&launch.task, share), out);
                    devices.queue(device).push(launch.task, launch.places);
                }
                Err(Refused::NoMemory(error)) => engine.on(Event::Refused(launch.task, Some((device, error))), out),
                Err(Refused::Failed(reason)) => {
                    if let FailureReason::Device(error) = &reason {
                        devices.lose(Some(device), error);
                    }
                    self.shared.end(launch.task, Outcome::Failed(reason), Some(host.slot()), out);
                }
                Err(Refused::FailedAndLost(reason, loss)) => {
                    log!(error, "{loss}");
                    devices.lose(Some(device), &loss);
                    self.shared.end(launch.task, Outcome::FailedAndLost(reason), Some(host.slot()), out);
                }
            }
        });
    }

    /// Reports all completions on the unit's accelerators. Returns whether there were any.
    pub(super) fn poll(&self, host: &Host, devices: &Devices) -> bool {
        let any = self.collect(&host.devices, host.slot(), devices);
        if any {
            self.tell_waiters(host);
        }
        any
    }

    /// Reports all completions on a unit's accelerators, using the unit's slot. Returns whether there were any.
    pub(super) fn collect(&self, of_unit: &[DeviceId], slot: usize, devices: &Devices) -> bool {
        let mut ended = Vec::new();
        let mut any = false;
        self.react(|out| {
            for device in of_unit {
                let Some(accelerator) = devices.accelerator(*device) else { continue };
                let queue = devices.queue(*device);
                queue.look();
                accelerator.poll(&mut ended);
                for Completion { mark, result } in ended.drain(..) {
                    any = true;
                    match (mark, result) {
                        (Mark::Copy(copy), Ok(took)) => {
                            let time = self.shared.time_of_copy(took);
                            self.shared.engine.on(Event::Copied(copy, Some(time)), out);
                        }
                        (Mark::Copy(copy), Err(error)) => {
                            self.shared.engine.on(Event::CopyFailed(copy, *device, error), out);
                        }
                        (Mark::Task(id), result) => match (queue.take(id), result) {
                            (InFlight::All(task, places), Ok(took)) => {
                                let outcome = match self.kept_to_regions(devices, *device, &task, &places) {
                                    Err(reason) => Outcome::Failed(reason),
                                    Ok(()) => {
                                        task.body().keep();
                                        Outcome::Done(self.span(took.elapsed_ns))
                                    }
                                };
                                let times = (Some(*device), took.on_device, took.stream);
                                self.shared.trace_measured(&task, UnitId(slot as u16), times, &outcome);
                                self.shared.end(task, outcome, Some(slot), out);
                            }
                            (InFlight::All(task, _), Err(error)) => {
                                devices.lose(Some(*device), &error);
                                devices.drop_guards(&task);
                                let outcome = Outcome::Failed(FailureReason::Device(error));
                                self.shared.trace_measured(
                                    &task,
                                    UnitId(slot as u16),
                                    (Some(*device), None, None),
                                    &outcome,
                                );
                                self.shared.end(task, outcome, Some(slot), out);
                            }
                            (InFlight::Part(parts), result) => {
                                self.part_ended(&parts, *device, result, (devices, slot), out);
                            }
                        },
                    }
                }
            }
        });
        any
    }

    /// Returns an error if a task that has ended on a device wrote out of bounds, or did anything else that the access
    /// sanitizer refuses.
    fn kept_to_regions(
        &self,
        devices: &Devices,
        device: DeviceId,
        task: &OwnedTask,
        places: &[ReplicaRef],
    ) -> Result<(), FailureReason> {
        let found = if self.shared.sanitizes { devices.unguard(device, task) } else { Ok(None) };
        match (found, devices.overrun(task, places)) {
            (Ok(Some(faults)), _) => Err(FailureReason::Returned(Box::new(faults))),
            (Err(error), _) => {
                devices.lose(Some(device), &error);
                Err(FailureReason::Device(error))
            }
            (Ok(None), Some(error)) => Err(FailureReason::Device(error)),
            (Ok(None), None) => Ok(()),
        }
    }
}

/// Reason why a task was not enqueued.
pub(super) enum Refused {
    /// There was no memory for the task; its body was not called.
    NoMemory(DeviceError),
    Failed(FailureReason),
    /// The body failed, and it caused the given failure of the device.
    FailedAndLost(FailureReason, Box<DeviceError>),
}

impl Refused {
    /// Classifies an error that occurred before the task's body was called.
    pub(super) fn before(error: DeviceError) -> Self {
        match error {
            DeviceError::OutOfMemory { .. } => Self::NoMemory(error),
            error => Self::Failed(FailureReason::Device(error)),
        }
    }
}

/// Enqueues a task: opens a session on the device, calls the body with the session, and closes it. Returns the share
/// of the device that the task takes. On failure, nothing of the task is in flight.
fn enqueue(
    runtime: u64,
    devices: &Devices,
    room: &Room<'_>,
    device: &dyn Accelerator,
    launch: &mut Launch,
) -> Result<u32, Refused> {
    let Launch { task, places, after, combines_after, .. } = launch;
    let mut sites = devices.device_sites(task, places).map_err(|(_, error)| Refused::before(error))?;
    if room.threads.shared.sanitizes {
        devices.guard(room.device, task, &mut sites).map_err(Refused::before)?;
    }
    let begin = || catch_unwind(AssertUnwindSafe(|| begin_reductions(task)));
    let reductions = running::as_part_of(runtime, task, begin);
    let reductions = reductions.map_err(|payload| Refused::Failed(FailureReason::from_panic(payload)))?;
    let mut session = device.open(task.shared().id, after, combines_after).map_err(Refused::before)?;
    for Private { access, first, bytes } in reductions {
        sites[access].base = session.add_private(first, bytes).map_err(Refused::before)?;
        sites[access].offset_bytes = 0;
    }
    let mut contributions = Vec::new();
    for (access, combination) in combinations(task) {
        let begun = Contribution::begin(&mut *session, combination, &mut sites[access]);
        contributions.push(begun.map_err(Refused::before)?);
    }
    // The successors of a reduction are mostly joins and the next reduction, so it needs no event of its own.
    let forks = task.forks() && contributions.is_empty() && releases_early(task);
    let mut roomy = Roomy { session: &mut *session, room };
    let called = call_body(runtime, task, &mut roomy, &sites).and_then(|()| {
        let combined = roomy.session.follow(combines_after);
        let mut combine = |one: Contribution| one.combine(&mut roomy);
        let combined = combined.and_then(|()| contributions.into_iter().try_for_each(&mut combine));
        combined.map_err(FailureReason::Device)
    });
    let Err(reason) = called else {
        let closed = session.close(forks);
        return closed.map_err(|error| Refused::Failed(FailureReason::Device(error)));
    };
    // A body that calls the device interface itself can break the device, and the body's own error need not say so.
    let loss = session.abandon().err().filter(DeviceError::is_loss).map(Box::new);
    Err(match loss {
        None => Refused::Failed(reason),
        Some(loss) => Refused::FailedAndLost(reason, loss),
    })
}

/// Calls the body of a task so that it enqueues its work. If the body fails, returns the reason.
pub(super) fn call_body(
    runtime: u64,
    task: &OwnedTask,
    onto: &mut dyn Enqueue,
    sites: &[DeviceSite],
) -> Result<(), FailureReason> {
    #[cfg(any(feature = "cuda", feature = "hip"))]
    let _range = crate::device::Range::begin(onto.interface(), &task.shared().name);
    let (birth, body) = (Birth::here(), AssertUnwindSafe(|| task.body().enqueue(&mut Launcher::new(onto), sites)));
    let called = running::as_part_of(runtime, task, || catch_unwind(body));
    if !birth.is_here() {
        end_child("return from a task's body");
    }
    match called {
        Ok(Ok(())) => Ok(()),
        Ok(Err(error)) => Err(match error.downcast::<DeviceError>() {
            Ok(error) => FailureReason::Device(*error),
            Err(error) => FailureReason::from_returned(error),
        }),
        Err(payload) => Err(FailureReason::from_panic(payload)),
    }
}

/// Returns the accesses whose contributions the device combines, with the operations.
fn combinations(task: &OwnedTask) -> Vec<(usize, Combination)> {
    let (mut index, mut in_place) = (0, Vec::new());
    task.body().accesses(&mut |access| {
        if access.is_reduced_in_place() && !access.block.is_empty() {
            in_place.push(index);
        }
        index += 1;
    });
    let combination = |access| task.body().combination(access).expect("a device combines by its own operations");
    in_place.into_iter().map(|access| (access, combination(access))).collect()
}

/// The private replica of a reduction in host memory.
struct Private {
    access: usize,
    first: *mut u8,
    bytes: usize,
}

/// Creates a task's private replicas. Their initial values come from user code, so this must happen before the session
/// is opened.
fn begin_reductions(task: &OwnedTask) -> Vec<Private> {
    let (mut index, mut reductions) = (0, Vec::new());
    task.body().accesses(&mut |access| {
        if matches!(access.mode, Mode::Reduction(_)) && !access.is_reduced_in_place() {
            reductions.push(index);
        }
        index += 1;
    });
    let private = |access| {
        let (first, bytes) = task.body().private(access).expect("a reduction has a private replica");
        Private { access, first, bytes }
    };
    reductions.into_iter().map(private).collect()
}
