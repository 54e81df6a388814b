//! Energy meters of this machine, and the reasons why other meters are not available.

use super::rapl::POWERCAP;
use super::{EnergyMeter, RaplMeter};
use std::fmt;
use std::path::Path;

/// The readable meters, and the reasons why other meters cannot be read.
///
/// ```
/// let found = thalweg::energy::meters();
/// assert!(!found.readable.is_empty() || !found.absent.is_empty());
/// ```
#[derive(Default)]
#[non_exhaustive]
pub struct Meters {
    /// Meters that can be read.
    pub readable: Vec<Box<dyn EnergyMeter>>,
    /// Reasons why other meters cannot be read.
    pub absent: Vec<String>,
}

impl fmt::Debug for Meters {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.readable.iter().map(|meter| meter.name()).collect();
        f.debug_struct("Meters").field("readable", &names).field("absent", &self.absent).finish()
    }
}

impl Meters {
    /// Adds a meter to the readable meters or, if it cannot be read, adds the reason to `absent`.
    pub(crate) fn add(&mut self, mut meter: Box<dyn EnergyMeter>) {
        match meter.joules() {
            Ok(_) => self.readable.push(meter),
            Err(error) => self.absent.push(error.to_string()),
        }
    }
}

/// Finds the energy meters of processors (RAPL). Meters of devices are found together with their units
/// ([`Builder::find_energy_meters`](crate::Builder::find_energy_meters)).
///
/// ```
/// for why in thalweg::energy::meters().absent {
///     println!("{why}");
/// }
/// ```
pub fn meters() -> Meters {
    meters_in(Path::new(POWERCAP))
}

fn meters_in(powercap: &Path) -> Meters {
    let mut found = Meters::default();
    let packages = RaplMeter::all_in(powercap);
    if packages.is_empty() {
        let why = "the system shows none (a container or virtual machine, or no processor that counts energy)";
        found.absent.push(format!("no processor meter in {}: {why}", powercap.display()));
    }
    packages.into_iter().for_each(|package| found.add(Box::new(package)));
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unreadable_meter_is_absent_with_a_reason() {
        let powercap = tempfile::tempdir().unwrap();
        let found = meters_in(powercap.path());
        assert!(found.readable.is_empty() && found.absent[0].contains("a container or virtual machine"));
        let package = powercap.path().join("intel-rapl:0");
        std::fs::create_dir_all(&package).unwrap();
        std::fs::write(package.join("name"), "package-0").unwrap();
        let found = meters_in(powercap.path());
        assert!(found.readable.is_empty() && found.absent[0].contains("RAPL package-0"), "{found:?}");
        std::fs::write(package.join("energy_uj"), "5").unwrap();
        let found = meters_in(powercap.path());
        assert!(found.absent.is_empty() && found.readable[0].name() == "RAPL package-0", "{found:?}");
    }
}
