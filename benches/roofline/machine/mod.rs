//! The limits of the machine on a number of cores, measured in the same run: bandwidths, operations, gathered
//! numbers.
//!
//! All figures are of all cores together, each core on its own memory: bytes per second of the triad a = b + s·c of
//! the benchmark STREAM, counted as STREAM does (24 bytes per element: reads caused by stores are not counted),
//! from each level of the caches and from memory; fused multiply-adds of the widest vectors, two operations each;
//! and numbers that are gathered one by one through a table of indices. A cache that cores share is measured at
//! several sizes.
//!
//! Memory is in large pages, if the system provides them. Invariant: a figure is the best of several, since
//! whatever else runs can only make it less.

#[path = "../../../examples/common/caches.rs"]
pub(crate) mod caches;
mod gather;
pub(crate) mod memory;
mod multiply_add;
mod triad;

use serde::Serialize;

use crate::crew::Crew;

/// Bytes that are streamed from memory, as a multiple of the largest cache.
const BEYOND: usize = 4;
/// Minimum of these bytes, also if no cache is known.
const LEAST_BEYOND: usize = 64 << 20;

/// A level of the memory hierarchy.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Level {
    /// L1, L2, L3 or memory.
    pub(crate) name: String,
    /// Bytes that all cores together have there; `None`: without limit.
    pub(crate) bytes: Option<usize>,
    /// Bytes per second of the triad.
    pub(crate) triad: f64,
    /// Numbers gathered per second.
    pub(crate) gathers: f64,
}

/// The limits of a number of cores.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Machine {
    /// Cores at work.
    pub(crate) units: usize,
    /// Numbers per vector.
    pub(crate) lanes: usize,
    /// Operations per second; a fused multiply-add counts as two.
    pub(crate) peak: f64,
    /// The same, with a vector stored for every two multiply-adds.
    pub(crate) peak_storing: f64,
    /// From the nearest level to the farthest, which is memory.
    pub(crate) levels: Vec<Level>,
}

impl Machine {
    /// Measures the cores of a crew; `quick` only checks that it works.
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
                // Half of the room is left for everything else. Cores divide a shared cache equally.
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

    /// Returns the better of each figure of this and another measurement of the same cores. A nearer level is never
    /// slower than a farther one, since a program can go through less memory in the way it goes through more.
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

    /// Returns the nearest level that has room for `bytes`.
    pub(crate) fn level_of(&self, bytes: f64) -> &Level {
        let fits = |level: &&Level| level.bytes.is_none_or(|room| bytes <= room as f64);
        self.levels.iter().find(fits).expect("memory has no end")
    }
}

/// Returns the sizes at which a cache shared by cores is measured: four times the nearer level, then four times the
/// previous size, up to all of it. How much of the cache a program gets is unknown: other programs, and other
/// guests of a virtual machine, use it, too, so a figure at half of its size says nothing about a program that
/// needs a tenth.
fn steps(nearer: Option<usize>, total: usize) -> Vec<usize> {
    let first = nearer.map_or(total, |bytes| 4 * bytes);
    let mut rooms: Vec<usize> =
        std::iter::successors(Some(first), |room| Some(4 * room)).take_while(|room| 2 * room <= total).collect();
    rooms.push(total);
    rooms
}
