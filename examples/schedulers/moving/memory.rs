//! Bytes that one GPU moves whose memory holds a quarter of a Cholesky factorization's data, by the order of the tasks.
//!
//! The lower bound for an n × n matrix and a memory of M numbers is n³ / (3 √2 √M) numbers (O. Beaumont, L.
//! Eyraud-Dubois, M. Vérité, J. Langou, "I/O-Optimal Algorithms for Symmetric Linear Algebra Kernels", SPAA 2022), or
//! every tile once.

use std::path::Path;

use thalweg::{Eviction, Runtime};
use toml::{Table, Value};

use super::Took;
use crate::bound::Machine;
use crate::common::{Result, copied_bytes};
use crate::graphs::Case;
use crate::graphs::programs::{Kind, TILE};
use crate::rivals::{dmdas::Dmdas, list, planned::Planned};

const TILES: usize = 20;
/// This library's policies, and those of others.
const SCHEDULERS: [&str; 6] = ["stealing", "priority", "eft", "bottom-level", "heft", "dmdas"];

/// Runs the cases whose names contain `only`.
pub(super) fn run(machines: &Path, only: &str) -> Result<Vec<Took>> {
    let kind = Kind::Cholesky(TILES);
    let case = Case { kind, machine: "mirage", cpus: 0, gpus: 1 };
    let path = machines.join("mirage.toml");
    let mut file: Table = std::fs::read_to_string(&path)?.parse()?;
    let graph = kind.graph();
    let tiles = TILES * (TILES + 1) / 2;
    let memory_bytes = tiles / 4 * graph.tile_bytes;
    let gpu = file.get_mut("units").and_then(|units| units.get_mut("GPU")).and_then(Value::as_table_mut);
    let gpu = gpu.ok_or("the machine has no GPU")?;
    gpu.insert("memory_bytes".to_owned(), Value::Integer(memory_bytes as i64));
    let machine: thalweg::SimulatedMachine = toml::to_string(&file)?.parse()?;
    let times = Machine::from_file(&path)?;
    let problem = case.problem(&graph, &times);
    let heft = list::heft(&problem);
    let mut rows = Vec::new();
    for (eviction, name) in [(Eviction::LeastRecent, "least recent"), (Eviction::FurthestUse, "furthest use")] {
        let name = format!("{kind}, {name}");
        if !name.contains(only) {
            continue;
        }
        for scheduler in SCHEDULERS {
            // All tasks are submitted before the first of them runs, so that the next uses are known.
            let builder = Runtime::builder().compute_units("1:GPU:1").simulate(machine.clone().with_noise(0, 0.0));
            let builder = builder.eviction(eviction).max_pending_tasks(usize::MAX);
            let rt = match scheduler {
                "heft" => builder.policy(Planned::new("heft", &heft, 1)),
                "dmdas" => builder.policy(Dmdas::new(problem.clone(), times.byte_ns())),
                own => builder.scheduler(own),
            };
            let rt = rt.build()?;
            graph.run(&rt, &graph.data(&rt))?;
            let ratio = copied_bytes(&rt) as f64 / least_bytes(graph.tile_bytes, memory_bytes);
            rows.push(Took { table: "memory", case: name.clone(), scheduler: scheduler.to_owned(), seed: 0, ratio });
        }
    }
    Ok(rows)
}

/// Returns the least number of bytes that move, in any order.
fn least_bytes(tile_bytes: usize, memory_bytes: usize) -> f64 {
    let number_bytes = (tile_bytes / TILE.pow(2)) as f64;
    let (n, memory) = ((TILES * TILE) as f64, memory_bytes as f64 / number_bytes);
    let once = (TILES * (TILES + 1) / 2 * tile_bytes) as f64;
    (number_bytes * n.powi(3) / (3.0 * (2.0 * memory).sqrt())).max(once)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_order_moves_fewer_bytes_than_the_lower_bound_and_look_ahead_never_moves_more() {
        let rows = run(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../../machines"), "").unwrap();
        let (recent, furthest) = rows.split_at(SCHEDULERS.len());
        for (recent, furthest) in recent.iter().zip(furthest) {
            assert_eq!(recent.scheduler, furthest.scheduler);
            assert!(1.0 <= furthest.ratio && furthest.ratio <= recent.ratio, "{furthest:?} {recent:?}");
        }
    }
}
