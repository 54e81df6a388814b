//! Reconstruction of a trace from the CSV files of its tables.

use std::collections::HashMap;
use std::path::Path;
use std::str::FromStr;
use thalweg_trace_tools::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Drop, DropReason, Memory, Note, NoteKind, Outcome, Region,
    Site, State, StateKind, Task, Trace, Unit,
};

/// A row, keyed by column name.
struct Row(HashMap<String, String>);

impl Row {
    fn text(&self, column: &str) -> String {
        self.0[column].clone()
    }

    fn some<T: FromStr>(&self, column: &str) -> Option<T> {
        let text = &self.0[column];
        (!text.is_empty()).then(|| text.parse().ok().unwrap_or_else(|| panic!("{column} is {text:?}")))
    }

    fn number<T: FromStr>(&self, column: &str) -> T {
        self.some(column).unwrap_or_else(|| panic!("no {column}"))
    }

    fn flag(&self, column: &str) -> bool {
        self.number::<u8>(column) == 1
    }
}

fn rows(folder: &Path, table: &str) -> Vec<Row> {
    let mut reader = csv::Reader::from_path(folder.join(format!("{table}.csv"))).unwrap();
    let head = reader.headers().unwrap().clone();
    let row = |record: csv::StringRecord| {
        Row(head.iter().zip(&record).map(|(name, value)| (name.to_owned(), value.to_owned())).collect())
    };
    reader.records().map(|record| row(record.unwrap())).collect()
}

/// Reads the files that `csv::write` has written. The stage `ready` of a task is its effective time.
pub(crate) fn read(folder: &Path) -> Trace {
    let of = |table: &str| rows(folder, table);
    let outcome = |name: String| match name.as_str() {
        "" => None,
        "done" => Some(Outcome::Done),
        "failed" => Some(Outcome::Failed),
        "detached" => Some(Outcome::Detached),
        name => panic!("no outcome {name}"),
    };
    let task = |row: Row| Task {
        number: row.number("number"),
        site: row.number("site"),
        parent: row.some("parent"),
        submitted: row.number("submitted_ns"),
        submitter: row.some("submitter"),
        ready: row.some("ready_ns"),
        placed: row.some("placed_ns"),
        policy: row.some("policy"),
        expected: row.some("expected_ns"),
        expected_end: row.some("expected_end_ns"),
        reserved: row.some("reserved_ns"),
        launched: row.some("launched_ns"),
        start: row.some("start_ns"),
        end: row.some("end_ns"),
        finished: row.some("finished_ns"),
        unit: row.some("unit"),
        device: row.some("device"),
        stream: row.some("stream"),
        outcome: outcome(row.text("outcome")),
    };
    let state = |row: Row| State {
        start: row.number("start_ns"),
        end: row.number("end_ns"),
        kind: match row.text("state").as_str() {
            "search" => StateKind::Search,
            "sleep" => StateKind::Sleep,
            "throttle" => StateKind::Throttle,
            "wait" => StateKind::Wait,
            name => panic!("no state {name}"),
        },
        unit: row.some("unit"),
        thread: row.number("thread"),
    };
    let note = |row: Row| Note {
        at: row.number("at_ns"),
        task: row.number("task"),
        kind: match row.text("note").as_str() {
            "poisoned" => NoteKind::Poisoned,
            "refused" => NoteKind::Refused,
            "returned" => NoteKind::Returned,
            "cancelled" => NoteKind::Cancelled,
            name => panic!("no note {name}"),
        },
    };
    let mut facts: HashMap<String, String> =
        of("facts").into_iter().map(|row| (row.text("fact"), row.text("value"))).collect();
    Trace {
        end: facts.remove("end_ns").unwrap().parse().unwrap(),
        problem: facts.remove("problem"),
        facts,
        units: of("units").into_iter().map(|row| Unit { kind: row.text("kind"), width: row.number("width") }).collect(),
        spaces: of("spaces").into_iter().map(|row| row.text("name")).collect(),
        policies: of("policies").into_iter().map(|row| row.text("name")).collect(),
        threads: of("threads").into_iter().map(|row| row.text("name")).collect(),
        sites: of("sites")
            .into_iter()
            .map(|row| Site {
                name: row.text("name"),
                file: row.text("file"),
                line: row.number("line"),
                column: row.number("column"),
            })
            .collect(),
        data: of("data")
            .into_iter()
            .map(|row| (row.number("data"), Data { name: row.text("name"), bytes: row.number("bytes") }))
            .collect(),
        tasks: of("tasks").into_iter().map(task).collect(),
        dependences: of("dependences")
            .into_iter()
            .map(|row| Dependence {
                from: row.number("predecessor"),
                to: row.number("successor"),
                data: row.some("data"),
                carries_value: row.flag("carries_value"),
            })
            .collect(),
        accesses: of("accesses")
            .into_iter()
            .map(|row| Access { task: row.number("task"), region: row.some("region"), mode: mode(&row.text("mode")) })
            .collect(),
        regions: of("regions")
            .into_iter()
            .map(|row| Region { data: row.number("data"), bytes: row.number("bytes"), text: row.text("ranges") })
            .collect(),
        copies: of("copies")
            .into_iter()
            .map(|row| Copy {
                start: row.number("start_ns"),
                end: row.number("end_ns"),
                waited: row.number("waited_ns"),
                from: row.number("source"),
                to: row.number("target"),
                bytes: row.number("bytes"),
                data: row.number("data"),
                task: row.some("task"),
                evicts: row.flag("evicts"),
                stream: row.some("stream"),
            })
            .collect(),
        states: of("states").into_iter().map(state).collect(),
        memory: of("memory")
            .into_iter()
            .map(|row| Memory { at: row.number("at_ns"), space: row.number("space"), bytes: row.number("bytes") })
            .collect(),
        drops: of("drops")
            .into_iter()
            .map(|row| Drop {
                at: row.number("at_ns"),
                space: row.number("space"),
                bytes: row.number("bytes"),
                data: row.number("data"),
                why: match row.text("reason").as_str() {
                    "evicted" => DropReason::Evicted,
                    "written back" => DropReason::WrittenBack,
                    "released" => DropReason::Released,
                    "lost" => DropReason::Lost,
                    reason => panic!("no reason {reason}"),
                },
            })
            .collect(),
        notes: of("notes").into_iter().map(note).collect(),
        decisions: of("decisions")
            .into_iter()
            .map(|row| Decision {
                at: row.number("at_ns"),
                space: row.text("iteration_space"),
                instance: row.number("instance"),
                state: row.number("state"),
                pivot: row.number("pivot"),
            })
            .collect(),
    }
}

fn mode(name: &str) -> AccessMode {
    match name {
        "read" => AccessMode::Read,
        "write" => AccessMode::Write,
        "update" => AccessMode::Update,
        "commutative" => AccessMode::Commutative,
        "reduction" => AccessMode::Reduction,
        "order" => AccessMode::Order,
        "concurrent" => AccessMode::Concurrent,
        name => panic!("no mode {name}"),
    }
}

/// Returns the derived columns of the task table: the duration and delay of each task.
pub(crate) fn durations(folder: &Path) -> Vec<(Option<u64>, Option<u64>)> {
    rows(folder, "tasks").iter().map(|row| (row.some("duration_ns"), row.some("wait_ns"))).collect()
}
