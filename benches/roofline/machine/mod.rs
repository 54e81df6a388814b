//! The machine's limits on a given number of cores, measured in the same run: bandwidths, operation rate and gather
//! rate.
//!
//! All figures are totals over all cores, with each core working on its own memory. They are: bytes per second of the
//! triad a = b + s·c of the benchmark STREAM, from each cache level and from memory, counted as in STREAM (24 bytes per
//! element: reads caused by stores are not counted); fused multiply-adds of the widest vectors, which count as two
//! operations each; and numbers gathered one by one through an index table. A cache that cores share is measured at
//! several sizes.
//!
//! Memory is in large pages if the system provides them. Invariant: a figure is the best of several measurements,
//! because anything else that runs on the machine can only lower it.

#[path = "../../../examples/common/caches.rs"]
pub(crate) mod caches;
mod gather;
pub(crate) mod memory;
mod multiply_add;
mod triad;

use serde::Serialize;

use crate::crew::Crew;

/// Size of the data that is streamed from memory, as a multiple of the largest cache.
const BEYOND: usize = 4;
/// Minimum size of the data that is streamed from memory, in bytes; also used if no cache is known.
const LEAST_BEYOND: usize = 64 << 20;

/// A level of the memory hierarchy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Level {
    /// Name of the level: L1, L2, L3 or memory.
    pub(crate) name: String,
    /// Total capacity for all cores in bytes; `None` if unlimited.
    pub(crate) bytes: Option<usize>,
    /// Bandwidth of the triad in bytes per second.
    pub(crate) triad: f64,
    /// Gather rate in numbers per second.
    pub(crate) gathers: f64,
}

/// The limits of the machine with a given number of cores.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Number of cores in use.
    pub(crate) units: usize,
    /// How many numbers fit into a vector.
    pub(crate) lanes: usize,
    /// Operations per second; a fused multiply-add counts as two.
    pub(crate) peak: f64,
    /// Like `peak`, but with a vector stored for every two multiply-adds.
    pub(crate) peak_storing: f64,
    /// The levels, from the nearest cache to memory.
    pub(crate) levels: Vec<Level>,
}

impl Machine {
    /// Measures the limits of a crew's cores. With `quick`, it only checks that the measurement works.
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
                // Half of the capacity is left for everything else. Cores share a cache equally.
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

    /// Combines this and another measurement of the same cores by taking the better value of each figure. The result
    /// never shows a nearer level as slower than a farther one, because any access pattern that works on much memory
    /// also works on less.
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

    /// Returns the nearest level whose capacity is at least `bytes`.
    pub(crate) fn level_of(&self, bytes: f64) -> &Level {
        let fits = |level: &&Level| level.bytes.is_none_or(|room| bytes <= room as f64);
        self.levels.iter().find(fits).expect("memory has no end")
    }
}

/// Returns the sizes at which a cache shared by cores is measured: four times the nearer level, then four times the
/// previous size, and so on up to the whole cache. How much of the cache a program gets is unknown, because other
/// programs and other guests on the same host use it as well. A figure at half of the cache's size therefore says
/// nothing about a program that needs a tenth.
fn steps(nearer: Option<usize>, total: usize) -> Vec<usize> {
    let first = nearer.map_or(total, |bytes| 4 * bytes);
    let mut rooms: Vec<usize> =
        std::iter::successors(Some(first), |room| Some(4 * room)).take_while(|room| 2 * room <= total).collect();
    rooms.push(total);
    rooms
}
