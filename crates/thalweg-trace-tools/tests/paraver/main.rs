//! Reads Paraver files using a strict reader, and compares them with the tables from which they were made.

#[path = "../common/synthetic.rs"]
mod synthetic;

mod reader;

use reader::{Record, read};
use std::collections::HashMap;
use std::path::Path;
use synthetic::{odd_traces, synthetic};
use thalweg_trace_tools::paraver::write;
use thalweg_trace_tools::{StateKind, Task, Trace};

const NAME: u32 = 92_000_001;
const SOURCE: u32 = 92_000_002;
const NUMBER: u32 = 92_000_003;
const OUTCOME: u32 = 92_000_004;
const READY: u32 = 92_000_011;
const PENDING: u32 = 92_000_012;
const BYTES: u32 = 92_000_013;
const COPY: u32 = 92_000_014;
const NOTE: u32 = 92_000_021;
const RUNNING: u32 = 1;

/// Returns the texts of the `.prv`, `.pcf` and `.row` files.
fn files(trace: &Trace) -> [String; 3] {
    let folder = tempfile::tempdir().expect("a folder can be made");
    write(trace, &folder.path().join("run.v1")).expect("the files can be written");
    ["prv", "pcf", "row"]
        .map(|end| std::fs::read_to_string(folder.path().join(format!("run.v1.{end}"))).expect("the file can be read"))
}

fn exported(trace: &Trace) -> reader::Trace {
    let [prv, pcf, row] = files(trace);
    read(&prv, &pcf, &row).unwrap_or_else(|problem| panic!("{problem}"))
}

/// Returns a label in the form in which it is written.
fn clean(label: &str) -> String {
    let label = label.replace(['\n', '\t'], " ").trim().to_owned();
    if label.is_empty() { "(no name)".to_owned() } else { label }
}

/// Returns the name of a task's thread, without its layer.
fn unit_name(trace: &Trace, task: &Task) -> String {
    let unit = task.unit.expect("it ran on a unit");
    let kind = trace.units.get(unit).map_or(String::new(), |unit| format!(" {}", unit.kind));
    let device = task.device.map_or(String::new(), |device| format!(" device {device}"));
    let stream = task.stream.map_or(String::new(), |stream| format!(" stream {stream}"));
    format!("unit {unit}{kind}{device}{stream}")
}

fn without_layer(name: &str) -> &str {
    name.split_once(" layer ").map_or(name, |(name, _)| name)
}

#[test]
fn strict_reader_accepts_every_trace() {
    for (word, trace) in odd_traces() {
        let [prv, pcf, row] = files(&trace);
        let read = read(&prv, &pcf, &row).unwrap_or_else(|problem| panic!("trace {word}: {problem}"));
        assert!(read.end >= trace.end);
        let date = if trace.facts.is_empty() { "01/01/1970 at 00:00" } else { "29/11/2026 at 19:31" };
        assert_eq!(read.date, date);
    }
}

#[test]
fn strict_reader_refuses_what_paraver_would_not_understand() {
    let [prv, pcf, row] = files(&synthetic(20, 2, 1));
    let refused = |prv: &str, pcf: &str, row: &str, word: &str| {
        let problem = read(prv, pcf, row).expect_err(word);
        assert!(problem.contains(word), "{problem} instead of {word}");
    };
    let (header, body) = prv.split_once('\n').expect("a header");
    let reversed: Vec<&str> = body.lines().rev().collect();
    refused(&format!("{header}\n{}\n", reversed.join("\n")), &pcf, &row, "order of time");
    refused(&prv, &pcf.replace("92000011", "92000099"), &row, "not declared");
    refused(&prv, &pcf.replace("\n1      gemm\n", "\n"), &row, "value 1 of type 92000001 is not declared");
    refused(&prv, &pcf, &row.replace("LEVEL TASK SIZE 4\nunits\n", "LEVEL TASK SIZE 3\n"), "3 names of TASK, not 4");
    refused(&prv, &pcf, &row.replace("machine\n", "machine\nanother\n"), "NODE has not 1 names");
    refused(&prv, &pcf, &row.replace("\nmachine\n", "\n\n"), "label");
    refused(&prv.replace("_ns:1(", "_ns:1(0"), &pcf, &row, "header");
    refused(&format!("{prv}1:1:1:1:1:{0}:{0}:1\n", i64::MAX), &pcf, &row, "unknown, empty or late");
    refused(&format!("{header}\n1:1:1:1:1:0:5:1\n1:1:1:1:1:4:6:1\n"), &pcf, &row, "overlap");
    refused(&format!("{header}\n2:99:1:1:1:0:92000011:1\n"), &pcf, &row, "no such object");
    refused(&format!("{header}\n2:1:1:1:1:0:92000011:01\n"), &pcf, &row, "no number");
}

#[test]
fn bodies_are_events_with_name_place_number_and_outcome() {
    for (word, trace) in odd_traces() {
        let read = exported(&trace);
        // Keyed by task number: when and where the body began, with its name and source location.
        let mut begins: HashMap<u64, (u64, String, String, String)> = HashMap::new();
        let mut ends = Vec::new();
        for record in &read.records {
            let Record::Event { object, time, pairs } = record else { continue };
            let value = |kind: u32| pairs.iter().find(|pair| pair.0 == kind).map(|pair| pair.1);
            let text = |kind: u32| read.types[&kind].1[&value(kind).expect("both are there")].clone();
            if let Some(outcome) = value(OUTCOME) {
                ends.push((*time, without_layer(read.thread(*object)).to_owned(), outcome));
            } else if let Some(number) = value(NUMBER).and_then(|number| number.checked_sub(1)) {
                let thread = without_layer(read.thread(*object)).to_owned();
                assert!(begins.insert(number, (*time, thread, text(NAME), text(SOURCE))).is_none());
            }
        }
        let mut expected_ends = Vec::new();
        let ran: Vec<&Task> = trace.tasks.iter().filter(|task| task.start.is_some()).collect();
        assert_eq!(begins.len(), ran.len(), "bodies of a trace {word}");
        for task in ran {
            let site = &trace.sites[task.site];
            let source = format!("{}:{}:{}", site.file, site.line, site.column);
            let start = task.start.expect("it ran");
            let begin = (start, unit_name(&trace, task), clean(&site.name), source);
            assert_eq!(begins[&task.number], begin);
            let outcome = task.outcome.expect("it ended") as u64 + 1;
            expected_ends.push((task.end.expect("it ended"), unit_name(&trace, task), outcome));
        }
        ends.sort();
        expected_ends.sort();
        assert_eq!(ends, expected_ends, "ends of bodies of a trace {word}");
    }
}

#[test]
fn nested_body_gives_its_thread_back_to_the_outer_one() {
    let trace = synthetic(40, 1, 6);
    let [.., outer, inner] = &trace.tasks[..] else { panic!("two tasks at the end are nested") };
    let read = exported(&trace);
    let numbers = read.records.iter().filter_map(|record| match record {
        Record::Event { object, time, pairs } if read.thread(*object) == "unit 0 CPU" => {
            Some((*time, pairs.iter().find(|pair| pair.0 == NUMBER)?.1))
        }
        _ => None,
    });
    let numbers: Vec<(u64, u64)> = numbers.filter(|(time, _)| Some(*time) >= outer.start).collect();
    let begin = outer.start.expect("it ran");
    let expected = [(0, outer.number + 1), (20, inner.number + 1), (60, outer.number + 1), (100, 0)];
    let expected: Vec<(u64, u64)> = expected.iter().map(|(after, number)| (begin + after, *number)).collect();
    assert!(numbers.ends_with(&expected), "{numbers:?} instead of {expected:?}");
}

#[test]
fn states_show_the_innermost_slice() {
    let trace = synthetic(600, 3, 9);
    let read = exported(&trace);
    let states = read.records.iter().filter_map(|record| match record {
        Record::State { object, start, end, state } => {
            Some((without_layer(read.thread(*object)), *start, *end, *state))
        }
        _ => None,
    });
    let states = states.collect::<Vec<_>>();
    let at = |thread: &str, time: u64| {
        let now = states.iter().filter(|state| state.0 == thread && state.1 <= time && time < state.2);
        now.map(|state| state.3).collect::<Vec<_>>()
    };
    // Slices are nested at the end.
    for time in (0..trace.end).step_by(53).chain(trace.end - 115..trace.end) {
        let bodies = || trace.tasks.iter().filter(|task| task.start <= Some(time) && Some(time) < task.end);
        for (device, stream) in [(0, None), (0, Some(3)), (0, Some(4)), (1, None), (1, Some(3)), (1, Some(4))] {
            let running = bodies().filter(|task| (task.device, task.stream) == (Some(device), stream)).count();
            let stream = stream.map_or(String::new(), |stream| format!(" stream {stream}"));
            let name = format!("unit 3 EMU device {device}{stream}");
            assert_eq!(at(&name, time), vec![RUNNING; running], "{name} at {time}");
        }
        for unit in 0..3 {
            let bodies = bodies().filter(|task| task.unit == Some(unit) && task.device.is_none());
            let spans = bodies.map(|task| (task.start.expect("it ran"), RUNNING));
            let kind = |kind: StateKind| match kind {
                StateKind::Search => 2,
                StateKind::Sleep => 3,
                StateKind::Throttle => 4,
                StateKind::Wait => 5,
            };
            let between = trace.states.iter().filter(|state| state.unit == Some(unit));
            let between = between.filter(|state| state.start <= time && time < state.end);
            let latest = spans.chain(between.map(|state| (state.start, kind(state.kind)))).max();
            let expected: Vec<u32> = latest.map(|latest| latest.1).into_iter().collect();
            assert_eq!(at(&format!("unit {unit} CPU"), time), expected, "unit {unit} at {time}");
        }
    }
}

#[test]
fn copies_are_communications_between_spaces() {
    let trace = synthetic(800, 2, 12);
    let read = exported(&trace);
    let mut found = Vec::new();
    let mut reasons = [0, 0];
    for record in &read.records {
        match record {
            Record::Communication { from, to, times, size, tag } => {
                found.push((read.thread(*from).to_owned(), read.thread(*to).to_owned(), *times, *size, *tag));
            }
            Record::Event { pairs, .. } if pairs[0].0 == COPY => reasons[pairs[0].1 as usize - 1] += 1,
            _ => {}
        }
    }
    let space = |space: usize| trace.spaces[space].clone();
    let expected = trace.copies.iter().map(|copy| {
        let times = [copy.start, copy.start + copy.waited, copy.end, copy.end];
        (space(copy.from), space(copy.to), times, copy.bytes, copy.data)
    });
    let mut expected = expected.collect::<Vec<_>>();
    assert!(expected.len() > 100);
    found.sort();
    expected.sort();
    assert_eq!(found, expected);
    let evictions = trace.copies.iter().filter(|copy| copy.evicts).count();
    assert_eq!(reasons, [trace.copies.len() - evictions, evictions]);
}

#[test]
fn counters_and_notes_are_events() {
    let trace = synthetic(500, 2, 13);
    let read = exported(&trace);
    let value = |thread: &str, kind: u32, time: u64| {
        let pairs = read.records.iter().filter_map(|record| match record {
            Record::Event { object, time: at, pairs } if *at <= time && read.thread(*object) == thread => Some(pairs),
            _ => None,
        });
        pairs.flatten().rfind(|pair| pair.0 == kind).map(|pair| pair.1)
    };
    let ready = trace.ready();
    for time in (0..trace.end).step_by(911) {
        let is_ready = |(task, ready): &(&Task, &u64)| **ready <= time && task.start.is_some_and(|start| time < start);
        let count = trace.tasks.iter().zip(&ready).filter(is_ready).count() as u64;
        assert_eq!(value("runtime", READY, time), Some(count), "ready at {time}");
        let ended = |(at, task): (usize, &Task)| {
            let note = trace.notes.iter().find(|note| note.task == at).map(|note| note.at);
            task.finished.or(note).is_some_and(|end| end <= time)
        };
        let submitted = trace.tasks.iter().filter(|task| task.submitted <= time).count();
        let pending = submitted - trace.tasks.iter().enumerate().filter(|task| ended(*task)).count();
        assert_eq!(value("runtime", PENDING, time), Some(pending as u64), "pending at {time}");
        let bytes = trace.memory.iter().rfind(|change| change.space == 2 && change.at <= time);
        assert_eq!(value("EMU 1", BYTES, time), bytes.map(|change| change.bytes));
    }
    let notes =
        read.records.iter().filter(|record| matches!(record, Record::Event { pairs, .. } if pairs[0].0 == NOTE));
    assert_eq!(notes.count(), trace.notes.len());
    assert_eq!(value("runtime", 92_000_034, trace.end), Some(640), "pivot of the decision");
}

#[test]
fn problem_of_a_trace_is_in_the_name_of_the_application_and_an_event() {
    let mut trace = synthetic(5, 1, 1);
    trace.problem = Some("byte 77:\nit ends".to_owned());
    let read = exported(&trace);
    assert_eq!(read.names["APPL"], ["a b\"c, process 42 (incomplete trace: byte 77: it ends)"]);
    let incomplete = 92_000_041;
    assert_eq!(read.types[&incomplete].1[&1], "byte 77: it ends");
    let seen = |record: &Record| matches!(record, Record::Event { pairs, .. } if pairs[0] == (incomplete, 1));
    assert_eq!(read.records.iter().filter(|record| seen(record)).count(), 1);
}

#[test]
fn prefix_may_end_with_prv() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    write(&synthetic(5, 1, 1), &folder.path().join("out.prv")).expect("the files can be written");
    for file in ["out.prv", "out.pcf", "out.row"] {
        assert!(folder.path().join(file).exists(), "{file} is missing");
    }
}

#[test]
fn unwritable_file_is_named() {
    let problem = write(&Trace::default(), Path::new("/missing/out")).expect_err("the folder does not exist");
    assert!(problem.to_string().starts_with("cannot write /missing/out.pcf: "), "{problem}");
}
