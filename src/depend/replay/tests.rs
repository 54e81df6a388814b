//! Tests of replays whose tasks are ended by hand, and so in any order.

use super::*;
use crate::depend::hand_made::{datum, task};
use crate::depend::register::register;
use crate::depend::{AccessRecord, Datum, Freezer, Fringe, Keeps, Kinds, Mode};
use crate::ids::DataId;
use crate::region::Block;

struct Keep(Arc<Datum>);

impl Keeps for Keep {
    fn datum(&self) -> &Datum {
        &self.0
    }
}

/// The number of failures when a round began, and when it ended.
const FAILURES: (u64, u64) = (0, 1);

/// Makes a recording of one task.
fn one(x: &Arc<Datum>, accesses: &[(Mode, Block)]) -> Arc<Replays> {
    let mut fringe = Fringe::default();
    accesses.iter().for_each(|(mode, block)| fringe.enter(0, &AccessRecord { datum: x, block, mode: *mode }));
    let mut freezer = Freezer::new(fringe, None);
    freezer.add(
        task(0, Kinds::NONE, &[]),
        accesses.iter().map(|(mode, block)| (Keep(x.clone()), *block, *mode)).collect(),
    );
    Replays::new(freezer)
}

fn round() -> Round {
    Round { lane: 0, first: TaskId(0), settle: None, again: None }
}

/// Ends the task of a round, and with it the round. The returned work is still to be done.
fn end(replays: &Replays, task: OwnedTask) -> Aftermath {
    let mut last = None;
    task.end_round(|next| last = Some(next));
    replays.ended(last.expect("it was the only task"), FAILURES.1, &mut |_| unreachable!("there is no further round"))
}

/// Ends the joins that a step has left, and the joins that follow them. Returns, for each join, whether it was poisoned
/// when it ended.
fn settle(aftermath: Aftermath, ready: &mut Vec<OwnedTask>) -> Vec<bool> {
    let (mut joins, mut poisoned) = (aftermath.joins, vec![]);
    while let Some(join) = joins.pop() {
        poisoned.push(join.is_poisoned());
        join.finish(|mut next| match next.owned_mut().as_mut().and_then(|side| side.gate.take()) {
            Some(gate) => joins.extend(Replays::arrived(&gate, next, FAILURES.0, &mut |task| ready.push(task)).joins),
            None => joins.push(next),
        });
    }
    poisoned
}

#[test]
fn gate_that_is_ready_after_its_batch_has_its_poison() {
    let x = datum(0, 8);
    let replays = one(&x, &[(Mode::Inout, x.whole())]);
    let mut ready = vec![];
    let entered = replays.enter(round(), FAILURES.0, &mut |task| ready.push(task)).unwrap();
    assert_eq!(settle(entered, &mut ready), [false], "the entry");
    let first = ready.pop().expect("the replay has no unfinished predecessor");
    first.set_poison(Arc::new(TaskFailure::for_tests("the first")));
    // The first batch has ended, but its gate has not, when the next batch begins and ends.
    let behind_first = end(&replays, first);
    let followed = replays.follow(round(), FAILURES.0, &mut |task| ready.push(task));
    assert!(settle(followed, &mut ready).is_empty());
    assert!(settle(replays.show(), &mut ready).is_empty(), "the second gate waits for the first");
    let second = ready.pop().expect("the first round has ended");
    assert!(second.is_poisoned(), "the second round updates a value that the first has not left");
    assert!(settle(end(&replays, second), &mut ready).is_empty());
    assert_eq!(settle(behind_first, &mut ready), [true, true]);
}

#[test]
fn gates_of_a_batch_do_not_wait_for_each_other_through_joins() {
    const TILE: usize = 8;
    const SIDE: usize = 6;
    let x = Arc::new(Datum::new(DataId(0), &[SIDE * TILE; 2], 8, false));
    let mut writers = vec![];
    for (i, j) in (0..SIDE).flat_map(|i| (0..SIDE).map(move |j| (i, j))) {
        let tile = Block::new(&[i * TILE..(i + 1) * TILE, j * TILE..(j + 1) * TILE]);
        let mut writer = task((i * SIDE + j) as u64, Kinds::NONE, &[]);
        register(&mut writer, &[AccessRecord { datum: &x, block: &tile, mode: Mode::Out }], None, None).unwrap();
        writers.extend(writer.commit());
    }
    writers.into_iter().for_each(|writer| writer.finish(|_| unreachable!("nobody is behind it")));
    assert!(x.history.lock().by_tiles().is_some());
    // More readers of one tile than a list holds; the last row of the same tile is written.
    let read = (0..3).flat_map(|i| (0..TILE).map(move |j| (Mode::In, Block::new(&[i..i + 1, j..j + 1]))));
    let accesses: Vec<_> = read.chain([(Mode::Out, Block::new(&[TILE - 1..TILE, 0..TILE]))]).collect();
    let replays = one(&x, &accesses);
    for _ in 0..2 {
        let mut ready = vec![];
        let entered = replays.enter(round(), FAILURES.0, &mut |task| ready.push(task)).unwrap();
        settle(entered, &mut ready);
        let task = ready.pop().expect("the replay has no unfinished predecessor");
        settle(end(&replays, task), &mut ready);
    }
}
