//! What a program leaves, found by running it in order. An element is a number, or nothing if a failure has reached it.

use crate::program::{How, LINE, Program, SIDE, Step};

pub(crate) type Elements = Vec<Option<u64>>;

#[derive(Debug)]
pub(crate) struct Oracle {
    line: Elements,
    square: Elements,
    /// Whether a body that was run has failed.
    failed: bool,
}

/// What a task does to one element.
pub(crate) fn update(how: How, element: u64, n: u64, read: u64) -> u64 {
    match how {
        How::Out => n.wrapping_mul(31).wrapping_add(read),
        How::Inout => element.wrapping_mul(3).wrapping_add(n).wrapping_add(read),
        How::Commutative | How::Sum => element.wrapping_add(n).wrapping_add(read),
    }
}

fn places(tile: &[std::ops::Range<usize>; 2]) -> Vec<usize> {
    tile[0].clone().flat_map(|i| tile[1].clone().map(move |j| i * SIDE + j)).collect()
}

impl Oracle {
    pub(crate) fn of(program: &Program) -> Self {
        let start = |len: usize| (0..len as u64).map(Some).collect();
        let mut oracle = Self { line: start(LINE), square: start(SIDE * SIDE), failed: false };
        program.steps.iter().for_each(|step| oracle.step(step));
        oracle
    }

    fn step(&mut self, step: &Step) {
        match step {
            Step::Parent { children, .. } => children.iter().for_each(|child| self.step(child)),
            Step::Line { n, writes, how, reads, fails } => {
                let (writes, reads) = (writes.clone().collect::<Vec<_>>(), places(reads));
                let ran = write(&mut self.line, &writes, &self.square, &reads, *how, *n, *fails);
                self.failed |= ran && *fails;
            }
            Step::Square { n, writes, how, reads, fails } => {
                let (writes, reads) = (places(writes), reads.clone().collect::<Vec<_>>());
                let ran = write(&mut self.square, &writes, &self.line, &reads, *how, *n, *fails);
                self.failed |= ran && *fails;
            }
        }
    }

    /// What is wrong with what a run has left.
    pub(crate) fn compare(&self, (line, square, failed): &(Elements, Elements, bool)) -> Result<(), String> {
        for (name, expected, found) in [("line", &self.line, line), ("square", &self.square, square)] {
            for (at, (expected, found)) in expected.iter().zip(found).enumerate() {
                if expected != found {
                    return Err(format!("{name}[{at}] is {found:?}, not {expected:?}"));
                }
            }
        }
        if *failed == self.failed { Ok(()) } else { Err(format!("failures were reported: {failed}")) }
    }
}

/// Whether the task runs.
fn write(to: &mut Elements, writes: &[usize], from: &Elements, reads: &[usize], how: How, n: u64, fails: bool) -> bool {
    let read = reads.iter().try_fold(0u64, |sum, at| from[*at].map(|element| sum.wrapping_add(element)));
    // A task that uses anything that is missing is skipped, and all that it writes is missing.
    let has_all = read.is_some() && (how == How::Out || writes.iter().all(|at| to[*at].is_some()));
    for at in writes {
        let element = to[*at].unwrap_or_default();
        to[*at] = (has_all && !fails).then(|| update(how, element, n, read.unwrap_or_default()));
    }
    has_all
}
