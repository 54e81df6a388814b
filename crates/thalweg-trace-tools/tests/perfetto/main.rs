//! Reads files in Perfetto's format back and compares them with the tables from which they were made.

#[path = "../common/synthetic.rs"]
mod synthetic;

mod decode;
mod golden;
mod package;

use decode::{File, Slice, decode};
use std::collections::{BTreeMap, HashMap};
use synthetic::{NAMES, odd_traces, synthetic};
use thalweg_trace_tools::perfetto::{Arrows, Options, write, write_with};
use thalweg_trace_tools::{Outcome, StateKind, Trace};

/// Returns the bytes of a file.
fn bytes(trace: &Trace, options: Options) -> Vec<u8> {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("out.pftrace");
    write_with(trace, &path, options).expect("the file can be written");
    std::fs::read(path).expect("the file can be read")
}

fn exported(trace: &Trace, arrows: Arrows) -> File {
    decode(&bytes(trace, Options { arrows, annotations: true }))
}

/// Returns the name of a slice's track.
fn track_name<'a>(file: &'a File, slice: &Slice) -> &'a str {
    file.tracks[&slice.track].name.as_deref().expect("tracks of slices have names")
}

/// Returns the slices of bodies, keyed by task number.
fn bodies(file: &File) -> HashMap<u64, usize> {
    let of = |(at, slice): (usize, &Slice)| (slice.annotations["task"].parse().expect("a number"), at);
    file.slices.iter().enumerate().filter(|(_, slice)| slice.categories[0] == "task").map(of).collect()
}

#[test]
fn each_body_has_one_slice_with_name_track_and_annotations() {
    for (word, trace) in odd_traces() {
        let file = exported(&trace, Arrows::All);
        let bodies = bodies(&file);
        let ready = trace.ready();
        let ran: Vec<_> = trace.tasks.iter().zip(&ready).filter(|(task, _)| task.start.is_some()).collect();
        assert_eq!(bodies.len(), ran.len(), "bodies of a trace {word}");
        assert_eq!(file.slices.iter().filter(|slice| slice.categories[0] == "task").count(), ran.len());
        for (task, ready) in ran {
            let slice = &file.slices[bodies[&task.number]];
            let name = trace.sites[task.site].name.as_str();
            assert_eq!(slice.name, if name.trim().is_empty() { "(no name)" } else { name });
            assert_eq!((Some(slice.start), slice.end), (task.start, task.end));
            let kind = trace
                .units
                .get(task.unit.expect("it has a unit"))
                .map_or(String::new(), |unit| format!(" {}", unit.kind));
            let mut track = format!("unit {}{kind}", task.unit.expect("it has a unit"));
            if let Some(device) = task.device {
                track += &format!(" device {device}");
            }
            if let Some(stream) = task.stream {
                track += &format!(" stream {stream}");
            }
            assert_eq!(track_name(&file, slice), track);
            assert_eq!(slice.categories.contains(&"failed".to_owned()), task.outcome == Some(Outcome::Failed));
            let annotation = |key: &str| slice.annotations.get(key).map(String::as_str);
            let line = NAMES.iter().position(|other| *other == name).expect("a known name") + 1;
            assert_eq!(annotation("source"), Some(format!("src/x.rs:{line}:5").as_str()));
            let number = |number: Option<u64>| number.map(|number| number.to_string());
            assert_eq!(annotation("placed by"), task.policy.map(|policy| trace.policies[policy].as_str()));
            assert_eq!(annotation("expected duration (ns)"), number(task.expected).as_deref());
            assert_eq!(annotation("ready to expected end (ns)"), number(task.expected_end).as_deref());
            assert_eq!(annotation("submitted (ns)"), Some(task.submitted.to_string().as_str()));
            assert_eq!(annotation("ready (ns)"), Some(ready.to_string().as_str()));
            let delay = task.start.expect("it ran") - ready;
            assert_eq!(annotation("ready to start (ns)"), Some(delay.to_string().as_str()));
            let parent = task.parent.map(|parent| trace.tasks[parent].number.to_string());
            assert_eq!(annotation("parent task"), parent.as_deref());
            let submitter = task.submitter.map(|thread| thread.to_string());
            assert_eq!(annotation("submitting thread"), submitter.as_deref());
        }
    }
}

#[test]
fn states_and_copies_have_slices_on_the_tracks_of_their_threads_and_links() {
    for (word, trace) in odd_traces() {
        let file = exported(&trace, Arrows::None);
        let mut found: Vec<(String, String, u64, u64)> = Vec::new();
        for slice in file.slices.iter().filter(|slice| slice.categories[0] != "task") {
            let served = slice.annotations.get("for task").map_or("", String::as_str);
            let name = format!("{} {}{served}", slice.categories[0], slice.name);
            found.push((track_name(&file, slice).to_owned(), name, slice.start, slice.end.expect("it ends")));
        }
        let mut expected = Vec::new();
        let known =
            |names: &[String], at: usize, word: &str| names.get(at).cloned().unwrap_or_else(|| format!("{word} {at}"));
        for state in &trace.states {
            let kind = match state.kind {
                StateKind::Search => "search",
                StateKind::Sleep => "sleep",
                StateKind::Throttle => "throttle",
                StateKind::Wait => "wait",
            };
            let track = match (state.unit, trace.threads.get(state.thread)) {
                (Some(unit), _) => match trace.units.get(unit) {
                    Some(known) => format!("unit {unit} {}", known.kind),
                    None => format!("unit {unit}"),
                },
                (None, Some(name)) => format!("thread {} {name}", state.thread),
                (None, None) => format!("thread {}", state.thread),
            };
            expected.push((track, format!("state {kind}"), state.start, state.end));
        }
        for copy in &trace.copies {
            let [from, to] = [copy.from, copy.to].map(|space| known(&trace.spaces, space, "space"));
            let name = trace.data.get(&copy.data).map_or(format!("data {}", copy.data), |data| data.name.clone());
            let category = if copy.evicts { "eviction" } else { "copy" };
            let track = format!("copies {from} to {to}");
            let served = copy.task.map_or(String::new(), |task| trace.tasks[task].number.to_string());
            expected.push((track, format!("{category} {name}{served}"), copy.start + copy.waited, copy.end));
        }
        found.sort();
        expected.sort();
        assert_eq!(found, expected, "slices of a trace {word}");
    }
}

#[test]
fn each_dependence_between_bodies_has_an_arrow() {
    for (word, trace) in odd_traces() {
        let file = exported(&trace, Arrows::All);
        let bodies = bodies(&file);
        let mut found: Vec<(usize, usize)> = file.arrows.values().copied().collect();
        let mut expected = Vec::new();
        for dependence in &trace.dependences {
            let [from, to] = [dependence.from, dependence.to].map(|task| &trace.tasks[task]);
            if from.start.is_none() || to.start.is_none() {
                continue;
            }
            let ends = (bodies[&from.number], bodies[&to.number]);
            // If a predecessor has no duration, its successor may begin at the same time. In that case, the order
            // in the file decides.
            assert!(ends.0 < ends.1 || from.start == to.start);
            if ends.0 < ends.1 {
                expected.push(ends);
            }
        }
        found.sort_unstable();
        expected.sort_unstable();
        assert_eq!(found, expected, "arrows of a trace {word}");
    }
}

#[test]
fn last_arrows_come_from_the_predecessor_that_ended_last() {
    let trace = synthetic(1000, 3, 11);
    let file = exported(&trace, Arrows::Last);
    let bodies = bodies(&file);
    let task_of: HashMap<usize, usize> =
        trace.tasks.iter().enumerate().filter_map(|(at, task)| Some((*bodies.get(&task.number)?, at))).collect();
    assert!(file.arrows.len() > 500, "{} arrows", file.arrows.len());
    for (from, to) in file.arrows.values().map(|(from, to)| (task_of[from], task_of[to])) {
        let ends = trace.dependences.iter().filter(|dependence| dependence.to == to);
        assert_eq!(trace.tasks[from].finished, ends.map(|end| trace.tasks[end.from].finished).max().expect("one"));
    }
    let successors: std::collections::HashSet<usize> = file.arrows.values().map(|(_, to)| *to).collect();
    assert_eq!(successors.len(), file.arrows.len(), "each task has at most one arrow into it");
    assert!(exported(&trace, Arrows::None).arrows.is_empty());
}

#[test]
fn counters_agree_with_the_tables() {
    let trace = synthetic(2000, 3, 8);
    let file = exported(&trace, Arrows::None);
    let ready = trace.ready();
    let poisoned: BTreeMap<usize, u64> = trace.notes.iter().map(|note| (note.task, note.at)).collect();
    let value = |name: &str, time: u64| {
        let points = &file.counters[name];
        points[..points.partition_point(|point| point.0 <= time)].last().map(|point| point.1)
    };
    for time in (0..=trace.end).step_by(97) {
        let contains = |start: u64, end: Option<u64>| start <= time && end.is_none_or(|end| time < end);
        let is_ready =
            |(at, task): (usize, &thalweg_trace_tools::Task)| task.start.is_some() && contains(ready[at], task.start);
        let is_pending = |(at, task): (usize, &thalweg_trace_tools::Task)| {
            contains(task.submitted, task.finished.or(poisoned.get(&at).copied()))
        };
        let count = |holds: &dyn Fn((usize, &thalweg_trace_tools::Task)) -> bool| {
            trace.tasks.iter().enumerate().filter(|task| holds(*task)).count() as i64
        };
        assert_eq!(value("ready tasks", time), Some(count(&is_ready)), "ready at {time}");
        assert_eq!(value("pending tasks", time), Some(count(&is_pending)), "pending at {time}");
        for space in [1, 2] {
            let bytes = trace.memory.iter().rfind(|change| change.space == space && change.at <= time);
            let name = format!("bytes in use: {}", trace.spaces[space]);
            assert_eq!(value(&name, time), bytes.map(|change| change.bytes as i64), "{name} at {time}");
        }
    }
}

#[test]
fn notes_drops_and_decisions_are_marks() {
    let trace = synthetic(500, 2, 4);
    let file = exported(&trace, Arrows::All);
    let notes: Vec<_> = file.marks.iter().filter(|mark| mark.categories == ["note"]).collect();
    assert_eq!(notes.len(), trace.notes.len());
    for (mark, note) in notes.iter().zip(&trace.notes) {
        assert_eq!((mark.start, mark.name.as_str()), (note.at, "poisoned"));
        assert_eq!(mark.annotations["task"], trace.tasks[note.task].number.to_string());
    }
    let drops: Vec<_> = file.marks.iter().filter(|mark| mark.categories == ["eviction"]).collect();
    assert!(trace.drops.len() > 3 && drops.len() == trace.drops.len());
    for (mark, drop) in drops.iter().zip(&trace.drops) {
        assert_eq!((mark.start, track_name(&file, mark)), (drop.at, "dropped replicas"));
        let found = ["bytes", "space", "reason"].map(|key| mark.annotations[key].as_str());
        assert_eq!(found, [drop.bytes.to_string().as_str(), &trace.spaces[drop.space], "written back"]);
    }
    let decision = file.marks.iter().find(|mark| mark.categories == ["decision"]).expect("a decision");
    let found = ["instance", "state", "pivot"].map(|key| decision.annotations[key].as_str());
    assert_eq!((found, track_name(&file, decision)), (["7", "2", "640"], "work distribution cells"));
}

#[test]
fn problem_of_a_trace_is_a_label_and_a_mark() {
    let mut trace = synthetic(5, 1, 1);
    trace.problem = Some("byte 77: it ends".to_owned());
    let file = exported(&trace, Arrows::All);
    let process = file.tracks.values().find_map(|track| track.process.clone()).expect("a process");
    assert_eq!(process.process_labels, ["incomplete trace: byte 77: it ends"]);
    assert_eq!(process.process_name.as_deref(), Some("a b\"c, process 42"));
    let mark = file.marks.iter().find(|mark| mark.name == "incomplete trace").expect("a mark");
    assert_eq!((mark.start, mark.annotations["problem"].as_str()), (trace.end, "byte 77: it ends"));
}

#[test]
fn two_files_share_no_track_process_or_arrow() {
    let mut other = synthetic(100, 2, 9);
    let one = exported(&other, Arrows::All);
    other.facts.insert("started".to_owned(), "1795980697613447079".to_owned());
    let two = exported(&other, Arrows::All);
    let pid = |file: &File| file.tracks.values().find_map(|track| track.process.as_ref()?.pid).expect("a process");
    assert_ne!(pid(&one), pid(&two));
    assert!(one.tracks.keys().all(|track| !two.tracks.contains_key(track)));
    assert!(!one.arrows.is_empty() && one.arrows.keys().all(|arrow| !two.arrows.contains_key(arrow)));
}

#[test]
fn bodies_without_annotations_take_at_most_forty_bytes() {
    let mut trace = synthetic(20_000, 30, 3);
    // Shift the run by a minute, because large times take more bytes than milliseconds.
    for task in &mut trace.tasks {
        for time in [&mut task.start, &mut task.end, &mut task.finished].into_iter().flatten() {
            *time += 60_000_000_000;
        }
    }
    let file = decode(&bytes(&trace, Options { arrows: Arrows::None, annotations: false }));
    let bodies = file.slices.iter().filter(|slice| slice.categories[0] == "task").count();
    assert!(bodies > 19_000);
    let each = file.bytes["task"] as f64 / bodies as f64;
    assert!(each <= 40.0, "{each} bytes a body");
}

#[test]
fn unwritable_path_is_named() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let path = folder.path().join("missing/out.pftrace");
    let problem = write(&Trace::default(), &path).expect_err("the folder does not exist").to_string();
    assert!(problem.starts_with(&format!("cannot write {}: ", path.display())), "{problem}");
}
