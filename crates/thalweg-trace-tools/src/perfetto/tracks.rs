//! The tracks of a file, with their unique IDs.
//!
//! The file has one process with a track for each row of the timeline, for each counter, for notes and for each
//! work distribution. IDs are hashes of facts about the run, so the tracks of two files never mix when both are
//! loaded. The process ID is derived in the same way, so two runtimes in one process are shown as two processes;
//! the operating system's process ID is part of the name.

use super::messages::{CounterDescriptor, EXPLICIT, ProcessDescriptor, TrackDescriptor};
use super::output::{Output, Sequence};
use crate::Trace;
use crate::rows::{Owner, Row, process_name};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::io::{self, Write};

/// Linux process IDs are below this limit.
const MOST_PROCESSES: u64 = 1 << 22;

/// Creates tracks and places each new track last below the process.
pub(super) struct Tracks {
    identity: u64,
    made: u32,
}

impl Tracks {
    pub(super) fn new(trace: &Trace) -> Self {
        let mut hasher = DefaultHasher::new();
        for fact in ["program", "process", "runtime", "started", "scheduler", "configuration"] {
            trace.facts.get(fact).hash(&mut hasher);
        }
        (trace.end, trace.tasks.len()).hash(&mut hasher);
        Self { identity: hasher.finish(), made: 0 }
    }

    /// Returns an ID that is unique for each subject and differs between files.
    fn uuid(&self, subject: impl Hash) -> u64 {
        let mut hasher = DefaultHasher::new();
        (self.identity, subject).hash(&mut hasher);
        hasher.finish().max(1)
    }

    fn process_uuid(&self) -> u64 {
        self.uuid("process")
    }

    /// Returns the ID of an arrow.
    pub(super) fn arrow(&self, arrow: u32) -> u64 {
        (self.identity & !u64::from(u32::MAX)) + 1 + u64::from(arrow)
    }

    fn start<W: Write>(&mut self, output: &mut Output<W>, track: TrackDescriptor) -> io::Result<Sequence> {
        self.made += 1;
        let order = i32::try_from(self.made).ok();
        Sequence::start(output, self.made, TrackDescriptor { sibling_order_rank: order, ..track })
    }

    /// Creates the track of the process, which must be the first track.
    pub(super) fn process<W: Write>(&mut self, output: &mut Output<W>, trace: &Trace) -> io::Result<Sequence> {
        let mut labels = Vec::new();
        if let Some(problem) = &trace.problem {
            labels.push(format!("incomplete trace: {problem}"));
        }
        if trace.facts.get("simulated").is_some_and(|simulated| simulated == "true") {
            labels.push("simulated".to_owned());
        }
        let process = ProcessDescriptor {
            pid: Some((self.identity % (MOST_PROCESSES - 1) + 1) as i32),
            process_name: Some(process_name(trace)),
            process_labels: labels,
        };
        let track = TrackDescriptor {
            uuid: Some(self.process_uuid()),
            process: Some(process),
            child_ordering: Some(EXPLICIT),
            description: trace.problem.clone(),
            ..TrackDescriptor::default()
        };
        self.start(output, track)
    }

    /// Creates the track of a row. Devices and their streams are placed below their units. The layers of one owner
    /// share a name and therefore a place on the screen.
    pub(super) fn row<W: Write>(&mut self, output: &mut Output<W>, trace: &Trace, row: &Row) -> io::Result<Sequence> {
        let parent = match row.owner {
            Owner::Unit { unit, device: Some(_), .. } if unit < trace.units.len() => {
                self.uuid((Owner::unit(unit), 0_usize))
            }
            _ => self.process_uuid(),
        };
        let track = TrackDescriptor {
            uuid: Some(self.uuid((row.owner, row.layer))),
            parent_uuid: Some(parent),
            name: Some(row.owner.name(trace)),
            child_ordering: Some(EXPLICIT),
            ..TrackDescriptor::default()
        };
        self.start(output, track)
    }

    /// Creates the track of a counter whose values have the given unit.
    pub(super) fn counter<W: Write>(&mut self, output: &mut Output<W>, name: &str, unit: i32) -> io::Result<Sequence> {
        let track = TrackDescriptor {
            uuid: Some(self.uuid(("counter", name))),
            parent_uuid: Some(self.process_uuid()),
            name: Some(name.to_owned()),
            counter: Some(CounterDescriptor { unit: Some(unit) }),
            ..TrackDescriptor::default()
        };
        self.start(output, track)
    }

    /// Creates a track of marks.
    pub(super) fn marks<W: Write>(&mut self, output: &mut Output<W>, name: &str) -> io::Result<Sequence> {
        let track = TrackDescriptor {
            uuid: Some(self.uuid(("marks", name))),
            parent_uuid: Some(self.process_uuid()),
            name: Some(name.to_owned()),
            ..TrackDescriptor::default()
        };
        self.start(output, track)
    }
}
