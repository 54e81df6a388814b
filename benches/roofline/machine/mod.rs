//! What the machine allows on so many cores, measured now: bandwidths, operations, gathered numbers.
//!
//! All figures are of all cores together, each core on memory of its own: bytes per second of the triad a = b + s·c of the
//! benchmark STREAM, counted as STREAM does (24 bytes per element: what a store reads before it writes is not counted), from
//! each level of the caches and from memory; fused multiply-adds of the widest vectors, two operations each; and numbers
//! that are gathered one by one through a table of indices. A cache that cores share is measured at several sizes.
//!
//! Memory is in large pages, where the system gives them. Invariant: a figure is the best of several, since whatever else
//! runs can only make it less.

#[path = "../../../examples/common/caches.rs"]
pub(crate) mod caches;
mod gather;
pub(crate) mod memory;
mod multiply_add;
mod triad;

use serde::Serialize;

use crate::crew::Crew;

/// Bytes of memory that are streamed from beyond all caches: so many times the largest cache.
const BEYOND: usize = 4;
/// The least, where there is no cache that is known.
const LEAST_BEYOND: usize = 64 << 20;

/// A level of the memory.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Level {
    /// L1, L2, L3 or memory.
    pub(crate) name: String,
    /// Bytes that all cores together have there; none: no end.
    pub(crate) bytes: Option<usize>,
    /// Bytes per second of the triad.
    pub(crate) triad: f64,
    /// Numbers gathered per second.
    pub(crate) gathers: f64,
}

/// What a number of cores allows.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Cores at work.
    pub(crate) units: usize,
    /// Numbers in a vector.
    pub(crate) lanes: usize,
    /// Operations per second, a fused multiply-add being two.
    pub(crate) peak: f64,
    /// The same with a vector stored for every two multiply-adds.
    pub(crate) peak_storing: f64,
    /// From the nearest to the farthest, which is memory.
    pub(crate) levels: Vec<Level>,
}

impl Machine {
    /// Measures the cores of a crew; `quick`: to see that it works.
    pub(crate) fn measure(crew: &Crew, quick: bool) -> Self {
        let units = crew.units();
        let caches = caches::data_caches();
        let largest = caches.iter().map(|cache| cache.bytes).max().unwrap_or(0);
        let beyond = if quick { 2 * largest.min(4 << 20) } else { (BEYOND * largest).max(LEAST_BEYOND) };
        let mut levels: Vec<Level> = Vec::new();
        for cache in caches {
            let shared = cache.cores > 1;
            let total = if shared { cache.bytes } else { cache.bytes * units };
            let nearer = levels.last().and_then(|level: &Level| level.bytes);
            let rooms = if shared && !quick { steps(nearer, total) } else { vec![total] };
            for &room in &rooms {
                // Half of it leaves room for what else there is. What cores share, they share in equal parts.
                let own = if shared { room / units.min(cache.cores) } else { cache.bytes };
                let each = if quick { own.min(1 << 20) } else { own } / 2;
                let stores = [false, true].map(|past_caches| triad::rate(crew, each, past_caches, quick));
                let name = format!("L{}", cache.level);
                levels.push(Level {
                    name: if rooms.len() > 1 { format!("{name} ({} MiB)", room >> 20) } else { name },
                    bytes: Some(room),
                    triad: stores[0].max(stores[1]),
                    gathers: gather::rate(crew, each, quick),
                });
            }
        }
        let each = beyond / units;
        let stores = [false, true].map(|past_caches| triad::rate(crew, each, past_caches, quick));
        levels.push(Level {
            name: "memory".to_owned(),
            bytes: None,
            triad: stores[0].max(stores[1]),
            gathers: gather::rate(crew, each, quick),
        });
        let [peak, peak_storing] = [multiply_add::peak::<false>(crew, quick), multiply_add::peak::<true>(crew, quick)];
        Self { units, lanes: multiply_add::lanes(), peak, peak_storing, levels }
    }

    /// The better of every figure of this and of another measurement of the same; what is nearer is no slower than what is
    /// farther, since nothing keeps a program from going through less memory in the way it goes through more.
    pub(crate) fn or(mut self, other: &Self) -> Self {
        self.peak = self.peak.max(other.peak);
        self.peak_storing = self.peak_storing.max(other.peak_storing);
        for (level, other) in self.levels.iter_mut().zip(&other.levels) {
            level.triad = level.triad.max(other.triad);
            level.gathers = level.gathers.max(other.gathers);
        }
        for farther in (1..self.levels.len()).rev() {
            let Level { triad, gathers, .. } = self.levels[farther];
            let nearer = &mut self.levels[farther - 1];
            (nearer.triad, nearer.gathers) = (nearer.triad.max(triad), nearer.gathers.max(gathers));
        }
        self
    }

    /// The nearest level that has room for so many bytes.
    pub(crate) fn level_of(&self, bytes: f64) -> &Level {
        let fits = |level: &&Level| level.bytes.is_none_or(|room| bytes <= room as f64);
        self.levels.iter().find(fits).expect("memory has no end")
    }
}

/// The sizes at which a cache that cores share is measured: from four times what lies nearer, each four times the one before,
/// to all of it. How much of it is a program's own, nobody can say: other programs, and other guests of a virtual machine,
/// are in it too, so a figure at half of it tells nothing of a program that needs a tenth.
fn steps(nearer: Option<usize>, total: usize) -> Vec<usize> {
    let first = nearer.map_or(total, |bytes| 4 * bytes);
    let mut rooms: Vec<usize> =
        std::iter::successors(Some(first), |room| Some(4 * room)).take_while(|room| 2 * room <= total).collect();
    rooms.push(total);
    rooms
}
