//! A strict reader of Paraver traces, which rejects anything that Paraver would have to guess, skip or complain
//! about.
//!
//! The reader is written from the format's description, and shares no code with the exporter.

use std::collections::{BTreeMap, HashMap};

/// Processor, task and thread, counting from 1. Processor 0 means none.
pub(crate) type Object = (usize, usize, usize);

/// A record.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Record {
    State { object: Object, start: u64, end: u64, state: u32 },
    Event { object: Object, time: u64, pairs: Vec<(u32, u64)> },
    Communication { from: Object, to: Object, times: [u64; 4], size: u64, tag: u64 },
}

/// A trace.
#[derive(Debug)]
pub(crate) struct Trace {
    pub(crate) date: String,
    pub(crate) end: u64,
    pub(crate) records: Vec<Record>,
    /// The names of states.
    pub(crate) states: BTreeMap<u32, String>,
    /// The names of event types and of their values.
    pub(crate) types: BTreeMap<u32, (String, BTreeMap<u64, String>)>,
    /// The names of objects, keyed by the name of their level.
    pub(crate) names: HashMap<String, Vec<String>>,
    /// The number of threads of each task.
    pub(crate) threads: Vec<usize>,
}

impl Trace {
    /// The name of a thread.
    pub(crate) fn thread(&self, (_, task, thread): Object) -> &str {
        let before: usize = self.threads[..task - 1].iter().sum();
        &self.names["THREAD"][before + thread - 1]
    }
}

/// Reads a trace from the texts of its three files.
///
/// # Errors
/// Returns the first problem, with its line.
pub(crate) fn read(prv: &str, pcf: &str, row: &str) -> Result<Trace, String> {
    let names = read_row(row).map_err(|problem| format!(".row: {problem}"))?;
    let (states, types) = read_pcf(pcf).map_err(|problem| format!(".pcf: {problem}"))?;
    let (header, body) = prv.split_once('\n').ok_or(".prv: no header")?;
    let (date, end, cpus, threads) = read_header(header).ok_or_else(|| format!(".prv: header {header}"))?;
    let counts = [("CPU", cpus), ("NODE", 1), ("THREAD", threads.iter().sum()), ("TASK", threads.len()), ("APPL", 1)];
    for (level, count) in counts {
        let found = names.get(level).map_or(0, Vec::len);
        if found != count {
            return Err(format!(".row: {found} names of {level}, not {count}"));
        }
    }
    if names.len() != counts.len() {
        return Err(".row: unknown level".to_owned());
    }
    let trace = Trace { date, end, records: Vec::new(), states, types, names, threads };
    let records = read_body(&trace, cpus, body).map_err(|(line, problem)| format!(".prv: {problem}: {line}"))?;
    Ok(Trace { records, ..trace })
}

/// Parses a number in its required form: only digits, without leading zeros.
fn number<T: std::str::FromStr + ToString>(text: &str) -> Option<T> {
    text.parse::<T>().ok().filter(|number| number.to_string() == text)
}

/// Returns the date, the end, the number of processors, and the number of threads of each task.
fn read_header(header: &str) -> Option<(String, u64, usize, Vec<usize>)> {
    let (date, rest) = header.strip_prefix("#Paraver (")?.split_once("):")?;
    let digits: String = date.chars().map(|one| if one.is_ascii_digit() { '0' } else { one }).collect();
    if digits != "00/00/0000 at 00:00" {
        return None;
    }
    let (end, rest) = rest.split_once("_ns:1(")?;
    let (cpus, rest) = rest.split_once("):1:")?;
    let (tasks, rest) = rest.split_once('(')?;
    let threads: Option<Vec<usize>> =
        rest.strip_suffix(')')?.split(',').map(|one| number(one.strip_suffix(":1")?)).collect();
    let (tasks, threads, cpus) = (number::<usize>(tasks)?, threads?, number(cpus)?);
    let is_right = threads.len() == tasks && threads.iter().all(|threads| *threads > 0) && cpus > 0;
    is_right.then_some((date.to_owned(), number(end)?, cpus, threads))
}

/// Builds an object from four fields.
fn object(trace: &Trace, cpus: usize, fields: &[u64]) -> Result<Object, String> {
    let [cpu, application, task, thread] = fields.iter().map(|field| *field as usize).collect::<Vec<_>>()[..] else {
        return Err("an object has four fields".to_owned());
    };
    let threads = task.checked_sub(1).and_then(|task| trace.threads.get(task)).copied().unwrap_or(0);
    let is_there = application == 1 && cpu <= cpus && (1..=threads).contains(&thread);
    if is_there { Ok((cpu, task, thread)) } else { Err("no such object".to_owned()) }
}

fn read_body<'a>(trace: &Trace, cpus: usize, body: &'a str) -> Result<Vec<Record>, (&'a str, String)> {
    if !body.ends_with('\n') {
        return Err(("", "the last line has no end, or there is none".to_owned()));
    }
    let mut records = Vec::new();
    let mut latest = (0, 0);
    // The processor of each thread, and the end of its last state.
    let mut cpu_of: HashMap<(usize, usize), usize> = HashMap::new();
    let mut state_end: HashMap<Object, u64> = HashMap::new();
    for line in body.lines() {
        let record = read_record(trace, cpus, line).map_err(|problem| (line, problem))?;
        let (kind, time, objects) = match &record {
            Record::State { object, start, .. } => (1, *start, vec![*object]),
            Record::Event { object, time, .. } => (2, *time, vec![*object]),
            Record::Communication { from, to, times, .. } => (3, times[0], vec![*from, *to]),
        };
        if (time, kind) < latest {
            return Err((line, "the order of time is broken".to_owned()));
        }
        latest = (time, kind);
        for (cpu, task, thread) in objects {
            if *cpu_of.entry((task, thread)).or_insert(cpu) != cpu {
                return Err((line, "a thread changes its processor".to_owned()));
            }
        }
        if let Record::State { object, start, end, .. } = record {
            let free = state_end.insert(object, end).unwrap_or(0);
            if start < free {
                return Err((line, "two states of a thread overlap".to_owned()));
            }
        }
        records.push(record);
    }
    Ok(records)
}

fn read_record(trace: &Trace, cpus: usize, line: &str) -> Result<Record, String> {
    let fields: Option<Vec<u64>> = line.split(':').map(number).collect();
    let fields = fields.ok_or("a field is no number")?;
    let object = |fields| object(trace, cpus, fields);
    let is_late = |time: u64| time > trace.end;
    match fields[..] {
        [1, ref at @ .., start, end, state] => {
            let state = u32::try_from(state).map_err(|_| "large state")?;
            if !trace.states.contains_key(&state) || start >= end || is_late(end) {
                return Err("a state is unknown, empty or late".to_owned());
            }
            Ok(Record::State { object: object(at)?, start, end, state })
        }
        [2, a, b, c, d, time, ref rest @ ..] => {
            let (pairs, []) = rest.as_chunks::<2>() else { return Err("a type has no value".to_owned()) };
            if pairs.is_empty() || is_late(time) {
                return Err("an event is empty or late".to_owned());
            }
            for [kind, value] in pairs {
                let (_, values) = trace.types.get(&(*kind as u32)).ok_or("a type is not declared")?;
                if !values.is_empty() && !values.contains_key(value) {
                    return Err(format!("value {value} of type {kind} is not declared"));
                }
            }
            let pairs = pairs.iter().map(|[kind, value]| (*kind as u32, *value)).collect();
            Ok(Record::Event { object: object(&[a, b, c, d])?, time, pairs })
        }
        [3, a, b, c, d, ordered, sent, e, f, g, h, expected, arrived, size, tag] => {
            let times = [ordered, sent, expected, arrived];
            if !times.is_sorted() || is_late(arrived) {
                return Err("the times of a communication are out of order".to_owned());
            }
            let (from, to) = (object(&[a, b, c, d])?, object(&[e, f, g, h])?);
            Ok(Record::Communication { from, to, times, size, tag })
        }
        _ => Err("no such record".to_owned()),
    }
}

/// Checks that a label is visible and does not break the line.
fn label(text: &str) -> Result<String, String> {
    let is_fine = !text.is_empty() && text.trim() == text && !text.chars().any(char::is_control);
    if is_fine { Ok(text.to_owned()) } else { Err(format!("label {text:?}")) }
}

fn read_row(row: &str) -> Result<HashMap<String, Vec<String>>, String> {
    let mut levels = HashMap::new();
    let mut lines = row.lines();
    while let Some(line) = lines.next() {
        let (level, size) = line
            .strip_prefix("LEVEL ")
            .and_then(|rest| rest.split_once(" SIZE "))
            .ok_or_else(|| format!("line {line}"))?;
        let size: usize = number(size).ok_or("size")?;
        let names: Vec<String> = lines.by_ref().take(size).map(label).collect::<Result<_, _>>()?;
        if names.len() != size || lines.next() != Some("") {
            return Err(format!("{level} has not {size} names"));
        }
        if levels.insert(level.to_owned(), names).is_some() {
            return Err(format!("{level} is there twice"));
        }
    }
    Ok(levels)
}

type Labels = (BTreeMap<u32, String>, BTreeMap<u32, (String, BTreeMap<u64, String>)>);

fn read_pcf(pcf: &str) -> Result<Labels, String> {
    let (mut states, mut colors, mut types) = (BTreeMap::new(), BTreeMap::new(), BTreeMap::new());
    let (mut section, mut current, mut options) = ("", None, BTreeMap::new());
    for line in pcf.lines().filter(|line| !line.is_empty()) {
        if ["DEFAULT_OPTIONS", "DEFAULT_SEMANTIC", "STATES", "STATES_COLOR", "EVENT_TYPE", "VALUES"].contains(&line) {
            if line == "VALUES" && (section != "EVENT_TYPE" || current.is_none()) {
                return Err("values without a type".to_owned());
            }
            section = line;
            continue;
        }
        let (first, rest) = line.split_once(' ').ok_or_else(|| format!("line {line}"))?;
        let rest = rest.trim_start();
        let is_new = match section {
            "DEFAULT_OPTIONS" | "DEFAULT_SEMANTIC" => options.insert(first.to_owned(), rest.to_owned()).is_none(),
            "STATES" => states.insert(number(first).ok_or("state")?, label(rest)?).is_none(),
            "STATES_COLOR" => {
                let color = rest.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).ok_or("color")?;
                let color: Option<Vec<u8>> = color.split(',').map(number).collect();
                color.filter(|color| color.len() == 3).ok_or("color")?;
                colors.insert(number::<u32>(first).ok_or("state")?, ()).is_none()
            }
            "EVENT_TYPE" => {
                let (kind, name) = rest.split_once(' ').ok_or_else(|| format!("line {line}"))?;
                let kind = number::<u32>(kind).filter(|kind| i32::try_from(*kind).is_ok()).ok_or("type")?;
                current = Some(kind);
                types.insert(kind, (label(name.trim_start())?, BTreeMap::new())).is_none()
            }
            "VALUES" => {
                let kind = current.and_then(|kind| types.get_mut(&kind)).ok_or("values without a type")?;
                let value = number::<u32>(first).filter(|value| i32::try_from(*value).is_ok()).ok_or("value")?;
                kind.1.insert(u64::from(value), label(rest)?).is_none()
            }
            _ => return Err(format!("line {line} is in no section")),
        };
        if !is_new {
            return Err(format!("line {line} is there twice"));
        }
    }
    if !states.keys().eq(colors.keys()) || options.get("NUM_OF_STATE_COLORS") != Some(&colors.len().to_string()) {
        return Err("states and colours do not match".to_owned());
    }
    Ok((states, types))
}
