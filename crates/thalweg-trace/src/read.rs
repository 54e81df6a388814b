//! The reader of trace files, which turns them into tables.
//!
//! If a file ends early or is damaged, it is read up to that point, and [`Trace::problem`] states the problem and
//! the byte offset. A file that is not a trace or has another version is rejected.
//!
//! Records of different threads are joined by task number, because no order between threads is assumed.

use crate::frame::{self, MAGIC, VERSION};
use crate::record::{self, Between, End, Happened, Stage, UNKNOWN, kind_of, small_of, time_of, unit_of};
use crate::tables::{
    Access, AccessMode, Copy, Data, Decision, Dependence, Memory, Note, Region, Site, State, Task, Trace, Unit,
};
use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};

/// The error returned when a file is rejected.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReadError {
    /// The file cannot be read.
    #[error("cannot read trace {path}: {source}")]
    Io {
        /// The path of the file.
        path: PathBuf,
        /// The underlying I/O error.
        source: std::io::Error,
    },
    /// The file is not a trace.
    #[error("cannot read trace {path}: {problem}")]
    Format {
        /// The path of the file.
        path: PathBuf,
        /// The problem and its byte offset.
        problem: String,
    },
}

impl Trace {
    /// Reads a trace file.
    ///
    /// # Errors
    /// Returns an error if the file cannot be read, is not a trace, or has another version. A file that ends early
    /// is not an error; see [`Trace::problem`].
    pub fn read(path: &Path) -> Result<Self, ReadError> {
        let bytes = std::fs::read(path).map_err(|source| ReadError::Io { path: path.to_owned(), source })?;
        Self::from_bytes(&bytes).map_err(|problem| ReadError::Format { path: path.to_owned(), problem })
    }

    /// Reads a trace from the bytes of a file.
    ///
    /// # Errors
    /// Returns a description of the problem if the bytes are not a trace or have another version.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, String> {
        if !bytes.starts_with(&MAGIC) {
            let problem = "byte 0: it does not begin like a trace; try a file that was written with THALWEG_TRACE=FILE";
            return Err(problem.to_owned());
        }
        let Some(version) = bytes.get(8..12) else { return Err("byte 8: it ends before the version".to_owned()) };
        let version = u32::from_le_bytes(version.try_into().expect("four bytes"));
        if version != VERSION {
            let hint =
                if version > VERSION { "a newer `thalweg trace`" } else { "the `thalweg trace` of that version" };
            return Err(format!(
                "byte 8: it has version {version}, but this program reads version {VERSION}; try {hint}"
            ));
        }
        let mut reader = Reader::default();
        let mut at = 12;
        while at < bytes.len() {
            match reader.frame(bytes, at) {
                Ok(next) => at = next,
                Err(problem) => {
                    reader.trace.problem = Some(format!("byte {at}: {problem}"));
                    break;
                }
            }
        }
        Ok(reader.finish())
    }
}

/// The reader's state.
#[derive(Default)]
struct Reader {
    trace: Trace,
    ticks_per_ns: f64,
    /// For each thread, the frames' words, keyed by the position of their first word.
    words: BTreeMap<u32, BTreeMap<u64, Vec<u64>>>,
    /// The end of the run, in ticks.
    end: Option<u64>,
}

/// A cursor over the fields of a payload.
struct Fields<'a>(&'a [u8]);

impl<'a> Fields<'a> {
    fn take(&mut self, number: usize) -> Result<&'a [u8], String> {
        let (taken, rest) = self.0.split_at_checked(number).ok_or("a frame is shorter than what it should hold")?;
        self.0 = rest;
        Ok(taken)
    }

    fn u32(&mut self) -> Result<u32, String> {
        Ok(u32::from_le_bytes(self.take(4)?.try_into().expect("four bytes")))
    }

    fn u64(&mut self) -> Result<u64, String> {
        Ok(u64::from_le_bytes(self.take(8)?.try_into().expect("eight bytes")))
    }

    fn text(&mut self, length: u32) -> Result<String, String> {
        Ok(String::from_utf8_lossy(self.take(length as usize)?).into_owned())
    }
}

impl Reader {
    /// Reads the frame at byte `at`; returns where the next frame begins.
    fn frame(&mut self, bytes: &[u8], at: usize) -> Result<usize, String> {
        let mut rest = Fields(&bytes[at..]);
        let ends_early = |_| "the file ends in the middle of a frame; was the program killed?".to_owned();
        let kind = rest.u32().map_err(ends_early)?;
        let length = rest.u32().map_err(ends_early)?;
        let mut fields = Fields(rest.take(length as usize).map_err(ends_early)?);
        match kind {
            frame::META => self.meta(fields.0),
            frame::SITES => self.read_sites(&mut fields)?,
            frame::DATA => self.data(&mut fields)?,
            frame::REGIONS => self.regions(&mut fields)?,
            frame::EVENTS => self.events(&mut fields)?,
            frame::END => self.end = Some(fields.u64()?),
            kind => return Err(format!("no frame has kind {kind}")),
        }
        Ok(at + 8 + length as usize)
    }

    fn meta(&mut self, text: &[u8]) {
        for line in String::from_utf8_lossy(text).lines() {
            let Some((key, value)) = line.split_once('\t') else { continue };
            match key {
                "ticks_per_ns" => self.ticks_per_ns = value.parse().unwrap_or(1.0),
                "unit" => {
                    let (kind, width) = value.split_once(' ').unwrap_or((value, "1"));
                    self.trace.units.push(Unit { kind: kind.to_owned(), width: width.parse().unwrap_or(1) });
                }
                "space" => self.trace.spaces.push(value.to_owned()),
                "thread" => {
                    let (number, name) = value.split_once(' ').unwrap_or((value, ""));
                    let number = number.parse::<usize>().unwrap_or(0);
                    if number < 1 << 20 {
                        let threads = &mut self.trace.threads;
                        threads.resize(threads.len().max(number + 1), String::new());
                        threads[number] = name.to_owned();
                    }
                }
                key => drop(self.trace.facts.insert(key.to_owned(), value.to_owned())),
            }
        }
    }

    fn read_sites(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        while !fields.0.is_empty() {
            let [number, line, column, name, file] =
                [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
            let (name, file) = (fields.text(name)?, fields.text(file)?);
            if number as usize != self.trace.sites.len() {
                return Err(format!("site {number} follows {} others", self.trace.sites.len()));
            }
            self.trace.sites.push(Site { name, file, line, column });
        }
        Ok(())
    }

    fn data(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        while !fields.0.is_empty() {
            let (number, bytes, name) = (fields.u64()?, fields.u64()?, fields.u32()?);
            let name = fields.text(name)?;
            self.trace.data.insert(number, Data { name, bytes });
        }
        Ok(())
    }

    fn regions(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        while !fields.0.is_empty() {
            let (number, length, data, bytes) = (fields.u32()?, fields.u32()?, fields.u64()?, fields.u64()?);
            let text = fields.text(length)?;
            if number as usize != self.trace.regions.len() {
                return Err(format!("region {number} follows {} others", self.trace.regions.len()));
            }
            self.trace.regions.push(Region { data, bytes, text });
        }
        Ok(())
    }

    fn events(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        let (thread, _, position) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let (words, rest) = fields.0.as_chunks::<8>();
        if !rest.is_empty() {
            return Err("records end within a word".to_owned());
        }
        let words = words.iter().map(|word| u64::from_le_bytes(*word)).collect();
        self.words.entry(thread).or_default().insert(position, words);
        Ok(())
    }

    /// Builds the tables.
    fn finish(mut self) -> Trace {
        let threads = std::mem::take(&mut self.words);
        if self.trace.sites.is_empty() {
            let (name, file) = ("unknown".to_owned(), String::new());
            self.trace.sites.push(Site { name, file, line: 0, column: 0 });
        }
        let mut events = Events::default();
        for (thread, frames) in threads {
            // If frames are missing because the writer kept only the latest ones, a new sequence begins after the
            // gap.
            let mut sequences: Vec<(u64, Vec<u64>)> = Vec::new();
            for (position, words) in frames {
                match sequences.last_mut() {
                    Some((first, sequence)) if *first + sequence.len() as u64 == position => sequence.extend(words),
                    _ => sequences.push((position, words)),
                }
            }
            for (position, sequence) in sequences {
                if let Err(problem) = events.read(&self, thread as usize, &sequence) {
                    self.note_problem(format!("thread {thread}, words from {position} on: {problem}"));
                }
            }
        }
        if let Some(end) = self.end {
            events.end = events.end.max(self.ns(end));
        }
        events.into_trace(self.trace)
    }

    fn note_problem(&mut self, problem: String) {
        self.trace.problem.get_or_insert(problem);
    }

    /// Converts ticks to nanoseconds.
    fn ns(&self, ticks: u64) -> u64 {
        if self.ticks_per_ns > 0.0 { (ticks as f64 / self.ticks_per_ns).round() as u64 } else { ticks }
    }
}

/// What is known about a task so far.
#[derive(Default, Clone)]
struct Known {
    submitted: Option<(u64, u32)>,
    parent: Option<u64>,
    stages: [Option<u64>; 6],
    /// The task's start, end, unit, device and outcome, once it ran.
    ran: Option<(u64, u64, u32, u16, End)>,
}

/// The records of all threads, with tasks keyed by task number.
#[derive(Default)]
struct Events {
    tasks: HashMap<u64, Known>,
    dependences: Vec<(u64, u64, Option<u64>, bool)>,
    accesses: Vec<(u64, u32, AccessMode)>,
    notes: Vec<(u64, u64, Happened)>,
    copies: Vec<Copy>,
    states: Vec<State>,
    memory: Vec<Memory>,
    decisions: Vec<Decision>,
    end: u64,
}

impl Events {
    fn read(&mut self, reader: &Reader, thread: usize, words: &[u64]) -> Result<(), String> {
        let (mut at, mut base, mut submitted, mut dependent) = (0, 0, 0, 0);
        while at < words.len() {
            let first = words[at];
            let (kind, small) = (kind_of(first), small_of(first));
            let Some(size) = record::words(kind) else { return Err(format!("word {at} begins no record")) };
            let Some(record) = words.get(at..at + size) else { return Err(format!("word {at}: a record is cut off")) };
            at += size;
            let ticks = base + u64::from(time_of(first));
            let time = reader.ns(ticks);
            let span = |duration: u64| reader.ns(ticks.saturating_sub(duration));
            let data = |small: u32| (small != UNKNOWN).then_some(u64::from(small));
            let unit = |unit: u32| (unit != record::NO_UNIT).then_some(unit as usize);
            let is_timed = !matches!(
                kind,
                record::BASE
                    | record::PARENT
                    | record::DEPENDENT
                    | record::VALUE
                    | record::ORDER
                    | record::FAR
                    | record::ACCESS
            );
            if is_timed {
                self.end = self.end.max(time);
            }
            match kind {
                record::BASE => base = record[1],
                record::SUBMITTED => {
                    submitted = record[1];
                    self.tasks.entry(submitted).or_default().submitted = Some((time, small));
                }
                record::ACCESS => {
                    use AccessMode::{Commutative, Order, Read, Reduction, Update, Write};
                    let mode = [Read, Write, Update, Commutative, Reduction, Order][(time_of(first) as usize).min(5)];
                    self.accesses.push((submitted, small, mode));
                }
                record::PARENT => self.tasks.entry(submitted).or_default().parent = Some(first >> 8),
                record::DEPENDENT => dependent = first >> 8,
                record::VALUE | record::ORDER => {
                    let from = dependent.wrapping_sub(u64::from(time_of(first)));
                    self.dependences.push((from, dependent, data(small), kind == record::VALUE));
                }
                record::FAR => self.dependences.push((record[1], dependent, None, small & 1 == 1)),
                record::RAN => {
                    let ((unit, outcome), duration) = (unit_of(small), record[2] & ((1 << 48) - 1));
                    let outcome = [End::Done, End::Failed, End::Detached][usize::from(outcome).min(2)];
                    let ran = (span(duration), time, unit, (record[2] >> 48) as u16, outcome);
                    self.tasks.entry(record[1]).or_default().ran = Some(ran);
                }
                record::STAGE => {
                    let stage = usize::from(unit_of(small).1).min(Stage::Ended as usize);
                    self.tasks.entry(record[1]).or_default().stages[stage] = Some(time);
                }
                record::COPY => self.copies.push(Copy {
                    start: span(record[1]),
                    end: time,
                    waited: reader.ns(record[2] & u64::from(u32::MAX)),
                    from: (record[2] >> 32) as u16 as usize,
                    to: (record[2] >> 48) as usize,
                    bytes: record[3],
                    data: record[4],
                    evicts: small == record::Why::Evicted as u32,
                }),
                record::STATE => {
                    let (of_unit, kind) = unit_of(small);
                    let kind =
                        [Between::Search, Between::Sleep, Between::Throttle, Between::Wait][usize::from(kind).min(3)];
                    self.states.push(State { start: span(record[1]), end: time, kind, unit: unit(of_unit), thread });
                }
                record::MEMORY => self.memory.push(Memory { at: time, space: small as usize, bytes: record[1] }),
                record::NOTE => {
                    let kinds = [Happened::Poisoned, Happened::Refused, Happened::Returned, Happened::Cancelled];
                    self.notes.push((time, record[1], kinds[(small as usize).min(3)]));
                }
                record::DECISION => {
                    let site = reader.trace.sites.get(small as usize).map(|site| site.name.clone());
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
    fn into_trace(mut self, mut trace: Trace) -> Trace {
        let site_of = |site: u32, trace: &Trace| (site as usize).min(trace.sites.len() - 1);
        let mut known: Vec<(u64, Known)> = self.tasks.drain().filter(|(_, known)| known.submitted.is_some()).collect();
        known.sort_unstable_by_key(|(number, _)| *number);
        let places: HashMap<u64, usize> = known.iter().enumerate().map(|(at, (number, _))| (*number, at)).collect();
        trace.tasks = known
            .into_iter()
            .map(|(number, known)| {
                let (submitted, site) = known.submitted.expect("others were left out");
                let [ready, placed, reserved, launched, _, ended] = known.stages;
                let (start, end, unit, device, outcome) = match known.ran {
                    None => (None, None, None, None, None),
                    Some((start, end, unit, device, outcome)) => {
                        let unit = (unit != record::NO_UNIT).then_some(unit as usize);
                        (Some(start), Some(end), unit, device.checked_sub(1).map(usize::from), Some(outcome))
                    }
                };
                let (site, parent) =
                    (site_of(site, &trace), known.parent.and_then(|parent| places.get(&parent).copied()));
                let finished = ended.or(end);
                Task {
                    number,
                    site,
                    parent,
                    submitted,
                    ready,
                    placed,
                    reserved,
                    launched,
                    start,
                    end,
                    finished,
                    unit,
                    device,
                    outcome,
                }
            })
            .collect();
        let of_numbers = |(from, to, data, carries_value): (u64, u64, Option<u64>, bool)| {
            Some(Dependence { from: *places.get(&from)?, to: *places.get(&to)?, data, carries_value })
        };
        trace.dependences = self.dependences.drain(..).filter_map(of_numbers).collect();
        trace.dependences.sort_by_key(|dependence| dependence.to);
        let access = |(task, region, mode): (u64, u32, AccessMode)| {
            let region = Some(region as usize).filter(|region| *region < trace.regions.len());
            Some(Access { task: *places.get(&task)?, region, mode })
        };
        trace.accesses = self.accesses.drain(..).filter_map(access).collect();
        trace.accesses.sort_by_key(|access| access.task);
        let note = |(at, task, kind): (u64, u64, Happened)| Some(Note { at, task: *places.get(&task)?, kind });
        trace.notes = self.notes.drain(..).filter_map(note).collect();
        (trace.copies, trace.states, trace.memory, trace.decisions) =
            (self.copies, self.states, self.memory, self.decisions);
        trace.copies.sort_by_key(|copy| copy.end);
        trace.states.sort_by_key(|state| state.end);
        trace.memory.sort_by_key(|memory| memory.at);
        trace.notes.sort_by_key(|note| note.at);
        trace.decisions.sort_by_key(|decision| decision.at);
        trace.end = self.end;
        trace
    }
}
