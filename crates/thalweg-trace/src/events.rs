//! The records of all threads, and the tables that they make up.
//!
//! Records of different threads are joined by task number, because no order between threads is assumed.

use crate::frame::Recording;
use crate::joins::{self, Gate};
use crate::record::{
    self, Between, Dropped, End, GateRole, Happened, NO_TASK, Stage, UNKNOWN, kind_of, small_of, time_of, unit_of,
};
use crate::rounds::{Repeated, Rounds};
use crate::tables::{Access, AccessMode, Copy, Decision, Dependence, Drop, Memory, Note, State, Trace};
use crate::tasks::{Choice, Ran, Records, Submission, unit_with};
use std::collections::HashMap;

/// A dependence, with the numbers of its tasks.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Edge {
    pub(crate) from: u64,
    pub(crate) to: u64,
    pub(crate) data: Option<u64>,
    pub(crate) carries_value: bool,
}

/// The records of all threads.
#[derive(Default)]
pub(crate) struct Events {
    ticks_per_ns: f64,
    pub(crate) tasks: Records,
    rounds: Rounds,
    gates: HashMap<u64, Gate>,
    pub(crate) dependences: Vec<Edge>,
    pub(crate) accesses: Vec<(u64, u32, AccessMode)>,
    pub(crate) notes: Vec<(u64, u64, Happened)>,
    /// The copies, with the tasks for which they were made.
    copies: Vec<(Copy, u64)>,
    states: Vec<State>,
    memory: Vec<Memory>,
    drops: Vec<Drop>,
    decisions: Vec<Decision>,
    end: u64,
}

/// Returns the data object that a small field names.
pub(crate) fn data_of(small: u32) -> Option<u64> {
    (small != UNKNOWN).then_some(u64::from(small))
}

/// Returns the mode with this number.
pub(crate) fn mode_of(number: u32) -> AccessMode {
    use AccessMode::{Commutative, Concurrent, Order, Read, Reduction, Update, Write};
    [Read, Write, Update, Commutative, Reduction, Order, Concurrent][(number as usize).min(6)]
}

fn ns(ticks_per_ns: f64, ticks: u64) -> u64 {
    if ticks_per_ns > 0.0 { (ticks as f64 / ticks_per_ns).round() as u64 } else { ticks }
}

impl Events {
    pub(crate) fn new(ticks_per_ns: f64, recordings: Vec<Recording>) -> Self {
        Self { ticks_per_ns, rounds: Rounds::new(recordings), ..Self::default() }
    }

    /// Notes that the run ended at this time, in ticks.
    pub(crate) fn end_at(&mut self, ticks: u64) {
        self.end = self.end.max(ns(self.ticks_per_ns, ticks));
    }

    /// Reads consecutive records of one thread.
    ///
    /// # Errors
    /// Returns a description of the problem if a word begins no record, or a record is cut off.
    pub(crate) fn read(&mut self, trace: &Trace, thread: usize, words: &[u64]) -> Result<(), String> {
        let (mut at, mut base, mut submitted, mut subject) = (0, 0u64, NO_TASK, NO_TASK);
        let ns = |ticks: u64| ns(self.ticks_per_ns, ticks);
        while at < words.len() {
            let first = words[at];
            let (kind, small) = (kind_of(first), small_of(first));
            let Some(size) = record::words(kind) else { return Err(format!("word {at} begins no record")) };
            let Some(record) = words.get(at..at + size) else { return Err(format!("word {at}: a record is cut off")) };
            at += size;
            let ticks = base.wrapping_add(u64::from(time_of(first)));
            let time = ns(ticks);
            let span = |duration: u64| ns(ticks.saturating_sub(duration));
            if record::is_timed(kind) {
                self.end = self.end.max(time);
            }
            match kind {
                record::BASE => base = record[1],
                record::SUBMITTED | record::NEXT => {
                    submitted = record.get(1).copied().unwrap_or(submitted.wrapping_add(1));
                    subject = submitted;
                    let thread = thread as u32;
                    self.tasks.submissions.push(Submission { task: submitted, at: time, site: small, thread });
                }
                record::ACCESS => self.accesses.push((subject, small, mode_of(time_of(first)))),
                record::PARENT => self.tasks.parents.push((subject, first >> 8)),
                record::SUBJECT => subject = first >> 8,
                record::VALUE | record::ORDER => {
                    let from = subject.wrapping_sub(u64::from(time_of(first)));
                    let (data, carries_value) = (data_of(small), kind == record::VALUE);
                    self.dependences.push(Edge { from, to: subject, data, carries_value });
                }
                record::NODE => {
                    let (from, carries_value) = record::of_node(time_of(first));
                    self.dependences.push(Edge { from, to: subject, data: data_of(small), carries_value });
                }
                record::FAR => {
                    let (data, carries_value) = (data_of(small), time_of(first) & 1 == 1);
                    self.dependences.push(Edge { from: record[1], to: subject, data, carries_value });
                }
                record::RAN | record::DONE | record::RAN_IN_STREAM => {
                    let stream = record.get(3).map(|stream| *stream as u32);
                    let (task, duration, device) = match record {
                        [_, task, word, ..] => (*task, word & ((1 << 48) - 1), (word >> 48) as u16),
                        _ => {
                            let (task, duration) = record::of_done(record[1]);
                            (task, duration, 0)
                        }
                    };
                    let (unit, outcome) = unit_of(small);
                    let outcome = [End::Done, End::Failed, End::Detached][usize::from(outcome).min(2)];
                    let ran = Ran { start: span(duration), end: time, unit, device, stream, outcome };
                    match self.rounds.have(task) {
                        true => self.rounds.note(task, ran.start, Repeated::Ran(ran)),
                        false => self.tasks.runs.push((task, ran)),
                    }
                }
                record::STAGE => {
                    let stage = (small as usize).min(Stage::Ended as usize);
                    match self.rounds.have(subject) {
                        true => self.rounds.note(subject, time, Repeated::Stage(stage)),
                        false => self.tasks.stages.push((subject, stage, time)),
                    }
                }
                record::PLACED | record::ESTIMATED => {
                    let expected = record.get(1).map_or([None; 2], |word| record::of_estimate(*word));
                    let choice = Choice { at: time, policy: unit_of(small).1, expected };
                    match self.rounds.have(subject) {
                        true => self.rounds.note(subject, time, Repeated::Placed(choice)),
                        false => self.tasks.choices.push((subject, choice)),
                    }
                }
                record::DROPPED => {
                    let reasons = [Dropped::Evicted, Dropped::WrittenBack, Dropped::Released, Dropped::Lost];
                    let (space, why) = (small as u16 as usize, reasons[((small >> 16) as usize).min(3)]);
                    self.drops.push(Drop { at: time, space, bytes: record[1], data: record[2], why });
                }
                record::REPLAYED => self.rounds.submitted(record[1], record[2], small & 1 == 1, (time, thread)),
                record::GATE => {
                    let role = [GateRole::Entry, GateRole::Border, GateRole::LastReaders][(small as usize).min(2)];
                    let gate = Gate { role, recording: record[2], replay: record[3], part: record[4] as usize };
                    self.gates.insert(record[1], gate);
                }
                record::BEGUN => self.rounds.begun(record[1], record[2], time),
                record::COPY => self.copies.push((
                    Copy {
                        start: span(record[1]),
                        end: time,
                        waited: ns(record[2] & u64::from(u32::MAX)),
                        from: (record[2] >> 32) as u16 as usize,
                        to: (record[2] >> 48) as usize,
                        bytes: record[3],
                        data: record[4],
                        task: None,
                        evicts: unit_of(small).1 == record::Why::Evicted as u8,
                        stream: unit_of(small).0.checked_sub(1).map(|stream| stream as usize),
                    },
                    record[5],
                )),
                record::STATE => {
                    let (unit, kind) = unit_of(small);
                    let kinds = [Between::Search, Between::Sleep, Between::Throttle, Between::Wait];
                    let (kind, unit) = (kinds[usize::from(kind).min(3)], unit_with(unit));
                    self.states.push(State { start: span(record[1]), end: time, kind, unit, thread });
                }
                record::MEMORY => self.memory.push(Memory { at: time, space: small as usize, bytes: record[1] }),
                record::NOTE => {
                    let kinds = [Happened::Poisoned, Happened::Refused, Happened::Returned, Happened::Cancelled];
                    let kind = kinds[(small as usize).min(3)];
                    match self.rounds.have(record[1]) {
                        true => self.rounds.note(record[1], time, Repeated::Note(kind)),
                        false => self.notes.push((time, record[1], kind)),
                    }
                }
                record::DECISION => {
                    let site = trace.sites.get(small as usize).map(|site| site.name.clone());
                    let (space, instance) = (site.unwrap_or_default(), record[1]);
                    let (state, pivot) = (record[2] as u8, (record[2] >> 8) as u32);
                    self.decisions.push(Decision { at: time, space, instance, state, pivot });
                }
                _ => unreachable!("a kind that has a size is read"),
            }
        }
        Ok(())
    }

    /// Returns the finished trace, combining the tables with the facts that the file states outside of the records.
    pub(crate) fn into_trace(mut self, mut trace: Trace) -> Trace {
        let mut rounds = std::mem::take(&mut self.rounds);
        rounds.unfold(&mut self);
        let positions = std::mem::take(&mut self.tasks)
            .into_table(&mut trace, |parent, submitted| rounds.task_at(parent, submitted));
        let end = |task| trace.tasks[positions.of(task)?].end;
        self.dependences = joins::resolve(std::mem::take(&mut self.dependences), &self.gates, &rounds, end);
        let of_numbers = |Edge { from, to, data, carries_value }: Edge| {
            Some(Dependence { from: positions.of(from)?, to: positions.of(to)?, data, carries_value })
        };
        trace.dependences = self.dependences.into_iter().filter_map(of_numbers).collect();
        trace.dependences.sort_by_key(|dependence| dependence.to);
        let access = |(task, region, mode): (u64, u32, AccessMode)| {
            let region = Some(region as usize).filter(|region| *region < trace.regions.len());
            Some(Access { task: positions.of(task)?, region, mode })
        };
        trace.accesses = self.accesses.into_iter().filter_map(access).collect();
        trace.accesses.sort_by_key(|access| access.task);
        let note = |(at, task, kind): (u64, u64, Happened)| Some(Note { at, task: positions.of(task)?, kind });
        trace.notes = self.notes.into_iter().filter_map(note).collect();
        let copy = |(copy, task): (Copy, u64)| Copy { task: positions.of(task), ..copy };
        trace.copies = self.copies.into_iter().map(copy).collect();
        (trace.states, trace.memory, trace.decisions) = (self.states, self.memory, self.decisions);
        trace.drops = self.drops;
        trace.sort_by_time();
        trace.end = self.end;
        trace
    }
}
