//! Output of a bench: a table on standard output and, on request, its rows as JSON.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;

use comfy_table::{CellAlignment, presets};
use serde::Serialize;

/// A table with a label in the first column and figures in the others.
#[derive(Debug)]
pub(crate) struct Table(comfy_table::Table);

impl Table {
    pub(crate) fn new(label: &str, columns: &[&str]) -> Self {
        let mut table = comfy_table::Table::new();
        table.load_style(presets::ASCII_MARKDOWN);
        table.set_header(std::iter::once(label).chain(columns.iter().copied()));
        for column in table.column_iter_mut().skip(1) {
            column.set_cell_alignment(CellAlignment::Right);
        }
        Self(table)
    }

    /// Adds a row. `None` is printed as a dash and means that the contender does not offer the case or has failed.
    pub(crate) fn row(&mut self, label: &str, figures: impl IntoIterator<Item = Option<String>>) {
        let figures = figures.into_iter().map(|figure| figure.unwrap_or_else(|| "-".to_owned()));
        self.0.add_row(std::iter::once(label.to_owned()).chain(figures));
    }

    #[allow(dead_code)] // one bench writes its tables to a file
    pub(crate) fn print(&self, title: &str) {
        println!("\n{title}\n\n{}", self.0);
    }
}

impl std::fmt::Display for Table {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes `rows` to `path` as a JSON array.
#[allow(dead_code)] // not all benches write their rows
pub(crate) fn write_json<R: Serialize>(path: &Path, rows: &[R]) -> io::Result<()> {
    let mut writer = BufWriter::new(File::create(path)?);
    serde_json::to_writer_pretty(&mut writer, rows)?;
    writeln!(writer)?;
    writer.flush()
}
