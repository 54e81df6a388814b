//! Tests that histories stay short after many tasks with never-recurring blocks have ended.

use super::tests::Program;
use super::{Mode, OpId};
use crate::error::TaskFailure;
use crate::region::Block;
use std::sync::Arc;

/// Maximum length of the history of tasks that have ended.
const SHORT: usize = 160;

/// Pseudorandom numbers.
fn random(seed: usize, below: usize) -> usize {
    (seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 20) % below
}

/// Submits and ends `n` tasks with these accesses. Returns the resulting length of the history.
fn length_after(n: usize, shape: &[usize], access: impl Fn(usize) -> (Mode, Block)) -> usize {
    let mut program = Program::over(shape);
    for number in 0..n {
        program.submit(&[access(number)]);
        program.finish(number as u64);
    }
    program.datum.history.lock().len()
}

fn assert_short(what: &str, shape: &[usize], access: impl Fn(usize) -> (Mode, Block)) {
    for n in [500, 4000] {
        let length = length_after(n, shape, &access);
        assert!(length <= SHORT, "{what}: {length} parts after {n} tasks");
    }
}

const MODES: [Mode; 8] = [
    Mode::In,
    Mode::Out,
    Mode::Inout,
    Mode::Concurrent,
    Mode::Commutative,
    Mode::Reduction(OpId(1)),
    Mode::WeakIn,
    Mode::WeakInout,
];

#[test]
fn random_slices_of_ended_tasks_become_one_part() {
    for mode in MODES {
        assert_short(&format!("{mode}"), &[1 << 20], |n| {
            let at = random(n, (1 << 20) - 1000);
            (mode, Block::interval(at..at + 1000))
        });
    }
}

#[test]
fn random_boxes_of_ended_tasks_become_one_part() {
    for mode in MODES {
        assert_short(&format!("{mode}"), &[2000, 2000], |n| {
            let (i, j) = (random(n, 1900), random(n + 77, 1900));
            (mode, Block::new(&[i..i + 1 + n % 90, j..j + 1 + n % 70]))
        });
    }
}

#[test]
fn moving_block_borders_leave_as_many_parts_as_blocks() {
    const BLOCKS: usize = 16;
    for shape in [&[1 << 16][..], &[1 << 12, 16]] {
        for mode in [Mode::In, Mode::Inout, Mode::WeakInout] {
            assert_short(&format!("{mode} in {} dimensions", shape.len()), shape, |n| {
                let (step, block, extent) = (n / BLOCKS, n % BLOCKS, shape[0] / BLOCKS);
                let border = |block: usize| match block {
                    0 => 0,
                    BLOCKS => shape[0],
                    inner => inner * extent + random(step * BLOCKS + inner, extent / 2),
                };
                let rows = border(block)..border(block + 1);
                (mode, if shape.len() == 1 { Block::interval(rows) } else { Block::new(&[rows, 0..16]) })
            });
        }
    }
}

#[test]
fn failure_of_ended_task_stays_where_it_wrote() {
    for shape in [&[1 << 16][..], &[1 << 16, 1]] {
        let rows = |rows| Block::new(&[rows, 0..1][..shape.len()]);
        let mut program = Program::over(shape);
        program.submit(&[(Mode::Out, rows(1000..1100))]);
        program.tasks[0].set_poison(Arc::new(TaskFailure::for_tests("the first")));
        program.finish(0);
        for n in 1..2000 {
            let at = if n % 2 == 0 { random(n, 900) } else { 1100 + random(n, 60_000) };
            program.submit(&[(Mode::Inout, rows(at..at + 1 + n % 50))]);
            program.finish(n as u64);
        }
        program.submit(&[(Mode::In, rows(1050..1051))]);
        program.submit(&[(Mode::In, rows(1100..2000))]);
        program.submit(&[(Mode::In, rows(0..1000))]);
        let poisoned: Vec<bool> = program.tasks[2000..].iter().map(|task| task.is_poisoned()).collect();
        assert_eq!(poisoned, [true, false, false]);
    }
}
