//! The records of one thread: chunks of words that the thread fills and the tracer's thread reads.
//!
//! Invariants:
//! 1. Only one thread fills a chunk. It stores words before it publishes their number, so a reader that sees the
//!    number also sees the words.
//! 2. A chunk begins with a base for times and with no dependent task, so it can be read without the chunks before it.

use super::names::Names;
use super::writer::Writer;
use crate::ids::{DataId, TaskId};
use crate::region::Block;
use parking_lot::Mutex;
use rustc_hash::{FxHashMap, FxHashSet, FxHasher};
use std::hash::{Hash, Hasher};
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use thalweg_trace::record::{BASE, long};

/// Words per chunk: 64 KiB, enough for some 1,300 tasks.
const WORDS: usize = 8192;
/// Number of data objects after which a thread forgets which ones it has seen. Their names are then written again.
const MOST_KNOWN: usize = 1 << 16;

/// A block of consecutive words of one thread.
pub(super) struct Chunk {
    words: Box<[AtomicU64]>,
    filled: AtomicUsize,
    /// Position of the chunk's first word among all words of the thread.
    pub(super) position: u64,
}

impl Chunk {
    fn new(position: u64) -> Arc<Self> {
        let words = (0..WORDS).map(|_| AtomicU64::new(0)).collect();
        Arc::new(Self { words, filled: AtomicUsize::new(0), position })
    }

    /// Returns the words that have been filled from this position on.
    pub(super) fn from(&self, written: usize) -> impl Iterator<Item = u64> {
        let filled = self.filled.load(Ordering::Acquire);
        self.words[written.min(filled)..filled].iter().map(|word| word.load(Ordering::Relaxed))
    }
}

/// Chunks of a thread that are not completely written to the file yet. The last chunk is being filled.
pub(super) struct Lane {
    pub(super) thread: u32,
    pub(super) chunks: Mutex<Vec<Arc<Chunk>>>,
}

/// The recording thread's end of its lane.
pub(super) struct Local {
    pub(super) tracer: u64,
    /// Task to which the most recently recorded dependences belong.
    pub(super) dependent: Option<TaskId>,
    lane: Arc<Lane>,
    chunk: Arc<Chunk>,
    filled: usize,
    base: u64,
    latest: u64,
    sites: FxHashMap<u64, u32>,
    latest_site: (u64, u32),
    data: FxHashSet<DataId>,
    latest_data: Option<DataId>,
    regions: FxHashMap<(DataId, Block), u32>,
}

impl Local {
    pub(super) fn new(tracer: u64, writer: &Writer) -> Self {
        let chunk = Chunk::new(0);
        let lane = writer.enter(chunk.clone());
        let (sites, data) = Default::default();
        let (filled, base, latest) = (0, 0, 0);
        Self {
            tracer,
            dependent: None,
            lane,
            chunk,
            filled,
            base,
            latest,
            sites,
            latest_site: (0, 0),
            data,
            latest_data: None,
            regions: FxHashMap::default(),
        }
    }

    /// Returns whether the tracer is gone, in which case nothing else refers to the lane.
    pub(super) fn is_abandoned(&self) -> bool {
        Arc::strong_count(&self.lane) == 1
    }

    /// Makes room for a record of `len` words that is made for `time`: begins a new chunk or writes a new base if
    /// necessary. Returns the time relative to the base.
    #[inline]
    pub(super) fn begin(&mut self, len: usize, writer: &Writer, time: u64) -> u32 {
        self.latest = time;
        match u32::try_from(time.wrapping_sub(self.base)) {
            Ok(relative) if self.filled > 0 && self.filled + len <= WORDS => relative,
            _ => self.begin_with_base(len, writer, time),
        }
    }

    #[cold]
    fn begin_with_base(&mut self, len: usize, writer: &Writer, time: u64) -> u32 {
        if self.filled + len + 2 > WORDS {
            self.chunk = Chunk::new(self.chunk.position + self.filled as u64);
            self.filled = 0;
            self.dependent = None;
            let mut chunks = self.lane.chunks.lock();
            if writer.has_ended() {
                chunks.clear();
            }
            chunks.push(self.chunk.clone());
        }
        self.base = time;
        self.store(&[long(BASE, 0), time]);
        0
    }

    /// Returns the time that was recorded last.
    pub(super) fn last_time(&self) -> u64 {
        self.latest
    }

    /// Appends a record for which there is room.
    #[inline]
    pub(super) fn store(&mut self, words: &[u64]) {
        let places = &self.chunk.words[self.filled..self.filled + words.len()];
        for (place, word) in places.iter().zip(words) {
            place.store(*word, Ordering::Relaxed);
        }
        self.filled += words.len();
        self.chunk.filled.store(self.filled, Ordering::Release);
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
    #[inline]
    pub(super) fn site(&mut self, name: &str, location: &'static Location<'static>, names: &Names) -> u32 {
        let mut hasher = FxHasher::default();
        (location as *const Location<'_>).hash(&mut hasher);
        name.hash(&mut hasher);
        let key = hasher.finish();
        if self.latest_site.0 != key {
            let site = *self.sites.entry(key).or_insert_with(|| names.site(name, location));
            self.latest_site = (key, site);
        }
        self.latest_site.1
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
