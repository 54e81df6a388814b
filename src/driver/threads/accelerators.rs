//! Tasks on accelerators: enqueued by the unit's hosting thread, and reported when they have ended.
//!
//! The hosting thread issues what is ready, looks what has ended, and sleeps only after it has asked to be woken by the next
//! end. Copies may be enqueued by any thread; that is announced to the hosting thread, which looks after them too.

use super::devices::Devices;
use super::host::Host;
use crate::depend::{AccessRecord, Mode, OwnedTask, running};
use crate::device::{Accelerator, Completion, Mark, Waker, Work};
use crate::driver::shared::Core;
use crate::engine::{Command, Event, Launch, Outcome};
use crate::error::{BoxError, DeviceError, FailureReason};
use crate::ids::{DeviceId, TaskId};
use crate::kernel::{DeviceSite, Enqueue, Launcher};
use parking_lot::Mutex;
use rustc_hash::FxHashMap;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock, Weak};

/// What a device has in its queues.
#[derive(Default)]
pub(crate) struct InFlight {
    tasks: Mutex<FxHashMap<TaskId, OwnedTask>>,
    /// Something may have ended, or was enqueued by another thread.
    news: Arc<AtomicBool>,
    /// The device is gone.
    lost: AtomicBool,
    waker: OnceLock<Waker>,
}

impl InFlight {
    /// Tells the hosting thread that there is something to look at.
    pub(crate) fn announce(&self) {
        if let Some(waker) = self.waker.get() {
            waker();
        }
    }
}

impl Devices {
    /// Lets devices wake the threads of their runtime.
    pub(crate) fn connect(&self, core: &Weak<Core>) {
        for (in_flight, device) in self.in_flight.iter().zip((0..).map(DeviceId)) {
            let (core, news) = (core.clone(), in_flight.news.clone());
            let _ = in_flight.waker.set(Arc::new(move || {
                news.store(true, Ordering::SeqCst);
                if let Some(core) = core.upgrade() {
                    core.idle.wake_at(core.machine.unit_of_device(device).index());
                }
            }));
        }
    }

    /// An accelerator among the devices.
    pub(crate) fn get_accelerator(&self, device: DeviceId) -> Option<&dyn Accelerator> {
        self.devices[device.index()].accelerator()
    }

    /// Whether a device is gone.
    pub(crate) fn is_lost(&self, device: DeviceId) -> bool {
        self.in_flight[device.index()].lost.load(Ordering::Relaxed)
    }

    /// Notes that a device is gone, if this error says so.
    pub(crate) fn lose(&self, device: Option<DeviceId>, error: &DeviceError) {
        if let Some(device) = device.filter(|_| error.is_loss()) {
            self.in_flight[device.index()].lost.store(true, Ordering::Relaxed);
        }
    }

    /// Whether one of these devices has something for its hosting thread to look at.
    pub(crate) fn have_news(&self, devices: &[DeviceId]) -> bool {
        devices.iter().any(|device| self.in_flight[device.index()].news.load(Ordering::SeqCst))
    }

    /// Asks to be woken when the next thing ends on one of these devices.
    pub(crate) fn arm(&self, devices: &[DeviceId]) {
        for device in devices {
            let in_flight = &self.in_flight[device.index()];
            if let (Some(accelerator), Some(waker)) = (self.get_accelerator(*device), in_flight.waker.get()) {
                accelerator.arm(waker);
            }
        }
    }

    /// Enqueues a task; nothing of it is in flight if that fails.
    fn issue(&self, runtime: u64, device: &dyn Accelerator, launch: &mut Launch) -> Result<(), FailureReason> {
        let sites = self.device_sites(&launch.task, &launch.places).map_err(FailureReason::Device)?;
        let id = launch.task.shared().id;
        let begin = || catch_unwind(AssertUnwindSafe(|| begin_reductions(&launch.task)));
        let reductions = running::as_part_of(runtime, &launch.task, begin).map_err(FailureReason::from_panic)?;
        let mut work = TaskWork { runtime, task: &launch.task, sites, reductions, panic: None };
        device.issue(id, &launch.after, &mut work).map_err(|error| {
            match (work.panic, error.downcast::<DeviceError>()) {
                (Some(payload), _) => FailureReason::from_panic(payload),
                (None, Ok(error)) => FailureReason::Device(*error),
                (None, Err(error)) => FailureReason::Returned(error),
            }
        })
    }
}

/// A task's body, with its regions on the device.
struct TaskWork<'a> {
    runtime: u64,
    task: &'a OwnedTask,
    sites: Vec<DeviceSite>,
    reductions: Vec<Private>,
    panic: Option<Box<dyn Any + Send>>,
}

/// Where the private replica of a reduction lies in host memory.
struct Private {
    access: usize,
    first: *mut u8,
    bytes: usize,
}

/// Makes a task's private replicas. What they begin with is the user's code, so this comes before any stream is locked.
fn begin_reductions(task: &OwnedTask) -> Vec<Private> {
    let (mut index, mut reductions) = (0, Vec::new());
    task.body().accesses(&mut |AccessRecord { mode, .. }| {
        if matches!(mode, Mode::Reduction(_)) {
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

impl Work for TaskWork<'_> {
    fn privates(&mut self) -> Vec<(*mut u8, usize)> {
        self.reductions.iter().map(|private| (private.first, private.bytes)).collect()
    }

    fn enqueue(&mut self, device: &mut dyn Enqueue, privates: &[usize]) -> Result<(), BoxError> {
        for (Private { access, .. }, base) in self.reductions.iter().zip(privates) {
            (self.sites[*access].base, self.sites[*access].offset_bytes) = (*base, 0);
        }
        let body = AssertUnwindSafe(|| self.task.body().enqueue(&mut Launcher::new(device), &self.sites));
        running::as_part_of(self.runtime, self.task, || catch_unwind(body)).unwrap_or_else(|payload| {
            self.panic = Some(payload);
            Err("the body panicked".into())
        })
    }
}

impl Host {
    /// Gives a task to an accelerator.
    pub(crate) fn issue(&self, core: &Core, devices: &Devices, device: DeviceId, mut launch: Launch) {
        let in_flight = &devices.in_flight[device.index()];
        let accelerator = devices.get_accelerator(device).expect("the device is an accelerator");
        if !launch.after.is_empty() {
            core.engine.look_again(&launch.task);
        }
        let outcome = core
            .refusal(&launch.task)
            .or_else(|| self.inside(|| devices.issue(core.id, accelerator, &mut launch)).err().map(Outcome::Failed));
        let mut out = self.commands.take();
        match outcome {
            Some(outcome) => {
                if let Outcome::Failed(FailureReason::Device(error)) = &outcome {
                    devices.lose(Some(device), error);
                }
                self.end(core, launch.task, outcome, &mut out);
            }
            None => {
                core.engine.issued(&launch.task, &mut out);
                let id = launch.task.shared().id;
                in_flight.tasks.lock().insert(id, launch.task);
            }
        }
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
    }

    /// Reports what has ended on the unit's accelerators; whether anything has.
    pub(crate) fn poll(&self, core: &Core, devices: &Devices) -> bool {
        let mut ended = Vec::new();
        let mut out: Vec<Command> = self.commands.take();
        let mut any = false;
        for device in &self.devices {
            let Some(accelerator) = devices.get_accelerator(*device) else { continue };
            let in_flight = &devices.in_flight[device.index()];
            in_flight.news.store(false, Ordering::SeqCst);
            accelerator.poll(&mut ended);
            for Completion { mark, result } in ended.drain(..) {
                any = true;
                match mark {
                    Mark::Copy(copy) => {
                        let event = result
                            .map_or_else(|error| Event::CopyFailed(copy, *device, error), |_| Event::Copied(copy));
                        core.engine.on(event, &mut out);
                    }
                    Mark::Task(id) => {
                        let task = in_flight.tasks.lock().remove(&id).expect("a task in flight is kept");
                        let outcome = match result {
                            Ok(elapsed_ns) => {
                                task.body().keep();
                                Outcome::Done { elapsed_ns }
                            }
                            Err(error) => {
                                devices.lose(Some(*device), &error);
                                Outcome::Failed(FailureReason::Device(error))
                            }
                        };
                        self.end(core, task, outcome, &mut out);
                    }
                }
            }
        }
        core.carry_out(Some(self), &mut out);
        self.commands.set(out);
        if any {
            self.tell_waiters(core);
        }
        any
    }
}
