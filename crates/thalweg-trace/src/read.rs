//! The reader of trace files, which turns them into tables.
//!
//! If a file ends early or is damaged, it is read up to that point, and [`Trace::problem`] states the problem and
//! the byte offset. A file that is not a trace or has another version is rejected.
//!
//! This module reads frames; [`Events`] reads the records inside them.

use crate::events::Events;
use crate::frame::{self, BorderPart, MAGIC, RecordedDependence, Recording, VERSION};
use crate::tables::{Data, Region, Site, Trace, Unit};
use std::collections::BTreeMap;
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
struct Reader<'a> {
    trace: Trace,
    ticks_per_ns: f64,
    /// For each thread, the frames' words, keyed by the position of their first word.
    words: BTreeMap<u32, BTreeMap<u64, &'a [[u8; 8]]>>,
    recordings: Vec<Recording>,
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

/// Adds a name from a line with its number and the name.
fn numbered(names: &mut Vec<String>, line: &str) {
    let (number, name) = line.split_once(' ').unwrap_or((line, ""));
    let number = number.parse::<usize>().unwrap_or(0);
    if number < 1 << 20 {
        names.resize(names.len().max(number + 1), String::new());
        names[number] = name.to_owned();
    }
}

impl<'a> Reader<'a> {
    /// Reads the frame at byte `at`; returns where the next frame begins.
    fn frame(&mut self, bytes: &'a [u8], at: usize) -> Result<usize, String> {
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
            frame::RECORDINGS => self.recordings(&mut fields)?,
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
                "thread" => numbered(&mut self.trace.threads, value),
                "policy" => numbered(&mut self.trace.policies, value),
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

    fn recordings(&mut self, fields: &mut Fields<'_>) -> Result<(), String> {
        while !fields.0.is_empty() {
            let (first, tasks) = (fields.u64()?, fields.u32()?);
            let (dependences, accesses, parts) = (fields.u32()?, fields.u32()?, fields.u32()?);
            let mut recording = Recording { first, ..Recording::default() };
            for _ in 0..tasks {
                recording.sites.push(fields.u32()?);
            }
            for _ in 0..dependences {
                let [from, to, data, flag] = [fields.u32()?, fields.u32()?, fields.u32()?, fields.u32()?];
                if from >= tasks || to >= tasks {
                    return Err(format!("a dependence leads from {from} to {to} in a recording of {tasks} tasks"));
                }
                recording.dependences.push(RecordedDependence { from, to, data, carries_value: flag == 1 });
            }
            for _ in 0..accesses {
                let access = [fields.u32()?, fields.u32()?, fields.u32()?];
                if access[0] >= tasks {
                    return Err(format!("task {} of a recording of {tasks} tasks has an access", access[0]));
                }
                recording.accesses.push(access);
            }
            for _ in 0..parts {
                let data = fields.u32()?;
                let mut list = || -> Result<Vec<u32>, String> {
                    let list: Vec<_> = (0..fields.u32()?).map(|_| fields.u32()).collect::<Result<_, _>>()?;
                    match list.iter().find(|task| **task >= tasks) {
                        None => Ok(list),
                        Some(task) => Err(format!("task {task} of a recording of {tasks} tasks uses a part")),
                    }
                };
                let [readers, first_writers, writers, last_readers] = [list()?, list()?, list()?, list()?];
                recording.border.push(BorderPart { data, readers, first_writers, writers, last_readers });
            }
            self.recordings.push(recording);
        }
        Ok(())
    }

    fn events(&mut self, fields: &mut Fields<'a>) -> Result<(), String> {
        let (thread, _, position) = (fields.u32()?, fields.u32()?, fields.u64()?);
        let (words, rest) = fields.0.as_chunks::<8>();
        if !rest.is_empty() {
            return Err("records end within a word".to_owned());
        }
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
        let mut events = Events::new(self.ticks_per_ns, std::mem::take(&mut self.recordings));
        let mut sequence = Vec::new();
        for (thread, frames) in threads {
            // If frames are missing because the writer kept only the latest ones, a new sequence begins after the
            // gap.
            let mut frames = frames.into_iter().peekable();
            while let Some((position, first)) = frames.next() {
                sequence.clear();
                let mut add = |words: &[[u8; 8]]| sequence.extend(words.iter().map(|word| u64::from_le_bytes(*word)));
                add(first);
                let mut end = position.wrapping_add(first.len() as u64);
                while let Some((_, words)) = frames.next_if(|(next, _)| *next == end) {
                    add(words);
                    end = end.wrapping_add(words.len() as u64);
                }
                if let Err(problem) = events.read(&self.trace, thread as usize, &sequence) {
                    self.note_problem(format!("thread {thread}, words from {position} on: {problem}"));
                }
            }
        }
        if let Some(end) = self.end {
            events.end_at(end);
        }
        events.into_trace(self.trace)
    }

    fn note_problem(&mut self, problem: String) {
        self.trace.problem.get_or_insert(problem);
    }
}
