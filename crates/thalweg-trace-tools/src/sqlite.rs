//! Export of a trace to an SQLite database with the tables of [`csv`](crate::csv), for questions beyond the summary.
//!
//! ```sql
//! SELECT name, count(*), avg(duration_ns), max(wait_ns) FROM tasks GROUP BY name ORDER BY sum(duration_ns) DESC;
//! ```
//!
//! All tables are written in one transaction, so an existing trace database keeps its tables until the new ones are
//! complete. Files that are not databases, and databases of other programs, are never overwritten; the module
//! recognizes trace databases by their application ID.

use crate::Trace;
use crate::sheets::{SHEETS, Sheet, Value};
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, ToSql, Transaction, params_from_iter};
use std::io::{self, Read};
use std::path::Path;

/// The application ID of trace databases: "THLW".
const APPLICATION: i64 = 0x5448_4c57;
/// The first bytes of every SQLite database.
const HEAD: [u8; 16] = *b"SQLite format 3\0";

/// Writes a database. The tables of an existing trace database are replaced.
///
/// # Errors
/// Returns an error if the file exists but is not a database or was created by another program, or if it cannot be
/// written. The error names the file.
pub fn write(trace: &Trace, path: &Path) -> io::Result<()> {
    let at = |problem: io::Error| {
        let text = format!("cannot write {}: {problem}; try a file that does not exist yet", path.display());
        io::Error::new(problem.kind(), text)
    };
    refuse_other_files(path).map_err(at)?;
    write_tables(trace, path).map_err(|problem| at(into_io(problem)))
}

/// Returns an error if the path exists and is not an SQLite database.
fn refuse_other_files(path: &Path) -> io::Result<()> {
    let mut head = Vec::new();
    match std::fs::File::open(path) {
        Ok(file) => file.take(HEAD.len() as u64).read_to_end(&mut head)?,
        Err(problem) if problem.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(problem) => return Err(problem),
    };
    match head.is_empty() || head == HEAD {
        true => Ok(()),
        false => Err(io::Error::new(io::ErrorKind::AlreadyExists, "it is no SQLite database and would be lost")),
    }
}

fn write_tables(trace: &Trace, path: &Path) -> rusqlite::Result<()> {
    let mut connection = Connection::open(path)?;
    let transaction = connection.transaction()?;
    let tables: i64 = transaction.query_row("SELECT count(*) FROM sqlite_schema", [], |row| row.get(0))?;
    let application: i64 = transaction.query_row("PRAGMA application_id", [], |row| row.get(0))?;
    if tables > 0 && application != APPLICATION {
        let problem = io::Error::new(io::ErrorKind::AlreadyExists, "it is the database of another program");
        return Err(rusqlite::Error::ToSqlConversionFailure(problem.into()));
    }
    transaction.pragma_update(None, "application_id", APPLICATION)?;
    for sheet in &SHEETS {
        write_sheet(trace, sheet, &transaction)?;
    }
    transaction.commit()
}

fn write_sheet(trace: &Trace, sheet: &Sheet, transaction: &Transaction<'_>) -> rusqlite::Result<()> {
    let Sheet { name, columns, texts, has_key, indices, .. } = sheet;
    let column = |(number, column): (usize, &&str)| {
        let kind = if texts.contains(column) { "TEXT" } else { "INTEGER" };
        let key = if *has_key && number == 0 { " PRIMARY KEY" } else { "" };
        format!("\"{column}\" {kind}{key}")
    };
    let declared: Vec<String> = columns.iter().enumerate().map(column).collect();
    transaction.execute_batch(&format!(
        "DROP TABLE IF EXISTS \"{name}\"; CREATE TABLE \"{name}\" ({}) STRICT;",
        declared.join(", ")
    ))?;
    let places = vec!["?"; columns.len()].join(", ");
    let mut insert = transaction.prepare(&format!("INSERT INTO \"{name}\" VALUES ({places})"))?;
    let written = sheet.each_row(trace, &mut |row| {
        let row = row.iter().map(|value| Column(*value));
        insert.execute(params_from_iter(row)).map(drop).map_err(io::Error::other)
    });
    written.map_err(|problem| rusqlite::Error::ToSqlConversionFailure(problem.into()))?;
    for column in *indices {
        transaction.execute_batch(&format!("CREATE INDEX \"{name}_by_{column}\" ON \"{name}\" (\"{column}\")"))?;
    }
    Ok(())
}

/// A value in the form that SQLite accepts. Numbers above SQLite's largest integer are clamped to that integer.
struct Column<'a>(Value<'a>);

impl ToSql for Column<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(ToSqlOutput::Borrowed(match self.0 {
            Value::Null => ValueRef::Null,
            Value::Number(number) => ValueRef::Integer(i64::try_from(number).unwrap_or(i64::MAX)),
            Value::Text(text) => ValueRef::Text(text.as_bytes()),
        }))
    }
}

fn into_io(error: rusqlite::Error) -> io::Error {
    match error {
        rusqlite::Error::ToSqlConversionFailure(problem) => match problem.downcast::<io::Error>() {
            Ok(problem) => *problem,
            Err(problem) => io::Error::other(problem),
        },
        error => io::Error::other(error),
    }
}
