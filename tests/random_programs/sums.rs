//! Sums into an array, with reads and writes of its parts in between, for arrays of every size.
//!
//! The numbers are chosen so that different orders of addition round differently. Contributions are combined in the
//! order of submission, so every read, and the final array, must equal the result of a loop on one core to the last
//! bit.

use proptest::prelude::*;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use thalweg::prelude::*;

#[derive(Debug, Clone)]
pub(crate) struct Sums {
    len: usize,
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
    steps: Vec<Step>,
}

#[derive(Debug, Clone)]
struct Step {
    range: Range<usize>,
    what: What,
}

#[derive(Debug, Clone, Copy)]
enum What {
    Sum,
    Read,
    Update,
    /// The submitting thread waits for all tasks that it has submitted.
    Wait,
}

/// In large arrays only every 4099th element is used. Every element costs the same, and processing 2^21 elements in
/// every body would take most of the test's time.
const STRIDE: usize = 4099;

/// Draws a size from a range that includes the sizes at which sums begin to be divided among units.
fn len() -> impl Strategy<Value = usize> {
    const SEVERAL: usize = 1 << 20;
    prop_oneof![
        60 => 1..100usize,
        20 => 1000..40_000usize,
        2 => SEVERAL / 8..SEVERAL / 4,
        1 => SEVERAL - 2..SEVERAL + 3,
        1 => Just(2 * SEVERAL),
    ]
}

fn step(len: usize) -> impl Strategy<Value = Step> {
    let whole = (0..3).prop_map(|lot| lot > 0);
    let kinds = vec![What::Sum, What::Sum, What::Sum, What::Read, What::Read, What::Update, What::Wait];
    (whole, 0..len, 0..len, 1..=len.min(10), prop::sample::select(kinds)).prop_map(move |(whole, a, b, short, what)| {
        let range = match what {
            What::Sum if whole => 0..len,
            What::Read | What::Update if whole => a..(a + short).min(len), // much shorter than the summed range
            _ => a.min(b)..a.max(b) + 1,
        };
        Step { range, what }
    })
}

pub(crate) fn program() -> impl Strategy<Value = Sums> {
    let units = prop::sample::select(vec!["1:CPU:1", "2:CPU:1", "8:CPU:1", "1:CPU:2", "2:CPU:1,1:EMU:1", "2:EMU:1"]);
    let scheduler = prop_oneof![Just("stealing"), prop::sample::select(thalweg::sched::NAMES)];
    (len(), units, scheduler, any::<bool>()).prop_flat_map(|(len, units, scheduler, hosted)| {
        let most = if len < 40_000 { 60 } else { 8 };
        prop::collection::vec(step(len), 1..most).prop_map(move |steps| Sums { len, units, scheduler, hosted, steps })
    })
}

fn is_looked_at(range: Range<usize>, len: usize) -> impl Iterator<Item = usize> {
    let stride = if len < 40_000 { 1 } else { STRIDE };
    range.step_by(stride)
}

/// Returns the number that step `n` adds to element `i`.
fn addend(n: usize, i: usize) -> f64 {
    1.0 / (1 + n * 31 + i * 7) as f64
}

fn digest(x: impl Iterator<Item = f64>) -> u64 {
    x.fold(17, |h, x| h.wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(7) ^ x.to_bits())
}

/// Runs the program and compares its reads and the final array with a loop on one core.
pub(crate) fn check(program: &Sums) {
    let len = program.len;
    let rt = Runtime::builder()
        .compute_units(program.units)
        .scheduler(program.scheduler)
        .use_current_thread(program.hosted)
        .build()
        .unwrap();
    let x = rt.data(vec![0.1; len]);
    let read = Arc::new(Mutex::new(Vec::new()));
    for (n, Step { range, what }) in program.steps.iter().cloned().enumerate() {
        let (region, first) = (x.slice(range.clone()), range.start);
        let add = move |x: &mut [f64]| is_looked_at(0..x.len(), len).for_each(|i| x[i] += addend(n, first + i));
        match what {
            What::Sum => _ = rt.task("sum", region.reduction(Sum)).host(move |_, x| add(x)).submit().unwrap(),
            What::Update => _ = rt.task("update", region.inout()).host(move |_, x| add(x)).submit().unwrap(),
            What::Read => {
                let read = read.clone();
                let body = move |_: &thalweg::Context, x: &[f64]| {
                    let digest = digest(is_looked_at(0..x.len(), len).map(|i| x[i]));
                    read.lock().unwrap().push((n, digest));
                };
                rt.task("read", region.input()).host(body).submit().unwrap();
            }
            What::Wait => is_over(&rt, program),
        }
    }
    is_over(&rt, program);
    let (mut model, mut expected) = (vec![0.1; len], Vec::new());
    for (n, Step { range, what }) in program.steps.iter().cloned().enumerate() {
        let first = range.start;
        match what {
            What::Sum | What::Update => {
                is_looked_at(0..range.len(), len).for_each(|i| model[first + i] += addend(n, first + i));
            }
            What::Read => {
                expected.push((n, digest(is_looked_at(0..range.len(), len).map(|i| model[first + i]))));
            }
            What::Wait => {}
        }
    }
    let mut read = Arc::try_unwrap(read).unwrap().into_inner().unwrap();
    read.sort_unstable();
    assert_eq!(read, expected, "a read differs");
    let bits = |x: Vec<f64>| x.into_iter().map(f64::to_bits).collect::<Vec<_>>();
    assert!(bits(rt.take(x).unwrap()) == bits(model), "the final array differs");
}

fn is_over(rt: &Runtime, program: &Sums) {
    if !rt.wait_timeout(Duration::from_secs(30)).unwrap() {
        eprintln!("the program hangs: {rt:?}\n{program:?}");
        std::process::exit(1);
    }
}
