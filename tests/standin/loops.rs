//! Loops of recordings, which a device repeats by itself if its interface can, and otherwise the host.

use super::drivers::{self, CUDA, HIP, run};
use super::programs::{kind, runtime, with_units};
use super::random::{Random, variable};
use super::report;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

const TEXT: &str = "
    KERNEL(16, 1, 1) mix(IN(UINT64, a, n), INOUT(UINT64, t, n), UINT64 salt, int n)
    {
        REGION(a); REGION(t);
        int i = GLOBAL_ID(0);
        if (i < n) t[i] = (t[i] * 31 + (a[n - 1 - i] + salt)) >> 1;
    }
    KERNEL(16, 1, 1) remainder_of(IN(UINT64, a, n), OUT(UINT64, x, 1), UINT64 by, int n)
    {
        REGION(a); REGION(x);
        if (GLOBAL_ID(0) == 0 && n > 0) x[0] = a[0] % by;
    }
    KERNEL(16, 1, 1) decrease(INOUT(UINT64, t, n), int n)
    {
        REGION(t);
        int i = GLOBAL_ID(0);
        if (i < n) t[i] = t[i] - 1;
    }
    KERNEL(1, 1, 1) total_of(IN(UINT64, a, n), INOUT(UINT64, x, 1), int n)
    {
        REGION(a); REGION(x);
        for (int i = 0; i < n && GLOBAL_ID(0) == 0; i++) x[0] += a[i];
    }
    KERNEL(1, 1, 1) halve(INOUT(double, x, 1), INOUT(float, y, 1), INOUT(int, z, 1))
    {
        REGION(x); REGION(y); REGION(z);
        if (GLOBAL_ID(0) == 0) x[0] = x[0] / 2, y[0] = y[0] / 2, z[0] = z[0] - 1;
    }
    KERNEL(16, 1, 1) set(OUT(UINT64, t, n), UINT64 value, int n)
    {
        REGION(t);
        int i = GLOBAL_ID(0);
        if (i < n) t[i] = value;
    }
";
// SAFETY: each kernel compares its indices with the sizes that its signature declares, so it stays in bounds.
const PROGRAM: Program = unsafe { Program::new("loops.cl", TEXT) };
static MIX: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "mix");
static REMAINDER: Kernel<(Read<u64>, Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "remainder_of");
static HALVE: Kernel<(Write<f64>, Write<f32>, Write<i32>)> = Kernel::new(&PROGRAM, "halve");
static DECREASE: Kernel<(Write<u64>, i32)> = Kernel::new(&PROGRAM, "decrease");
static TOTAL: Kernel<(Read<u64>, Write<u64>, i32)> = Kernel::new(&PROGRAM, "total_of");
static SET: Kernel<(Write<u64>, u64, i32)> = Kernel::new(&PROGRAM, "set");

const LEN: usize = 20;
const ARRAYS: usize = 4;

/// A loop that the device repeats is launched once. However many iterations it has, it takes the same calls.
#[test]
fn device_repeats_loops_without_calls() {
    calls_are_equal_for("loops::numbers_decrease_until_they_are_small", 2, 3);
}

/// An iteration with reductions is repeated by the device, as in a solver that computes its residual.
#[test]
fn device_repeats_loops_with_reductions() {
    calls_are_equal_for("loops::sum_decreases_until_it_is_small", 1, 0);
}

/// Each solve of CG is one launch of a loop, whose iterations contain reductions. The device repeats them until the
/// residual is small.
#[test]
#[ignore = "builds the examples; `cargo test --test standin -- --ignored examples python`"]
fn examples_with_a_residual_are_repeated_by_the_device() {
    let Some(built) = drivers::built() else { return };
    let arguments = ["--class", "S", "--units", "1:CUDA:1", "--until", "1e-9", "--no-progress"];
    let (output, report) = run(&CUDA, &built.example("cg"), &arguments);
    assert_eq!(output.lines().last(), Some("VERIFIED"), "{output}");
    let steps = 15; // of class S
    assert_eq!((report.of("launches of loops"), report.of("graph launches")), (steps, steps), "{report:?}");
    assert_eq!(report.of("copies out"), steps, "{report:?}");
}

/// Asserts that a program makes the same calls for 3 and for 300 iterations, with this many loops and this many further
/// iterations.
fn calls_are_equal_for(program: &str, loops: i64, more: i64) {
    let calls = |iterations: i64| {
        let settings = CUDA.clone().with("STANDIN_ITERATIONS", iterations);
        let report = report(&settings, program)?;
        assert_eq!((report.of("launches of loops"), report.of("iterations of loops")), (loops, iterations + more));
        // How often the runtime polls depends on the time that the loop takes, and so does the reuse of events.
        let polls = ["cuCtx", "cuEvent", "cuMemHostAlloc", "cuMemFreeHost"];
        let calls = report.starting("cu").filter(|(what, _)| !polls.iter().any(|poll| what.starts_with(poll)));
        Some(calls.map(|(what, number)| (what.to_owned(), number)).collect::<Vec<_>>())
    };
    let (Some(few), Some(many)) = (calls(3), calls(300)) else { return };
    assert_eq!(few, many);
}

/// Loops on the device, and on the host if the interface has none or the driver is older.
#[test]
fn loops_on_devices_match_their_iterations() {
    let older = CUDA.clone().with("STANDIN_DRIVER", 12030).with("STANDIN_NVRTC", 12030);
    for (settings, on_device) in [(CUDA.clone(), true), (older, false), (HIP.clone(), false)] {
        let settings = settings.with("STANDIN_DEVICES", 2);
        for program in ["random_loops_match_their_iterations", "numbers_of_each_type_end_loops"] {
            let Some(report) = report(&settings, &format!("loops::{program}")) else { return };
            assert_eq!(report.of("launches of loops") > 0, on_device, "{program} {report:?}");
        }
    }
}

/// Two numbers decrease until one of them is small. `STANDIN_ITERATIONS` is the number of iterations.
#[test]
#[ignore = "run on a stand-in by another test"]
fn numbers_decrease_until_they_are_small() {
    let iterations = variable("STANDIN_ITERATIONS", 30) as i32;
    let rt = runtime();
    let (x, y, z) = (rt.scalar(1.0f64), rt.scalar(1.0f32), rt.scalar(iterations));
    let mut halve = rt
        .record(|r| {
            for _ in 0..2 {
                let task = r.task("halve", (x.inout(), y.inout(), z.inout()));
                task.gpu(|k, (mut x, mut y, mut z)| k.launch(&HALVE, 1, (&mut x, &mut y, &mut z))).submit()?;
            }
            Ok(())
        })
        .unwrap();
    halve.repeat_until(&z, 1 - iterations, 1_000_000).unwrap();
    rt.wait().unwrap();
    assert_eq!(rt.read(&z).unwrap()[0], -iterations);
    let expected = (0..2 * iterations).fold(1.0f64, |x, _| x / 2.0);
    assert_eq!(rt.read(&x).unwrap()[0], expected);
    let (x, y, z) = (rt.read(&x).unwrap()[0], rt.read(&y).unwrap()[0], z);
    assert_eq!(y, (0..2 * iterations).fold(1.0f32, |y, _| y / 2.0), "{x}");
    halve.repeat(3).unwrap();
    assert_eq!(rt.read(&z).unwrap()[0], -iterations - 6);
}

/// Two arrays decrease until their sum, which two reductions compute, is 0.
#[test]
#[ignore = "run on a stand-in by another test"]
fn sum_decreases_until_it_is_small() {
    let iterations = variable("STANDIN_ITERATIONS", 30);
    let rt = runtime();
    let parts = [rt.data(vec![iterations; LEN]), rt.data(vec![iterations; LEN])];
    let (sum, residual) = (rt.scalar(7u64), rt.scalar(7u64));
    let mut decrease = rt
        .record(|r| {
            r.task("reset", sum.output()).gpu(|k, mut sum| k.launch(&SET, 1, (&mut sum, 0, 1))).submit()?;
            for part in &parts {
                let task = r.task("decrease", part.inout());
                task.gpu(|k, mut t| k.launch(&DECREASE, LEN, (&mut t, LEN as i32))).submit()?;
                let task = r.task("sum", (part.input(), sum.reduction(Sum)));
                task.gpu(|k, (a, mut sum)| k.launch(&TOTAL, 1, (&a, &mut sum, LEN as i32))).submit()?;
            }
            let task = r.task("residual", (sum.input(), residual.output()));
            task.gpu(|k, (sum, mut x)| k.launch(&REMAINDER, 1, (&sum, &mut x, u64::MAX, 1))).submit()
        })
        .unwrap();
    decrease.repeat_until(&residual, 0, 1_000_000).unwrap();
    rt.wait().unwrap();
    assert_eq!((rt.read(&residual).unwrap(), rt.read(&sum).unwrap()), (vec![0], vec![0]));
    assert!(parts.iter().all(|part| rt.read(part).unwrap() == [0; LEN]));
}

/// Each type of number ends a loop.
#[test]
#[ignore = "run on a stand-in by another test"]
fn numbers_of_each_type_end_loops() {
    let rt = runtime();
    let (x, y, z) = (rt.scalar(-1.0f64), rt.scalar(4.0f32), rt.scalar(5));
    let mut halve = rt
        .record(|r| {
            let task = r.task("halve", (x.inout(), y.inout(), z.inout()));
            task.gpu(|k, (mut x, mut y, mut z)| k.launch(&HALVE, 1, (&mut x, &mut y, &mut z))).submit()?;
            r.task("halve", (x.inout(), y.inout(), z.inout()))
                .gpu(|k, (mut x, mut y, mut z)| k.launch(&HALVE, 1, (&mut x, &mut y, &mut z)))
                .submit()
        })
        .unwrap();
    let z_now = || rt.read(&z).unwrap()[0];
    halve.repeat_until(&y, 0.3, 100).unwrap();
    assert_eq!(z_now(), 1, "4 → 1 → 0.25");
    halve.repeat_until(&z, -6, 100).unwrap();
    assert_eq!(z_now(), -7, "negative integers are compared as such");
    halve.repeat_until(&x, 0.0, 100).unwrap();
    assert_eq!(z_now(), -9, "a negative number is below zero, although its bits are above those of zero");
    halve.repeat_until(&x, -10.0, 4).unwrap();
    assert_eq!(z_now(), -17, "the limit ends a loop");
    halve.repeat_until(&x, f64::NAN, 4).unwrap();
    assert_eq!(z_now(), -19, "nothing is above NaN");
}

#[derive(Debug, Clone, Copy)]
struct Step {
    from: usize,
    to: usize,
    salt: u64,
}

/// The expected contents of the arrays and of the number; `None` if they are missing.
struct Oracle {
    arrays: [Option<Vec<u64>>; ARRAYS],
    number: Option<u64>,
    failures: usize,
}

impl Oracle {
    /// Applies all steps, of which one may fail, and the computation of the number. Returns whether all succeed.
    fn replay(&mut self, steps: &[Step], fails: usize) -> bool {
        let mut is_good = true;
        for (number, Step { from, to, salt }) in steps.iter().enumerate() {
            let inputs = self.arrays[*from].clone().zip(self.arrays[*to].clone());
            self.failures += usize::from(inputs.is_some() && number == fails);
            self.arrays[*to] = inputs.filter(|_| number != fails).map(|(a, mut t)| {
                t.iter_mut().zip(a.iter().rev()).for_each(|(t, a)| *t = t.wrapping_mul(31).wrapping_add(a + salt) >> 1);
                t
            });
            is_good &= self.arrays[*to].is_some();
        }
        self.number = self.arrays[steps[steps.len() - 1].to].as_ref().map(|t| t[0] % 5);
        is_good && self.number.is_some()
    }

    fn repeat(&mut self, steps: &[Step], fails: usize, bound: Option<u64>, at_most: usize) {
        for _ in 0..at_most {
            if !self.replay(steps, fails) {
                steps.iter().for_each(|step| self.arrays[step.to] = None);
                return self.number = None;
            }
            if bound.is_some_and(|bound| self.number <= Some(bound)) {
                return;
            }
        }
    }
}

/// Loops of random steps, which may fail, between replays and other tasks.
#[test]
#[ignore = "run on a stand-in by another test"]
fn random_loops_match_their_iterations() {
    for case in 0..variable("STANDIN_CASES", 12) {
        let kind = kind();
        for units in [format!("1:{kind}:1"), format!("1:CPU:1,1:{kind}:1"), format!("2:{kind}:1")] {
            random_loops(case, &units);
        }
    }
}

fn random_loops(case: u64, units: &str) {
    let (rt, mut lot) = (with_units(units), Random(case));
    let y: Vec<_> = (0..ARRAYS as u64).map(|n| rt.data(vec![n; LEN])).collect();
    let x = rt.scalar(0u64);
    let step = |lot: &mut Random| {
        let (from, by) = (lot.below(ARRAYS), 1 + lot.below(ARRAYS - 1));
        Step { from, to: (from + by) % ARRAYS, salt: lot.below(1000) as u64 }
    };
    let steps: Vec<Step> = (0..1 + lot.below(6)).map(|_| step(&mut lot)).collect();
    let mut fails = None;
    let recorded = rt.record(|r| {
        let fails = fails.insert(r.parameter("fails", usize::MAX));
        for (number, Step { from, to, salt }) in steps.iter().copied().enumerate() {
            r.task("mix", (fails.input(), y[from].input(), y[to].inout()))
                .gpu(move |k, (fails, a, mut t)| {
                    if *fails == number {
                        return Err("it fails".into());
                    }
                    Ok::<(), Box<dyn std::error::Error + Send + Sync>>(k.launch(
                        &MIX,
                        LEN,
                        (&a, &mut t, salt, LEN as i32),
                    )?)
                })
                .submit()?;
        }
        r.task("number", (y[steps[steps.len() - 1].to].input(), x.output()))
            .gpu(|k, (a, mut x)| k.launch(&REMAINDER, 1, (&a, &mut x, 5, LEN as i32)))
            .submit()
    });
    let (mut recording, fails) = (recorded.unwrap(), fails.unwrap());
    let arrays = std::array::from_fn(|n| Some(vec![n as u64; LEN]));
    let mut oracle = Oracle { arrays, number: Some(0), failures: 0 };
    let mut failed = 0;
    let mut count = |waited: Result<(), RunError>| match waited {
        Ok(()) => {}
        Err(RunError::Failed(failures)) => failed += failures.len(),
        Err(other) => panic!("{other}"),
    };
    for _ in 0..15 {
        let failing = if lot.below(5) == 0 { lot.below(steps.len()) } else { usize::MAX };
        recording.set(&fails, failing).unwrap();
        match lot.below(6) {
            0 => count(rt.wait()),
            1 => {
                recording.replay().unwrap();
                _ = oracle.replay(&steps, failing);
            }
            2 => {
                let at_most = lot.below(4);
                recording.repeat(at_most).unwrap();
                oracle.repeat(&steps, failing, None, at_most);
            }
            3 => {
                let (n, value) = (lot.below(ARRAYS), lot.below(100) as u64);
                let mend = rt.task("mend", y[n].output());
                mend.gpu(move |k, mut t| k.launch(&SET, LEN, (&mut t, value, LEN as i32))).submit().unwrap();
                oracle.arrays[n] = Some(vec![value; LEN]);
            }
            _ => {
                let (bound, at_most) = (lot.below(3) as u64, 1 + lot.below(9));
                recording.repeat_until(&x, bound, at_most).unwrap();
                oracle.repeat(&steps, failing, Some(bound), at_most);
            }
        }
    }
    count(rt.wait());
    assert_eq!(failed, oracle.failures, "case {case}, {units}: {steps:?}");
    for (y, expected) in y.iter().zip(&oracle.arrays) {
        assert_eq!(rt.read(y).ok(), *expected, "case {case}, {units}: {steps:?} {}", recording.explain());
    }
    assert_eq!(rt.read(&x).ok(), oracle.number.map(|x| vec![x]), "case {case}, {units}: {steps:?}");
}
