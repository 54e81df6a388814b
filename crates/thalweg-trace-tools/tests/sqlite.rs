//! Tests of exporting traces to SQLite databases.

#![cfg(feature = "sqlite")]

mod common;

use common::{after, on_units, runs, task};
use proptest::prelude::*;
use rusqlite::Connection;
use std::path::Path;
use thalweg_trace_tools::{Trace, csv, sqlite};

fn number(connection: &Connection, query: &str) -> i64 {
    connection.query_row(query, [], |row| row.get(0)).unwrap()
}

/// Returns all rows of a table in the form that CSV files would have.
fn rows(connection: &Connection, table: &str) -> Vec<Vec<String>> {
    let mut select = connection.prepare(&format!("SELECT * FROM {table} ORDER BY rowid")).unwrap();
    let columns = select.column_count();
    let cell = |value: rusqlite::types::Value| match value {
        rusqlite::types::Value::Null => String::new(),
        rusqlite::types::Value::Integer(number) => number.to_string(),
        rusqlite::types::Value::Text(text) => text,
        other => panic!("{other:?} is neither a number nor a text"),
    };
    let row = |row: &rusqlite::Row<'_>| (0..columns).map(|column| row.get(column).map(cell)).collect();
    select.query_map([], row).unwrap().map(Result::unwrap).collect()
}

fn csv_rows(path: &Path) -> Vec<Vec<String>> {
    let mut reader = ::csv::Reader::from_path(path).unwrap();
    reader.records().map(|record| record.unwrap().iter().map(str::to_owned).collect()).collect()
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn tables_are_those_of_csv(trace in runs(40)) {
        let folder = tempfile::tempdir().unwrap();
        let (base, tables) = (folder.path().join("run.db"), folder.path().join("csv"));
        sqlite::write(&trace, &base).unwrap();
        csv::write(&trace, &tables).unwrap();
        let connection = Connection::open(&base).unwrap();
        let mut compared = 0;
        for file in std::fs::read_dir(&tables).unwrap() {
            let path = file.unwrap().path();
            let table = path.file_stem().unwrap().to_str().unwrap();
            prop_assert_eq!(rows(&connection, table), csv_rows(&path), "table {}", table);
            compared += 1;
        }
        prop_assert_eq!(compared, number(&connection, "SELECT count(*) FROM sqlite_schema WHERE type = 'table'"));
    }
}

fn small() -> Trace {
    let mut trace = on_units(&["CPU"]);
    let first = task(&mut trace, "it's \"quoted\"; DROP TABLE tasks", 0, 0, 10, 30);
    let second = task(&mut trace, "b", 1, 0, 31, 40);
    after(&mut trace, first, second, u64::MAX, true);
    trace
}

#[test]
fn database_answers_questions_with_indices() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("run.db");
    sqlite::write(&small(), &base).unwrap();
    let connection = Connection::open(&base).unwrap();
    assert_eq!(
        number(&connection, "SELECT sum(duration_ns) FROM tasks JOIN units USING (unit) WHERE kind = 'CPU'"),
        29
    );
    assert_eq!(number(&connection, "SELECT data FROM dependences"), i64::MAX);
    assert_eq!(number(&connection, "SELECT typeof(start_ns) = 'integer' AND parent IS NULL FROM tasks"), 1);
    for query in ["tasks WHERE name = 'b'", "tasks WHERE task = 1", "dependences WHERE successor = 1"] {
        let plan: String = connection
            .query_row(&format!("EXPLAIN QUERY PLAN SELECT * FROM {query}"), [], |row| row.get("detail"))
            .unwrap();
        assert!(plan.starts_with("SEARCH"), "{query}: {plan}");
    }
}

#[test]
fn older_database_of_a_trace_is_replaced() {
    let folder = tempfile::tempdir().unwrap();
    let base = folder.path().join("run.db");
    std::fs::write(&base, "").unwrap();
    for trace in [small(), Trace::default(), small()] {
        sqlite::write(&trace, &base).unwrap();
        let connection = Connection::open(&base).unwrap();
        assert_eq!(number(&connection, "SELECT count(*) FROM tasks"), trace.tasks.len() as i64);
    }
}

#[test]
fn other_files_are_never_overwritten() {
    let folder = tempfile::tempdir().unwrap();
    let (text, base) = (folder.path().join("notes.txt"), folder.path().join("other.db"));
    std::fs::write(&text, "SQLite format 2, or so").unwrap();
    let connection = Connection::open(&base).unwrap();
    connection.execute_batch("CREATE TABLE tasks (precious TEXT); INSERT INTO tasks VALUES ('kept')").unwrap();
    drop(connection);
    let before = [&text, &base].map(|path| std::fs::read(path).unwrap());
    let errors = [&text, &base].map(|path| sqlite::write(&small(), path).unwrap_err().to_string());
    assert_eq!([&text, &base].map(|path| std::fs::read(path).unwrap()), before);
    for (error, (path, words)) in
        errors.iter().zip([(&text, "it is no SQLite database"), (&base, "of another program")])
    {
        assert!(error.starts_with(&format!("cannot write {}: ", path.display())), "{error}");
        assert!(error.contains(words) && error.ends_with("; try a file that does not exist yet"), "{error}");
    }
    let missing = folder.path().join("missing/run.db");
    assert!(sqlite::write(&small(), &missing).unwrap_err().to_string().contains("cannot write"));
}
