//! Export of a trace to CSV files, one per table, for spreadsheets and data frames.
//!
//! The first line of each file lists the column names; names of time columns end in `_ns`. A field is empty if its
//! value is unknown. Names with commas, quotes or line breaks are quoted (RFC 4180). Other files in the folder are
//! never touched.

use crate::Trace;
use crate::sheets::{SHEETS, Sheet, Value};
use ::csv::{Error, ErrorKind, Writer};
use std::fmt::Write;
use std::fs;
use std::io;
use std::path::Path;

/// Writes `tasks.csv`, `dependences.csv`, `accesses.csv`, `regions.csv`, `copies.csv`, `states.csv`, `memory.csv`,
/// `drops.csv`, `policies.csv`, `notes.csv`, `decisions.csv`, `units.csv`, `spaces.csv`, `threads.csv`, `sites.csv`,
/// `data.csv` and `facts.csv` into a folder, which is created if it is missing. Files of these names are replaced.
///
/// # Errors
/// Returns an error if the folder or a file cannot be written; the error names it.
pub fn write(trace: &Trace, folder: &Path) -> io::Result<()> {
    fs::create_dir_all(folder).map_err(|problem| at(folder, &problem))?;
    for sheet in &SHEETS {
        let path = folder.join(format!("{}.csv", sheet.name));
        write_sheet(trace, sheet, &path).map_err(|problem| at(&path, &problem))?;
    }
    Ok(())
}

fn at(path: &Path, problem: &io::Error) -> io::Error {
    io::Error::new(problem.kind(), format!("cannot write {}: {problem}; try another folder", path.display()))
}

fn write_sheet(trace: &Trace, sheet: &Sheet, path: &Path) -> io::Result<()> {
    let mut writer = Writer::from_path(path).map_err(into_io)?;
    writer.write_record(sheet.columns).map_err(into_io)?;
    let mut digits = String::new();
    sheet.each_row(trace, &mut |row| {
        for value in row {
            digits.clear();
            let field = match value {
                Value::Null => "",
                Value::Number(number) => {
                    let _ = write!(digits, "{number}"); // writing to a string cannot fail
                    &digits
                }
                Value::Text(text) => text,
            };
            writer.write_field(field).map_err(into_io)?;
        }
        writer.write_record(None::<&[u8]>).map_err(into_io)
    })?;
    writer.flush()
}

fn into_io(error: Error) -> io::Error {
    match error.into_kind() {
        ErrorKind::Io(error) => error,
        kind => io::Error::other(format!("{kind:?}")),
    }
}
