//! Checks of whole programs against submission order: every task must find the contents that the tasks before it
//! produced.

use super::Own;
use super::node::Bodiless;
use super::*;
use crate::error::TaskFailure;
use crate::ids::{DataId, TaskId};
use crate::region::Block;
use crate::sync::CallSite;
use crate::sync::{LINKED, Pooled};
use proptest::prelude::*;
use std::borrow::Cow;
use std::sync::Arc;
use std::sync::OnceLock;

/// Submits tasks to one data object and finishes them by hand.
pub(super) struct Program {
    pub(super) datum: Datum,
    pub(super) tasks: Vec<TaskRef>,
    ready: Vec<OwnedTask>,
}

impl Program {
    pub(super) fn over(shape: &[usize]) -> Self {
        Self { datum: Datum::new(DataId(0), shape, 8, false), tasks: vec![], ready: vec![] }
    }

    /// Submits a task and returns the number of edges that were linked for it.
    pub(super) fn submit(&mut self, accesses: &[(Mode, Block)]) -> u64 {
        self.submit_with(None, accesses)
    }

    /// Submits a task for each tile of a square that reads it with its halo, and then one for each tile that updates
    /// it; returns the numbers of edges of both.
    pub(super) fn sweep(&mut self, tile: usize, side: usize) -> [u64; 2] {
        let along = |at: usize| at * tile..(at + 1) * tile;
        let around = |at: usize| (at * tile).saturating_sub(1)..((at + 1) * tile + 1).min(side * tile);
        let tiles = || (0..side).flat_map(|i| (0..side).map(move |j| (i, j)));
        let reads = tiles().map(|(i, j)| self.submit(&[(Mode::In, Block::new(&[around(i), around(j)]))])).sum();
        let updates = tiles().map(|(i, j)| self.submit(&[(Mode::Inout, Block::new(&[along(i), along(j)]))])).sum();
        [reads, updates]
    }

    /// Submits a task that gives up the memory.
    pub(super) fn give_up(&mut self) -> u64 {
        let side = Side { forget: Some(self.datum.id), ..Side::default() };
        self.submit_with(Some(Pooled::new(side)), &[(Mode::Inout, self.datum.whole())])
    }

    fn submit_with(&mut self, side: Option<Pooled<Side>>, accesses: &[(Mode, Block)]) -> u64 {
        let meta = Meta {
            id: TaskId(self.tasks.len() as u64),
            name: Cow::Borrowed("task"),
            location: CallSite::caller(),
            priority: 0,
            internal: false,
            queues: false,
            join: false,
            lane: Lane::new(0),
            domain: OnceLock::new(),
        };
        let mut task = Submitting::new(
            || meta,
            Own { side, child: None },
            Bodiless::new(Kinds::NONE, |_| ()),
            0,
            |body| body as *mut dyn Body,
        );
        let before = LINKED.get();
        let datum = &self.datum;
        let records: Vec<_> = accesses.iter().map(|(mode, block)| AccessRecord { datum, block, mode: *mode }).collect();
        let leftover = register(&mut task, &records, None, None).unwrap();
        self.tasks.push(task.share());
        self.ready.extend(task.commit());
        let linked = LINKED.get() - before;
        leftover.into_iter().flat_map(|leftover| leftover.joins).for_each(|join| self.finish_all(join));
        linked
    }

    /// Finishes the ready task with this ID, and all joins that become ready as a result.
    pub(super) fn finish(&mut self, number: u64) {
        let at = self.ready.iter().rposition(|task| task.shared().id.0 == number).expect("the task is ready");
        let task = self.ready.swap_remove(at);
        self.finish_all(task);
    }

    fn finish_all(&mut self, task: OwnedTask) {
        let mut finishing = vec![task];
        while let Some(task) = finishing.pop() {
            task.finish(|next| if next.shared().join { finishing.push(next) } else { self.ready.push(next) });
        }
    }

    /// Returns the IDs of the tasks without unfinished predecessors, in ascending order.
    pub(super) fn ready(&self) -> Vec<u64> {
        let mut ready: Vec<u64> = self.ready.iter().map(|task| task.shared().id.0).collect();
        ready.sort_unstable();
        ready
    }
}

const SHAPE: [usize; 4] = [6, 5, 3, 2];

/// One element's history if tasks ran one after the other. A *group* is a writer, or tasks that join each other.
#[derive(Clone, Default)]
struct Element {
    /// The number of members of each group, and of tasks that have read after it. The first group is empty.
    groups: Vec<(usize, usize)>,
    /// The mode of the last group.
    mode: Option<Mode>,
    /// Whether the value that the last group leaves is bad, and whether the value that the group found was bad.
    poisoned: bool,
    found_poisoned: bool,
}

/// The effect of a task on one element.
struct Step {
    element: usize,
    mode: Mode,
    group: usize,
}

struct Plan {
    steps: Vec<Step>,
    poisoned: bool,
    fails: bool,
}

/// A program and its expected effects.
struct Checked {
    program: Program,
    expected: Vec<Element>,
    plans: Vec<Plan>,
    /// Like [`Element::groups`], but counts only tasks that have run.
    done: Vec<Vec<(usize, usize)>>,
}

impl Checked {
    fn new() -> Self {
        let element = Element { groups: vec![(0, 0)], ..Element::default() };
        let count = SHAPE.iter().product();
        Self {
            program: Program::over(&SHAPE),
            expected: vec![element; count],
            plans: vec![],
            done: vec![vec![(0, 0)]; count],
        }
    }

    /// Submits a task, leaving out accesses that conflict with earlier accesses of the same task.
    fn submit(&mut self, accesses: Vec<(Mode, Block)>, fails: bool) {
        let mut kept: Vec<(Mode, Block)> = vec![];
        for (mode, block) in accesses {
            if kept.iter().all(|(m, b)| !b.overlaps(&block) || (*m, mode) == (Mode::In, Mode::In)) {
                kept.push((mode, block));
            }
        }
        let touched: Vec<(usize, Mode)> =
            kept.iter().flat_map(|(mode, block)| elements(block).into_iter().map(|e| (e, *mode))).collect();
        let joins = |e: &Element, mode: Mode| {
            mode.writes()
                && e.groups.last().is_some_and(|(_, readers)| *readers == 0)
                && e.mode.is_some_and(|m| m.shares_group(mode))
        };
        let poisoned = touched.iter().any(|(e, mode)| {
            let element = &self.expected[*e];
            let found = if joins(element, *mode) { element.found_poisoned } else { element.poisoned };
            mode.reads() && found
        });
        let mut steps = vec![];
        for (e, mode) in touched {
            let element = &mut self.expected[e];
            if mode.writes() {
                if !joins(element, mode) {
                    element.groups.push((0, 0));
                    element.mode = Some(mode);
                    (element.found_poisoned, element.poisoned) = (mode.reads() && element.poisoned, false);
                }
                element.poisoned |= poisoned || fails;
            }
            let group = element.groups.len() - 1;
            let (members, readers) = &mut element.groups[group];
            *(if mode.writes() { members } else { readers }) += 1;
            steps.push(Step { element: e, mode, group });
        }
        self.plans.push(Plan { steps, poisoned, fails });
        self.program.submit(&kept);
    }

    /// Submits a task that takes the memory, runs everything before it, and then undoes the take: later tasks find no
    /// trace of it.
    fn take_in_vain(&mut self, mut choose: impl FnMut() -> usize) {
        let poisoned = self.expected.iter().any(|element| element.poisoned);
        self.plans.push(Plan { steps: vec![], poisoned, fails: false });
        let number = self.program.tasks.len() as u64;
        self.program.give_up();
        while self.program.ready() != [number] {
            assert!(self.run_one(choose()), "the take waits for all before it, and nothing else does");
        }
        self.run_one(0);
        self.program.datum.set_taken(false);
        // However, the take has combined what was accumulated, so the next accumulating task finds the result.
        let accumulates = |mode| matches!(mode, Mode::Reduction(operation) if operation.is_accumulated());
        for element in &mut self.expected {
            element.mode = element.mode.filter(|mode| !accumulates(*mode));
        }
    }

    /// Runs one of the ready tasks; returns false if there are none.
    fn run_one(&mut self, choice: usize) -> bool {
        let ready = self.program.ready();
        if ready.is_empty() {
            return false;
        }
        let number = ready[choice % ready.len()];
        let plan = &self.plans[number as usize];
        let task = &self.program.tasks[number as usize];
        assert_eq!(task.is_poisoned(), plan.poisoned, "poison of task {number}");
        for Step { element, mode, group } in &plan.steps {
            let (done, expected) = (&mut self.done[*element], &self.expected[*element].groups);
            let writers_before = group + usize::from(!mode.writes());
            for earlier in 0..writers_before {
                assert_eq!(
                    done[earlier].0, expected[earlier].0,
                    "task {number} comes before a writer of group {earlier}"
                );
            }
            for earlier in 0..*group {
                assert_eq!(
                    done[earlier].1, expected[earlier].1,
                    "task {number} comes before a reader of group {earlier}"
                );
            }
            done.resize(done.len().max(group + 1), (0, 0));
            let (members, readers) = &mut done[*group];
            *(if mode.writes() { members } else { readers }) += 1;
        }
        if plan.fails {
            task.set_poison(Arc::new(TaskFailure::for_tests("a task")));
        }
        self.program.finish(number);
        true
    }
}

fn elements(block: &Block) -> Vec<usize> {
    let mut elements = vec![];
    for (i, j) in block.range(0).flat_map(|i| block.range(1).map(move |j| (i, j))) {
        for (k, l) in block.range(2).flat_map(|k| block.range(3).map(move |l| (k, l))) {
            elements.push(((i * SHAPE[1] + j) * SHAPE[2] + k) * SHAPE[3] + l);
        }
    }
    elements
}

/// Boxes, some of which are empty and some of which cover the whole array.
fn block() -> impl Strategy<Value = Block> {
    let side = |len: usize| {
        let some = (0..len, 0..=len).prop_map(move |(lo, extent)| lo..(lo + extent).min(len));
        prop_oneof![3 => Just(0..len), 2 => some, 3 => (0..len).prop_map(|at| at..at + 1)]
    };
    let some = (side(6), side(5), side(3), side(2)).prop_map(|(i, j, k, l)| Block::new(&[i, j, k, l]));
    prop_oneof![7 => some, 1 => Just(Block::whole(&SHAPE))]
}

/// Mostly the blocks that tiled programs declare: one tile, several tiles, all tiles, a tile with its halo, a face.
fn tiles() -> impl Strategy<Value = (Block, bool)> {
    const TILE: [usize; 2] = [2, 1];
    let whole_tiles = (0..3usize, 0..5usize, 1..3usize, 1..3usize).prop_map(|(i, j, rows, columns)| {
        let end = |d: usize, at: usize, count: usize| ((at + count) * TILE[d]).min(SHAPE[d]);
        [i * TILE[0]..end(0, i, rows), j * TILE[1]..end(1, j, columns)]
    });
    let all_of = |[rows, columns]: [std::ops::Range<usize>; 2]| Block::new(&[rows, columns, 0..3, 0..2]);
    let grown = |range: std::ops::Range<usize>, d: usize| range.start.saturating_sub(1)..(range.end + 1).min(SHAPE[d]);
    let with_halo = move |[rows, columns]: [_; 2]| all_of([grown(rows, 0), grown(columns, 1)]);
    let face = |[rows, columns]: [std::ops::Range<usize>; 2]| Block::new(&[rows, columns, 1..2, 0..2]);
    prop_oneof![
        40 => whole_tiles.clone().prop_map(move |tiles| (all_of(tiles), true)),
        20 => whole_tiles.clone().prop_map(move |tiles| (with_halo(tiles), false)),
        14 => whole_tiles.prop_map(move |tiles| (face(tiles), false)),
        2 => Just((Block::whole(&SHAPE), true)),
        1 => block().prop_map(|block| (block, false)),
        1 => block().prop_map(|block| (block, true)),
    ]
}

/// Like [`submissions`], but over tiles, each of which is read and written first.
fn tiled_submissions(groups: bool) -> impl Strategy<Value = Vec<Submission>> {
    (submissions(groups), prop::collection::vec(tiles(), 480)).prop_map(|(mut submissions, tiles)| {
        let accesses = submissions.iter_mut().flat_map(|(accesses, ..)| accesses);
        for ((mode, block), (tiles, may_be_written)) in accesses.zip(tiles) {
            *block = tiles;
            if !may_be_written {
                *mode = Mode::In;
            }
        }
        let tile = |n: usize, deep| Block::new(&[n / 5 * 2..n / 5 * 2 + 2, n % 5..n % 5 + 1, deep, 0..2]);
        let task = |mode, block| (vec![(mode, block)], false, vec![], false);
        let faces = (0..2).map(|n| task(Mode::In, tile(n, 1..2)));
        let first = faces.chain(
            [Mode::In, Mode::Inout].into_iter().flat_map(|mode| (0..15).map(move |n| task(mode, tile(n, 0..3)))),
        );
        first.chain(submissions).collect()
    })
}

/// Like [`submissions`], but the first tasks access the whole array.
fn submissions_to_all(groups: bool) -> impl Strategy<Value = Vec<Submission>> {
    (submissions(groups), 0..40usize).prop_map(|(mut submissions, to_all)| {
        let accesses = submissions.iter_mut().take(to_all).flat_map(|(accesses, ..)| accesses);
        accesses.for_each(|(_, block)| *block = Block::whole(&SHAPE));
        submissions
    })
}

/// A task's accesses, whether it fails, which ready tasks run before the next submission, and whether an unsuccessful
/// take of the memory follows.
type Submission = (Vec<(Mode, Block)>, bool, Vec<usize>, bool);

fn submissions(groups: bool) -> impl Strategy<Value = Vec<Submission>> {
    let mode = prop_oneof![
        8 => Just(Mode::In),
        4 => Just(Mode::Out),
        4 => Just(Mode::Inout),
        1 => prop_oneof![Just(Mode::Concurrent), Just(Mode::Commutative), Just(Mode::Reduction(OpId(1))), Just(Mode::Reduction(OpId(1).accumulated()))]
            .prop_map(move |mode| if groups { mode } else { Mode::In }),
    ];
    let accesses = prop::collection::vec((mode, block()), 1..4);
    let runs = prop_oneof![2 => Just(vec![]), 1 => prop::collection::vec(0..1000usize, 0..5)];
    prop::collection::vec((accesses, prop::bool::weighted(0.03), runs, prop::bool::weighted(0.03)), 1..120)
}

fn check(program: Vec<Submission>) {
    let mut checked = Checked::new();
    let mut left = (0..).map(|k: usize| (k * 7919) % 1009); // any order works
    for (accesses, fails, runs, taken) in program {
        checked.submit(accesses, fails);
        runs.into_iter().for_each(|choice| _ = checked.run_one(choice));
        if taken {
            checked.take_in_vain(|| left.next().unwrap_or(0));
        }
    }
    while checked.run_one(left.next().unwrap_or(0)) {}
    for (done, expected) in checked.done.iter().zip(&checked.expected) {
        assert_eq!(*done, expected.groups, "all have run");
    }
}

#[test]
fn refused_take_leaves_history_unchanged() {
    for shape in [&[8][..], &[8, 2]] {
        let rows = |rows| Block::new(&[rows, 0..shape.get(1).copied().unwrap_or(1)][..shape.len()]);
        let mut program = Program::over(shape);
        program.submit(&[(Mode::Out, rows(0..4))]);
        program.submit(&[(Mode::Out, rows(4..8))]);
        program.tasks[0].set_poison(Arc::new(TaskFailure::for_tests("the first")));
        program.give_up();
        (0..3).for_each(|task| program.finish(task));
        program.datum.set_taken(false);
        program.submit(&[(Mode::In, rows(0..4))]);
        program.submit(&[(Mode::In, rows(4..8))]);
        let poisoned: Vec<bool> = program.tasks.iter().map(|task| task.poison().is_some()).collect();
        assert_eq!(poisoned, [true, false, true, true, false]);
    }
}

#[test]
fn writer_of_all_is_source_of_each_part() {
    for shape in [&[8][..], &[8, 2]] {
        let mut program = Program::over(shape);
        let (whole, row) = (program.datum.whole(), Block::new(&[3..4, 0..2][..shape.len()]));
        let sources = |program: &Program| {
            let mut found = vec![];
            let are_known =
                program.datum.history.lock().sources(&row, |part, task| found.push((part, task.shared().id.0)));
            (are_known, found)
        };
        assert_eq!(sources(&program), (true, vec![]));
        program.submit(&[(Mode::Out, whole)]);
        program.submit(&[(Mode::In, whole)]);
        assert_eq!(sources(&program), (true, vec![(row, 0)]));
        program.submit(&[(Mode::Reduction(OpId(1).accumulated()), whole)]);
        assert!(!sources(&program).0, "a later join combines the contents");
    }
}

/// A history that has grown long during many accesses becomes short again once each step has only a few accesses.
#[test]
fn long_history_becomes_a_list_again() {
    let mut program = Program::over(&SHAPE);
    let whole = program.datum.whole();
    let part = |n: usize| Block::new(&[n % 6..n % 6 + 1, n % 5..n % 5 + 1, 0..3, 0..2]);
    let is_recent = |program: &Program| program.datum.history.lock().is_recent();
    let step = |program: &mut Program, reads: usize| {
        program.submit(&[(Mode::Inout, whole)]);
        (0..reads).for_each(|n| _ = program.submit(&[(Mode::In, part(n))]));
    };
    step(&mut program, 30);
    assert!(!is_recent(&program));
    (0..3).for_each(|_| step(&mut program, 30));
    assert!(!is_recent(&program), "it would be long again at once");
    step(&mut program, 8);
    step(&mut program, 8);
    assert!(is_recent(&program));
    // No dependence is lost, because the next step waits for the readers, which wait for the writer.
    let (writer, ready) = (program.tasks.len() as u64 - 9, program.ready());
    let next = program.tasks.len() as u64;
    assert_eq!(program.submit(&[(Mode::Inout, whole)]), 9);
    assert_eq!((program.ready(), program.tasks[writer as usize].is_finished()), (ready, false));
    while let Some(first) = program.ready().first().copied().filter(|first| *first < next) {
        program.finish(first);
    }
    assert_eq!(program.ready(), [next]);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))] // each is a hundred submissions to 180 elements

    #[test]
    fn crossing_accesses_keep_order_and_pass_poison(program in submissions(false)) {
        check(program);
    }

    #[test]
    fn crossing_accesses_and_groups_keep_order_and_pass_poison(program in submissions(true)) {
        check(program);
    }

    #[test]
    fn accesses_after_whole_array_keep_order_and_pass_poison(program in submissions_to_all(false)) {
        check(program);
    }

    #[test]
    fn groups_after_whole_array_keep_order_and_pass_poison(program in submissions_to_all(true)) {
        check(program);
    }

    #[test]
    fn tile_accesses_keep_order_and_pass_poison(program in tiled_submissions(false)) {
        check(program);
    }

    #[test]
    fn tile_groups_keep_order_and_pass_poison(program in tiled_submissions(true)) {
        check(program);
    }
}
