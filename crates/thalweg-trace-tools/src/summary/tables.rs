//! Column layout for text, without ruling lines. This module knows nothing about runs.

use comfy_table::{CellAlignment, ContentArrangement, Table, presets};

/// Alignment of the text in a column.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Align {
    Left,
    Right,
}

/// Returns the lines of a table with two spaces between columns. Rows may differ in length.
pub(super) fn columns(align: &[Align], rows: Vec<Vec<String>>) -> Vec<String> {
    let mut table = Table::new();
    table.load_style(presets::NOTHING).set_content_arrangement(ContentArrangement::Disabled);
    for mut row in rows {
        row.resize(align.len(), String::new());
        table.add_row(row);
    }
    for (column, align) in table.column_iter_mut().zip(align) {
        let align = match align {
            Align::Left => CellAlignment::Left,
            Align::Right => CellAlignment::Right,
        };
        column.set_padding((0, 2)).set_cell_alignment(align);
    }
    table.lines().map(|line| line.trim_end().to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_aligned_also_with_wide_letters() {
        let rows =
            vec![vec!["a".to_owned(), "1".to_owned()], vec!["🦀b".to_owned(), "22".to_owned()], vec!["c".to_owned()]];
        assert_eq!(columns(&[Align::Left, Align::Right], rows), ["a     1", "🦀b  22", "c"]);
    }
}
