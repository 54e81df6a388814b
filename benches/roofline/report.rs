//! Tables of the machine's limits, and of every stage compared with them.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::Path;

use serde::Serialize;

use crate::machine::Machine;
use crate::roof::Row;

#[path = "../harness/report.rs"]
mod harness;

use harness::Table;

/// All measurements.
#[derive(Debug, Serialize)]
pub(crate) struct Report {
    /// Name of the processor as reported by the system.
    pub(crate) processor: String,
    /// The measured limits for each number of units.
    pub(crate) machines: Vec<Machine>,
    pub(crate) rows: Vec<Row>,
}

/// Columns of the stage tables, after the stage's name.
const COLUMNS: [&str; 10] = [
    "flop/byte",
    "Gflop/s",
    "GB/s",
    "bound",
    "of the bound",
    "in a loop, ms",
    "as tasks, ms",
    "runtime",
    "replayed, ms",
    "runtime",
];

impl Report {
    /// Formats the tables as Markdown.
    pub(crate) fn text(&self) -> String {
        let mut text = String::new();
        let _ = writeln!(text, "# Rooflines\n\n{}\n\n{}", self.processor, include_str!("legend.md").trim());
        for machine in &self.machines {
            let units = machine.units;
            let _ = writeln!(text, "\n## {units} unit{}\n", if units == 1 { "" } else { "s" });
            let _ = writeln!(text, "{}", machine_table(machine));
            let of_units: Vec<&Row> = self.rows.iter().filter(|row| row.measured.units == units).collect();
            for rows in of_units.chunk_by(|a, b| a.measured.class == b.measured.class) {
                let _ = writeln!(
                    text,
                    "\n### Class {}, {units} unit{}\n",
                    rows[0].measured.class,
                    if units == 1 { "" } else { "s" }
                );
                let _ = writeln!(text, "{}", stage_table(rows));
            }
        }
        text
    }

    /// Writes the tables as Markdown and all figures as JSON.
    pub(crate) fn write(&self, folder: &Path) -> io::Result<()> {
        fs::write(folder.join("roofline.md"), self.text())?;
        fs::write(folder.join("roofline.json"), serde_json::to_string_pretty(self)? + "\n")
    }
}

fn machine_table(machine: &Machine) -> Table {
    let mut table = Table::new("from", &["room", "triad, GB/s", "gathered, 10⁹/s"]);
    for level in &machine.levels {
        let room = level.bytes.map_or_else(|| "-".to_owned(), |bytes| format!("{} KiB", bytes >> 10));
        let figures = [room, format!("{:.1}", level.triad * 1e-9), format!("{:.2}", level.gathers * 1e-9)];
        table.row(&level.name, figures.map(Some));
    }
    let peaks = [machine.peak, machine.peak_storing].map(|peak| format!("{:.1} Gflop/s", peak * 1e-9));
    let names = [format!("peak, vectors of {}", machine.lanes), "beside stores".to_owned()];
    for (name, peak) in names.into_iter().zip(peaks) {
        table.row(&name, [Some(peak), None, None]);
    }
    table
}

fn stage_table(rows: &[&Row]) -> Table {
    let mut table = Table::new("stage", &COLUMNS);
    for row in rows {
        let Row { measured, intensity, operations_per_s, bytes_per_s, bound, fraction, .. } = row;
        let has_operations = measured.work.operations > 0.0;
        let milliseconds = |seconds: f64| format!("{:.3}", seconds * 1e3);
        let percent = |share: f64| format!("{:.1} %", share * 100.0);
        let (tasks, replayed) = (measured.shares.map(|shares| shares.tasks), measured.shares.and_then(|s| s.replayed));
        let figures = [
            has_operations.then(|| format!("{intensity:.2}")),
            has_operations.then(|| format!("{:.2}", operations_per_s * 1e-9)),
            Some(format!("{:.2}", bytes_per_s * 1e-9)),
            Some(bound.clone()),
            Some(format!("{:.0} %", fraction * 100.0)),
            measured.shares.map(|shares| milliseconds(shares.plain)),
            tasks.map(|tasks| milliseconds(tasks.seconds)),
            tasks.map(|tasks| percent(tasks.runtime)),
            replayed.map(|tasks| milliseconds(tasks.seconds)),
            replayed.map(|tasks| percent(tasks.runtime)),
        ];
        table.row(&format!("{} {}", measured.program, measured.stage), figures);
    }
    table
}

/// Returns the name of the processor as reported by the system.
pub(crate) fn processor() -> String {
    let cpuinfo = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("a processor without a name", |model| model.trim_start_matches([' ', '\t', ':']));
    format!("{model}, {}", std::env::consts::ARCH)
}
