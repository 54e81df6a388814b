//! Tests of reductions in submission order on arrays that other accesses split, driven by hand.
//!
//! The driver replaces the units. It lets ready tasks in, ends them in any order, and records each combined block.

use super::hand_made;
use super::reduction::{Combine, Contribution, Tickets, combine_in_turn, issue_again, let_in};
use super::register::register;
use super::{AccessRecord, Datum, Kinds, Mode, OpId, OwnedTask, TaskRef};
use crate::error::TaskFailure;
use crate::ids::DataId;
use crate::region::Block;
use proptest::prelude::*;
use std::sync::Arc;

const SUM: Mode = Mode::Reduction(OpId(1));
const ANY_ORDER: Mode = Mode::Reduction(OpId(1 | 1 << 31));
/// Elements of replicas that may wait for their turn, however many tasks run at once.
const FEW_ELEMENTS: usize = 1 << 20;

/// One task of a program: its accesses, and whether it fails.
type Planned = (Vec<(Mode, Block)>, bool);

/// Tasks on one data object, and the units that run them.
struct Machine {
    datum: Datum,
    width: usize,
    tasks: Vec<TaskRef>,
    plans: Vec<Planned>,
    /// Tasks that may run because everything that they wait for has ended.
    running: Vec<OwnedTask>,
    /// The task and block of each combination, in order.
    combined: Vec<(u64, Block)>,
    ended: usize,
    /// Number of elements of all replicas that exist or may be created at any time.
    replicas: usize,
    most_replicas: usize,
}

/// Work that combining leaves to the driver.
#[derive(Default)]
struct Outcome {
    width: usize,
    admitted: Vec<OwnedTask>,
    done: Vec<OwnedTask>,
    combined: Vec<(u64, Block)>,
}

impl Combine for Outcome {
    fn width(&self) -> usize {
        self.width
    }

    fn admitted(&mut self, task: OwnedTask) {
        self.admitted.push(task);
    }

    fn combine(&mut self, contribution: &mut Contribution) {
        self.combined.push((contribution.task.shared().id.0, contribution.block));
    }

    fn merge(&mut self, into: &mut Contribution, from: &mut Contribution) {
        assert_eq!(into.block, from.block);
        self.combined.push((from.task.shared().id.0, from.block));
    }

    fn retire(&mut self, _: &mut OwnedTask, _: usize) {}

    fn done(&mut self, task: OwnedTask) {
        self.done.push(task);
    }
}

impl Machine {
    fn new(shape: &[usize], width: usize) -> Self {
        Self {
            datum: Datum::new(DataId(0), shape, 8, false),
            width,
            tasks: vec![],
            plans: vec![],
            running: vec![],
            combined: vec![],
            ended: 0,
            replicas: 0,
            most_replicas: 0,
        }
    }

    fn submit(&mut self, accesses: &[(Mode, Block)], fails: bool) {
        let mut task = hand_made::task(self.tasks.len() as u64, Kinds::NONE, &[]);
        let datum = &self.datum;
        let records: Vec<_> = accesses.iter().map(|(mode, block)| AccessRecord { datum, block, mode: *mode }).collect();
        assert!(register(&mut task, &records, None, None).unwrap().is_none());
        self.tasks.push(task.share());
        self.plans.push((accesses.to_vec(), fails));
        let ready = task.commit();
        ready.into_iter().for_each(|task| self.ready(task));
    }

    fn ready(&mut self, task: OwnedTask) {
        if let Some(task) = let_in(task, self.width) {
            self.let_run(task);
        }
    }

    fn let_run(&mut self, task: OwnedTask) {
        self.replicas += self.elements(&task);
        self.most_replicas = self.most_replicas.max(self.replicas);
        self.running.push(task);
    }

    /// Returns the number of elements of a task's replicas.
    fn elements(&self, task: &OwnedTask) -> usize {
        let (accesses, _) = &self.plans[task.shared().id.0 as usize];
        accesses.iter().filter(|(mode, _)| mode.queues()).map(|(_, block)| block.volume()).sum()
    }

    /// Ends one of the running tasks, and the tasks that its combination completes; returns false if no task runs.
    fn run_one(&mut self, choice: usize) -> bool {
        if self.running.is_empty() {
            return false;
        }
        let task = self.running.swap_remove(choice % self.running.len());
        if self.plans[task.shared().id.0 as usize].1 && !task.is_poisoned() {
            task.set_poison(Arc::new(TaskFailure::for_tests("a task")));
        }
        let mut outcome = Outcome { width: self.width, ..Outcome::default() };
        match task.owned().as_ref().is_some_and(|side| side.has_contributions()) {
            true => combine_in_turn(task, &mut outcome),
            false => outcome.done.push(task),
        }
        self.combined.append(&mut outcome.combined);
        let mut ending = outcome.done;
        while let Some(task) = ending.pop() {
            let mut ready = vec![];
            if !task.shared().join {
                self.ended += 1;
                self.replicas -= self.elements(&task);
            }
            task.finish(|next| if next.shared().join { ending.push(next) } else { ready.push(next) });
            ready.into_iter().for_each(|task| self.ready(task));
        }
        // Combined tasks have released their replicas before admitted tasks begin.
        outcome.admitted.into_iter().for_each(|task| self.let_run(task));
        true
    }

    /// Runs all tasks, in an order that `choose` draws; each task must end, and contribute in the order of
    /// submission.
    fn run_all(&mut self, mut choose: impl FnMut() -> usize) {
        while self.run_one(choose()) {}
        assert_eq!(self.ended, self.tasks.len(), "some tasks never run");
        for (number, (accesses, _)) in self.plans.iter().enumerate() {
            let combined = |block: &Block| {
                let own = self.combined.iter().filter(|(task, part)| *task == number as u64 && block.contains(part));
                own.map(|(_, part)| part.volume()).sum::<usize>()
            };
            for (_, block) in accesses.iter().filter(|(mode, _)| mode.queues()) {
                let expected = if self.tasks[number].is_poisoned() { 0 } else { block.volume() };
                assert_eq!(combined(block), expected, "task {number} contributes all of {block:?} once");
            }
        }
        let mode_of = |number: u64| self.plans[number as usize].0[0].0;
        for (at, (task, block)) in self.combined.iter().enumerate().filter(|(_, (task, _))| mode_of(*task) == SUM) {
            let before = self.combined[..at].iter().filter(|(other, _)| mode_of(*other) == SUM);
            assert!(
                before.clone().all(|(other, part)| other <= task || !part.overlaps(block)),
                "task {task} contributes to {block:?} before a later one"
            );
        }
    }
}

fn part(range: std::ops::Range<usize>) -> (Mode, Block) {
    (Mode::In, Block::interval(range))
}

/// Two sums with reads between them, as `reads` tasks of 10 elements each.
fn two_sums(elements: usize, reads: usize, width: usize) -> Machine {
    let mut machine = Machine::new(&[elements], width);
    let whole = machine.datum.whole();
    machine.submit(&[(SUM, whole)], false);
    (0..reads).for_each(|n| machine.submit(&[part(20 * n + 10..20 * n + 20)], false));
    (0..2).for_each(|_| machine.submit(&[(SUM, whole)], false));
    machine
}

#[test]
fn sums_with_reads_between_them_end_on_any_size() {
    for elements in [30_000, FEW_ELEMENTS / 2, FEW_ELEMENTS - 1, FEW_ELEMENTS, FEW_ELEMENTS + 1, 2 * FEW_ELEMENTS] {
        for (reads, width) in [(1, 1), (3, 1), (3, 2), (60, 1), (60, 2), (60, 8)] {
            for choice in [0, usize::MAX] {
                two_sums(elements, reads, width).run_all(|| choice);
            }
        }
    }
}

#[test]
fn task_with_many_tickets_counts_as_one_member() {
    let mut machine = Machine::new(&[2 * FEW_ELEMENTS], 2);
    let whole = machine.datum.whole();
    machine.submit(&[(SUM, whole)], false);
    (0..50).for_each(|n| machine.submit(&[part(20 * n..20 * n + 10)], false));
    while machine.run_one(0) {}
    (0..5).for_each(|_| machine.submit(&[(SUM, whole)], false));
    assert_eq!(machine.running.len(), 2, "as many as run at once");
    machine.run_all(|| 0);
}

#[test]
fn early_replicas_take_bounded_memory_on_an_array_in_small_parts() {
    for (elements, parts) in [(2 * FEW_ELEMENTS, 64), (FEW_ELEMENTS / 4, 64), (FEW_ELEMENTS / 4, 1)] {
        for width in [1, 2] {
            let mut machine = Machine::new(&[elements], width);
            let extent = elements / parts;
            (0..parts).for_each(|n| machine.submit(&[(Mode::Out, part(n * extent..(n + 1) * extent).1)], false));
            (0..40).for_each(|_| machine.submit(&[(SUM, machine.datum.whole())], false));
            // Run the latest task first, so that as many as possible wait for their turn.
            machine.run_all(|| usize::MAX);
            let bound = (width * elements).max(FEW_ELEMENTS);
            assert!(machine.most_replicas <= bound, "{} elements of {elements}", machine.most_replicas);
        }
    }
}

#[test]
fn tickets_that_are_issued_again_let_in_the_same_tasks() {
    let mut machine = two_sums(2 * FEW_ELEMENTS, 3, 2);
    // The second sum is let in before it runs; its tickets would be those of a replay.
    let second = machine.running.pop().expect("the second sum waits for no reader");
    let tickets: Tickets = second.owned().as_ref().expect("a reduction has tickets").tickets.clone();
    machine.running.push(second);
    machine.run_all(|| 0);
    let again = issue_again(&tickets);
    assert_eq!(format!("{again:?}").matches("turn 0").count(), tickets.len());
}

/// One-dimensional blocks whose borders recur now and then.
fn interval(elements: usize) -> impl Strategy<Value = Block> {
    let some = (0..16usize, 1..4usize).prop_map(move |(at, extent)| {
        let border = |at: usize| (at * elements / 16).min(elements);
        Block::interval(border(at)..border(at + extent))
    });
    let few = (0..elements - 10, 1..10usize).prop_map(|(at, extent)| Block::interval(at..at + extent));
    prop_oneof![3 => Just(Block::interval(0..elements)), 2 => some, 2 => few]
}

/// Tasks with one access, or two reductions that do not overlap.
fn program(elements: usize) -> impl Strategy<Value = Vec<(Planned, Vec<usize>)>> {
    let mode = prop_oneof![6 => Just(SUM), 1 => Just(Mode::Reduction(OpId(2))), 1 => Just(ANY_ORDER), 3 => Just(Mode::In), 1 => Just(Mode::Inout)];
    let accesses = (mode, interval(elements), interval(elements)).prop_map(|(mode, one, other)| {
        let both = mode.queues() && !one.overlaps(&other);
        if both { vec![(mode, one), (mode, other)] } else { vec![(mode, one)] }
    });
    let runs = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(0..100usize, 0..3)];
    prop::collection::vec(((accesses, prop::bool::weighted(0.05)), runs), 1..40)
}

proptest! {
    #[test]
    fn reductions_among_other_accesses_end_in_order_of_submission(
        (elements, program) in prop::sample::select(vec![1000, FEW_ELEMENTS / 3, FEW_ELEMENTS, 3 * FEW_ELEMENTS])
            .prop_flat_map(|elements| (Just(elements), program(elements))),
        width in 1..4usize,
        choices in prop::collection::vec(0..100usize, 1..20),
    ) {
        let mut machine = Machine::new(&[elements], width);
        for ((accesses, fails), runs) in program {
            machine.submit(&accesses, fails);
            runs.into_iter().for_each(|choice| _ = machine.run_one(choice));
        }
        let mut choices = choices.into_iter().cycle();
        machine.run_all(|| choices.next().unwrap_or(0));
    }
}
