//! Tests of the embedded data: an independent decoder reads the tables back from the report, and their size is
//! limited.

use crate::report;
use crate::synthetic::{Shape, everything, run};
use base64::Engine as _;
use serde_json::Value;
use std::collections::{BTreeMap, HashSet};
use std::io::Read as _;
use std::time::Instant;
use thalweg_trace_tools::analysis::Analysis;
use thalweg_trace_tools::{Trace, html};

/// A report, read back.
struct Embedded {
    head: Value,
    columns: BTreeMap<String, Vec<i64>>,
}

/// The content of a script element.
fn element<'a>(page: &'a str, id: &str) -> &'a str {
    let (_, rest) = page.split_once(&format!("id=\"{id}\">")).expect("the element exists");
    rest.split_once("</script>").expect("the element ends").0
}

impl Embedded {
    fn of(page: &str) -> Self {
        let head: Value = serde_json::from_str(element(page, "head")).expect("the figures are JSON");
        let mut columns = BTreeMap::new();
        for block in ["columns", "dependences"] {
            let packed = base64::prelude::BASE64_STANDARD.decode(element(page, block)).expect("a block is base64");
            let mut bytes = Vec::new();
            flate2::read::ZlibDecoder::new(&packed[..]).read_to_end(&mut bytes).expect("a block is compressed");
            let mut at = 0;
            for entry in head[block].as_array().expect("a directory") {
                let length = entry[3].as_u64().expect("bytes") as usize;
                let (name, kind) = (entry[0].as_str().expect("a name"), entry[1].as_str().expect("a kind"));
                let count = entry[2].as_u64().expect("a count") as usize;
                columns.insert(name.to_owned(), decode(&bytes[at..at + length], kind, count));
                at += length;
            }
            assert_eq!(at, bytes.len(), "the directory covers the block");
        }
        Self { head, columns }
    }

    fn column(&self, name: &str) -> &[i64] {
        &self.columns[name]
    }
}

fn unfold(value: u64) -> i64 {
    (value >> 1) as i64 ^ -((value & 1) as i64)
}

fn decode(bytes: &[u8], kind: &str, count: usize) -> Vec<i64> {
    let mut words = Vec::new();
    let (mut word, mut shift) = (0_u64, 0);
    for byte in bytes {
        word |= u64::from(byte & 0x7f) << shift;
        shift += 7;
        if byte & 0x80 == 0 {
            words.push(std::mem::take(&mut word));
            shift = 0;
        }
    }
    assert!(words.len() == count || words.len() == 1, "{} of {count}", words.len());
    let all = (0..count).map(|at| words[at.min(words.len() - 1)]);
    let mut last = 0_i64;
    match kind {
        "plain" => all.map(|word| word as i64).collect(),
        "signed" => all.map(unfold).collect(),
        "deltas" => {
            let sum = |word| {
                last += unfold(word);
                last
            };
            all.map(sum).collect()
        }
        kind => panic!("no column has kind {kind}"),
    }
}

/// An optional time that is stored as folded distance plus one.
fn time(stored: i64, reference: Option<u64>) -> Option<u64> {
    let folded = (stored as u64).checked_sub(1)?;
    Some((reference.expect("a time with a reference") as i64 + unfold(folded)) as u64)
}

/// Compares all columns with the tables.
fn compare(trace: &Trace) {
    let embedded = Embedded::of(&report(trace));
    let column = |name: &str| embedded.column(name);
    let ready = trace.ready();
    for (at, task) in trace.tasks.iter().enumerate() {
        let submitted = column("submitted")[at] as u64;
        assert_eq!(submitted, task.submitted);
        let is_ready = Some((submitted as i64 + column("ready")[at]) as u64);
        assert_eq!(is_ready, Some(ready[at]));
        let start = time(column("start")[at], is_ready);
        let end = time(column("end")[at], start.or(is_ready));
        let placed = time(column("placed")[at], is_ready);
        let reserved = time(column("reserved")[at], placed.or(is_ready));
        let launched = time(column("launched")[at], reserved.or(placed).or(is_ready));
        assert_eq!((start, end), (task.start, task.end), "task {at}");
        assert_eq!(time(column("finished")[at], end.or(is_ready)), task.finished);
        assert_eq!((placed, reserved, launched), (task.placed, task.reserved, task.launched));
        assert_eq!(column("number")[at] as u64, task.number);
        assert_eq!(column("site")[at] as usize, task.site);
        let option = |name: &str| (column(name)[at] as usize).checked_sub(1);
        assert_eq!((option("unit"), option("device"), option("parent")), (task.unit, task.device, task.parent));
        assert_eq!(column("outcome")[at], task.outcome.map_or(0, |outcome| outcome as i64 + 1));
    }

    let mut edges = Vec::new();
    let mut next = 0;
    let numbers = column("data.number");
    let object = |stored: i64| (stored / 2 > 0).then(|| numbers[stored as usize / 2 - 1] as u64);
    for (to, count) in column("edges").iter().enumerate() {
        for at in next..next + *count as usize {
            let about = column("edge.data")[at];
            edges.push((to as i64 - column("edge.back")[at], to as i64, object(about), about % 2 == 1));
        }
        next += *count as usize;
    }
    let tables = trace.dependences.iter();
    let expected = tables.map(|edge| (edge.from as i64, edge.to as i64, edge.data, edge.carries_value));
    assert_eq!(edges, expected.collect::<Vec<_>>());

    for (at, copy) in trace.copies.iter().enumerate() {
        let end = column("copy.end")[at];
        assert_eq!((end - column("copy.duration")[at], end), (copy.start as i64, copy.end as i64));
        assert_eq!((column("copy.bytes")[at], column("copy.waited")[at]), (copy.bytes as i64, copy.waited as i64));
        assert_eq!(column("copy.evicts")[at] == 1, copy.evicts);
    }
    for (at, memory) in trace.memory.iter().enumerate() {
        let read = (column("memory.at")[at], column("memory.space")[at], column("memory.bytes")[at]);
        assert_eq!(read, (memory.at as i64, memory.space as i64, memory.bytes as i64));
    }
    for (at, state) in trace.states.iter().enumerate() {
        let end = column("state.end")[at];
        let read = (end - column("state.duration")[at], end, column("state.kind")[at]);
        assert_eq!(read, (state.start as i64, state.end as i64, state.kind as i64));
    }
    for (at, note) in trace.notes.iter().enumerate() {
        let read = (column("note.at")[at], column("note.task")[at], column("note.kind")[at]);
        assert_eq!(read, (note.at as i64, note.task as i64, note.kind as i64));
    }
    compare_accesses(trace, &embedded);
    compare_rows(trace, &embedded);
}

fn compare_accesses(trace: &Trace, embedded: &Embedded) {
    let column = |name: &str| embedded.column(name);
    let counts = column("accesses").iter().enumerate();
    let tasks: Vec<usize> = counts.flat_map(|(task, count)| std::iter::repeat_n(task, *count as usize)).collect();
    for (at, access) in trace.accesses.iter().enumerate() {
        let region = (column("access.region")[at] as usize).checked_sub(1);
        assert_eq!((tasks[at], region), (access.task, access.region));
        assert_eq!(column("access.mode")[at], access.mode as i64);
    }
    assert_eq!(tasks.len(), trace.accesses.len());
    for (at, region) in trace.regions.iter().enumerate() {
        let data = (column("region.data")[at] as usize).checked_sub(1);
        let known = trace.data.contains_key(&region.data).then_some(region.data);
        assert_eq!(data.map(|place| column("data.number")[place] as u64), known);
        assert_eq!(column("region.bytes")[at], region.bytes as i64);
        assert_eq!(embedded.head["regions"][at], region.text);
    }
}

/// Each body, copy and state is in exactly one row, and spans of a lane do not overlap.
fn compare_rows(trace: &Trace, embedded: &Embedded) {
    let body = |at: usize| {
        let task = &trace.tasks[at];
        (task.start.expect("only bodies are in rows"), task.end.unwrap_or(trace.end), task.unit)
    };
    let bodies: HashSet<usize> = (0..trace.tasks.len()).filter(|at| trace.tasks[*at].start.is_some()).collect();
    let items = embedded.column("task.items");
    assert_eq!(items.iter().map(|at| *at as usize).collect::<HashSet<_>>(), bodies);
    assert_eq!(items.len(), bodies.len(), "no body is drawn twice");
    let mut begin = 0;
    for (row, count) in embedded.column("task.rows").iter().enumerate() {
        let unit = embedded.head["rows"]["tasks"][row]["unit"].as_u64().map(|unit| unit as usize);
        let mut ends = BTreeMap::new();
        let range = begin..begin + *count as usize;
        for (item, lane) in items[range.clone()].iter().zip(&embedded.column("task.lanes")[range]) {
            let (start, end, of_unit) = body(*item as usize);
            assert_eq!(of_unit, unit);
            let busy_until = ends.insert(lane, end).unwrap_or(0);
            assert!(busy_until <= start, "two bodies overlap in a lane of row {row}");
        }
        begin += *count as usize;
    }
    for (prefix, count) in [("copy", trace.copies.len()), ("state", trace.states.len())] {
        let items: HashSet<i64> = embedded.column(&format!("{prefix}.items")).iter().copied().collect();
        assert_eq!(items, (0..count as i64).collect());
    }
}

#[test]
fn columns_hold_the_tables() {
    compare(&everything());
    compare(&run(&Shape { tasks: 3000, cpus: 5, predecessors: 6, seed: 3 }));
    compare(&Trace::default());
}

#[test]
fn dependences_out_of_order_are_grouped() {
    let mut trace = run(&Shape { tasks: 50, cpus: 1, predecessors: 3, seed: 8 });
    let expected = Embedded::of(&report(&trace));
    trace.dependences.sort_by_key(|edge| (edge.to % 2, edge.to));
    let shuffled = Embedded::of(&report(&trace));
    assert_eq!(shuffled.column("edges"), expected.column("edges"));
    assert_eq!(shuffled.column("edge.back"), expected.column("edge.back"));
}

#[test]
fn embedded_shares_add_up_to_the_whole() {
    for trace in [everything(), run(&Shape { tasks: 2000, cpus: 3, predecessors: 9, seed: 21 })] {
        let (head, analysis) = (Embedded::of(&report(&trace)).head, Analysis::of(&trace));
        let numbers = |value: &Value| -> Vec<u64> {
            value.as_array().expect("a list").iter().map(|number| number.as_u64().expect("a number")).collect()
        };
        let sum: u64 = numbers(&head["shares"]).iter().sum();
        assert_eq!(sum, analysis.unit_time());
        for unit in head["units_use"].as_array().expect("a list") {
            assert_eq!(numbers(&unit[1]).iter().sum::<u64>(), analysis.makespan());
        }
        let activities: Vec<Vec<u64>> =
            head["use"].as_array().expect("a list").iter().map(|entry| numbers(&entry["values"])).collect();
        for bin in 0..activities[0].len() {
            let whole: u64 = activities.iter().map(|values| values[bin]).sum();
            // Each share is rounded down to thousandths.
            assert!((1000 - activities.len() as u64..=1000).contains(&whole), "{whole} thousandths at {bin}");
        }
    }
}

#[test]
fn gaps_lie_within_units_and_do_not_overlap() {
    let trace = run(&Shape { tasks: 2000, cpus: 3, predecessors: 9, seed: 21 });
    let (embedded, analysis) = (Embedded::of(&report(&trace)), Analysis::of(&trace));
    let (start, duration) = (embedded.column("gap.start"), embedded.column("gap.duration"));
    let mut begin = 0;
    for count in embedded.column("gap.rows") {
        let mut busy_until = 0;
        for at in begin..begin + *count as usize {
            assert!(start[at] >= busy_until && duration[at] > 0);
            busy_until = start[at] + duration[at];
        }
        assert!(busy_until <= analysis.end as i64);
        begin += *count as usize;
    }
    assert_eq!(begin, start.len());
    assert!(begin > 100, "{begin} gaps");
}

#[test]
fn report_takes_less_than_forty_bytes_a_task() {
    let trace = run(&Shape { tasks: 20_000, cpus: 8, predecessors: 4, seed: 5 });
    let size = report(&trace).len() - report(&Trace::default()).len();
    assert!(size < 40 * trace.tasks.len(), "{} bytes a task", size / trace.tasks.len());
}

/// Measures a run of a million tasks. Meant for release builds.
#[test]
#[ignore = "takes long in a debug build"]
fn million_tasks_take_five_seconds_and_forty_megabytes() {
    let trace = run(&Shape { tasks: 1_000_000, cpus: 8, predecessors: 4, seed: 5 });
    let folder = tempfile::tempdir().expect("there is a folder for temporary files");
    let path = folder.path().join("million.html");
    let began = Instant::now();
    html::write(&trace, &path).expect("the file is writable");
    let (took, size) = (began.elapsed(), std::fs::metadata(&path).expect("the file exists").len());
    println!("{} tasks, {} dependences: {took:?}, {size} bytes", trace.tasks.len(), trace.dependences.len());
    assert!(took.as_secs_f64() < 5.0, "{took:?}");
    assert!(size < 40_000_000, "{size} bytes");
}
