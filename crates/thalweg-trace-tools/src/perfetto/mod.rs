//! Export to Perfetto's protobuf format (`.pftrace`), for `ui.perfetto.dev` and Python's `perfetto` package.
//!
//! | track | events |
//! | --- | --- |
//! | each unit, and below it each of its devices | a slice for each body and each state between bodies |
//! | each thread that waits or is throttled without leading a unit | a slice for each of these states |
//! | each pair of spaces | a slice for each copy, starting when the copy gets its link |
//! | counters | ready tasks, pending tasks, bytes in use in each space |
//! | notes, and each work distribution | a mark for each note and each decision |
//!
//! Slices that overlap on one track without nesting go onto further tracks of the same name, which the viewer draws
//! below each other. Arrows lead from a predecessor's slice to its successor's slice. All tracks of a file are
//! below one process. Several files can be loaded together, even after being concatenated with `cat`; their times
//! then begin together.
//!
//! The export never changes a recorded time and does not need Perfetto's libraries.

mod arrows;
pub mod messages;
mod output;
mod slices;
mod tracks;

use crate::counters;
use crate::rows::{rows, space_name};
use crate::sheets::drop_reason;
use crate::{NoteKind, Trace};
use arrows::Chosen;
use messages::{DebugAnnotation, EventType, TrackEvent, UNIT_BYTES, UNIT_COUNT};
use output::{Category, Key, Output, Sequence};
use slices::Slices;
use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tracks::Tracks;

/// Above this number of arrows, a file takes viewers long to load, so [`write()`] leaves out arrows for dependences
/// that delayed nothing.
pub const MOST_ARROWS: usize = 1_000_000;

/// The dependences that get arrows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Arrows {
    /// No dependence gets an arrow.
    None,
    /// For each task, only the dependence whose predecessor ended last gets an arrow.
    Last,
    /// Every dependence gets an arrow.
    All,
}

/// Optional contents of a file, in addition to slices and counters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// Which dependences get arrows. Each arrow takes 20 bytes.
    pub arrows: Arrows,
    /// Whether slices are annotated with the task's number, its source location, and the times when it was
    /// submitted and became ready. Annotations take about 45 bytes per task.
    pub annotations: bool,
}

impl Options {
    /// Returns the options that [`write()`] uses: annotations, and all arrows unless there are more than
    /// [`MOST_ARROWS`].
    pub fn of(trace: &Trace) -> Self {
        let arrows = if trace.dependences.len() > MOST_ARROWS { Arrows::Last } else { Arrows::All };
        Self { arrows, annotations: true }
    }
}

/// Writes a trace to a file, with the options from [`Options::of`].
///
/// # Errors
/// Returns an error if the file cannot be written; the error names it.
pub fn write(trace: &Trace, path: &Path) -> io::Result<()> {
    write_with(trace, path, Options::of(trace))
}

/// Writes a trace to a file.
///
/// # Errors
/// Returns an error if the file cannot be written; the error names it.
pub fn write_with(trace: &Trace, path: &Path, options: Options) -> io::Result<()> {
    let write = || write_to(trace, BufWriter::new(File::create(path)?), options);
    write().map_err(|problem| io::Error::new(problem.kind(), format!("cannot write {}: {problem}", path.display())))
}

fn write_to(trace: &Trace, file: impl Write, options: Options) -> io::Result<()> {
    let mut output = Output::new(file);
    let mut tracks = Tracks::new(trace);
    let arrows = Chosen::new(trace, options.arrows);
    let mut process = tracks.process(&mut output, trace)?;
    write_run(trace, &mut output, &mut process, arrows.len())?;
    for (name, points) in [("ready tasks", counters::ready(trace)), ("pending tasks", counters::pending(trace))] {
        let sequence = tracks.counter(&mut output, name, UNIT_COUNT)?;
        write_counter(&mut output, sequence, &points)?;
    }
    let rows = rows(trace);
    let sequences = rows.iter().map(|row| tracks.row(&mut output, trace, row)).collect::<io::Result<Vec<_>>>()?;
    for (space, points) in counters::memory(trace) {
        let name = format!("bytes in use: {}", space_name(trace, space));
        let sequence = tracks.counter(&mut output, &name, UNIT_BYTES)?;
        write_counter(&mut output, sequence, &points)?;
    }
    write_notes(trace, &mut output, &mut tracks)?;
    write_drops(trace, &mut output, &mut tracks)?;
    write_decisions(trace, &mut output, &mut tracks)?;
    Slices::new(trace, options, arrows, &tracks).write(&mut output, &rows, sequences)?;
    output.flush()
}

/// Writes marks with the facts about the run and, if the trace file ends early, with the problem.
fn write_run<W: Write>(trace: &Trace, output: &mut Output<W>, process: &mut Sequence, arrows: usize) -> io::Result<()> {
    let mut facts: Vec<(&str, &str)> = trace.facts.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
    facts.sort_unstable();
    let drawn = format!("{arrows} of {}", trace.dependences.len());
    facts.push(("dependences with arrows", &drawn));
    let mark = |name: &str, facts: &[(&str, &str)]| {
        let annotation = |(key, value): &(&str, &str)| DebugAnnotation {
            name: Some((*key).to_owned()),
            string_value: Some((*value).to_owned()),
            ..DebugAnnotation::default()
        };
        TrackEvent {
            name: Some(name.to_owned()),
            category_iids: vec![Category::Run.iid()],
            debug_annotations: facts.iter().map(annotation).collect(),
            ..TrackEvent::default()
        }
    };
    process.event(output, 0, EventType::Instant, mark("run", &facts))?;
    if let Some(problem) = &trace.problem {
        let event = mark("incomplete trace", &[("problem", problem)]);
        process.event(output, trace.end, EventType::Instant, event)?;
    }
    Ok(())
}

fn write_counter<W: Write>(output: &mut Output<W>, mut sequence: Sequence, points: &[(u64, u64)]) -> io::Result<()> {
    for (time, value) in points {
        let value = i64::try_from(*value).unwrap_or(i64::MAX);
        let event = TrackEvent { counter_value: Some(value), ..TrackEvent::default() };
        sequence.event(output, *time, EventType::Counter, event)?;
    }
    Ok(())
}

fn write_notes<W: Write>(trace: &Trace, output: &mut Output<W>, tracks: &mut Tracks) -> io::Result<()> {
    if trace.notes.is_empty() {
        return Ok(());
    }
    let mut sequence = tracks.marks(output, "notes")?;
    for note in &trace.notes {
        let name = match note.kind {
            NoteKind::Poisoned => "poisoned",
            NoteKind::Refused => "refused memory",
            NoteKind::Returned => "returned",
            NoteKind::Cancelled => "cancelled",
        };
        let (task, site) = (&trace.tasks[note.task], trace.tasks[note.task].site);
        let name_iid = sequence.name(note.kind as u64 + 1, || name.to_owned());
        let task_name = sequence.string(site as u64 + 1, || slice_name(&trace.sites[site].name));
        let event = TrackEvent {
            name_iid: Some(name_iid),
            category_iids: vec![Category::Note.iid()],
            debug_annotations: vec![number(Key::Task, task.number), text(Key::Name, task_name)],
            ..TrackEvent::default()
        };
        sequence.event(output, note.at, EventType::Instant, event)?;
    }
    Ok(())
}

/// Writes a mark for each replica that was dropped.
fn write_drops<W: Write>(trace: &Trace, output: &mut Output<W>, tracks: &mut Tracks) -> io::Result<()> {
    if trace.drops.is_empty() {
        return Ok(());
    }
    let mut sequence = tracks.marks(output, "dropped replicas")?;
    for drop in &trace.drops {
        let name =
            || trace.data.get(&drop.data).map_or_else(|| format!("data {}", drop.data), |data| data.name.clone());
        let name_iid = sequence.name(drop.data + 1, || slice_name(&name()));
        let space = sequence.string(drop.space as u64 + 5, || space_name(trace, drop.space));
        let reason = sequence.string(drop.why as u64 + 1, || drop_reason(drop.why).to_owned());
        let event = TrackEvent {
            name_iid: Some(name_iid),
            category_iids: vec![Category::Eviction.iid()],
            debug_annotations: vec![number(Key::Bytes, drop.bytes), text(Key::Space, space), text(Key::Reason, reason)],
            ..TrackEvent::default()
        };
        sequence.event(output, drop.at, EventType::Instant, event)?;
    }
    Ok(())
}

fn write_decisions<W: Write>(trace: &Trace, output: &mut Output<W>, tracks: &mut Tracks) -> io::Result<()> {
    let mut sequences: HashMap<&str, Sequence> = HashMap::new();
    for decision in &trace.decisions {
        let sequence = match sequences.get_mut(decision.space.as_str()) {
            Some(sequence) => sequence,
            None => {
                let made = tracks.marks(output, &format!("work distribution {}", decision.space))?;
                sequences.entry(&decision.space).or_insert(made)
            }
        };
        let annotations = vec![
            number(Key::Instance, decision.instance),
            number(Key::State, decision.state.into()),
            number(Key::Pivot, decision.pivot.into()),
        ];
        let event = TrackEvent {
            name_iid: Some(sequence.name(1, || "decision".to_owned())),
            category_iids: vec![Category::Decision.iid()],
            debug_annotations: annotations,
            ..TrackEvent::default()
        };
        sequence.event(output, decision.at, EventType::Instant, event)?;
    }
    Ok(())
}

/// Returns a visible name for a slice, because the viewer shows a slice without a name as a gap.
fn slice_name(name: &str) -> String {
    if name.trim().is_empty() { "(no name)".to_owned() } else { name.to_owned() }
}

fn number(key: Key, value: u64) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(key.iid()), uint_value: Some(value), ..DebugAnnotation::default() }
}

/// Returns an annotation whose value is an interned text.
fn text(key: Key, iid: u64) -> DebugAnnotation {
    DebugAnnotation { name_iid: Some(key.iid()), string_value_iid: Some(iid), ..DebugAnnotation::default() }
}
