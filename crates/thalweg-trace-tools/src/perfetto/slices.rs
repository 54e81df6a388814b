//! The slices of all rows, as events in order of time.
//!
//! An event refers to its name by ID. A task name has the index of the task's site plus one; the next four IDs are
//! for states, and the following ones for data objects in the order of their first copies. Memory holds only the
//! edges of slices, at 16 bytes each, and never the packets, which matters for a million tasks.

use super::arrows::Chosen;
use super::messages::{EventType, TrackEvent};
use super::output::{Category, Key, Output, Sequence};
use super::tracks::Tracks;
use super::{Options, number, slice_name, text};
use crate::rows::{Edge, Entry, Row, state_name, walk};
use crate::{Outcome, Site, Trace};
use std::collections::HashMap;
use std::io::{self, Write};

/// Writes the slices of all rows in order of time.
pub(super) struct Slices<'a> {
    trace: &'a Trace,
    options: Options,
    ready: Vec<u64>,
    arrows: Chosen,
    tracks: &'a Tracks,
    /// Maps the ID of a data object to a small index.
    data: HashMap<u64, u64>,
}

impl<'a> Slices<'a> {
    pub(super) fn new(trace: &'a Trace, options: Options, arrows: Chosen, tracks: &'a Tracks) -> Self {
        Self { trace, options, ready: trace.ready(), arrows, tracks, data: HashMap::new() }
    }

    pub(super) fn write<W: Write>(
        mut self,
        output: &mut Output<W>,
        rows: &[Row],
        mut sequences: Vec<Sequence>,
    ) -> io::Result<()> {
        // Each entry: time, row, and slice index combined with the edge.
        let mut edges: Vec<(u64, u32, u32)> = Vec::new();
        for (row, slices) in rows.iter().enumerate() {
            walk(&slices.slices, |time, slice, edge| {
                edges.push((time, row as u32, (slice as u32) << 1 | u32::from(edge == Edge::Begin)));
            });
        }
        // The sort must be stable so that the edges of a row keep their order.
        edges.sort_by_key(|(time, _, _)| *time);
        for (time, row, slice) in edges {
            let sequence = &mut sequences[row as usize];
            if slice & 1 == 0 {
                sequence.event(output, time, EventType::SliceEnd, TrackEvent::default())?;
                continue;
            }
            let event = match rows[row as usize].slices[(slice >> 1) as usize].entry {
                Entry::Task(task) => self.body(task, sequence),
                Entry::State(state) => self.state(state, sequence),
                Entry::Copy(copy) => self.copy(copy, sequence),
            };
            sequence.event(output, time, EventType::SliceBegin, event)?;
        }
        Ok(())
    }

    fn body(&mut self, at: usize, sequence: &mut Sequence) -> TrackEvent {
        let task = &self.trace.tasks[at];
        let site = &self.trace.sites[task.site];
        let site_iid = task.site as u64 + 1;
        let mut annotations = Vec::new();
        if self.options.annotations {
            let ready = self.ready[at];
            annotations.push(number(Key::Task, task.number));
            if !site.file.is_empty() {
                annotations.push(text(Key::Source, sequence.string(site_iid, || source(site))));
            }
            annotations.push(number(Key::Submitted, task.submitted));
            annotations.push(number(Key::Ready, ready));
            annotations.push(number(Key::Delay, task.start.map_or(0, |start| start.saturating_sub(ready))));
            if let Some(parent) = task.parent {
                annotations.push(number(Key::Parent, self.trace.tasks[parent].number));
            }
            annotations.extend(task.submitter.map(|thread| number(Key::Submitter, thread as u64)));
            if let Some((policy, name)) =
                task.policy.and_then(|policy| Some((policy, self.trace.policies.get(policy)?)))
            {
                let iid = (self.trace.sites.len() + 1 + policy) as u64;
                annotations.push(text(Key::Policy, sequence.string(iid, || name.clone())));
            }
            annotations.extend(task.expected.map(|expected| number(Key::Expected, expected)));
            annotations.extend(task.expected_end.map(|end| number(Key::ExpectedEnd, end)));
        }
        let mut categories = vec![Category::Task.iid()];
        if task.outcome == Some(Outcome::Failed) {
            categories.push(Category::Failed.iid());
        }
        let (out, into) = self.arrows.begin(at);
        let ids = |arrows: Vec<u32>| arrows.into_iter().map(|arrow| self.tracks.arrow(arrow)).collect();
        TrackEvent {
            name_iid: Some(sequence.name(site_iid, || slice_name(&site.name))),
            category_iids: categories,
            debug_annotations: annotations,
            flow_ids: ids(out),
            terminating_flow_ids: ids(into),
            ..TrackEvent::default()
        }
    }

    fn state(&self, at: usize, sequence: &mut Sequence) -> TrackEvent {
        let kind = self.trace.states[at].kind;
        let iid = self.trace.sites.len() as u64 + 1 + kind as u64;
        TrackEvent {
            name_iid: Some(sequence.name(iid, || state_name(kind).to_owned())),
            category_iids: vec![Category::State.iid()],
            ..TrackEvent::default()
        }
    }

    fn copy(&mut self, at: usize, sequence: &mut Sequence) -> TrackEvent {
        let copy = &self.trace.copies[at];
        let known = self.data.len() as u64;
        let iid = self.trace.sites.len() as u64 + 5 + *self.data.entry(copy.data).or_insert(known);
        let name = || match self.trace.data.get(&copy.data) {
            Some(data) => slice_name(&data.name),
            None => format!("data {}", copy.data),
        };
        let category = if copy.evicts { Category::Eviction } else { Category::Copy };
        let mut annotations = Vec::new();
        if self.options.annotations {
            annotations.extend([number(Key::Bytes, copy.bytes), number(Key::Ordered, copy.start)]);
            annotations.extend(copy.task.map(|task| number(Key::Served, self.trace.tasks[task].number)));
            if copy.waited > 0 {
                annotations.push(number(Key::Waited, copy.waited));
            }
            annotations.extend(copy.stream.map(|stream| number(Key::Stream, stream as u64)));
        }
        TrackEvent {
            name_iid: Some(sequence.name(iid, name)),
            category_iids: vec![category.iid()],
            debug_annotations: annotations,
            ..TrackEvent::default()
        }
    }
}

fn source(site: &Site) -> String {
    format!("{}:{}:{}", site.file, site.line, site.column)
}
