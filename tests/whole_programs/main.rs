//! Random programs that use the whole programming model, compared with a sequential oracle.
//!
//! Tasks access arrays of one to three dimensions, values, tokens and results, in all modes, in regions that may be
//! empty or overlap partially. Several threads submit them. Tasks submit children, which may do the same in turn, and
//! may or may not wait for them. Some tasks are iterations of loops over partitions, and some belong to scopes that
//! borrow the program's memory. A body may end its task itself, be a future, or leave the task to be ended by another
//! thread; bodies are also re-run, fail, or panic. Groups are cancelled at any time. Between the tasks, data is read,
//! taken and dropped. In every case, on any units, under any policy:
//!
//! - a value that can be read is the value that the tasks would have written if run one after the other, with children
//!   run inside their parents;
//! - the output of a failed task and anything computed from it cannot be read; everything else can;
//! - a wait returns when its tasks are complete, and reports the failures;
//! - every body runs as often as it should, and every value and capture is dropped once;
//! - nothing hangs.
//!
//! | file | contents |
//! | --- | --- |
//! | `program.rs` | the acts that programs consist of |
//! | `draw.rs` | the generator of programs |
//! | `oracle.rs` | the expected results |
//! | `run.rs` | the execution of programs; `access.rs`, `submit.rs`, `loops.rs`: the submission of their tasks |
//! | `log.rs` | the observations of a run |
//! | `shrink.rs` | smaller programs to try when one fails |
//!
//! `THALWEG_CASES` sets the number of programs (2000, and 600 without optimization), `THALWEG_SEED` the seed of the
//! first one. A failing program prints its seed and is reduced for as long as it still fails; with `THALWEG_CASES=1`,
//! only this program runs. A program counts as hanging after `THALWEG_PATIENCE` seconds (60).

mod access;
mod draw;
mod log;
mod loops;
mod oracle;
mod program;
#[path = "../common/random.rs"]
mod random;
mod run;
mod shrink;
#[path = "../common/steps.rs"]
mod steps;
mod submit;

use oracle::Oracle;
use program::Program;
use random::{Random, variable};
use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// Runs a program and returns the defect if there is one. The threads of a program that hangs are leaked.
fn failure(program: &Program) -> Option<String> {
    let (judge, judged) = channel();
    let (own, patience) = (program.clone(), Duration::from_secs(variable("THALWEG_PATIENCE", 60)));
    let thread = thread::spawn(move || _ = judge.send(Oracle::judge(&own, &run::run(&own)).err())); // may be too late
    match judged.recv_timeout(patience) {
        Ok(failure) => thread.join().map_or(Some("a panic".to_owned()), |()| failure),
        Err(RecvTimeoutError::Timeout) => Some("it hangs".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Some("a panic".to_owned()),
    }
}

#[test]
fn programs_match_sequential_execution() {
    let usual = if cfg!(debug_assertions) { 600 } else { 2000 };
    let (cases, first) = (variable("THALWEG_CASES", usual), variable("THALWEG_SEED", 1));
    for seed in first..first + cases {
        let mut program = Program::draw(Random(seed));
        let Some(mut why) = failure(&program) else { continue };
        // Write directly to standard error instead of the captured output of the test, because the reduction may take
        // long.
        let _ = writeln!(std::io::stderr(), "THALWEG_SEED={seed}: {why}");
        // A failure that depends on timing may need several attempts. A different kind of failure does not count.
        let kind = |why: &str| why.split(':').next().unwrap().replace(|c: char| !c.is_alphabetic(), "");
        while let Some((smaller, difference)) = program.smaller().into_iter().find_map(|program| {
            let alike = (0..8).find_map(|_| failure(&program).filter(|other| kind(other) == kind(&why)))?;
            Some((program, alike))
        }) {
            (program, why) = (smaller, difference);
        }
        panic!("THALWEG_SEED={seed}: {why}\n{program:#?}");
    }
}
