//! Lower bound on the time of a program in the suite, for any machine file and any scheduler.
//!
//! For a graph, the bound is the larger of two times: the longest path, with each task on the unit where it is fastest;
//! and the time that all units together need for all the work if tasks could be divided and each kind of unit got the
//! tasks that gain most from it. Copies are not counted. A benchmark's zones have the bound of `bound.rs`.

use crate::bound::Machine;

use super::programs::{BLOCK, Kind, drawn};

/// Tasks that are alike: the time of one on a CPU core and on a GPU, and their number.
pub(crate) type Alike = ([f64; 2], f64);

/// Returns nanoseconds for a time step, or for the graph; `None` if the machine has no times for it.
pub(super) fn least_ns(kind: Kind, machine: &Machine, (units, cores): (usize, usize), gpus: usize) -> Option<f64> {
    let ns = |name: &str, cost: f64| machine.task_ns(name, cost, 0.0, units);
    let fastest = |name: &str, cost: f64| ns(name, cost).0.into_iter().fold(f64::INFINITY, f64::min);
    let flat =
        |tasks: &[(&str, f64)]| -> Vec<Alike> { tasks.iter().map(|(name, many)| (ns(name, 1.0).0, *many)).collect() };
    let (tasks, most, path) = match kind {
        Kind::Zones(benchmark, class) => return Some(machine.zones_ns(benchmark, class, (units, cores), gpus)?.1),
        Kind::Cholesky(tiles) => {
            let t = tiles as f64;
            let pairs = t * (t - 1.0) / 2.0;
            let tasks = flat(&[("potrf", t), ("trsm", pairs), ("syrk", pairs), ("gemm", pairs * (t - 2.0) / 3.0)]);
            let step = fastest("potrf", 1.0) + fastest("trsm", 1.0) + fastest("syrk", 1.0);
            (tasks, units as f64, (t - 1.0) * step + fastest("potrf", 1.0))
        }
        Kind::Lu(tiles) => {
            let t = tiles as f64;
            let tasks =
                flat(&[("getrf", t), ("trsm row", t * (t - 1.0)), ("gemm", (t - 1.0) * t * (2.0 * t - 1.0) / 6.0)]);
            let step = fastest("getrf", 1.0) + fastest("trsm row", 1.0) + fastest("gemm", 1.0);
            (tasks, units as f64, (t - 1.0) * step + fastest("getrf", 1.0))
        }
        Kind::Stencil(side) => {
            let (size, blocks) = (BLOCK as f64, (side * side) as f64);
            let (block, most) = machine.task_ns("stencil", 1.0, size * size * 8.0, units);
            let (borders, _) = machine.task_ns("borders", 1.0, 8.0 * (size - 2.0) * 8.0, units);
            (vec![(block, blocks), (borders, blocks)], most, 0.0)
        }
        Kind::Drawn(number) => {
            let graph = drawn(number);
            let mut ends: Vec<f64> = Vec::new();
            for (name, cost, after) in &graph {
                let begin = after.iter().map(|before| ends[*before]).fold(0.0, f64::max);
                ends.push(begin + fastest(name, *cost));
            }
            let tasks = graph.iter().map(|(name, cost, _)| (ns(name, *cost).0, 1.0)).collect();
            (tasks, units as f64, ends.into_iter().fold(0.0, f64::max))
        }
    };
    Some(path.max(area_ns(tasks, most, gpus as f64)))
}

/// Returns the time in which GPUs, and CPU cores that together do `most` times as much as one, can do all of the
/// work.
pub(crate) fn area_ns(mut tasks: Vec<Alike>, most: f64, gpus: f64) -> f64 {
    tasks.sort_by(|(one, _), (other, _)| (other[0] / other[1]).total_cmp(&(one[0] / one[1])));
    let mut left = tasks.iter().map(|(ns, many)| ns[0] * many).sum::<f64>() / most;
    let mut taken = 0.0;
    for ([cpu, gpu], many) in tasks {
        let [cpu, gpu] = [cpu * many / most, gpu * many / gpus];
        if taken + gpu >= left - cpu {
            let part = ((left - taken) / (cpu + gpu)).clamp(0.0, 1.0);
            return taken + part * gpu;
        }
        (left, taken) = (left - cpu, taken + gpu);
    }
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gpus_get_the_work_that_gains_most_until_both_kinds_end_together() {
        // There are 12 tasks that run ten times as fast on a GPU, and 12 that do not gain from it.
        let tasks = vec![([10.0, 1.0], 12.0), ([10.0, 10.0], 12.0)];
        assert!((area_ns(tasks.clone(), 2.0, 1.0) - 44.0).abs() < 1e-9, "12 and 32 on the GPU, 88 on two cores");
        assert!((area_ns(tasks, 1e9, 1.0)) < 1e-3, "cores for all");
        assert!((area_ns(vec![([10.0, 1.0], 22.0)], 1.0, 1.0) - 20.0).abs() < 1e-9);
    }
}
