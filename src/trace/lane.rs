//! The records of one thread: chunks of words that the thread fills and the tracer's thread reads.
//!
//! Invariants:
//! 1. Only one thread fills a chunk. It stores words before it publishes their number, so a reader that sees the
//!    number also sees the words.
//! 2. A chunk can be read without the chunks before it: it begins with a base for times, and no record in it refers to
//!    a task that only an earlier chunk names.

use super::names::Names;
use super::writer::Writer;
use crate::ids::{DataId, TaskId};
use crate::region::Block;
use crate::sync::CallSite;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::borrow::Cow;
use std::hash::{Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use thalweg_trace::record::{BASE, SUBJECT, long};

/// Words per chunk: 64 KiB, enough for some 2,700 tasks.
pub(super) const WORDS: usize = 8192;
/// Number of written chunks that a thread keeps in order to fill them again. New chunks cost page faults.
const MOST_SPARE: usize = 64;
/// Number of data objects after which a thread forgets which ones it has seen. Their names are then written again.
const MOST_KNOWN: usize = 1 << 16;
/// Number of sites that a thread finds without hashing the name.
const RECENT_SITES: usize = 8;
/// Stands for no task.
const NO_TASK: u64 = u64::MAX;

/// A block of consecutive words of one thread.
pub(super) struct Chunk {
    words: Box<[AtomicU64; WORDS]>,
    filled: AtomicUsize,
    /// Position of the chunk's first word among all words of the thread.
    pub(super) position: u64,
}

impl Chunk {
    fn new(position: u64) -> Arc<Self> {
        let words: Box<[AtomicU64]> = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        let words = words.try_into().unwrap_or_else(|_| unreachable!("a chunk has this many words"));
        Arc::new(Self { words, filled: AtomicUsize::new(0), position })
    }

    /// Returns the words that have been filled from this position on.
    pub(super) fn from(&self, written: usize) -> impl Iterator<Item = u64> {
        let filled = self.filled.load(Ordering::Acquire);
        self.words[written.min(filled)..filled].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// Chunks of one thread.
pub(super) struct Chunks {
    /// Chunks that are not completely written to the file yet. The last one is being filled.
    pub(super) filled: Vec<Arc<Chunk>>,
    /// Chunks that have been written, to be filled again.
    spare: Vec<Arc<Chunk>>,
}

impl Chunks {
    pub(super) fn begin(first: Arc<Chunk>) -> Self {
        Self { filled: vec![first], spare: Vec::new() }
    }

    /// Returns an empty chunk for the words from this position on.
    fn next(&mut self, position: u64) -> Arc<Chunk> {
        while let Some(mut chunk) = self.spare.pop() {
            if let Some(empty) = Arc::get_mut(&mut chunk) {
                *empty.filled.get_mut() = 0;
                empty.position = position;
                return chunk;
            }
        }
        Chunk::new(position)
    }

    /// Takes back chunks that have been written.
    pub(super) fn take_back(&mut self, written: impl Iterator<Item = Arc<Chunk>>) {
        let room = MOST_SPARE.saturating_sub(self.spare.len());
        self.spare.extend(written.take(room));
    }
}

/// The part of a thread's records that the tracer's thread shares.
pub(super) struct Lane {
    pub(super) thread: u32,
    pub(super) chunks: Mutex<Chunks>,
}

/// A name that lives as long as the program, with its length and location, and the ID of this site.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
struct RecentSite {
    name: usize,
    len: usize,
    location: usize,
    site: u32,
}

/// The recording thread's end of its lane.
pub(super) struct Local {
    pub(super) tracer: u64,
    chunk: Arc<Chunk>,
    filled: usize,
    base: u64,
    latest: u64,
    /// Task to which records without a task belong, in this chunk.
    subject: u64,
    /// The task after the one whose submission was recorded last in this chunk.
    next: u64,
    recent: [RecentSite; RECENT_SITES],
    lane: Arc<Lane>,
    sites: FxHashMap<u64, u32>,
    data: FxHashSet<DataId>,
    latest_data: Option<DataId>,
    regions: FxHashMap<(DataId, Block), u32>,
}

impl Local {
    pub(super) fn new(tracer: u64, writer: &Writer) -> Self {
        let chunk = Chunk::new(0);
        let lane = writer.enter(chunk.clone());
        let (sites, data, regions, recent) = Default::default();
        let (filled, base, latest, latest_data) = (0, 0, 0, None);
        let (subject, next) = (NO_TASK, NO_TASK);
        Self { tracer, chunk, filled, base, latest, subject, next, recent, lane, sites, data, latest_data, regions }
    }

    /// Returns whether the tracer is gone, in which case nothing else refers to the lane.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.lane) == 1
    }

    /// Makes room for records of at most `len` words that are made for `time`: begins a new chunk or writes a new base
    /// if necessary. Returns the time relative to the base.
    #[inline(always)] // on the path of every traced task
    pub(super) fn begin(&mut self, len: usize, writer: &Writer, time: u64) -> u32 {
        self.latest = time;
        let relative = time.wrapping_sub(self.base);
        if relative > u64::from(u32::MAX) || self.filled + len > WORDS {
            return self.begin_with_base(len, writer, time);
        }
        relative as u32
    }

    #[cold]
    fn begin_with_base(&mut self, len: usize, writer: &Writer, time: u64) -> u32 {
        if self.filled + len + 2 > WORDS {
            let position = self.chunk.position + self.filled as u64;
            let mut chunks = self.lane.chunks.lock();
            self.chunk = chunks.next(position);
            (self.filled, self.subject, self.next) = (0, NO_TASK, NO_TASK);
            if writer.has_ended() {
                chunks.filled.clear();
            }
            chunks.filled.push(self.chunk.clone());
        }
        self.base = time;
        self.store([long(BASE, 0), time]);
        0
    }

    /// Returns the time that was recorded last.
    pub(super) fn last_time(&self) -> u64 {
        self.latest
    }

    /// Appends a record for which there is room.
    #[inline(always)] // on the path of every traced task
    pub(super) fn store<const N: usize>(&mut self, words: [u64; N]) {
        let end = self.filled + N;
        let places = &self.chunk.words[self.filled..end];
        for (place, word) in places.iter().zip(words) {
            place.store(word, Ordering::Relaxed);
        }
        self.filled = end;
        self.chunk.filled.store(end, Ordering::Release);
    }

    /// Makes a task the subject because its submission is about to be recorded. Returns whether the submission that
    /// this chunk recorded last was that of the task before.
    #[inline]
    pub(super) fn submit(&mut self, task: TaskId) -> bool {
        let follows = self.next == task.0;
        (self.subject, self.next) = (task.0, task.0.wrapping_add(1));
        follows
    }

    /// Appends a record that names the subject, for which there is room, unless this task is the subject already.
    #[inline]
    pub(super) fn speak_of(&mut self, task: TaskId) {
        if self.subject != task.0 {
            self.store([long(SUBJECT, task.0)]);
            self.subject = task.0;
        }
    }

    /// Returns the ID of a region of a data object. `describe` returns the region's size in bytes and its ranges as
    /// text.
    pub(super) fn region(
        &mut self,
        data: DataId,
        block: &Block,
        names: &Names,
        describe: impl FnOnce() -> (u64, String),
    ) -> u32 {
        if let Some(number) = self.regions.get(&(data, *block)) {
            return *number;
        }
        if self.regions.len() > MOST_KNOWN {
            self.regions.clear();
        }
        *self.regions.entry((data, *block)).or_insert_with(|| names.region(data, block, describe))
    }

    /// Returns the ID for a task's name and source location.
    #[allow(clippy::ptr_arg)] // a borrowed name is recognised by its address
    #[inline]
    pub(super) fn site(&mut self, name: &Cow<'static, str>, location: CallSite, names: &Names) -> u32 {
        let Cow::Borrowed(name) = name else { return self.find_site(name, location, names) };
        let place = location.address();
        let (address, len) = (name.as_ptr().addr(), name.len());
        let recent = &self.recent[place / align_of::<usize>() % RECENT_SITES];
        if (recent.name, recent.len, recent.location) == (address, len, place) {
            return recent.site;
        }
        let site = self.find_site(name, location, names);
        self.recent[place / align_of::<usize>() % RECENT_SITES] =
            RecentSite { name: address, len, location: place, site };
        site
    }

    #[cold]
    pub(super) fn find_site(&mut self, name: &str, location: CallSite, names: &Names) -> u32 {
        let mut hasher = FxHasher::default();
        location.hash(&mut hasher);
        name.hash(&mut hasher);
        *self.sites.entry(hasher.finish()).or_insert_with(|| names.site(name, location))
    }

    /// Calls `add` for a data object that this thread has not seen before.
    #[inline]
    pub(super) fn know_data(&mut self, data: DataId, add: impl FnOnce()) {
        if self.latest_data == Some(data) {
            return;
        }
        self.latest_data = Some(data);
        if self.data.insert(data) {
            add();
            if self.data.len() > MOST_KNOWN {
                self.data.clear();
            }
        }
    }
}
