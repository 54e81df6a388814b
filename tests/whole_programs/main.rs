//! Random programs of everything that the model has, against a sequential oracle.
//!
//! Tasks access arrays of one to three dimensions, values, tokens and results, in all modes, in regions that overlap partly
//! or are empty. They are submitted by several threads. They submit children, which may do so in their turn, wait for them or leave them behind. Some are loops
//! over partitions, some are those of scopes with memory of the program's own; bodies end by themselves, by another thread
//! or as futures, are run again, fail, panic; groups are cancelled at any time; between the tasks data are read, taken and
//! dropped. Whatever happens, on whatever units, under any policy:
//!
//! - what can be read is what the tasks would have written one after the other, each with its children in its place;
//! - what a task that has failed should have written cannot be read, nor what was computed from it; all else can;
//! - who waits for tasks sees them complete, and is told what has failed;
//! - every body runs as often as it should, every value and capture dies once;
//! - nothing hangs.
//!
//! | file | what it has |
//! | --- | --- |
//! | `program.rs` | what programs consist of |
//! | `draw.rs` | which programs there are |
//! | `oracle.rs` | what they must leave |
//! | `run.rs` | how they are run; `access.rs`, `submit.rs`, `loops.rs`: how their tasks are submitted |
//! | `log.rs` | what is seen of a run |
//! | `shrink.rs` | what else is tried when one fails |
//!
//! `THALWEG_CASES` sets the number of programs (2000), `THALWEG_SEED` the first one's seed. A program that fails says its
//! seed, and is made as small as it can be and still fail; with `THALWEG_CASES=1` it is run alone. Nothing has hung before
//! `THALWEG_PATIENCE` seconds (60) are over.

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
use random::variable;
use std::io::Write as _;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// What is wrong with a program, if anything is. One that hangs keeps its threads.
fn failure(program: &Program) -> Option<String> {
    let (judge, judged) = channel();
    let (own, patience) = (program.clone(), Duration::from_secs(variable("THALWEG_PATIENCE", 60)));
    let thread = thread::spawn(move || _ = judge.send(Oracle::judge(&own, &run::run(&own)).err())); // it may be too late
    match judged.recv_timeout(patience) {
        Ok(failure) => thread.join().map_or(Some("a panic".to_owned()), |()| failure),
        Err(RecvTimeoutError::Timeout) => Some("it hangs".to_owned()),
        Err(RecvTimeoutError::Disconnected) => Some("a panic".to_owned()),
    }
}

#[test]
fn programs_end_as_if_their_tasks_had_run_one_after_the_other() {
    let (cases, first) = (variable("THALWEG_CASES", 2000), variable("THALWEG_SEED", 1));
    for seed in first..first + cases {
        let mut program = Program::new(seed);
        let Some(mut why) = failure(&program) else { continue };
        // Past the capture of tests' output: what follows may take long.
        let _ = writeln!(std::io::stderr(), "THALWEG_SEED={seed}: {why}");
        // What takes a certain timing fails now and then; and what fails in another way is another matter.
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
