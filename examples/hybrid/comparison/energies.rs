//! The additivity of energies: whether CPU and devices use as much energy together as each kind uses for its share
//! alone (Farrelly et al. 2024, §VI-D). Only then do profiles that were measured one kind at a time lead to the
//! division with the least energy.
//!
//! The shares are those of equal parts. The energy of a share is that of the whole work, alone, times the share, since
//! the article's energies are proportional to the rows.

use std::collections::BTreeMap;

use thalweg::machine::UnitConfig;
use thalweg::sched::fpm::{FpmError, Profile, additive};
use thalweg::sched::static_chunks;

use super::Row;

/// Fraction by which energies may differ; the article's measurements are as precise as this.
const TOLERANCE: f64 = 0.05;

/// Prints by how much the energies differ on average over all sizes; nothing if an energy is unknown.
pub(super) fn report(rows: &[Row], blocks: usize, units: &UnitConfig) {
    match difference(rows, blocks, units) {
        None => {}
        Some(Ok(mean)) => println!("energies add up: alone and together differ by {:.1} % on average", 100.0 * mean),
        Some(Err(error)) => println!("{error}"),
    }
}

fn difference(rows: &[Row], blocks: usize, units: &UnitConfig) -> Option<Result<f64, FpmError>> {
    let joules = |who: &str| -> Option<Vec<(u64, f64)>> {
        let by_size: Option<BTreeMap<u64, f64>> =
            rows.iter().filter(|row| row.who == who).map(|row| Some((row.size as u64, row.joules?))).collect();
        Some(by_size?.into_iter().collect())
    };
    let share = |points: Vec<(u64, f64)>, of_cpu: bool| -> Vec<(u64, f64)> {
        let of = |size: u64| {
            let on_cpu = cpu_share(size as usize, blocks, units);
            if of_cpu { on_cpu } else { 1.0 - on_cpu }
        };
        points.into_iter().map(|(size, joules)| (size, of(size) * joules)).collect()
    };
    let (cpu, devices, both) = (joules("CPU alone")?, joules("devices alone")?, joules("both, equal")?);
    let check = || {
        let serial = [Profile::new("CPU", share(cpu, true))?, Profile::new("devices", share(devices, false))?];
        additive(&serial, &Profile::new("together", both)?, TOLERANCE)
    };
    Some(check())
}

/// Returns the fraction of the rows that the CPU units get if all units get equally many blocks.
fn cpu_share(size: usize, blocks: usize, units: &UnitConfig) -> f64 {
    let cpus: usize = units.terms().iter().filter(|term| !term.kind.is_device()).map(|term| term.count).sum();
    let rows = size.div_ceil(blocks);
    let chunks = static_chunks(size.div_ceil(rows), units.num_units());
    (chunks[cpus - 1].end * rows).min(size) as f64 / size as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(joules: [Option<f64>; 3]) -> Vec<Row> {
        let who = ["CPU alone", "devices alone", "both, equal"];
        let row = |(who, joules)| Row {
            size: 100,
            who,
            units: String::new(),
            scheduler: String::new(),
            seconds: 1.0,
            joules,
        };
        who.into_iter().zip(joules).map(row).collect()
    }

    #[test]
    fn energies_of_shares_are_compared_with_the_energy_together() {
        let units = "1:CPU:62,2:GPU:1".parse().unwrap();
        assert_eq!(cpu_share(100, 10, &units), 0.4); // 10 blocks: 4, 3 and 3
        assert_eq!(cpu_share(95, 10, &units), 40.0 / 95.0); // the last block has 5 rows
        let found = |joules| difference(&rows(joules), 10, &units);
        assert!(found([Some(50.0), Some(100.0), Some(80.0)]).unwrap().unwrap() < 1e-12);
        let apart = found([Some(50.0), Some(100.0), Some(100.0)]).unwrap().unwrap_err();
        assert!(apart.to_string().starts_with("energy is not additive"), "{apart}");
        assert!(found([Some(50.0), None, Some(80.0)]).is_none());
    }
}
