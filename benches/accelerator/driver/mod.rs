//! Figures of the CUDA driver itself: costs of calls, copies, page-locking, allocation and graphs.
//!
//! The runtime's choices depend on these figures: the number of streams, the size from which copies are divided, which
//! calls may block, and from which number of tasks a graph pays off. No figure uses the runtime.

mod calls;
mod copies;
mod graphs;
mod memory;

use super::cuda::Cuda;
use super::report::Table;
use super::{Result, Row, Setting};
use thalweg::machine::UnitKind;

/// A figure of the driver.
struct Figure {
    name: String,
    value: f64,
    unit: &'static str,
    note: String,
}

fn figure(name: impl Into<String>, value: f64, unit: &'static str, note: impl Into<String>) -> Figure {
    Figure { name: name.into(), value, unit, note: note.into() }
}

type Measure = fn(&Cuda, &Setting) -> Result<Vec<Figure>>;
const PARTS: [(&str, Measure); 5] = [
    ("calls", calls::calls),
    ("concurrency", calls::concurrency),
    ("graphs", graphs::measure),
    ("copies", copies::measure),
    ("memory", memory::measure),
];

pub(crate) fn measure(setting: &Setting) -> Result<Vec<Row>> {
    if setting.kind != UnitKind::Cuda {
        println!("Driver: figures exist for CUDA only.");
        return Ok(Vec::new());
    }
    drop(setting.runtime()?); // fails with a clear message if there is no device
    let cuda = Cuda::open()?;
    let mut rows = Vec::new();
    for (part, measure) in PARTS {
        let mut table = Table::new(part, &["value", "unit", "note"]);
        for Figure { name, value, unit, note } in measure(&cuda, setting)? {
            table.row(&name, [Some(format!("{value:.2}")), Some(unit.to_owned()), Some(note)]);
            rows.push(Row { question: "driver", case: name, contender: "bare", value, unit });
        }
        table.print(&format!("Driver: {part}")); // at once: a run that is stopped later has printed it
    }
    Ok(rows)
}
