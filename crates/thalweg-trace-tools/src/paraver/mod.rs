//! Export to Paraver, BSC's trace browser, as three files that share one name.
//!
//! | file | contents |
//! | --- | --- |
//! | `.prv` | header and records: states, events, communications |
//! | `.pcf` | names and colours of states and events |
//! | `.row` | names of processors, threads and tasks |
//!
//! A body becomes a state and events on the thread of its unit or device. Copies become communications between
//! spaces, and counters become events on the threads of the runtime and of the spaces. Times are nanoseconds since
//! the runtime was built.
//!
//! Dependences are not exported, because Paraver has no records for them.

mod labels;
mod model;
mod records;

use crate::Trace;
use crate::rows::{Owner, rows};
use model::Model;
use records::Records;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// Writes a trace to `prefix.prv`, `prefix.pcf` and `prefix.row`. A prefix may end with `.prv`.
///
/// # Errors
/// Returns an error if a file cannot be written; the error names it.
pub fn write(trace: &Trace, prefix: &Path) -> io::Result<()> {
    let prefix =
        if prefix.extension().is_some_and(|end| end == "prv") { prefix.with_extension("") } else { prefix.into() };
    // Copies are exported as communications, so their rows have no bars.
    let mut rows = rows(trace);
    rows.retain(|row| !matches!(row.owner, Owner::Link { .. }));
    let model = Model::new(trace, &rows);
    let records = Records::new(trace, &model, &rows);
    write_file(&prefix, "pcf", |out| labels::write(trace, out))?;
    write_file(&prefix, "row", |out| model.write_names(out))?;
    write_file(&prefix, "prv", |out| {
        model.write_header(out, &date(trace), records.end())?;
        records.write(out)
    })
}

fn write_file(
    prefix: &Path,
    extension: &str,
    write: impl FnOnce(&mut BufWriter<File>) -> io::Result<()>,
) -> io::Result<()> {
    let mut path = prefix.as_os_str().to_owned();
    path.push(".");
    path.push(extension);
    let path = PathBuf::from(path);
    let try_write = || {
        let mut out = BufWriter::new(File::create(&path)?);
        write(&mut out)?;
        out.flush()
    };
    try_write().map_err(|problem| io::Error::new(problem.kind(), format!("cannot write {}: {problem}", path.display())))
}

/// Formats the time when the run began as `dd/mm/yyyy at hh:mm` in UTC; the beginning of 1970 if the time is
/// unknown.
fn date(trace: &Trace) -> String {
    let ns: u64 = trace.facts.get("started").and_then(|started| started.parse().ok()).unwrap_or(0);
    let minutes = ns / 60_000_000_000;
    let (days, minute) = (minutes / 1440, minutes % 1440);
    let (year, month, day) = civil(days);
    format!("{day:02}/{month:02}/{year:04} at {:02}:{:02}", minute / 60, minute % 60)
}

/// Converts a number of days since 1970-01-01 to year, month and day.
fn civil(mut days: u64) -> (u64, u64, u64) {
    let is_leap = |year: u64| year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let mut year = 1970;
    while days >= 365 + u64::from(is_leap(year)) {
        days -= 365 + u64::from(is_leap(year));
        year += 1;
    }
    let lengths = [31, 28 + u64::from(is_leap(year)), 31, 30, 31, 30, 31, 31, 30, 31, 30, 31];
    let mut month = 1;
    for length in lengths {
        if days < length {
            break;
        }
        days -= length;
        month += 1;
    }
    (year, month, days + 1)
}

#[cfg(test)]
mod tests {
    use super::civil;

    #[test]
    fn days_become_dates() {
        let dates = [(0, (1970, 1, 1)), (58, (1970, 2, 28)), (59, (1970, 3, 1)), (10_956, (1999, 12, 31))];
        for (days, date) in dates {
            assert_eq!(civil(days), date);
        }
        assert_eq!((civil(11_016), civil(11_017)), ((2000, 2, 29), (2000, 3, 1)));
        assert_eq!((civil(47_540), civil(47_541)), ((2100, 2, 28), (2100, 3, 1)));
        assert_eq!(civil(20_786), (2026, 11, 29));
    }
}
