//! The tracer's thread, which writes the records of all threads to the file.
//!
//! If writing fails, the error is logged once and the trace ends at that point; the program continues.

use super::Order;
use super::fact;
use super::lane::{Chunk, Chunks, Lane};
use super::names::Names;
use crate::sync::start;
use parking_lot::{Condvar, Mutex};
use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::thread::{Builder, JoinHandle};
use std::time::{Duration, Instant};
use thalweg_trace::frame::{self, push};

/// Longest interval at which records are written.
const SELDOM: Duration = Duration::from_millis(250);
/// Shortest interval.
const OFTEN: Duration = Duration::from_millis(1);
/// Numbers of chunks per interval below and above which the interval changes. Few chunks stay in the caches, so that
/// threads fill the same ones again.
const FEW_CHUNKS: usize = 8;
const MANY_CHUNKS: usize = 32;

/// State shared by the recording threads and the tracer's thread.
struct Inner {
    lanes: Mutex<Vec<Arc<Lane>>>,
    /// Thread names that have not been written yet.
    threads: Mutex<String>,
    next_thread: AtomicU32,
    names: Arc<Names>,
    /// End time in ticks and clock rate, once the trace has ended.
    end: Mutex<Option<(u64, f64)>>,
    ending: Condvar,
    ended: AtomicBool,
}

pub(super) struct Writer {
    inner: Arc<Inner>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

/// A lane, and how many words of its first chunk have already been written.
struct Progress {
    lane: Arc<Lane>,
    written: usize,
}

/// A frame with records of one chunk.
struct Piece {
    /// The thread, and the position of the chunk's first word.
    chunk: (u32, u64),
    /// Whether the chunk will get no more words.
    is_last: bool,
    bytes: Vec<u8>,
}

/// The frames of a chunk that a trace of the most recent period keeps. Later frames of a chunk cannot be read without
/// the earlier ones, so all of them are kept until the chunk is full.
struct Kept {
    piece: Piece,
    latest: Instant,
}

/// The output file, and the records kept by a trace that is limited to the most recent period.
struct Output {
    file: File,
    latest: Option<Duration>,
    kept: Vec<Kept>,
}

impl Writer {
    /// Creates the file and starts the thread.
    ///
    /// # Errors
    /// Fails if the file cannot be created or the thread cannot be started.
    pub(super) fn start(order: Order, names: Arc<Names>, facts: &str) -> io::Result<Self> {
        let mut file = File::create(&order.path)?;
        let mut bytes = frame::head().to_vec();
        push(&mut bytes, frame::META, |out| out.extend(facts.as_bytes()));
        file.write_all(&bytes)?;
        let inner = Arc::new(Inner {
            lanes: Mutex::default(),
            threads: Mutex::default(),
            next_thread: AtomicU32::new(0),
            names,
            end: Mutex::default(),
            ending: Condvar::new(),
            ended: AtomicBool::new(false),
        });
        let output = Output { file, latest: order.latest, kept: Vec::new() };
        let write = {
            let inner = inner.clone();
            move || {
                if let Err(problem) = inner.write(output) {
                    log!(error, "cannot write the trace {}: {problem}; it ends here", order.path.display());
                }
                inner.ended.store(true, Ordering::Relaxed);
                inner.lanes.lock().clear();
            }
        };
        let thread = start(Builder::new().name("thalweg-trace".to_owned()), write)?;
        Ok(Self { inner, thread: Mutex::new(Some(thread)) })
    }

    /// Registers a thread that records from now on, starting with this chunk.
    pub(super) fn enter(&self, chunk: Arc<Chunk>) -> Arc<Lane> {
        let number = self.inner.next_thread.fetch_add(1, Ordering::Relaxed);
        let name = fact(std::thread::current().name().unwrap_or(""));
        self.inner.threads.lock().push_str(&format!("thread\t{number} {name}\n"));
        let chunks = Chunks::begin(chunk);
        let lane = Arc::new(Lane { thread: number, chunks: Mutex::new(chunks) });
        if !self.has_ended() {
            self.inner.lanes.lock().push(lane.clone());
        }
        lane
    }

    /// Returns whether nothing more will be written.
    pub(super) fn has_ended(&self) -> bool {
        self.inner.ended.load(Ordering::Relaxed)
    }

    /// Writes all records and closes the file. A second call has no effect.
    pub(super) fn end(&self, ticks: u64, ticks_per_ns: f64) {
        self.inner.end.lock().get_or_insert((ticks, ticks_per_ns));
        self.inner.ending.notify_all();
        if let Some(thread) = self.thread.lock().take() {
            let _ = thread.join();
        }
    }
}

impl Inner {
    /// The main function of the tracer's thread.
    fn write(&self, mut output: Output) -> io::Result<()> {
        let (mut lanes, mut every) = (Vec::<Progress>::new(), SELDOM);
        loop {
            let end = {
                let mut end = self.end.lock();
                if end.is_none() {
                    let _ = self.ending.wait_for(&mut end, every);
                }
                *end
            };
            lanes.extend(self.lanes.lock().drain(..).map(|lane| Progress { lane, written: 0 }));
            let mut pieces = Vec::new();
            lanes.retain_mut(|lane| lane.take(&mut pieces));
            every = match pieces.iter().filter(|piece| piece.is_last).count() {
                ..FEW_CHUNKS => (every * 2).min(SELDOM),
                MANY_CHUNKS.. => (every / 2).max(OFTEN),
                _ => every,
            };
            // Names are taken after the records but written before them, so every name precedes the records that refer
            // to it.
            let mut names = Vec::new();
            self.push_names(&mut names);
            output.write(&names, pieces, end.is_some())?;
            if let Some((ticks, ticks_per_ns)) = end {
                let mut last = Vec::new();
                push(&mut last, frame::META, |out| out.extend(format!("ticks_per_ns\t{ticks_per_ns}\n").as_bytes()));
                push(&mut last, frame::END, |out| out.extend(ticks.to_le_bytes()));
                return output.file.write_all(&last);
            }
        }
    }

    fn push_names(&self, out: &mut Vec<u8>) {
        let threads = std::mem::take(&mut *self.threads.lock());
        let payloads = [(frame::META, threads.into_bytes())].into_iter().chain(self.names.take_unwritten());
        for (kind, payload) in payloads {
            if !payload.is_empty() {
                push(out, kind, |out| out.extend(payload));
            }
        }
    }
}

impl Progress {
    /// Appends frames with the records since the last call, and returns written chunks to the thread. Returns false if
    /// the thread has ended and no records are left.
    fn take(&mut self, out: &mut Vec<Piece>) -> bool {
        let is_over = Arc::strong_count(&self.lane) == 1;
        let (full, last) = {
            let mut chunks = self.lane.chunks.lock();
            let last = chunks.filled.pop();
            let full = std::mem::take(&mut chunks.filled);
            chunks.filled.extend(last.clone());
            (full, last)
        };
        for chunk in &full {
            self.take_from(chunk, true, out);
            self.written = 0;
        }
        last.iter().for_each(|chunk| self.take_from(chunk, is_over, out));
        if !full.is_empty() {
            self.lane.chunks.lock().take_back(full.into_iter());
        }
        !is_over
    }

    fn take_from(&mut self, chunk: &Chunk, is_last: bool, out: &mut Vec<Piece>) {
        let words: Vec<u64> = chunk.from(self.written).map(u64::to_le).collect();
        if words.is_empty() && !is_last {
            return;
        }
        let mut bytes = Vec::with_capacity(24 + words.len() * 8);
        push(&mut bytes, frame::EVENTS, |out| {
            out.extend(self.lane.thread.to_le_bytes());
            out.extend(0u32.to_le_bytes());
            out.extend((chunk.position + self.written as u64).to_le_bytes());
            out.extend_from_slice(bytemuck::cast_slice(&words));
        });
        self.written += words.len();
        out.push(Piece { chunk: (self.lane.thread, chunk.position), is_last, bytes });
    }
}

impl Output {
    /// Writes names and records. Records are written immediately or, if only the most recent period is kept, at the
    /// end.
    fn write(&mut self, names: &[u8], pieces: Vec<Piece>, is_end: bool) -> io::Result<()> {
        self.file.write_all(names)?;
        let Some(latest) = self.latest else {
            return pieces.iter().try_for_each(|piece| self.file.write_all(&piece.bytes));
        };
        for piece in pieces {
            // The chunks that still get words are among the last.
            match self.kept.iter_mut().rfind(|kept| kept.piece.chunk == piece.chunk) {
                Some(kept) => {
                    kept.piece.bytes.extend(piece.bytes);
                    (kept.piece.is_last, kept.latest) = (piece.is_last, Instant::now());
                }
                None => self.kept.push(Kept { piece, latest: Instant::now() }),
            }
        }
        self.kept.retain(|kept| !kept.piece.is_last || kept.latest.elapsed() <= latest);
        if is_end {
            self.kept.iter().try_for_each(|kept| self.file.write_all(&kept.piece.bytes))?;
        }
        Ok(())
    }
}
