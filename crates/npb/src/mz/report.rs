//! Information printed before a run starts: the problem, and how much memory it needs.

use std::fmt::Write;

use crate::mz::classes::{Benchmark, Class, Fuse, Problem};
use crate::mz::faces;
use crate::mz::physics::{COMPONENTS, Mesh};

const MIB: f64 = (1 << 20) as f64;

/// Returns how many bytes of memory a run of a problem needs. Each point has five components in u, the forcing and
/// the right-hand side, and in LU's correction if LU's sweeps are separate tasks. With whole steps, the faces
/// that zones send each other are included.
pub fn bytes_needed(problem: &Problem, benchmark: Benchmark, fuse: Fuse) -> usize {
    let fields = if benchmark == Benchmark::Lu && fuse == Fuse::Stages { 4 } else { 3 };
    let of_points = problem.points.iter().product::<usize>() * fields * COMPONENTS * size_of::<f64>();
    let of_faces = |mesh: &Mesh| if fuse.is_whole() { faces::bytes(mesh.shape) } else { 0 };
    of_points + problem.meshes(benchmark).iter().map(of_faces).sum::<usize>()
}

/// Describes a problem.
pub fn banner(benchmark: Benchmark, class: Class, fuse: Fuse, problem: &Problem, steps: usize) -> String {
    let Problem { points: [gx, gy, gz], zones: [columns, rows], dt, .. } = problem;
    let mut text = String::new();
    let points: usize = problem.points.iter().product();
    let bytes = bytes_needed(problem, benchmark, fuse);
    let meshes = problem.meshes(benchmark);
    let sizes = || meshes.iter().map(|mesh| mesh.shape.points());
    let (least, most) = (sizes().min().unwrap_or(0), sizes().max().unwrap_or(0));
    let name = format!("{benchmark:?}").to_uppercase();
    let _ = writeln!(text, "{name}-MZ, class {class:?}: {gx} x {gy} x {gz} points in {columns} x {rows} zones");
    let _ = writeln!(text, "zones of {least} to {most} points, {steps} steps of {dt}");
    let _ = writeln!(text, "{:.1} MiB, {:.0} bytes per mesh point", bytes as f64 / MIB, bytes as f64 / points as f64);
    text
}
