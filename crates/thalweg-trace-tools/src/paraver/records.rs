//! The records of a `.prv` file, in order of time.
//!
//! A thread's states do not overlap: if slices nest, the innermost slice determines the state. Events at the start
//! of a body give the task's name, source location and number. At the end of the body, they revert to the values of
//! the enclosing body, or to zero. Copies are communications from the thread of one space to that of another.
//! Ordering a copy is the logical send, and getting the link is the physical send.
//!
//! Among records with the same time, states come first, then events, then communications.

use super::labels::{BETWEEN, NEEDED, RUNNING, Type, distributions};
use super::model::{Model, Object};
use crate::counters;
use crate::rows::{Edge, Entry, Row, walk};
use crate::{Outcome, Trace};
use std::collections::BTreeMap;
use std::io::{self, Write};

/// A segment of a row that is in one state.
struct Segment {
    start: u64,
    end: u64,
    row: u32,
    state: u32,
}

/// An event, without its time.
enum Event {
    /// A body begins or ends.
    Body {
        row: u32,
        task: u32,
        edge: Edge,
    },
    /// A counter has a new value.
    Counter {
        object: Object,
        kind: Type,
        value: u64,
    },
    /// A copy gets its link.
    Copy(u32),
    Note(u32),
    Decision(u32),
    /// The file ends early.
    Incomplete,
}

/// The records of a trace, ready to be written.
pub(super) struct Records<'a> {
    trace: &'a Trace,
    model: &'a Model,
    states: Vec<Segment>,
    events: Vec<(u64, Event)>,
    /// Positions of the copies in the trace's table, sorted by start.
    copies: Vec<usize>,
    /// The numbers of work distributions.
    distributions: BTreeMap<&'a str, u64>,
    /// For each row, the tasks whose bodies have begun and not ended.
    open: Vec<Vec<u32>>,
}

impl<'a> Records<'a> {
    pub(super) fn new(trace: &'a Trace, model: &'a Model, rows: &[Row]) -> Self {
        let (mut states, mut events) = (Vec::new(), Vec::new());
        for (number, row) in rows.iter().enumerate() {
            add_row(trace, number as u32, row, &mut states, &mut events);
        }
        let mut add_counter = |object, kind, points: counters::Points| {
            events.extend(points.into_iter().map(|(time, value)| (time, Event::Counter { object, kind, value })));
        };
        add_counter(model.runtime, Type::Ready, counters::ready(trace));
        add_counter(model.runtime, Type::Pending, counters::pending(trace));
        for (space, points) in counters::memory(trace) {
            add_counter(model.spaces[space], Type::Bytes, points);
        }
        events.extend((0..).zip(&trace.copies).map(|(at, copy)| (sent(copy), Event::Copy(at))));
        events.extend((0..).zip(&trace.notes).map(|(at, note)| (note.at, Event::Note(at))));
        events.extend((0..).zip(&trace.decisions).map(|(at, decision)| (decision.at, Event::Decision(at))));
        if trace.problem.is_some() {
            events.push((trace.end, Event::Incomplete));
        }
        let mut copies: Vec<usize> = (0..trace.copies.len()).collect();
        copies.sort_by_key(|copy| trace.copies[*copy].start);
        states.sort_by_key(|segment| segment.start);
        // The sort must be stable so that the events of a row keep their order.
        events.sort_by_key(|(time, _)| *time);
        let (distributions, open) = (distributions(trace), vec![Vec::new(); rows.len()]);
        Self { trace, model, states, events, copies, distributions, open }
    }

    /// Returns the time of the last record, or the end of the run if that is later.
    pub(super) fn end(&self) -> u64 {
        let states = self.states.iter().map(|segment| segment.end);
        let copies = self.trace.copies.iter().map(|copy| copy.end.max(copy.start));
        let events = self.events.last().map(|(time, _)| *time);
        states.chain(copies).chain(events).max().unwrap_or(0).max(self.trace.end)
    }

    pub(super) fn write(mut self, out: &mut impl Write) -> io::Result<()> {
        let (states, events, copies) =
            (std::mem::take(&mut self.states), std::mem::take(&mut self.events), std::mem::take(&mut self.copies));
        let mut states = states.into_iter().peekable();
        let mut events = events.into_iter().peekable();
        let mut copies = copies.into_iter().peekable();
        loop {
            let state = states.peek().map(|segment| segment.start);
            let event = events.peek().map(|(time, _)| *time);
            let copy = copies.peek().map(|copy| self.trace.copies[*copy].start);
            let Some(earliest) = [state, event, copy].into_iter().flatten().min() else { return Ok(()) };
            if let Some(Segment { start, end, row, state }) = states.next_if(|segment| segment.start == earliest) {
                writeln!(out, "1:{}:{start}:{end}:{state}", self.model.rows[row as usize])?;
            } else if let Some((time, event)) = events.next_if(|(time, _)| *time == earliest) {
                self.write_event(out, time, event)?;
            } else if let Some(copy) = copies.next() {
                self.write_copy(out, copy)?;
            }
        }
    }

    fn write_event(&mut self, out: &mut impl Write, time: u64, event: Event) -> io::Result<()> {
        match event {
            Event::Body { row, task, edge } => self.write_body(out, time, (row as usize, task), edge),
            Event::Counter { object, kind, value } => write_pairs(out, object, time, &[(kind, value)]),
            Event::Copy(copy) => {
                let copy = &self.trace.copies[copy as usize];
                let reason = NEEDED + u64::from(copy.evicts);
                write_pairs(out, self.model.spaces[copy.from], time, &[(Type::Copy, reason)])
            }
            Event::Note(note) => {
                let note = &self.trace.notes[note as usize];
                let task = &self.trace.tasks[note.task];
                let pairs = [
                    (Type::Note, note.kind as u64 + 1),
                    (Type::NotedName, task.site as u64 + 1),
                    (Type::NotedNumber, task.number.saturating_add(1)),
                ];
                write_pairs(out, self.model.runtime, time, &pairs)
            }
            Event::Decision(decision) => {
                let decision = &self.trace.decisions[decision as usize];
                let pairs = [
                    (Type::Distribution, self.distributions[decision.space.as_str()]),
                    (Type::Instance, decision.instance),
                    (Type::State, decision.state.into()),
                    (Type::Pivot, decision.pivot.into()),
                ];
                write_pairs(out, self.model.runtime, time, &pairs)
            }
            Event::Incomplete => write_pairs(out, self.model.runtime, time, &[(Type::Incomplete, 1)]),
        }
    }

    fn write_body(&mut self, out: &mut impl Write, time: u64, (row, task): (usize, u32), edge: Edge) -> io::Result<()> {
        let open = &mut self.open[row];
        let mut pairs = Vec::with_capacity(4);
        if edge == Edge::Begin {
            open.push(task);
        } else {
            open.pop();
            let outcome = self.trace.tasks[task as usize].outcome.unwrap_or(Outcome::Done);
            pairs.push((Type::Outcome, outcome as u64 + 1));
        }
        let innermost = open.last().map(|task| &self.trace.tasks[*task as usize]);
        let site = innermost.map_or(0, |task| task.site as u64 + 1);
        let number = innermost.map_or(0, |task| task.number.saturating_add(1));
        pairs.extend([(Type::Name, site), (Type::Source, site), (Type::Number, number)]);
        write_pairs(out, self.model.rows[row], time, &pairs)
    }

    fn write_copy(&self, out: &mut impl Write, copy: usize) -> io::Result<()> {
        let copy = &self.trace.copies[copy];
        let [from, to] = [copy.from, copy.to].map(|space| self.model.spaces[space]);
        let (ordered, sent, arrived) = (copy.start, sent(copy), copy.end.max(copy.start));
        let [size, tag] = [copy.bytes, copy.data].map(signed);
        writeln!(out, "3:{from}:{ordered}:{sent}:{to}:{arrived}:{arrived}:{size}:{tag}")
    }
}

/// Returns when a copy gets its link.
fn sent(copy: &crate::Copy) -> u64 {
    copy.start.saturating_add(copy.waited).min(copy.end.max(copy.start))
}

/// Adds a row's states and the events at the edges of its slices.
fn add_row(trace: &Trace, number: u32, row: &Row, states: &mut Vec<Segment>, events: &mut Vec<(u64, Event)>) {
    let state_of = |slice: usize| match row.slices[slice].entry {
        Entry::State(state) => BETWEEN + trace.states[state].kind as u32,
        Entry::Task(_) | Entry::Copy(_) => RUNNING,
    };
    let mut open: Vec<usize> = Vec::new();
    let mut since = 0;
    walk(&row.slices, |time, slice, edge| {
        if let Some(innermost) = open.last()
            && since < time
        {
            states.push(Segment { start: since, end: time, row: number, state: state_of(*innermost) });
        }
        since = time;
        if edge == Edge::Begin {
            open.push(slice);
        } else {
            open.pop();
        }
        if let Entry::Task(task) = row.slices[slice].entry {
            events.push((time, Event::Body { row: number, task: task as u32, edge }));
        }
    });
}

fn write_pairs(out: &mut impl Write, object: Object, time: u64, pairs: &[(Type, u64)]) -> io::Result<()> {
    write!(out, "2:{object}:{time}")?;
    for (kind, value) in pairs {
        write!(out, ":{}:{}", *kind as u32, signed(*value))?;
    }
    writeln!(out)
}

/// Converts a value to the signed integer that Paraver reads.
fn signed(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
