//! Fraction of copy time that overlaps kernels: blocks are copied to the device, computed on, and copied back.
//!
//! Every pass includes the cost of launches. This cost is measured separately, with one-round kernels on data that is
//! already on the device, and subtracted. The same fraction is computed for a control, where a block begins only after
//! the previous block has been copied back. The control must come out at about zero, or slightly below because of the
//! cost of waiting; otherwise the main figure is meaningless as well.

use super::cuda::Cuda;
use super::report::Table;
use super::statistics::median;
use super::{Result, Row, Setting, bare};
use std::time::Instant;
use thalweg::kernel::{Kernel, Program, Write};
use thalweg::machine::UnitKind;
use thalweg::prelude::*;

/// Case that the goals compare, by the runtime and by bare calls.
pub(crate) const COPIES: &str = "copies";

const TEXT: &str = "
    KERNEL(256, 1, 1) work(INOUT(double, x, n), int rounds, int n)
    {
        REGION(x);
        int i = GLOBAL_ID(0);
        if (i < n) {
            double v = x[i];
            for (int r = 0; r < rounds; r++) v = v * 0.999 + 0.5;
            x[i] = v;
        }
    }
";
#[allow(unsafe_code)]
// SAFETY: the kernel touches only the first n elements of x, as its signature declares.
const PROGRAM: Program = unsafe { Program::new("overlap.cl", TEXT) };
static WORK: Kernel<(Write<f64>, i32, i32)> = Kernel::new(&PROGRAM, "work");
const BLOCKS: usize = 16;

/// Location of the blocks before and after their kernels.
#[derive(Clone, Copy, PartialEq)]
enum Blocks {
    /// On the device.
    Stay,
    /// In host memory; all blocks are in flight at once.
    Move,
    /// In host memory; only one block is in flight at a time.
    MoveInTurn,
}

/// Returns the time for all blocks in seconds.
fn pass(rt: &Runtime, data: &[Data<f64>], rounds: i32, blocks: Blocks) -> Result<f64> {
    let device = SpaceId(1);
    if blocks != Blocks::Stay {
        for x in data {
            rt.task("home", (x.output(),)).cpu(|_, (x,)| x.fill(1.0)).submit()?;
        }
    } else {
        data.iter().try_for_each(|x| rt.fetch(&x.all(), device))?;
    }
    rt.wait()?;
    let start = Instant::now();
    for x in data {
        let n = x.len();
        let task = rt.task("work", (x.inout(),));
        task.gpu(move |k, (mut x,)| k.launch(&WORK, n, (&mut x, rounds, n as i32))).submit()?;
        if blocks == Blocks::MoveInTurn {
            rt.fetch(&x.all(), SpaceId::HOST)?;
        }
    }
    if blocks == Blocks::Move {
        data.iter().try_for_each(|x| rt.prefetch(&x.all(), SpaceId::HOST))?;
    }
    rt.wait()?;
    Ok(start.elapsed().as_secs_f64())
}

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    let rt = setting.runtime()?;
    let elements = setting.bytes / 8 / BLOCKS;
    let data: Vec<_> = (0..BLOCKS).map(|_| rt.data(vec![1.0; elements])).collect();
    pass(&rt, &data, 1, Blocks::Move)?; // compiles the kernel and allocates device memory
    // Choose the number of rounds so that kernels take about as long as copies.
    let launches = pass(&rt, &data, 1, Blocks::Stay)?;
    let copies = pass(&rt, &data, 1, Blocks::Move)? - launches;
    let probe = 200;
    let kernels = pass(&rt, &data, probe, Blocks::Stay)? - launches;
    let rounds = (f64::from(probe) * (copies / kernels).max(0.0)).clamp(1.0, 1e6) as i32;
    let (mut hidden, mut in_turn) = (Vec::new(), Vec::new());
    let mut times = [Vec::new(), Vec::new(), Vec::new()];
    for _ in 0..setting.repetitions {
        let launches = pass(&rt, &data, 1, Blocks::Stay)?;
        let kernels = pass(&rt, &data, rounds, Blocks::Stay)? - launches;
        let copies = pass(&rt, &data, 1, Blocks::Move)? - launches;
        let both = pass(&rt, &data, rounds, Blocks::Move)? - launches;
        let control = pass(&rt, &data, rounds, Blocks::MoveInTurn)? - launches;
        let hides = |together: f64| (kernels + copies - together) / kernels.min(copies);
        hidden.push(hides(both));
        in_turn.push(hides(control));
        for (times, time) in times.iter_mut().zip([kernels, copies, both]) {
            times.push(time);
        }
    }
    drop(data);
    drop(rt);
    let bare = match setting.kind {
        UnitKind::Cuda => Some(bare::copies(&Cuda::open()?, BLOCKS, setting.bytes / BLOCKS)? * 1e3),
        _ => None,
    };
    let [kernels, copies, both] = times.map(|times| median(&times).unwrap_or(f64::NAN) * 1e3);
    let [hidden, in_turn] = [hidden, in_turn].map(|parts| median(&parts).unwrap_or(f64::NAN));
    let mut table = Table::new("16 blocks", &["ms"]);
    for (case, value) in [("kernels alone", kernels), ("copies there and back alone", copies), ("both", both)] {
        table.row(case, [Some(format!("{value:.2}"))]);
    }
    table.row("the same copies by bare calls", [bare.map(|bare| format!("{bare:.2}"))]);
    table.row("control: hidden, one block at a time", [Some(format!("{:.0} %", in_turn * 100.0))]);
    table.row("hidden share of the shorter", [Some(format!("{:.0} %", hidden * 100.0))]);
    table.print(&format!("Copies hidden by kernels, {} MiB, {}", setting.bytes >> 20, setting.units));
    let row =
        |case: &str, value, unit| Row { question: "overlap", case: case.to_owned(), contender: "thalweg", value, unit };
    let bare = bare.map(|value| Row { contender: "bare", ..row(COPIES, value, "ms") });
    let rows = [
        row("kernels", kernels, "ms"),
        row(COPIES, copies, "ms"),
        row("both", both, "ms"),
        row("hidden", hidden, ""),
        row("hidden, one block at a time", in_turn, ""),
    ];
    Ok(rows.into_iter().chain(bare).collect())
}
