//! The tables of a trace as plain values for CSV files and databases, with their names, columns and rows.
//!
//! Names of time columns end in `_ns`; their values are nanoseconds since the runtime was built. In the tables of
//! tasks, units, spaces, sites, threads, policies, regions and data, the first column is the ID by which other tables
//! refer to the row. Unknown values are null. This module does not access files.

use crate::{AccessMode, DropReason, NoteKind, Outcome, StateKind, Trace};
use std::io;

/// A value in a row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Value<'a> {
    Null,
    Number(u64),
    Text(&'a str),
}

use Value::{Null, Number, Text};

/// A table.
#[derive(Debug)]
pub(crate) struct Sheet {
    pub(crate) name: &'static str,
    pub(crate) columns: &'static [&'static str],
    /// The names of the text columns; all other columns are numeric.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "CSV has no types"))]
    pub(crate) texts: &'static [&'static str],
    /// Whether the first column is the row's ID.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "CSV has no keys"))]
    pub(crate) has_key: bool,
    /// The columns that queries use for lookups.
    #[cfg_attr(not(feature = "sqlite"), allow(dead_code, reason = "CSV has no indices"))]
    pub(crate) indices: &'static [&'static str],
    rows: fn(&Trace, &mut Visit<'_>) -> io::Result<()>,
}

/// A function that is called with each row.
pub(crate) type Visit<'a> = dyn FnMut(&[Value<'_>]) -> io::Result<()> + 'a;

impl Sheet {
    /// Calls `visit` for each row, in order.
    ///
    /// # Errors
    /// Returns the first error of `visit`.
    pub(crate) fn each_row(&self, trace: &Trace, visit: &mut Visit<'_>) -> io::Result<()> {
        (self.rows)(trace, visit)
    }
}

/// All tables.
pub(crate) const SHEETS: [Sheet; 17] = [
    Sheet {
        name: "tasks",
        columns: &[
            "task",
            "number",
            "name",
            "site",
            "parent",
            "submitted_ns",
            "submitter",
            "ready_ns",
            "placed_ns",
            "policy",
            "expected_ns",
            "expected_end_ns",
            "reserved_ns",
            "launched_ns",
            "start_ns",
            "end_ns",
            "finished_ns",
            "duration_ns",
            "wait_ns",
            "unit",
            "device",
            "stream",
            "outcome",
        ],
        texts: &["name", "outcome"],
        has_key: true,
        indices: &["name", "unit", "start_ns"],
        rows: tasks,
    },
    Sheet {
        name: "dependences",
        columns: &["predecessor", "successor", "data", "carries_value"],
        texts: &[],
        has_key: false,
        indices: &["predecessor", "successor", "data"],
        rows: |trace, visit| {
            let mut each = trace.dependences.iter();
            each.try_for_each(|edge| {
                visit(&[index(edge.from), index(edge.to), some(edge.data), flag(edge.carries_value)])
            })
        },
    },
    Sheet {
        name: "accesses",
        columns: &["task", "region", "mode"],
        texts: &["mode"],
        has_key: false,
        indices: &["task", "region"],
        rows: |trace, visit| {
            trace.accesses.iter().try_for_each(|access| {
                let region = access.region.map_or(Null, index);
                visit(&[index(access.task), region, Text(mode_name(access.mode))])
            })
        },
    },
    Sheet {
        name: "regions",
        columns: &["region", "data", "bytes", "ranges"],
        texts: &["ranges"],
        has_key: true,
        indices: &["data"],
        rows: |trace, visit| {
            trace.regions.iter().enumerate().try_for_each(|(number, region)| {
                visit(&[index(number), Number(region.data), Number(region.bytes), Text(&region.text)])
            })
        },
    },
    Sheet {
        name: "copies",
        columns: &["start_ns", "end_ns", "waited_ns", "source", "target", "bytes", "data", "task", "evicts", "stream"],
        texts: &[],
        has_key: false,
        indices: &["data", "task", "start_ns"],
        rows: |trace, visit| {
            trace.copies.iter().try_for_each(|copy| {
                let [start, end, waited] = [copy.start, copy.end, copy.waited].map(Number);
                let [from, to] = [copy.from, copy.to].map(index);
                let (bytes, data, task) = (Number(copy.bytes), Number(copy.data), copy.task.map_or(Null, index));
                let stream = copy.stream.map_or(Null, index);
                visit(&[start, end, waited, from, to, bytes, data, task, flag(copy.evicts), stream])
            })
        },
    },
    Sheet {
        name: "states",
        columns: &["start_ns", "end_ns", "state", "unit", "thread"],
        texts: &["state"],
        has_key: false,
        indices: &["unit", "start_ns"],
        rows: |trace, visit| {
            trace.states.iter().try_for_each(|state| {
                let (kind, unit) = (state_name(state.kind), state.unit.map_or(Null, index));
                visit(&[Number(state.start), Number(state.end), Text(kind), unit, index(state.thread)])
            })
        },
    },
    Sheet {
        name: "memory",
        columns: &["at_ns", "space", "bytes"],
        texts: &[],
        has_key: false,
        indices: &[],
        rows: |trace, visit| {
            let mut each = trace.memory.iter();
            each.try_for_each(|memory| visit(&[Number(memory.at), index(memory.space), Number(memory.bytes)]))
        },
    },
    Sheet {
        name: "drops",
        columns: &["at_ns", "space", "bytes", "data", "reason"],
        texts: &["reason"],
        has_key: false,
        indices: &["data"],
        rows: |trace, visit| {
            trace.drops.iter().try_for_each(|drop| {
                let (bytes, data) = (Number(drop.bytes), Number(drop.data));
                visit(&[Number(drop.at), index(drop.space), bytes, data, Text(drop_reason(drop.why))])
            })
        },
    },
    Sheet {
        name: "policies",
        columns: &["policy", "name"],
        texts: &["name"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| names(&trace.policies, visit),
    },
    Sheet {
        name: "notes",
        columns: &["at_ns", "task", "note"],
        texts: &["note"],
        has_key: false,
        indices: &["task"],
        rows: |trace, visit| {
            let mut each = trace.notes.iter();
            each.try_for_each(|note| visit(&[Number(note.at), index(note.task), Text(note_name(note.kind))]))
        },
    },
    Sheet {
        name: "decisions",
        columns: &["at_ns", "iteration_space", "instance", "state", "pivot"],
        texts: &["iteration_space"],
        has_key: false,
        indices: &[],
        rows: |trace, visit| {
            trace.decisions.iter().try_for_each(|decision| {
                let (state, pivot) = (Number(decision.state.into()), Number(decision.pivot.into()));
                visit(&[Number(decision.at), Text(&decision.space), Number(decision.instance), state, pivot])
            })
        },
    },
    Sheet {
        name: "units",
        columns: &["unit", "kind", "width"],
        texts: &["kind"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| {
            let mut each = trace.units.iter().enumerate();
            each.try_for_each(|(number, unit)| visit(&[index(number), Text(&unit.kind), index(unit.width)]))
        },
    },
    Sheet {
        name: "spaces",
        columns: &["space", "name"],
        texts: &["name"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| names(&trace.spaces, visit),
    },
    Sheet {
        name: "threads",
        columns: &["thread", "name"],
        texts: &["name"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| names(&trace.threads, visit),
    },
    Sheet {
        name: "sites",
        columns: &["site", "name", "file", "line", "column"],
        texts: &["name", "file"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| {
            trace.sites.iter().enumerate().try_for_each(|(number, site)| {
                let [line, column] = [site.line, site.column].map(|place| Number(place.into()));
                visit(&[index(number), Text(&site.name), Text(&site.file), line, column])
            })
        },
    },
    Sheet {
        name: "data",
        columns: &["data", "name", "bytes"],
        texts: &["name"],
        has_key: true,
        indices: &[],
        rows: |trace, visit| {
            let mut data: Vec<_> = trace.data.iter().collect();
            data.sort_unstable_by_key(|(number, _)| **number);
            data.into_iter()
                .try_for_each(|(number, data)| visit(&[Number(*number), Text(&data.name), Number(data.bytes)]))
        },
    },
    Sheet {
        name: "facts",
        columns: &["fact", "value"],
        texts: &["fact", "value"],
        has_key: false,
        indices: &[],
        rows: facts,
    },
];

fn index(number: usize) -> Value<'static> {
    Number(number as u64)
}

fn some(number: Option<u64>) -> Value<'static> {
    number.map_or(Null, Number)
}

fn flag(is_set: bool) -> Value<'static> {
    Number(is_set.into())
}

fn names(names: &[String], visit: &mut Visit<'_>) -> io::Result<()> {
    names.iter().enumerate().try_for_each(|(number, name)| visit(&[index(number), Text(name)]))
}

/// Returns `search`, `sleep`, `throttle` or `wait`.
fn state_name(state: StateKind) -> &'static str {
    match state {
        StateKind::Search => "search",
        StateKind::Sleep => "sleep",
        StateKind::Throttle => "throttle",
        StateKind::Wait => "wait",
    }
}

/// Returns `poisoned`, `refused`, `returned` or `cancelled`.
fn note_name(note: NoteKind) -> &'static str {
    match note {
        NoteKind::Poisoned => "poisoned",
        NoteKind::Refused => "refused",
        NoteKind::Returned => "returned",
        NoteKind::Cancelled => "cancelled",
    }
}

/// Returns `evicted`, `written back`, `released` or `lost`.
pub(crate) fn drop_reason(why: DropReason) -> &'static str {
    match why {
        DropReason::Evicted => "evicted",
        DropReason::WrittenBack => "written back",
        DropReason::Released => "released",
        DropReason::Lost => "lost",
    }
}

/// Returns `read`, `write`, `update`, `commutative`, `reduction`, `order` or `concurrent`.
fn mode_name(mode: AccessMode) -> &'static str {
    match mode {
        AccessMode::Read => "read",
        AccessMode::Write => "write",
        AccessMode::Update => "update",
        AccessMode::Commutative => "commutative",
        AccessMode::Reduction => "reduction",
        AccessMode::Order => "order",
        AccessMode::Concurrent => "concurrent",
    }
}

/// Returns `done`, `failed` or `detached`.
fn outcome_name(outcome: Outcome) -> &'static str {
    match outcome {
        Outcome::Done => "done",
        Outcome::Failed => "failed",
        Outcome::Detached => "detached",
    }
}

fn tasks(trace: &Trace, visit: &mut Visit<'_>) -> io::Result<()> {
    trace.tasks.iter().zip(trace.ready()).enumerate().try_for_each(|(number, (task, ready))| {
        let duration = task.start.zip(task.end).map(|(start, end)| end.saturating_sub(start));
        visit(&[
            index(number),
            Number(task.number),
            Text(trace.name(number)),
            index(task.site),
            task.parent.map_or(Null, index),
            Number(task.submitted),
            task.submitter.map_or(Null, index),
            Number(ready),
            some(task.placed),
            task.policy.map_or(Null, index),
            some(task.expected),
            some(task.expected_end),
            some(task.reserved),
            some(task.launched),
            some(task.start),
            some(task.end),
            some(task.finished),
            some(duration),
            some(task.start.map(|start| start - ready)),
            task.unit.map_or(Null, index),
            task.device.map_or(Null, index),
            task.stream.map_or(Null, index),
            task.outcome.map_or(Null, |outcome| Text(outcome_name(outcome))),
        ])
    })
}

/// Visits the facts stored in the file, sorted by name, and then the facts about the file itself.
fn facts(trace: &Trace, visit: &mut Visit<'_>) -> io::Result<()> {
    let mut facts: Vec<_> = trace.facts.iter().collect();
    facts.sort_unstable();
    facts.into_iter().try_for_each(|(fact, value)| visit(&[Text(fact), Text(value)]))?;
    visit(&[Text("end_ns"), Text(&trace.end.to_string())])?;
    trace.problem.iter().try_for_each(|problem| visit(&[Text("problem"), Text(problem)]))
}
