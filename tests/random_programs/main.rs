//! Random task programs, compared with a sequential oracle.
//!
//! Tasks read two random boxes and update two more, in every access mode, on data of one to three dimensions. The
//! values that a task writes depend on the values it has read, so a wrong order changes the final memory. Regardless of
//! the units, the scheduler, the devices' memory and the number of submitting threads, the final memory must be as if
//! the tasks had run one after the other. The edges of the graph are compared with all pairs of accesses: no edge may
//! be missing, and no edge may connect tasks that do not conflict.
//!
//! - *Several threads* submit, either each to its own part of every data object, or all to everything. In the latter
//!   case the order is not known in advance, but the order that the bodies record must explain the final memory and
//!   agree with the order of each thread's submissions.
//! - *Failing tasks* poison their outputs and the tasks that read these outputs. At the end, each element is correct or
//!   poisoned as the oracle predicts.
//! - *Loops* over the parts of partitions are submitted in one call; the oracle treats them as separate steps.
//! - *Handles* are dropped while tasks are pending.
//! - *Values and results* ([`values`]) are counted: none may be lost or dropped twice. Tasks also access the outcomes
//!   of results.
//! - *Recordings* ([`replays`]) of parts are replayed between the other tasks, with failures and evictions in between.
//! - *Children* ([`children`]) of steps, recorded or not, keep reading what their parents read. They wait, have their
//!   waits refused, or fail.
//! - *Sums* ([`sums`]) into arrays of every size are combined in the order of submission, with arbitrary reads in
//!   between.
//! - *Resources*: steps outside of loops use some of a counted resource, and check that no more of it is in use than
//!   there is.
//! - *Detached bodies* lend their accesses to threads of the program, which return them sooner or later.
//!
//! Programs with a single submitting thread also run under explored schedules (`thalweg::check`), one in 32 of them.
//! Their failures can be replayed.
//!
//! Half of the programs run on the fast path, which means on CPU units only and under `stealing`.
//!
//! `THALWEG_CASES` sets the number of programs (1000, and 300 without optimization).

#[macro_use]
#[path = "../common/steps.rs"]
mod steps;

mod children;
mod loops;
mod oracle;
mod program;
mod replays;
mod sums;
mod values;

use loops::Loops;
use ndarray::{Ix2, Ix3};
use oracle::{Memory, Number, check_graph, order};
use program::{Program, program};
use proptest::prelude::*;
use std::sync::{Arc, Mutex};
use steps::{Dimensions, Front, Part, Step, mix};
use thalweg::Builder;
use thalweg::check::Explorer;
use thalweg::prelude::*;

/// The order in which bodies began. Conflicting tasks take effect in this order.
type Log = Arc<Mutex<Vec<Number>>>;

fn builder(program: &Program) -> Builder {
    let steps = || program.threads.iter().flatten();
    let least = steps().map(Step::working_set_bytes).max().unwrap_or(0).max(8);
    let holds = least + program.spare_bytes;
    let says = holds * (1 + program.spare_bytes / 256 % 2); // like a device that is shared with other programs
    Runtime::builder()
        .compute_units(program.units)
        .scheduler(program.scheduler)
        .use_current_thread(program.hosted)
        .detect_conflicts(true)
        .record_graph(program.record)
        .emulated_devices(move |_| EmulatedDevice::new().capacity_bytes(says).holds_bytes(holds))
}

/// Runs the program and compares the final memory and the graph with the oracle.
fn check<S: Loops>(program: &Program) {
    check_on::<S>(program, &builder(program).build().unwrap());
}

/// Like [`check`], under several schedules that a failure can be replayed with.
fn check_schedules<S: Loops>(program: &Program) {
    let explorer = Explorer::new().runtime(|_| builder(program));
    explorer.run(0..4, |rt| check_on::<S>(program, rt)).unwrap_or_else(|failure| panic!("{failure}"));
}

fn check_on<S: Loops>(program: &Program, rt: &Runtime) {
    let program = &program.metered(rt);
    let len = program.extents.iter().product::<usize>();
    let values: Vec<Vec<u64>> =
        (0..program.data).map(|d| (0..len as u64).map(|e| mix(d as u64, e)).collect()).collect();
    let log = Log::default();
    let mut data: Vec<_> = values.iter().map(|values| Some(S::register(rt, program.extents, values.clone()))).collect();
    let handles = data.clone();
    let submit_all = |thread: usize, steps: &[Step]| {
        let mut loops = program.loops[thread].iter().peekable();
        let mut n = 0;
        while let Some(step) = steps.get(n) {
            let (log, first) = (log.clone(), n);
            let began = move |i| log.lock().unwrap().push((thread, first + i));
            match loops.next_if(|cut| cut.first == n) {
                Some(cut) => n += S::submit_loop(rt, &handles, cut, &steps[n..n + cut.steps], began).unwrap(),
                None => {
                    S::submit(Front::Outside(rt), &handles, step, move || began(0)).unwrap();
                    n += 1;
                }
            }
        }
    };
    if let [steps] = program.threads.as_slice() {
        submit_all(0, steps);
    } else {
        std::thread::scope(|scope| {
            for (thread, steps) in program.threads.iter().enumerate() {
                scope.spawn(move || submit_all(thread, steps));
            }
        });
    }
    drop(handles);
    if let Some(dropped) = program.dropped {
        data[dropped % program.data] = None;
    }
    let result = std::thread::scope(|scope| {
        let (done, watch) = std::sync::mpsc::channel::<()>();
        // A program that hangs must fail and report where it hangs.
        scope.spawn(move || {
            if watch.recv_timeout(std::time::Duration::from_secs(30)).is_err() {
                eprintln!("the program hangs: {rt:?}\n{program:?}");
                std::process::exit(1);
            }
        });
        let result = rt.wait();
        done.send(()).unwrap();
        result
    });
    if let Some(graph) = rt.graph() {
        check_graph(&graph, &program.threads[0]);
    }
    let poisoned = vec![vec![false; len]; program.data];
    let mut memory = Memory { values, poisoned, failures: 0 };
    let log = log.lock().unwrap();
    for (thread, n) in order(program, &log) {
        memory.apply(&program.threads[thread][n], program.extents);
    }
    match result {
        Ok(()) => assert_eq!(memory.failures, 0),
        Err(RunError::Failed(failures)) => assert_eq!(failures.iter().count(), memory.failures),
        Err(other) => panic!("{other}"),
    }
    for (number, data) in data.into_iter().enumerate() {
        let Some(data) = data else { continue };
        let (values, poisoned) = (&memory.values[number], &memory.poisoned[number]);
        if poisoned.contains(&true) {
            check_parts(rt, &data, program.extents, values, poisoned);
            assert!(matches!(rt.take(data).map_err(RunError::from), Err(RunError::Poisoned(_))));
        } else {
            assert_eq!(&S::values(rt.take(data).unwrap()), values);
        }
    }
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
}

/// Checks that, in every row, each run of correct elements can be read and each run of poisoned elements cannot.
fn check_parts<S: Dimensions>(
    rt: &Runtime,
    data: &Data<u64, S>,
    extents: [usize; 3],
    values: &[u64],
    poisoned: &[bool],
) {
    for (i, j) in (0..extents[0]).flat_map(|i| (0..extents[1]).map(move |j| (i, j))) {
        let row = (i * extents[1] + j) * extents[2];
        let mut start = 0;
        for run in poisoned[row..row + extents[2]].chunk_by(|a, b| a == b) {
            let range = start..start + run.len();
            start = range.end;
            let part = Part { data: 0, ranges: [i..i + 1, j..j + 1, range.clone()] };
            match rt.read(S::cut(data, &part)) {
                Ok(found) => {
                    assert!(!run[0], "{part:?} should be poisoned");
                    assert_eq!(S::values(found), values[row..][range]);
                }
                Err(RunError::Poisoned(_)) => assert!(run[0], "{part:?} should be correct"),
                Err(other) => panic!("{other}"),
            }
        }
    }
}

fn cases() -> u32 {
    let usual = if cfg!(debug_assertions) { 300 } else { 1000 };
    std::env::var("THALWEG_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(usual)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 4000, ..ProptestConfig::default() })]

    #[test]
    fn memory_matches_sequential_execution(program in program()) {
        match program.dims {
            1 => check::<Ix1>(&program),
            2 => check::<Ix2>(&program),
            _ => check::<Ix3>(&program),
        }
    }

    #[test]
    fn replays_match_sequential_execution(replayed in replays::program()) {
        match replayed.dims() {
            1 => replays::check::<Ix1>(&replayed),
            2 => replays::check::<Ix2>(&replayed),
            _ => replays::check::<Ix3>(&replayed),
        }
    }

    #[test]
    fn replays_match_resubmission_with_failures(replayed in replays::program()) {
        match replayed.dims() {
            1 => replays::check_by_hand::<Ix1>(&replayed),
            2 => replays::check_by_hand::<Ix2>(&replayed),
            _ => replays::check_by_hand::<Ix3>(&replayed),
        }
    }

    #[test]
    fn values_and_results_match_sequential_execution(program in values::program()) {
        values::check(&program);
    }

    #[test]
    fn sums_match_a_sequential_loop_bit_for_bit(program in sums::program()) {
        sums::check(&program);
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases().div_ceil(32), ..ProptestConfig::default() })]

    #[test]
    fn memory_matches_sequential_execution_under_explored_schedules(
        program in program().prop_filter("one thread submits", |program| program.threads.len() == 1),
    ) {
        match program.dims {
            1 => check_schedules::<Ix1>(&program),
            2 => check_schedules::<Ix2>(&program),
            _ => check_schedules::<Ix3>(&program),
        }
    }
}
