//! Numeric codes of states and events, and the `.pcf` file that gives them names and colours.
//!
//! If the values of an event type are categories, each value has a label; if they are amounts, none has. Everything
//! that the `.prv` file contains is declared here.

use crate::Trace;
use std::collections::BTreeMap;
use std::io::{self, Write};

/// The state of a thread that runs a body. State 0, which needs no record, means that the thread is between bodies.
pub(super) const RUNNING: u32 = 1;
/// The first of four states between bodies, in the order of [`StateKind`](crate::StateKind).
pub(super) const BETWEEN: u32 = 2;

/// State names with their colours, chosen so that colour-blind readers can tell them apart.
const STATES: [(&str, [u8; 3]); 6] = [
    ("Between bodies", [230, 230, 230]),
    ("Running", [0, 114, 178]),
    ("Searching", [240, 228, 66]),
    ("Sleeping", [180, 180, 180]),
    ("Throttled", [213, 94, 0]),
    ("Waiting", [204, 121, 167]),
];

/// Event types, whose codes no other BSC tool uses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Type {
    Name = 92_000_001,
    Source = 92_000_002,
    Number = 92_000_003,
    Outcome = 92_000_004,
    Ready = 92_000_011,
    Pending = 92_000_012,
    Bytes = 92_000_013,
    Copy = 92_000_014,
    Note = 92_000_021,
    NotedName = 92_000_022,
    NotedNumber = 92_000_023,
    Distribution = 92_000_031,
    Instance = 92_000_032,
    State = 92_000_033,
    Pivot = 92_000_034,
    Incomplete = 92_000_041,
}

/// The value of [`Type::Copy`] for a copy that a task needs. An eviction has the next value.
pub(super) const NEEDED: u64 = 1;

/// Returns the work distributions with their numbers, counting from 1.
pub(super) fn distributions(trace: &Trace) -> BTreeMap<&str, u64> {
    let mut numbers: BTreeMap<&str, u64> = trace.decisions.iter().map(|one| (one.space.as_str(), 0)).collect();
    numbers.values_mut().zip(1..).for_each(|(number, at)| *number = at);
    numbers
}

/// Returns a label that fits on one line: control characters become spaces, and an empty label becomes `(no name)`.
pub(super) fn clean(label: &str) -> String {
    let label: String = label.chars().map(|one| if one.is_control() { ' ' } else { one }).collect();
    let label = label.trim();
    if label.is_empty() { "(no name)".to_owned() } else { label.to_owned() }
}

/// Writes the `.pcf` file.
pub(super) fn write(trace: &Trace, out: &mut impl Write) -> io::Result<()> {
    let options = [
        ("LEVEL", "THREAD"),
        ("UNITS", "NANOSEC"),
        ("LOOK_BACK", "100"),
        ("SPEED", "1"),
        ("FLAG_ICONS", "ENABLED"),
        ("NUM_OF_STATE_COLORS", &STATES.len().to_string()),
        ("YMAX_SCALE", "37"),
    ];
    writeln!(out, "DEFAULT_OPTIONS\n")?;
    for (key, value) in options {
        writeln!(out, "{key:<20}{value}")?;
    }
    writeln!(out, "\nDEFAULT_SEMANTIC\n\nTHREAD_FUNC         State As Is\n\nSTATES")?;
    for (number, (name, _)) in STATES.iter().enumerate() {
        writeln!(out, "{number}    {name}")?;
    }
    writeln!(out, "\nSTATES_COLOR")?;
    for (number, (_, [red, green, blue])) in STATES.iter().enumerate() {
        writeln!(out, "{number}    {{{red},{green},{blue}}}")?;
    }
    let amount = |out: &mut _, kind, name: &str| kinds(out, kind, name, std::iter::empty());
    let named = |names: &[&str]| (1..).zip(names).map(|(value, name)| (value, (*name).to_owned())).collect::<Vec<_>>();
    let sites = || (1..).zip(&trace.sites);
    let none = || std::iter::once((0, "none".to_owned()));
    let names = || sites().map(|(value, site)| (value, site.name.clone()));
    kinds(out, Type::Name, "Task", none().chain(names()))?;
    let sources = sites().map(|(value, site)| match site.file.as_str() {
        "" => (value, "unknown source".to_owned()),
        file => (value, format!("{file}:{}:{}", site.line, site.column)),
    });
    kinds(out, Type::Source, "Source of the task", none().chain(sources))?;
    amount(out, Type::Number, "Number of the task plus one")?;
    kinds(out, Type::Outcome, "End of a body", named(&["done", "failed", "detached"]))?;
    amount(out, Type::Ready, "Ready tasks")?;
    amount(out, Type::Pending, "Pending tasks")?;
    amount(out, Type::Bytes, "Bytes in use")?;
    kinds(out, Type::Copy, "Reason of a copy", named(&["a task needs the data", "the memory is short"]))?;
    let notes = named(&["poisoned", "refused memory", "returned", "cancelled"]);
    kinds(out, Type::Note, "Event of a task besides running", notes)?;
    kinds(out, Type::NotedName, "Task of that event", names())?;
    amount(out, Type::NotedNumber, "Number plus one of the task of that event")?;
    let spaces = distributions(trace).into_iter().map(|(name, value)| (value, name.to_owned()));
    kinds(out, Type::Distribution, "Work distribution that decided", spaces)?;
    amount(out, Type::Instance, "Instance of the decision")?;
    amount(out, Type::State, "State of the decision")?;
    amount(out, Type::Pivot, "Pivot of the decision")?;
    let problem = trace.problem.iter().map(|problem| (1, problem.clone()));
    kinds(out, Type::Incomplete, "Incomplete trace", problem)
}

/// Writes an event type together with the labels of its values, if there are any.
fn kinds(
    out: &mut impl Write,
    kind: Type,
    name: &str,
    values: impl IntoIterator<Item = (u64, String)>,
) -> io::Result<()> {
    writeln!(out, "\nEVENT_TYPE\n0    {}    {name}", kind as u32)?;
    let mut values = values.into_iter().peekable();
    if values.peek().is_some() {
        writeln!(out, "VALUES")?;
    }
    for (value, label) in values {
        writeln!(out, "{value}      {}", clean(&label))?;
    }
    writeln!(out)
}
