//! What there is to say of a run before it starts: the problem, and how much memory it needs.

use std::fmt::Write;

use crate::mz::classes::{Benchmark, Class, Fuse, Problem};

const MIB: f64 = (1 << 20) as f64;

/// Bytes per mesh point: five components each of u, the forcing, the right-hand side, and LU's correction if its sweeps
/// are tasks of their own.
fn bytes_per_point(benchmark: Benchmark, fuse: Fuse) -> usize {
    let fields = if benchmark == Benchmark::Lu && fuse == Fuse::Stages { 4 } else { 3 };
    fields * 5 * size_of::<f64>()
}

/// Bytes of memory that a run of a problem needs.
pub fn bytes_needed(problem: &Problem, benchmark: Benchmark, fuse: Fuse) -> usize {
    problem.points.iter().product::<usize>() * bytes_per_point(benchmark, fuse)
}

/// The facts of a problem.
pub fn banner(benchmark: Benchmark, class: Class, problem: &Problem, steps: usize) -> String {
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
