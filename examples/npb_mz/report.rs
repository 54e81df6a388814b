//! What a run says before it starts: the problem, and whether there is memory for it.

use std::fmt::Write;

use sysinfo::{MemoryRefreshKind, RefreshKind, System};

use crate::classes::{Benchmark, Class, Fuse, Problem};

const MIB: f64 = (1 << 20) as f64;

/// Bytes per mesh point: five components each of u, the forcing, the right-hand side, and LU's correction if its sweeps
/// are tasks of their own.
fn bytes_per_point(benchmark: Benchmark, fuse: Fuse) -> usize {
    let fields = if benchmark == Benchmark::Lu && fuse == Fuse::Stages { 4 } else { 3 };
    fields * 5 * size_of::<f64>()
}

/// Refuses a problem that is too large for this machine's free memory.
pub(crate) fn check_memory(problem: &Problem, benchmark: Benchmark, fuse: Fuse) -> Result<(), String> {
    let points: usize = problem.points.iter().product();
    let needed = (points * bytes_per_point(benchmark, fuse)) as f64;
    let system =
        System::new_with_specifics(RefreshKind::nothing().with_memory(MemoryRefreshKind::nothing().with_ram()));
    let available = system.available_memory() as f64;
    if needed <= available {
        return Ok(());
    }
    Err(format!(
        "{points} points need {:.0} MiB of memory, and {:.0} MiB are available; choose a smaller class",
        needed / MIB,
        available / MIB
    ))
}

/// The facts of a problem.
pub(crate) fn banner(benchmark: Benchmark, class: Class, problem: &Problem, steps: usize) -> String {
    let Problem { points: [gx, gy, gz], zones: [columns, rows], dt, .. } = problem;
    let mut text = String::new();
    let points: usize = problem.points.iter().product();
    let bytes = bytes_per_point(benchmark, Fuse::Step);
    let meshes = problem.meshes(benchmark);
    let sizes = || meshes.iter().map(|mesh| mesh.shape.points());
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let name = format!("{benchmark:?}").to_uppercase();
    let _ = writeln!(text, "{name}-MZ, class {class:?}: {gx} x {gy} x {gz} points in {columns} x {rows} zones");
    let _ = writeln!(text, "zones of {least} to {most} points, {steps} steps of {dt}");
    let _ = writeln!(text, "{:.1} MiB, {bytes} bytes per mesh point", (points * bytes) as f64 / MIB);
    text
}
