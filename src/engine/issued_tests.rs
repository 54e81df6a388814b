//! Tests that successors of issued tasks are released before the kernels of those tasks have ended. The engine is
//! driven by hand, so that this order is certain.

use super::{Command, Engine, Event, Launch, Outcome, Placement, Scheduler, Span};
use crate::depend::hand_made::{datum, task};
use crate::depend::{AccessRecord, Datum, Kinds, Mode};
use crate::ids::{SpaceId, TaskId};
use crate::machine::{Machine, Topology, UnitKind};
use crate::sched::Stealing;
use std::sync::Arc;

const GPU: Kinds = Kinds::NONE.with(UnitKind::Gpu);

fn engine(units: &str) -> Engine {
    let machine = Machine::plan(&units.parse().unwrap(), None, &Topology::with_cores(4)).unwrap();
    let capacities = vec![u64::MAX; machine.num_spaces()];
    let policy = Scheduler::built_in(Box::new(Stealing::new(machine.num_units())));
    Engine::new(1, 1, Some(Placement::new(&machine, &capacities, policy)), None)
}

/// Submits a task that accesses all of `x`.
fn submit(engine: &Engine, id: u64, x: &Arc<Datum>, mode: Mode) -> Vec<Command> {
    let mut out = Vec::new();
    let whole = x.whole();
    let access = AccessRecord { datum: x, block: &whole, mode };
    engine.submitted(task(id, GPU, &[(x, whole, mode)]), &[access], &mut out).map_err(|refusal| refusal.0).unwrap();
    arrive(engine, out)
}

/// Completes all requested copies, and returns the other commands.
fn arrive(engine: &Engine, mut commands: Vec<Command>) -> Vec<Command> {
    let mut rest = Vec::new();
    while !commands.is_empty() {
        let mut out = Vec::new();
        for command in commands {
            match command {
                Command::Copy(order) => engine.on(Event::Copied(order.copy, None), &mut out),
                other => rest.push(other),
            }
        }
        commands = out;
    }
    rest
}

fn only_launch(commands: Vec<Command>) -> Launch {
    match <[Command; 1]>::try_from(commands) {
        Ok([Command::Launch(launch)]) => *launch,
        other => panic!("one launch was expected: {other:?}"),
    }
}

#[test]
fn successor_is_launched_after_an_issued_task_before_its_end() {
    let (engine, x) = (engine("1:GPU:1"), datum(1, 10));
    let first = only_launch(submit(&engine, 1, &x, Mode::Inout));
    assert!(submit(&engine, 2, &x, Mode::Inout).is_empty(), "the first is not issued yet");
    let mut out = Vec::new();
    engine.on(Event::Issued(&first.task, 1000), &mut out);
    let second = only_launch(out);
    assert_eq!((second.task.shared().id, &second.after[..]), (TaskId(2), &[TaskId(1)][..]));
    let mut out = Vec::new();
    engine.on(Event::Finished(first.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })), &mut out);
    assert!(out.is_empty(), "it was let go once: {out:?}");
}

#[test]
fn copy_from_an_issued_task_waits_for_its_end() {
    let (engine, x) = (engine("1:CPU:1,1:GPU:1"), datum(1, 10));
    let first = only_launch(submit(&engine, 1, &x, Mode::Inout));
    let cpu = Kinds::NONE.with(UnitKind::Cpu);
    let whole = x.whole();
    let mut out = Vec::new();
    let access = AccessRecord { datum: &x, block: &whole, mode: Mode::In };
    engine.submitted(task(2, cpu, &[(&x, whole, Mode::In)]), &[access], &mut out).map_err(|refusal| refusal.0).unwrap();
    engine.on(Event::Issued(&first.task, 1000), &mut out);
    assert!(out.is_empty(), "its bytes are not there: {out:?}");
    engine.on(Event::Finished(first.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })), &mut out);
    assert!(matches!(out[..], [Command::Copy(_)]), "{out:?}");
    assert_eq!(only_launch(arrive(&engine, out)).task.shared().id, TaskId(2));
}

/// With separate memories, a reader keeps the value that it reads. In unified memory it would see the writer's value.
#[test]
fn writer_of_unified_memory_waits_for_its_readers() {
    for unified in [false, true] {
        let (engine, x) = (engine("1:CPU:1,1:GPU:1"), datum(1, 10));
        if unified {
            engine.alias(&x, &[(engine.new_replica(), SpaceId(1))], &mut Vec::new());
        }
        let first = only_launch(submit(&engine, 1, &x, Mode::In));
        let (cpu, whole, mut out) = (Kinds::NONE.with(UnitKind::Cpu), x.whole(), Vec::new());
        let access = AccessRecord { datum: &x, block: &whole, mode: Mode::Out };
        let second = task(2, cpu, &[(&x, whole, Mode::Out)]);
        engine.submitted(second, &[access], &mut out).map_err(|refusal| refusal.0).unwrap();
        engine.on(Event::Issued(&first.task, 1000), &mut out);
        assert_eq!(out.is_empty(), unified, "{out:?}");
        engine.on(Event::Finished(first.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })), &mut out);
        assert_eq!(only_launch(arrive(&engine, out)).task.shared().id, TaskId(2));
    }
}

#[test]
fn commutative_task_ends_with_its_kernels() {
    let (engine, x) = (engine("1:GPU:1"), datum(1, 10));
    let first = only_launch(submit(&engine, 1, &x, Mode::Commutative));
    assert!(submit(&engine, 2, &x, Mode::Commutative).is_empty(), "its turn has not come");
    let mut out = Vec::new();
    engine.on(Event::Issued(&first.task, 1000), &mut out);
    assert!(out.is_empty(), "the host hands over turns: {out:?}");
    engine.on(Event::Finished(first.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })), &mut out);
    assert_eq!(only_launch(arrive(&engine, out)).task.shared().id, TaskId(2));
}

/// An awaited task is, for example, a task with a handle. Its waiter would otherwise be notified as soon as it is
/// issued.
#[test]
fn awaited_task_releases_successors_when_its_kernels_end() {
    let (engine, x) = (engine("1:GPU:1"), datum(1, 10));
    let whole = x.whole();
    let mut awaited = task(1, GPU, &[(&x, whole, Mode::Inout)]);
    awaited.owned_mut().get_or_insert_default().awaited = true;
    let mut out = Vec::new();
    let access = AccessRecord { datum: &x, block: &whole, mode: Mode::Inout };
    engine.submitted(awaited, &[access], &mut out).map_err(|refusal| refusal.0).unwrap();
    let first = only_launch(arrive(&engine, out));
    assert!(submit(&engine, 2, &x, Mode::Inout).is_empty());
    let mut out = Vec::new();
    engine.on(Event::Issued(&first.task, 1000), &mut out);
    assert!(out.is_empty() && !first.task.is_finished(), "{out:?}");
    engine.on(Event::Finished(first.task, Outcome::Done(Span { elapsed_ns: 1, ended_ns: 1 })), &mut out);
    assert_eq!(only_launch(arrive(&engine, out)).task.shared().id, TaskId(2));
}
