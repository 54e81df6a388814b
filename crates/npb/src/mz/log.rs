//! Log of a run's tasks: how long each stage took, and how often zones moved to another unit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use thalweg::Context;

use crate::mz::stopwatch::Stopwatch;

/// Placeholder for a zone without a unit.
const NOWHERE: u64 = u64::MAX;

/// The log of all tasks in a run.
pub struct Log {
    stages: Mutex<Stopwatch>,
    /// The unit that last worked on each zone.
    units: Vec<AtomicU64>,
    /// The time of each zone's stages, in nanoseconds.
    times: Vec<AtomicU64>,
    migrations: AtomicU64,
    closed: AtomicBool,
}

impl Log {
    /// Creates an empty log for `zones` zones.
    pub fn new(zones: usize) -> Self {
        let units = (0..zones).map(|_| AtomicU64::new(NOWHERE)).collect();
        let times = (0..zones).map(|_| AtomicU64::new(0)).collect();
        Self { stages: Mutex::default(), units, times, migrations: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// Discards all records so far.
    pub fn clear(&self) {
        *self.stages() = Stopwatch::default();
        self.take_times();
        self.migrations.store(0, Ordering::Relaxed);
    }

    /// Stops recording.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Runs the work of one zone's stage and records its time.
    pub fn timed(&self, stage: &'static str, context: &Context, zone: usize, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        let elapsed = start.elapsed();
        self.stages().add(stage, elapsed);
        self.times[zone].fetch_add(elapsed.as_nanos() as u64, Ordering::Relaxed);
        let unit = context.unit().index() as u64;
        let before = self.units[zone].swap(unit, Ordering::Relaxed);
        if before != unit && before != NOWHERE {
            self.migrations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Returns the time spent in each stage, summed over all units.
    pub fn stages(&self) -> std::sync::MutexGuard<'_, Stopwatch> {
        self.stages.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// Returns the time of each zone's stages in nanoseconds since the last call.
    pub fn take_times(&self) -> Vec<f64> {
        self.times.iter().map(|time| time.swap(0, Ordering::Relaxed) as f64).collect()
    }

    /// Returns how often a stage of a zone ran on a different unit than the zone's previous stage.
    pub fn migrations(&self) -> u64 {
        self.migrations.load(Ordering::Relaxed)
    }
}
