//! Random loop nests as source code. Each nest passes through all stages of the attribute and becomes the text of a
//! kernel, which runs in a random team shape. The results must equal those of an interpreter.
//!
//! The text has to be correct in every shape, including those that the library would not choose: more or fewer teams or
//! threads than iterations, and numbers that are not powers of two. The interpreter is independent of the library's
//! representation.

mod draw;
mod interpret;
mod lost;
mod nest;

use super::common;
use draw::Choices;
use nest::Nest;
use proptest::prelude::*;
use proptest::test_runner::{Config, TestRunner};
use std::process::Command;
use thalweg::kernel::{Kernel, Program, Read, Write};
use thalweg::prelude::*;

/// The shape in which a kernel is launched.
#[derive(Debug, Clone, Copy)]
struct Shape {
    team: [u32; 3],
    teams: usize,
    /// Whether indices are checked against array lengths.
    checked: bool,
    /// Whether a loop becomes an `if` wherever there are at least as many threads (or teams) as iterations.
    once: bool,
}

fn shape() -> impl Strategy<Value = Shape> {
    let threads = || prop_oneof![Just(1u32), Just(2), Just(3), Just(4), Just(8)];
    let drawn = ([threads(), threads(), threads()], 1usize..9, any::<bool>(), any::<bool>());
    drawn.prop_map(|(team, teams, checked, once)| Shape { team, teams, checked, once })
}

type Plain = (Read<f64>, Read<f64>, Write<f64>, i64, i64, i64, u64, u64, u64, f64);
type Reduced = (Read<f64>, Read<f64>, Write<f64>, Write<f64>, i64, i64, i64, i64, u64, u64, u64, f64);
type Total = (Read<f64>, Write<f64>, i64);

type Sums = (Read<f64>, Read<f64>, Write<f64>, Write<f64>, Write<f64>, i64, i64, i64, i64, i64, u64, u64, u64, f64);
type Offsets = (Write<f64>, i64, f64);
type Runs = (Read<f64>, Read<f64>, Write<f64>, Read<f64>, Read<f64>, i64, i64, i64, i64, i64, u64, u64, u64, f64);

/// Returns the program for a nest's text in this shape. The program is leaked.
#[allow(unsafe_code)]
fn program(nest: &Nest, shape: &Shape) -> Program {
    let text =
        thalweg_loops::kernel_text(&nest.source(), "nest").unwrap_or_else(|error| panic!("{error}\n{}", nest.source()));
    let [x, y, z] = nest.team(shape.team);
    let once = nest.trips_per_level(shape.teams, [x, y, z]).map(|is_once| shape.once && is_once);
    // SAFETY: indices are below the array lengths by construction, and the interpreter, which runs first, would panic
    // otherwise.
    let program = unsafe { Program::new("nest.cl", text.leak()) }.header("loops.h", thalweg::loops::support::LOOPS);
    let defines = [
        ("THALWEG_EXACT", 1),
        ("TEAM_X", x.into()),
        ("TEAM_Y", y.into()),
        ("TEAM_Z", z.into()),
        ("CHECKED", shape.checked.into()),
        ("ONCE_TEAMS", once[0].into()),
        ("ONCE_X", once[1].into()),
        ("ONCE_Y", once[2].into()),
        ("ONCE_Z", once[3].into()),
    ];
    defines.into_iter().fold(program, |program, (name, value)| program.define(name, value))
}

/// Runs the kernel and returns the resulting `y` and `sum`.
fn on_device(rt: &Runtime, nest: &Nest, shape: &Shape, [x, a, y]: [&Vec<f64>; 3]) -> Result<(Vec<f64>, f64), RunError> {
    let program: &'static Program = Box::leak(Box::new(program(nest, shape)));
    let [team_x, team_y, team_z] = nest.team(shape.team).map(|threads| threads as usize);
    let threads = [shape.teams * team_x, team_y, team_z];
    let ([n0, n1, n2], c) = (nest.n.map(|n| n as u64), nest.c);
    let lengths = [x.len() as i64, a.len() as i64, y.len() as i64];
    let (dx, da, dy, sum) = (rt.data(x.clone()), rt.data(a.clone()), rt.data(y.clone()), rt.data(vec![0.0]));
    let reads = (dx.input(), da.input(), dy.inout(), sum.inout());
    if let Some([chunks, runs]) = nest.offsets() {
        let sums: &Kernel<Sums> = Box::leak(Box::new(Kernel::checked(program, "nest_loop_sums").unwrap()));
        let offsets: &Kernel<Offsets> = Box::leak(Box::new(Kernel::checked(program, "nest_loop_offsets").unwrap()));
        let kernel: &Kernel<Runs> = Box::leak(Box::new(Kernel::checked(program, "nest_loop").unwrap()));
        let task = rt.task("nest", reads).gpu(move |launcher, (x, a, mut y, _)| {
            let (mut before, mut parts) = (launcher.scratch::<f64>(runs)?, launcher.scratch::<f64>(chunks)?);
            let ([nx, na, ny], [p, r]) = (lengths, [chunks as i64, runs as i64]);
            launcher.launch(
                sums,
                threads,
                (&x, &a, &mut y, &mut before, &mut parts, nx, na, ny, p, r, n0, n1, n2, c),
            )?;
            launcher.launch(offsets, team_x, (&mut parts, p, 0.0))?;
            launcher.launch(kernel, threads, (&x, &a, &mut y, &before, &parts, nx, na, ny, p, r, n0, n1, n2, c))
        });
        task.submit()?;
    } else if let Some(parts) = nest.parts() {
        let kernel: &Kernel<Reduced> = Box::leak(Box::new(Kernel::checked(program, "nest_loop").unwrap()));
        let total: &Kernel<Total> = Box::leak(Box::new(Kernel::checked(program, "nest_loop_total").unwrap()));
        let task = rt.task("nest", reads).gpu(move |launcher, (x, a, mut y, mut sum)| {
            let (mut left, [nx, na, ny]) = (launcher.scratch::<f64>(parts)?, lengths);
            launcher.launch(kernel, threads, (&x, &a, &mut y, &mut left, nx, na, ny, parts as i64, n0, n1, n2, c))?;
            launcher.launch(total, team_x, (&left, &mut sum, parts as i64))
        });
        task.submit()?;
    } else {
        let kernel: &Kernel<Plain> = Box::leak(Box::new(Kernel::checked(program, "nest_loop").unwrap()));
        let task = rt.task("nest", reads).gpu(move |launcher, (x, a, mut y, _)| {
            let [nx, na, ny] = lengths;
            launcher.launch(kernel, threads, (&x, &a, &mut y, nx, na, ny, n0, n1, n2, c))
        });
        task.submit()?;
    }
    Ok((rt.take(dy)?, rt.take(sum)?[0]))
}

/// Returns the bits of the numbers for comparison. The sign of 0 is ignored, because a minimum may return either zero,
/// and so is the sign of NaN.
fn comparable(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|number| if number.is_nan() { f64::NAN.to_bits() } else { (number + 0.0).to_bits() }).collect()
}

/// Environment variable that is set in the processes that the test starts.
const VARIABLE: &str = "THALWEG_RANDOM_NESTS";
/// Lines that such a process prints when it has drawn a nest, and when the results of a nest have matched.
const DRAWN: &str = "nest drawn";
const MATCHED: &str = "nest matched";

/// Runs in separate processes, because a device compiler that aborts ends the process (`lost.rs`). No other error is
/// tolerated.
#[test]
fn kernels_of_random_nests_match_their_interpretation() {
    if let Some(nests) = std::env::var(VARIABLE).ok().and_then(|nests| nests.parse().ok()) {
        return random_nests(nests);
    }
    let test = "generated::kernels_of_random_nests_match_their_interpretation";
    let folder = tempfile::tempdir().unwrap();
    let nests = std::env::var("THALWEG_CASES").ok().and_then(|cases| cases.parse().ok()).unwrap_or(24);
    lost::match_all(nests, |nests| {
        let mut this = Command::new(std::env::current_exe().unwrap());
        this.args(["--exact", test, "--nocapture"]).env(VARIABLE, nests.to_string());
        // When the compiler aborts, it leaves a file in its working directory.
        lost::Attempt::of(&this.current_dir(&folder).output().unwrap())
    });
}

fn random_nests(cases: u32) {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    let mut runner = TestRunner::new(Config { cases, failure_persistence: None, ..Config::default() });
    let choices = proptest::collection::vec(any::<u16>(), 0..160);
    let test = |(choices, shape): (Vec<u16>, Shape)| {
        println!("\n{DRAWN}");
        does_what_it_says(&rt, &choices, &shape)?;
        println!("\n{MATCHED}");
        Ok(())
    };
    runner.run(&(choices, shape()), test).unwrap();
}

/// Draws a nest, runs it in this shape, and compares the results with those of the interpreter.
fn does_what_it_says(rt: &Runtime, choices: &[u16], shape: &Shape) -> Result<(), TestCaseError> {
    let nest = Nest::draw(&mut Choices::new(choices));
    let [x, a, y] = nest.arrays();
    let (plain, sum) = interpret::run(&nest, &x, &a, &y);
    let (found, found_sum) =
        on_device(rt, &nest, shape, [&x, &a, &y]).unwrap_or_else(|error| panic!("{error:?}\n{}", nest.source()));
    prop_assert_eq!(comparable(&found), comparable(&plain), "{}", nest.source());
    prop_assert_eq!(found_sum, sum, "{}", nest.source());
    Ok(())
}

/// Regression test: statements of a team that are each enclosed by two barriers, after a loop with barriers. If one
/// barrier directly followed another, PoCL 3.1 let all threads execute the statements of the first thread.
#[test]
fn team_statements_between_barriers_run_once() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    #[rustfmt::skip]
    let choices = [
        16447, 64486, 55827, 22743, 1396, 2287, 32594, 20362, 11551, 12181, 6432, 28350, 18636, 31482, 40269, 31991, 24972, 5356,
        5634, 45548, 24919, 56128, 5684, 45448, 63555, 46786, 55481, 9163, 57342, 56377, 37368, 56189, 18985, 16750, 1805, 48015,
        14151, 18089, 31765, 41197, 16569, 29390, 42082, 18202, 27347, 15937, 44666, 38231, 31310, 42718, 7732, 3655,
    ];
    does_what_it_says(&rt, &choices, &Shape { team: [8, 1, 4], teams: 6, checked: true, once: true }).unwrap();
}

/// Regression test: PoCL 3.1 dropped the condition that only one thread stores for its team, so every thread of the
/// team updated the element. In the first text, the store is followed by a loop without iterations between barriers; in
/// the second, by a loop that fills the team's arrays.
#[test]
fn team_statements_before_a_loop_of_barriers_run_on_one_thread() {
    let Some(rt) = common::accelerated("1:OPENCL:1").map(|builder| builder.build().unwrap()) else { return };
    #[rustfmt::skip]
    let choices = [
        49987, 47056, 51018, 56211, 10468, 13385, 57601, 55856, 36738, 7473, 15658, 40952, 43700, 49005, 58819, 30667,
        55290, 47554, 32785, 1896, 30364, 5940, 5211, 58968, 21822, 38917, 2996, 299, 14355, 12012, 23190, 54841,
        52907, 34047, 31125, 59814, 36414, 14750, 21372, 3753, 58662, 49620, 29224, 12549, 59792, 798, 61785,
        43293, 28323, 40369, 31314, 14813, 63419, 16782, 253, 62929, 59960, 23906, 52288, 15153, 40915, 33187,
        2527, 46220, 44501, 33007, 24764, 15768, 61577, 30675, 64313, 54073, 63811, 5646, 10636, 57790, 25953,
        4889, 8443, 49482, 26621, 57622, 10161, 782, 32866, 34158, 13201, 64728, 42109,
    ];
    does_what_it_says(&rt, &choices, &Shape { team: [8, 4, 4], teams: 5, checked: true, once: false }).unwrap();
    #[rustfmt::skip]
    let choices = [
        38609, 0, 0, 0, 0, 0, 0, 0, 0, 36, 26401, 0, 44536, 0, 48520, 0, 13263, 3698, 0, 0, 29301, 9908, 0, 31, 42411, 40555, 0, 0, 0,
        0, 24672, 0, 874, 11055, 0, 0, 1616, 2247, 44467, 98, 18981, 8573, 0, 0, 0, 0, 12197, 0, 13000, 0, 8397, 0, 0, 0,
    ];
    does_what_it_says(&rt, &choices, &Shape { team: [3, 1, 1], teams: 1, checked: true, once: false }).unwrap();
}
