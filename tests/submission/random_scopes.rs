//! Random scopes, compared with a sequential oracle.
//!
//! Each case lends parts of larger arrays, with gaps between their rows, to a scope, and submits steps in this scope or
//! in scopes inside it. A step hashes the values it reads, uses the hash to change a box in any mode, and may fail.
//! After the scope has returned, the following must hold for all units, schedulers and device memories: except for
//! poisoned parts, memory is as if the steps had run one after the other; the gaps between the rows are unchanged; and
//! the scope has failed if and only if one of its steps has not run to its end or a value is missing.
//!
//! Device *faults* may cause the loss of any value. In this case, a scope that has not failed must be correct, and
//! everything else holds as before.
//!
//! `THALWEG_CASES` sets the number of cases (300).

use ndarray::{Array2, ArrayView2, ArrayViewMut2, s};
use proptest::prelude::*;
use std::ops::Range;
use thalweg::prelude::*;
use thalweg::task::BorrowedMut;
use thalweg::{Context, Scope};

#[derive(Debug, Clone)]
struct Case {
    units: &'static str,
    scheduler: &'static str,
    hosted: bool,
    spare_bytes: u64,
    /// The first array is only read.
    arrays: Vec<Lent>,
    steps: Vec<Step>,
    fault: Fault,
}

/// A part of a larger array: its extents, the margins before and after it, and the distance between its rows.
#[derive(Debug, Clone)]
struct Lent {
    extents: [usize; 2],
    before: [usize; 2],
    behind: [usize; 2],
    every: usize,
}

#[derive(Debug, Clone)]
struct Step {
    reads: Part,
    target: Part,
    kind: Kind,
    end: End,
    /// Whether the step is submitted in a nested scope, together with adjacent steps of the same kind.
    inside: bool,
}

#[derive(Debug, Clone)]
struct Part {
    array: usize,
    rows: Range<usize>,
    columns: Range<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Kind {
    Out,
    Inout,
    Commutative,
    Add,
    Accumulate,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum End {
    Returns,
    Fails,
    Panics,
}

#[derive(Debug, Clone, Copy, PartialEq)]
enum Fault {
    None,
    Copy(u64),
    Lost(u64),
}

impl Lent {
    fn parent(&self, number: usize) -> Array2<u64> {
        let within = [self.extents[0] * self.every, self.extents[1]];
        let [rows, columns] = std::array::from_fn(|d| self.before[d] + within[d] + self.behind[d]);
        Array2::from_shape_fn((rows, columns), |(i, j)| mix(number as u64, (i * columns + j) as u64))
    }

    fn rows(&self) -> ndarray::Slice {
        let [first, every] = [self.before[0], self.every].map(|n| n as isize);
        ndarray::Slice::new(first, Some(first + self.extents[0] as isize * every), every)
    }

    fn columns(&self) -> ndarray::Slice {
        (self.before[1]..self.before[1] + self.extents[1]).into()
    }

    fn view<'a>(&self, parent: &'a Array2<u64>) -> ArrayView2<'a, u64> {
        parent.slice(s![self.rows(), self.columns()])
    }

    fn view_mut<'a, T>(&self, parent: &'a mut Array2<T>) -> ArrayViewMut2<'a, T> {
        parent.slice_mut(s![self.rows(), self.columns()])
    }
}

fn mix(a: u64, b: u64) -> u64 {
    (a ^ b.rotate_left(23)).wrapping_mul(0x9E37_79B9_7F4A_7C15).rotate_left(17) ^ b
}

/// Changes the target, depending on the values that the step reads.
fn change(kind: Kind, reads: ArrayView2<'_, u64>, mut target: ArrayViewMut2<'_, u64>) {
    let h = reads.iter().fold(7, |h, x| mix(h, *x));
    for (n, x) in target.iter_mut().enumerate() {
        *x = match kind {
            Kind::Out => mix(h, n as u64),
            Kind::Inout => mix(*x, h),
            Kind::Commutative | Kind::Add | Kind::Accumulate => x.wrapping_add(h),
        };
    }
}

/// The expected memory, and which elements are lost.
struct Oracle {
    parents: Vec<Array2<u64>>,
    lost: Vec<Array2<bool>>,
}

impl Oracle {
    /// Applies a step and returns whether it runs to its end.
    fn apply(&mut self, step: &Step, arrays: &[Lent]) -> bool {
        let Step { reads, target, kind, .. } = step;
        let lost = |oracle: &mut Self, part: &Part| {
            arrays[part.array].view_mut(&mut oracle.lost[part.array]).slice(part.block()).iter().any(|lost| *lost)
        };
        let skipped = lost(self, reads) || *kind != Kind::Out && lost(self, target);
        let runs = !skipped && step.end == End::Returns;
        let mut of_target = arrays[target.array].view_mut(&mut self.lost[target.array]);
        of_target.slice_mut(target.block()).fill(!runs);
        if runs {
            let read = arrays[reads.array].view(&self.parents[reads.array]).slice(reads.block()).to_owned();
            let mut parent = arrays[target.array].view_mut(&mut self.parents[target.array]);
            change(*kind, read.view(), parent.slice_mut(target.block()));
        }
        runs
    }
}

impl Part {
    fn block(&self) -> ndarray::SliceInfo<[ndarray::SliceInfoElem; 2], Ix2, Ix2> {
        s![self.rows.clone(), self.columns.clone()]
    }
}

fn submit<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    table: &thalweg::task::Borrowed<'_, u64, Ix2>,
    arrays: &[BorrowedMut<'_, u64, Ix2>],
    step: &'env Step,
) {
    let Step { reads, target, kind, end, .. } = step;
    let block = |part: &Part| (part.rows.clone(), part.columns.clone());
    let reads = match reads.array {
        0 => table.block(block(reads)).input(),
        n => arrays[n - 1].block(block(reads)).input(),
    };
    let target = arrays[target.array - 1].block(block(target));
    let body = move |_: &Context, (reads, target): (ArrayView2<'_, u64>, ArrayViewMut2<'_, u64>)| {
        change(*kind, reads, target);
        match end {
            End::Returns => Ok(()),
            End::Fails => Err("as the case says"),
            End::Panics => std::panic::resume_unwind(Box::new("as the case says")), // prints nothing
        }
    };
    macro_rules! submit {
        ($access:expr) => {
            scope.task("step", (reads, $access)).cpu(body).submit()
        };
    }
    let submitted = match kind {
        Kind::Out => submit!(target.output()),
        Kind::Inout => submit!(target.inout()),
        Kind::Commutative => submit!(target.commutative()),
        Kind::Add => submit!(target.reduction(Sum)),
        Kind::Accumulate => submit!(target.accumulate(Sum)),
    };
    submitted.unwrap();
}

fn check(case: &Case) {
    let bytes = |part: &Part| (part.rows.len() * part.columns.len() * 8) as u64;
    let needed = case.steps.iter().map(|step| bytes(&step.reads) + bytes(&step.target)).max().unwrap_or(0).max(8);
    let (capacity, fault) = (needed + case.spare_bytes, case.fault);
    let builder = Runtime::builder().compute_units(case.units).scheduler(case.scheduler);
    let builder = builder.use_current_thread(case.hosted).detect_conflicts(true);
    let rt = builder.emulated_devices(move |_| {
        let device = EmulatedDevice::new().capacity_bytes(capacity);
        match fault {
            Fault::None => device,
            Fault::Copy(number) => device.failing_copy(number),
            Fault::Lost(tasks) => device.lost_after_tasks(tasks),
        }
    });
    let rt = rt.build().unwrap();
    let mut parents: Vec<_> = case.arrays.iter().zip(0..).map(|(lent, number)| lent.parent(number)).collect();
    let lost = parents.iter().map(|parent| Array2::from_elem(parent.dim(), false)).collect();
    let mut oracle = Oracle { parents: parents.clone(), lost };
    let (mut all_run, mut inner_run) = (true, Vec::new());
    for steps in case.steps.chunk_by(|one, other| one.inside == other.inside) {
        let ran: Vec<bool> = steps.iter().map(|step| oracle.apply(step, &case.arrays)).collect();
        let run = ran.into_iter().all(|ran| ran);
        if steps[0].inside { inner_run.push(run) } else { all_run &= run }
    }
    let mut inner = Vec::new();
    let (table, others) = parents.split_first_mut().unwrap();
    let result = rt.scope(|scope| {
        let table = scope.borrow_array(case.arrays[0].view(table)).unwrap();
        let lend = |(lent, parent): (&Lent, _)| scope.borrow_array_mut(lent.view_mut(parent)).unwrap();
        let arrays: Vec<_> = case.arrays[1..].iter().zip(others.iter_mut()).map(lend).collect();
        for steps in case.steps.chunk_by(|one, other| one.inside == other.inside) {
            if steps[0].inside {
                let ended = rt.scope(|scope| steps.iter().for_each(|step| submit(scope, &table, &arrays, step)));
                inner.push(ended.is_ok());
            } else {
                steps.iter().for_each(|step| submit(scope, &table, &arrays, step));
            }
        }
    });
    let any_lost = oracle.lost.iter().any(|lost| lost.iter().any(|lost| *lost));
    let has_faults = fault != Fault::None && case.units.contains("EMU");
    if !has_faults {
        assert_eq!((result.is_ok(), &inner), (all_run && !any_lost, &inner_run), "{result:?}");
    }
    for (number, (found, lent)) in parents.iter_mut().zip(&case.arrays).enumerate() {
        let (expected, lost) = (&mut oracle.parents[number], &mut oracle.lost[number]);
        if result.is_ok() || !has_faults {
            for ((at, x), lost) in lent.view(found).indexed_iter().zip(lent.view_mut(lost).iter()) {
                assert!(*lost || *x == lent.view(expected)[at], "array {number} at {at:?}");
            }
        }
        // Memory that was not lent must be unchanged, regardless of failures.
        lent.view_mut(found).fill(0);
        lent.view_mut(expected).fill(0);
        assert_eq!(found, expected, "array {number}");
    }
    assert_eq!(rt.statistics().conflicts, Vec::<String>::new());
    if !has_faults {
        assert!(rt.wait().is_ok(), "the scopes have reported all failures");
    }
}

fn range(len: usize) -> impl Strategy<Value = Range<usize>> {
    (0..len, 0..len, 0..10).prop_map(|(a, b, lot)| if lot == 0 { a..a } else { a.min(b)..a.max(b) + 1 })
}

fn part(arrays: Vec<Lent>, first: usize) -> impl Strategy<Value = Part> {
    (first..arrays.len()).prop_flat_map(move |array| {
        let [rows, columns] = arrays[array].extents;
        (range(rows), range(columns)).prop_map(move |(rows, columns)| Part { array, rows, columns })
    })
}

fn step(arrays: Vec<Lent>, fails: bool) -> impl Strategy<Value = Step> {
    use Kind::*;
    let kinds = if fails { vec![Out, Inout] } else { vec![Out, Inout, Commutative, Add, Accumulate] };
    // Other tests cover the effect of a failure on the other members of its group.
    let ends = if fails { vec![End::Returns, End::Fails, End::Panics] } else { vec![End::Returns] };
    let (parts, ends) = ((part(arrays.clone(), 0), part(arrays, 1)), prop::sample::select(ends));
    (parts, prop::sample::select(kinds), ends, 0..3).prop_map(move |((mut reads, target), kind, end, lot)| {
        if reads.array == target.array {
            reads = Part { array: 0, rows: 0..0, columns: 0..0 };
        }
        Step { reads, target, kind, end, inside: lot == 0 }
    })
}

fn lent() -> impl Strategy<Value = Lent> {
    let pair = || [0..3usize, 0..3usize];
    ([1..6usize, 1..9usize], pair(), pair(), 1..3usize).prop_map(|(extents, before, behind, every)| Lent {
        extents,
        before,
        behind,
        every,
    })
}

fn case() -> impl Strategy<Value = Case> {
    let units = prop::sample::select(vec!["2:CPU:1", "1:CPU:2", "1:CPU:1,2:EMU:1", "2:EMU:1"]);
    let machine = (units, prop::sample::select(thalweg::sched::NAMES), any::<bool>(), 0..4u64);
    let fault = prop_oneof![
        2 => Just(Fault::None),
        1 => (0..12u64).prop_map(Fault::Copy),
        1 => (0..8u64).prop_map(Fault::Lost),
    ];
    (machine, prop::collection::vec(lent(), 2..4), fault, any::<bool>()).prop_flat_map(
        |((units, scheduler, hosted, spare), arrays, fault, fails)| {
            let steps = prop::collection::vec(step(arrays.clone(), fails), 0..30);
            steps.prop_map(move |steps| Case {
                units,
                scheduler,
                hosted,
                spare_bytes: spare * spare * 64,
                arrays: arrays.clone(),
                steps,
                fault,
            })
        },
    )
}

fn cases() -> u32 {
    std::env::var("THALWEG_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(300)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: cases(), max_shrink_iters: 2000, ..ProptestConfig::default() })]

    #[test]
    fn lent_memory_matches_sequential_execution(case in case()) {
        // A case that hangs must be printed and fail the test.
        let (done, watch) = std::sync::mpsc::channel::<()>();
        let words = format!("{case:?}");
        let watchdog = std::thread::spawn(move || {
            if let Err(std::sync::mpsc::RecvTimeoutError::Timeout) = watch.recv_timeout(std::time::Duration::from_secs(60)) {
                eprintln!("the case hangs: {words}");
                std::process::exit(1);
            }
        });
        check(&case);
        drop(done);
        watchdog.join().unwrap();
    }
}
