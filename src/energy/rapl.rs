//! Energy counters of processors, which Linux provides under `/sys/class/powercap` (RAPL).
//!
//! A counter wraps to zero after a few hundred kilojoules, so it has to be read more often than that takes: a few
//! minutes to hours. Between two readings, at most one wrap is assumed.

use super::{EnergyMeter, MeterError};
use crate::machine::ComputeUnit;
use std::path::{Path, PathBuf};

/// Folder in which Linux provides the counters.
pub(super) const POWERCAP: &str = "/sys/class/powercap";

/// Energy counter of one processor package: its cores, its caches and everything else on the package. The counters of
/// the memory are not included.
#[derive(Debug, Clone)]
pub(super) struct RaplMeter {
    name: String,
    folder: PathBuf,
    /// Counter value at the last reading, and the total energy counted by then, both in microjoules.
    last: Option<(u64, u64)>,
}

impl RaplMeter {
    /// Returns the counters of all processors in this folder, including counters that this process may not read.
    pub(super) fn all_in(powercap: &Path) -> Vec<Self> {
        let Ok(entries) = std::fs::read_dir(powercap) else { return Vec::new() };
        let of = |entry: std::io::Result<std::fs::DirEntry>| {
            let entry = entry.ok()?;
            // `intel-rapl:0` is a package, even on an AMD processor; `intel-rapl:0:1` is a part of that package.
            entry.file_name().to_str()?.strip_prefix("intel-rapl:")?.parse::<u32>().ok()?;
            let name = std::fs::read_to_string(entry.path().join("name")).ok()?;
            Some(Self { name: format!("RAPL {}", name.trim()), folder: entry.path(), last: None })
        };
        let mut all: Vec<Self> = entries.filter_map(of).collect();
        all.sort_by(|one, other| one.name.cmp(&other.name));
        all
    }

    fn read(&self, file: &str) -> Result<u64, MeterError> {
        let path = self.folder.join(file);
        let error = |problem: String| MeterError {
            meter: self.name.clone(),
            problem: format!("{}: {problem}", path.display()),
        };
        let text = std::fs::read_to_string(&path).map_err(|problem| error(problem.to_string()))?;
        text.trim().parse().map_err(|problem: std::num::ParseIntError| error(problem.to_string()))
    }
}

impl EnergyMeter for RaplMeter {
    fn name(&self) -> String {
        self.name.clone()
    }

    fn joules(&mut self) -> Result<f64, MeterError> {
        let now = self.read("energy_uj")?;
        let counted = match self.last {
            None => now,
            Some((last, counted)) if now >= last => counted + (now - last),
            Some((last, counted)) => counted + self.read("max_energy_range_uj")?.saturating_sub(last) + now,
        };
        self.last = Some((now, counted));
        Ok(counted as f64 / 1e6)
    }

    fn covers(&self, unit: &ComputeUnit) -> bool {
        unit.is_cpu()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packages_are_found_and_counter_may_wrap() {
        let powercap = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = powercap.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        for (folder, name) in [("intel-rapl:1", "package-1"), ("intel-rapl:0", "package-0"), ("intel-rapl:0:0", "core")]
        {
            write(&format!("{folder}/name"), &format!("{name}\n"));
            write(&format!("{folder}/max_energy_range_uj"), "10000000\n");
            write(&format!("{folder}/energy_uj"), "9000000\n");
        }
        write("intel-rapl/enabled", "1");
        let mut all = RaplMeter::all_in(powercap.path());
        assert_eq!(all.iter().map(EnergyMeter::name).collect::<Vec<_>>(), ["RAPL package-0", "RAPL package-1"]);
        assert_eq!(all[0].joules(), Ok(9.0));
        write("intel-rapl:0/energy_uj", "9500000");
        assert_eq!(all[0].joules(), Ok(9.5));
        write("intel-rapl:0/energy_uj", "2000000");
        assert_eq!(all[0].joules(), Ok(12.0));
        write("intel-rapl:0/energy_uj", "gone");
        let message = all[0].joules().unwrap_err().to_string();
        assert!(message.contains("RAPL package-0") && message.contains("energy_uj: invalid digit"), "{message}");
        assert!(RaplMeter::all_in(&powercap.path().join("none")).is_empty());
    }
}
