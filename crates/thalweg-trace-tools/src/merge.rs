//! One trace from the traces of a cluster's ranks, with aligned clocks.
//!
//! Each rank writes its own trace (`run.1.thw`) and next to it the offsets of its clock from that of rank 0
//! (`run.1.thw.clock`), as `thalweg-mpi` measured them at several moments. Between two measurements the offset is
//! interpolated, because the clocks of two machines also differ in rate. The merged trace has the units, threads and
//! spaces of the first rank, then those of the next one, and so on.
//!
//! A message is a task that sends and a task that receives. The n-th task `send to 1` of rank 0 sends what the n-th
//! task `receive from 0` of rank 1 receives, in the order of submission, so merging adds a dependence between the two.
//! The trace of a rank that was killed may lack the last messages.
//!
//! Invariant: indices in the merged tables refer to the same rows as in the trace that they come from.

use crate::ranks::note;
use crate::text::duration;
use crate::{Access, Copy, Dependence, Drop, Memory, Note, ReadError, Region, Site, State, Task, Trace};
use std::collections::HashMap;
use std::path::{Path, PathBuf};

/// The trace of a rank, and its clock.
#[derive(Debug)]
pub struct Rank {
    /// The number of the rank.
    pub number: usize,
    /// The rank's recorded events.
    pub trace: Trace,
    /// The clock of its times.
    pub clock: Clock,
}

/// A rank's clock: its offsets from that of rank 0, in ascending order of time. Without any, it is that of rank 0.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Clock(pub Vec<Offset>);

/// The result of one measurement of a clock. All times are in nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Offset {
    /// The time on the rank's clock.
    pub at: u64,
    /// That time minus the one on the clock of rank 0.
    pub offset: i64,
    /// The largest error of the offset.
    pub error: u64,
}

/// The reason why the trace of a rank cannot be read.
#[derive(Debug, thiserror::Error)]
pub enum RankError {
    /// The trace cannot be read.
    #[error(transparent)]
    Trace(#[from] ReadError),
    /// The file of the offsets cannot be read.
    #[error("cannot read {0}: {1}; try the files as the ranks have written them")]
    Clock(PathBuf, std::io::Error),
    /// A line of the file is not an offset.
    #[error("cannot read {0}: line {1} is not a time, an offset and an error; try the file as the rank has written it")]
    Line(PathBuf, usize),
}

impl Rank {
    /// Reads a rank's trace and the file of its offsets, if there is one. The file's name gives the rank's number:
    /// `run.1.thw` is rank 1. Without a number in the name, the rank is `default`.
    ///
    /// # Errors
    /// Returns an error if the trace, or an existing file of offsets, cannot be read.
    pub fn read(file: &Path, default: usize) -> Result<Self, RankError> {
        let number = file.file_stem().and_then(|stem| Path::new(stem).extension()?.to_str()?.parse().ok());
        let mut name = file.as_os_str().to_owned();
        name.push(".clock");
        Ok(Self { number: number.unwrap_or(default), trace: Trace::read(file)?, clock: Clock::read(name.into())? })
    }
}

impl Clock {
    fn read(file: PathBuf) -> Result<Self, RankError> {
        let text = match std::fs::read_to_string(&file) {
            Ok(text) => text,
            Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => return Ok(Self::default()),
            Err(problem) => return Err(RankError::Clock(file, problem)),
        };
        let offset = |line: &str| {
            let mut words = line.split(' ');
            let mut next = || words.next();
            let offset =
                Offset { at: next()?.parse().ok()?, offset: next()?.parse().ok()?, error: next()?.parse().ok()? };
            next().is_none().then_some(offset)
        };
        let offsets = text.lines().enumerate().map(|(number, line)| offset(line).ok_or(number + 1));
        offsets.collect::<Result<_, _>>().map(Self).map_err(|line| RankError::Line(file, line))
    }

    /// Returns the largest error of the measured offsets, in nanoseconds.
    pub fn error(&self) -> u64 {
        self.0.iter().map(|offset| offset.error).max().unwrap_or(0)
    }

    /// Returns the time on the clock of rank 0.
    fn aligned(&self, time: u64) -> i64 {
        let after = self.0.partition_point(|offset| offset.at < time);
        let offset = match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after)) {
            (Some(before), Some(after)) => {
                let share = (time - before.at) as f64 / (after.at - before.at) as f64;
                before.offset + ((after.offset - before.offset) as f64 * share).round() as i64
            }
            (Some(Offset { offset, .. }), None) | (None, Some(&Offset { offset, .. })) => offset,
            (None, None) => 0,
        };
        time as i64 - offset
    }
}

/// Merges the traces of ranks, in the order of their numbers. The fact `clock error` of the merged trace is the largest
/// error of a time compared with one of another rank.
///
/// ```
/// use thalweg_trace_tools::merge::{Clock, Offset, Rank, merge};
/// use thalweg_trace_tools::{Task, Trace};
/// let run = |submitted| Trace { tasks: vec![Task { submitted, ..Task::default() }], ..Trace::default() };
/// let behind = Clock(vec![Offset { at: 0, offset: -500, error: 20 }]); // this rank began 500 ns after rank 0
/// let first = Rank { number: 0, trace: run(700), clock: Clock::default() };
/// let merged = merge(vec![Rank { number: 1, trace: run(300), clock: behind }, first]);
/// assert_eq!(merged.tasks.iter().map(|task| task.submitted).collect::<Vec<_>>(), [700, 800]);
/// assert_eq!(merged.facts["clock error"], "20 ns");
/// ```
pub fn merge(mut ranks: Vec<Rank>) -> Trace {
    ranks.sort_by_key(|rank| rank.number);
    let mut errors: Vec<u64> = ranks.iter().map(|rank| rank.clock.error()).collect();
    errors.sort_by_key(|error| std::cmp::Reverse(*error));
    type Length = fn(&Trace) -> usize;
    let tables: [(&str, Length); 3] = [
        ("units", |rank| rank.units.len()),
        ("threads", |rank| rank.threads.len()),
        ("sites", |rank| rank.sites.len()),
    ];
    let lengths = tables.map(|(table, length)| {
        (table, ranks.iter().map(|rank| (rank.number, length(&rank.trace))).collect::<Vec<_>>())
    });
    // All times are shifted so that none is negative.
    let first = ranks.iter().map(|rank| rank.clock.aligned(0)).min().unwrap_or(0);
    let (mut merged, mut messages) = (Trace::default(), Messages::default());
    for Rank { number, trace, clock } in ranks {
        let time = |time: u64| (clock.aligned(time) - first).max(0) as u64;
        messages.find(&trace, number, merged.tasks.len());
        append(&mut merged, trace, number, &time);
    }
    messages.join(&mut merged);
    lengths.into_iter().for_each(|(table, lengths)| note(&mut merged, table, lengths.into_iter()));
    merged.facts.insert("clock error".to_owned(), duration(errors.iter().take(2).sum()));
    merged.sort_by_time();
    merged
}

/// The tasks that send and receive messages, in the order of submission, by the ranks of their sender and receiver.
#[derive(Default)]
struct Messages {
    sends: HashMap<(usize, usize), Vec<usize>>,
    receives: HashMap<(usize, usize), Vec<usize>>,
}

impl Messages {
    /// Finds the tasks in the trace of a rank, whose tasks begin at `first` in the merged trace.
    fn find(&mut self, trace: &Trace, rank: usize, first: usize) {
        let end = |site: &Site| {
            if !(site.file.contains("thalweg-mpi") && site.file.ends_with("transfer.rs")) {
                return None; // a task of the program, whatever its name
            }
            let (way, peer) = site.name.rsplit_once(' ')?;
            let peer = peer.parse().ok()?;
            match way {
                "send to" => Some((true, (rank, peer))),
                "receive from" => Some((false, (peer, rank))),
                _ => None,
            }
        };
        let ends: Vec<_> = trace.sites.iter().map(end).collect();
        for (number, task) in trace.tasks.iter().enumerate() {
            if let Some((sends, link)) = ends.get(task.site).copied().flatten() {
                let tasks = if sends { &mut self.sends } else { &mut self.receives };
                tasks.entry(link).or_default().push(first + number);
            }
        }
    }

    /// Adds the dependences of receivers on senders.
    fn join(self, merged: &mut Trace) {
        for (link, receives) in self.receives {
            let sends = self.sends.get(&link).into_iter().flatten();
            let messages =
                sends.zip(receives).map(|(from, to)| Dependence { from: *from, to, data: None, carries_value: true });
            merged.dependences.extend(messages);
        }
        merged.dependences.sort_by_key(|dependence| dependence.to);
    }
}

/// Appends the tables of the rank with this number; `time` aligns its times.
fn append(to: &mut Trace, from: Trace, rank: usize, time: &impl Fn(u64) -> u64) {
    let (units, spaces, policies) = (to.units.len(), to.spaces.len(), to.policies.len());
    let (threads, sites, tasks, regions) = (to.threads.len(), to.sites.len(), to.tasks.len(), to.regions.len());
    let name = |name: String| format!("rank {rank} {name}");
    let data = |number: u64| (rank as u64) << 48 | number;
    let index = |index: Option<usize>, first: usize| index.map(|index| index + first);
    if to.facts.is_empty() {
        to.facts = from.facts;
    }
    to.units.extend(from.units);
    to.spaces.extend(from.spaces.into_iter().map(name));
    to.policies.extend(from.policies);
    to.threads.extend(from.threads.into_iter().map(name));
    to.sites.extend(from.sites);
    to.data.extend(from.data.into_iter().map(|(number, known)| (data(number), known)));
    to.tasks.extend(from.tasks.into_iter().map(|task| Task {
        site: task.site + sites,
        parent: index(task.parent, tasks),
        submitted: time(task.submitted),
        submitter: index(task.submitter, threads),
        ready: task.ready.map(time),
        placed: task.placed.map(time),
        policy: index(task.policy, policies),
        reserved: task.reserved.map(time),
        launched: task.launched.map(time),
        start: task.start.map(time),
        end: task.end.map(time),
        finished: task.finished.map(time),
        unit: index(task.unit, units),
        ..task
    }));
    to.regions.extend(from.regions.into_iter().map(|region| Region { data: data(region.data), ..region }));
    to.accesses.extend(from.accesses.into_iter().map(|access| Access {
        task: access.task + tasks,
        region: index(access.region, regions),
        ..access
    }));
    to.dependences.extend(from.dependences.into_iter().map(|dependence| Dependence {
        from: dependence.from + tasks,
        to: dependence.to + tasks,
        data: dependence.data.map(data),
        ..dependence
    }));
    to.copies.extend(from.copies.into_iter().map(|copy| Copy {
        start: time(copy.start),
        end: time(copy.end),
        from: copy.from + spaces,
        to: copy.to + spaces,
        data: data(copy.data),
        task: index(copy.task, tasks),
        ..copy
    }));
    to.states.extend(from.states.into_iter().map(|state| State {
        start: time(state.start),
        end: time(state.end),
        unit: index(state.unit, units),
        thread: state.thread + threads,
        ..state
    }));
    let drop = |drop: Drop| Drop { at: time(drop.at), space: drop.space + spaces, data: data(drop.data), ..drop };
    to.drops.extend(from.drops.into_iter().map(drop));
    let memory = |memory: Memory| Memory { at: time(memory.at), space: memory.space + spaces, ..memory };
    to.memory.extend(from.memory.into_iter().map(memory));
    to.notes.extend(from.notes.into_iter().map(|note| Note { at: time(note.at), task: note.task + tasks, ..note }));
    for mut decision in from.decisions {
        (decision.at, decision.space) = (time(decision.at), name(decision.space));
        to.decisions.push(decision);
    }
    to.end = to.end.max(time(from.end));
    let problem = from.problem.map(name);
    to.problem = to.problem.take().or(problem);
}
