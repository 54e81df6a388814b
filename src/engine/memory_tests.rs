//! Tests of memory management when copies fail, replicas are evicted, or a data object is released. The engine is
//! driven by hand, so that the order of events is fixed.

use super::{Command, Engine, Event, Launch, Outcome, Placement, Release, Scheduler, Span};
use crate::coherence::CopyId;
use crate::depend::hand_made::{datum, task};
use crate::depend::{AccessRecord, Datum, Kinds, Mode, Side};
use crate::error::{DeviceError, FailureReason};
use crate::ids::{DataId, DeviceId, SpaceId, TaskId};
use crate::machine::{Machine, Topology, UnitKind};
use crate::region::Block;
use crate::sched::Stealing;
use crate::sync::Pooled;
use std::sync::Arc;

const GPU: Kinds = Kinds::NONE.with(UnitKind::Gpu);
const CPU: Kinds = Kinds::NONE.with(UnitKind::Cpu);
const ON_DEVICE: Option<SpaceId> = Some(SpaceId(1));

/// An engine whose devices have memories of the given sizes in bytes, and the commands that it has issued.
struct ByHand {
    engine: Engine,
    commands: Vec<Command>,
}

impl ByHand {
    fn new(units: &str, capacities_bytes: &[u64]) -> Self {
        let machine = Machine::plan(&units.parse().unwrap(), None, &Topology::with_cores(4)).unwrap();
        let capacities: Vec<u64> = [u64::MAX].iter().chain(capacities_bytes).copied().collect();
        let policy = Scheduler::built_in(Box::new(Stealing::new(machine.num_units())));
        let placement = Placement::new(&machine, &capacities, policy).with_hosts_at_home();
        Self { engine: Engine::new(1, 1, Some(placement), None), commands: Vec::new() }
    }

    fn submit(&mut self, id: u64, kinds: Kinds, accesses: &[(&Arc<Datum>, Mode)], side: Option<Side>) {
        let accesses: Vec<(_, Block, _)> = accesses.iter().map(|(x, mode)| (*x, x.whole(), *mode)).collect();
        let records: Vec<_> =
            accesses.iter().map(|(datum, block, mode)| AccessRecord { datum, block, mode: *mode }).collect();
        let mut task = task(id, kinds, &accesses);
        task.owned_mut().side = side.map(Pooled::new);
        self.engine.submitted(task, &records, &mut self.commands).map_err(|refusal| refusal.0).unwrap();
    }

    fn on(&mut self, event: Event<'_>) {
        self.engine.on(event, &mut self.commands);
    }

    /// Removes the first command for which `wanted` returns a value, and returns that value.
    fn take<T>(&mut self, wanted: impl Fn(&Command) -> Option<T>) -> Option<T> {
        let found = self.commands.iter().position(|command| wanted(command).is_some())?;
        wanted(&self.commands.remove(found))
    }

    fn copy(&mut self) -> Option<CopyId> {
        self.take(|command| if let Command::Copy(order) = command { Some(order.copy) } else { None })
    }

    fn release(&mut self) -> Option<Release> {
        self.take(|command| match command {
            Command::Release(released) => Some(**released),
            _ => None,
        })
    }

    fn launch(&mut self) -> Option<Launch> {
        let found = self.commands.iter().position(|command| matches!(command, Command::Launch(_)))?;
        let Command::Launch(launch) = self.commands.remove(found) else { unreachable!("just looked at") };
        Some(*launch)
    }

    /// Completes all copies and releases that are requested now or as a consequence.
    fn settle(&mut self) {
        loop {
            if let Some(copy) = self.copy() {
                self.on(Event::Copied(copy, None));
            } else if let Some(release) = self.release() {
                self.on(Event::Released(release));
            } else {
                return;
            }
        }
    }

    /// Runs a task on a device from launch to completion.
    fn run(&mut self, id: u64) {
        self.settle();
        let launch = self.launch().expect("a task is launched");
        assert_eq!(launch.task.shared().id, TaskId(id));
        self.on(Event::Finished(launch.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })));
    }

    fn evictions(&self) -> u64 {
        self.engine.counts().evictions
    }
}

fn broken() -> DeviceError {
    DeviceError::Call { device: "d".to_owned(), call: "copy", api: "none", code: 1, what: String::new() }
}

#[test]
fn task_with_a_failed_copy_stays_until_its_other_copies_end() {
    let (mut driver, x, y) = (ByHand::new("1:GPU:1", &[1000]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::Inout), (&y, Mode::Inout)], None);
    driver.submit(2, GPU, &[(&y, Mode::Out)], None);
    let (first, second) = (driver.copy().unwrap(), driver.copy().unwrap());
    driver.on(Event::CopyFailed(first, DeviceId(0), broken()));
    assert!(
        driver.commands.is_empty(),
        "the other copy would overwrite what its successor writes: {:?}",
        driver.commands
    );
    driver.on(Event::Copied(second, None));
    let Some(Command::Skip(skipped)) = driver.commands.pop() else { panic!("{:?}", driver.commands) };
    assert!(skipped.is_poisoned());
    driver.on(Event::Finished(skipped, Outcome::Skipped));
    driver.run(2);
}

#[test]
fn failed_write_back_loses_the_value_and_reports_it() {
    let (mut driver, x, y) = (ByHand::new("1:CPU:1,1:GPU:1", &[100]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::Out)], None);
    driver.run(1);
    driver.submit(2, GPU, &[(&y, Mode::Out)], None);
    let write_back = driver.copy().expect("the only value of x must go home");
    driver.on(Event::CopyFailed(write_back, DeviceId(0), broken()));
    driver.run(2);
    driver.submit(3, CPU, &[(&x, Mode::In)], None);
    let Some(Command::Skip(reader)) = driver.commands.pop() else { panic!("{:?}", driver.commands) };
    assert_eq!(reader.poison().unwrap().name(), "a copy to make room");
}

fn out_of_memory(needed_bytes: u64) -> DeviceError {
    DeviceError::OutOfMemory { device: "d".to_owned(), needed_bytes, in_use_bytes: 0, api: "none", code: 1 }
}

#[test]
fn refused_task_waits_for_idle_replicas_to_leave() {
    let (mut driver, x, y, z) = (ByHand::new("1:GPU:1", &[1000]), datum(1, 10), datum(2, 10), datum(3, 10));
    driver.submit(1, GPU, &[(&x, Mode::In)], None);
    driver.run(1);
    driver.submit(2, GPU, &[(&y, Mode::In), (&z, Mode::In)], None);
    let (first, second) = (driver.copy().unwrap(), driver.copy().unwrap());
    driver.on(Event::CopyFailed(first, DeviceId(0), out_of_memory(80)));
    assert!(driver.commands.is_empty(), "its other copy is under way: {:?}", driver.commands);
    driver.on(Event::Copied(second, None));
    let [y_left, x_left] = [(); 2].map(|()| driver.release().unwrap());
    assert_eq!(
        [y_left, x_left].map(|left| (left.data, left.space, left.bytes)),
        [2, 1].map(|n| (DataId(n), SpaceId(1), 80))
    );
    assert!(driver.commands.is_empty(), "{:?}", driver.commands);
    driver.on(Event::Released(y_left));
    assert!(driver.commands.is_empty(), "one is not enough: {:?}", driver.commands);
    driver.on(Event::Released(x_left));
    driver.run(2);
    assert_eq!(driver.evictions(), 1);
}

#[test]
fn task_refused_at_launch_is_relaunched_and_fails_alone() {
    let (mut driver, x, y) = (ByHand::new("1:GPU:1", &[1000]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::Out)], None);
    driver.run(1);
    driver.submit(2, GPU, &[(&y, Mode::Out)], None);
    let launch = driver.launch().unwrap();
    driver.on(Event::Refused(launch.task, Some((DeviceId(0), out_of_memory(80)))));
    let write_back = driver.copy().expect("x leaves, which is valid nowhere else");
    driver.on(Event::Copied(write_back, None));
    driver.settle();
    let launch = driver.launch().expect("there is room");
    assert!(launch.task.poison().is_none());
    driver.on(Event::Refused(launch.task, Some((DeviceId(0), out_of_memory(80)))));
    let Some(Command::Skip(failed)) = driver.commands.pop() else { panic!("{:?}", driver.commands) };
    let text = failed.poison().unwrap().to_string();
    assert!(text.contains("cannot allocate 80 bytes on d: 80 bytes are in use there"), "{text}");
    driver.on(Event::Finished(failed, Outcome::Skipped));
    driver.submit(3, GPU, &[(&x, Mode::In)], None);
    driver.run(3);
}

#[test]
fn memory_is_free_once_the_driver_has_released_it() {
    let (mut driver, x, y) = (ByHand::new("1:CPU:1,1:GPU:1", &[100]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::In)], None);
    driver.run(1);
    driver.submit(2, GPU, &[(&y, Mode::Out)], None);
    let release = driver.release().expect("x is valid at home and can go at once");
    assert!(driver.commands.is_empty(), "the device's memory is still taken: {:?}", driver.commands);
    driver.on(Event::Released(release));
    driver.run(2);
}

#[test]
fn pending_eviction_counts_as_room() {
    let mut driver = ByHand::new("1:CPU:1,1:GPU:1", &[800]);
    let data: Vec<_> = (0..20).map(|id| datum(id, 10)).collect();
    for id in 0..10 {
        driver.submit(id, GPU, &[(&data[id as usize], Mode::Out)], None);
        driver.run(id);
    }
    driver.submit(10, GPU, &[(&data[10], Mode::Out)], None);
    // Unrelated events.
    for id in 11..20 {
        driver.submit(id, CPU, &[(&data[id as usize], Mode::Inout)], None);
        let launch = driver.launch().expect("a core runs it");
        driver.on(Event::Finished(launch.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })));
    }
    assert_eq!(driver.evictions(), 1);
    driver.run(10);
}

#[test]
fn replicas_are_released_before_the_home() {
    let (mut driver, x, y) = (ByHand::new("1:CPU:1,1:GPU:1", &[100]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::Out)], None);
    driver.run(1);
    // In a single step of the engine, the data object is released and another data object needs its room.
    let release = Side { space: Some(SpaceId::HOST), forget: Some(x.id), ..Side::default() };
    let mut meta = task(2, CPU, &[(&x, Block::interval(0..0), Mode::Out)]);
    meta.owned_mut().side = Some(Pooled::new(release));
    let whole = x.whole();
    let record = AccessRecord { datum: &x, block: &whole, mode: Mode::Out };
    driver.engine.submitted(meta, &[record], &mut driver.commands).map_err(|refusal| refusal.0).unwrap();
    driver.submit(3, GPU, &[(&y, Mode::Out)], None);
    let [Command::Release(_), Command::Unregister { data }, Command::Run(_)] = &driver.commands[..] else {
        panic!("{:?}", driver.commands)
    };
    assert_eq!(*data, x.id);
    driver.settle();
    assert!(driver.launch().is_some(), "there is room for the other");
}

#[test]
fn task_is_poisoned_if_its_predecessor_failed_before_it_was_issued() {
    let (mut driver, x) = (ByHand::new("1:GPU:1", &[1000]), datum(1, 10));
    driver.submit(1, GPU, &[(&x, Mode::Inout)], None);
    driver.submit(2, GPU, &[(&x, Mode::Inout)], None);
    driver.settle();
    let first = driver.launch().unwrap();
    driver.on(Event::Issued(&first.task, 1000));
    let second = driver.launch().expect("it is launched after the first");
    driver.on(Event::Finished(first.task, Outcome::Failed(FailureReason::Device(broken()))));
    assert!(second.task.poison().is_none());
    driver.on(Event::Issuing(&second.task));
    assert!(second.task.is_poisoned(), "its input is lost");
}

#[test]
fn data_go_to_the_device_of_a_unit_that_fits_them() {
    let mut driver = ByHand::new("1:CPU:1,1:GPU:2", &[80, 800]);
    let data: Vec<_> = (0..3).map(|id| datum(id, 20)).collect();
    for (id, x) in (0..).zip(&data) {
        driver.submit(id, GPU, &[(x, Mode::Out)], None);
    }
    for _ in &data {
        assert_eq!(driver.launch().expect("the second device has room").device, Some(DeviceId(1)));
    }
}

#[test]
fn hosting_thread_runs_tasks_too_large_for_its_devices() {
    let (mut driver, x) = (ByHand::new("1:GPU:1", &[80]), datum(1, 20));
    driver.submit(1, CPU.with(UnitKind::Gpu), &[(&x, Mode::Inout)], None);
    assert_eq!(driver.launch().expect("the hosting thread runs it").device, None);
}

#[test]
fn hosting_thread_outlives_its_devices() {
    let (mut driver, x) = (ByHand::new("1:GPU:1", &[800]), datum(1, 20));
    driver.submit(1, GPU, &[(&x, Mode::In)], None);
    driver.settle();
    let finder = driver.launch().unwrap();
    assert_eq!(finder.device.map(DeviceId::space), ON_DEVICE);
    let (device, what) = ("d".to_owned(), String::new());
    driver.on(Event::Finished(finder.task, Outcome::Failed(FailureReason::Device(DeviceError::Lost { device, what }))));
    driver.settle();
    driver.submit(2, CPU, &[(&x, Mode::Inout)], None);
    driver.run(2);
    driver.submit(3, GPU, &[(&x, Mode::In)], None);
    assert!(matches!(driver.commands.pop(), Some(Command::Skip(task)) if task.is_poisoned()));
}

/// While a task is being enqueued, another thread may find that the task's device is lost.
#[test]
fn task_issued_after_the_loss_of_its_device_leaves_nothing_there() {
    let (mut driver, x, y) = (ByHand::new("1:CPU:1,1:GPU:1", &[800]), datum(1, 10), datum(2, 10));
    driver.submit(1, GPU, &[(&x, Mode::Inout)], None);
    driver.submit(2, GPU, &[(&y, Mode::In)], None);
    driver.settle();
    let (late, finder) = (driver.launch().unwrap(), driver.launch().unwrap());
    let lost = || {
        let (device, what) = ("d".to_owned(), String::new());
        Outcome::Failed(FailureReason::Device(DeviceError::Lost { device, what }))
    };
    driver.on(Event::Finished(finder.task, lost()));
    driver.on(Event::Issued(&late.task, 1000));
    driver.on(Event::Finished(late.task, lost()));
    driver.settle();
    driver.submit(3, CPU, &[(&x, Mode::In)], None);
    let Some(Command::Skip(reader)) = driver.commands.pop() else { panic!("its input is lost") };
    driver.on(Event::Finished(reader, Outcome::Skipped));
    driver.submit(4, CPU, &[(&x, Mode::Out)], None);
    driver.run(4);
    driver.submit(5, CPU, &[(&x, Mode::In)], None);
    driver.run(5);
}
