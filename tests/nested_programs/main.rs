//! Random programs of nested tasks, against a sequential oracle.
//!
//! Tasks hold regions of two data objects weakly, and submit children on parts of them, which may do so in their turn; some
//! wait for their children, some leave them behind. Regions overlap partly. Some bodies fail. Whatever happens:
//!
//! - what can be read is what the tasks would have written one after the other, each with its children in its place;
//! - what a failed task should have written can not be read, nor what was computed from it; all else can;
//! - who waits for its children sees them complete;
//! - nothing hangs, on one unit as on two, placed or not.
//!
//! `THALWEG_CASES` sets the number of programs (2000), `THALWEG_SEED` the first one's seed. A program that fails says its
//! seed; with `THALWEG_CASES=1` it is run alone.

#[path = "../common/mod.rs"]
mod common;
mod oracle;
mod program;
mod run;

use common::{builder, watched};
use oracle::Oracle;
use program::Program;
use run::Run;
use std::sync::{Arc, Mutex};

fn variable(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().unwrap_or_else(|_| panic!("{name}: `{text}` is no number")))
}

#[test]
fn children_stand_in_the_place_of_their_parents() {
    let (cases, first) = (variable("THALWEG_CASES", 2000), variable("THALWEG_SEED", 1));
    for seed in first..first + cases {
        check(seed, Program::new(seed));
    }
}

/// Runs the program; one that fails is made as small as it can be and still fail.
fn check(seed: u64, program: Program) {
    let units = ["1:CPU:1", "2:CPU:1", "1:CPU:1,1:EMU:1", "2:CPU:1"][seed as usize % 4];
    let scheduler = ["stealing", "stealing", "eft", "dynamic", "priority"][seed as usize % 5];
    let what = format!("THALWEG_SEED={seed} {units} {scheduler}");
    let (found, named) = (Arc::new(Mutex::new(None)), what.clone());
    let smallest = found.clone();
    watched(&what, move || {
        let run = |program: &Program| {
            let rt =
                builder(units, seed.is_multiple_of(3)).scheduler(scheduler).detect_conflicts(true).build().unwrap();
            let found = Run::new(&rt).run(program);
            assert!(rt.conflicts().is_empty(), "{named}: {:?}", rt.conflicts());
            Oracle::of(program).compare(&found).err()
        };
        let Some(mut difference) = run(&program) else { return };
        let mut program = program;
        while let Some((smaller, why)) = program.smaller().into_iter().find_map(|it| run(&it).map(|why| (it, why))) {
            (program, difference) = (smaller, why);
        }
        *smallest.lock().unwrap() = Some(format!("{difference}\n{program:#?}"));
    });
    if let Some(failure) = found.lock().unwrap().take() {
        panic!("{what}: {failure}");
    }
}
