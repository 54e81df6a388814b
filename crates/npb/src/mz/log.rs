//! What the tasks of a run note about themselves: how long each stage took, and which zones changed their unit.

use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use thalweg::Context;

use crate::mz::stopwatch::Stopwatch;

/// No unit yet.
const NOWHERE: u64 = u64::MAX;

/// Notes of all tasks of a run.
pub struct Log {
    stages: Mutex<Stopwatch>,
    /// The unit that each zone was last worked on.
    units: Vec<AtomicU64>,
    migrations: AtomicU64,
    closed: AtomicBool,
}

impl Log {
    /// An empty log for so many zones.
    pub fn new(zones: usize) -> Self {
        let units = (0..zones).map(|_| AtomicU64::new(NOWHERE)).collect();
        Self { stages: Mutex::default(), units, migrations: AtomicU64::new(0), closed: AtomicBool::new(false) }
    }

    /// Forgets what was noted so far.
    pub fn clear(&self) {
        *self.stages() = Stopwatch::default();
        self.migrations.store(0, Ordering::Relaxed);
    }

    /// Notes nothing from here on.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Relaxed);
    }

    /// Does the work of a stage of one zone.
    pub fn timed(&self, stage: &'static str, context: &Context, zone: usize, work: impl FnOnce()) {
        let start = Instant::now();
        work();
        if self.closed.load(Ordering::Relaxed) {
            return;
        }
        self.stages().add(stage, start.elapsed());
        let unit = context.unit().index() as u64;
        let before = self.units[zone].swap(unit, Ordering::Relaxed);
        if before != unit && before != NOWHERE {
            self.migrations.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Time spent in each stage, on all units together.
    pub fn stages(&self) -> std::sync::MutexGuard<'_, Stopwatch> {
        self.stages.lock().unwrap_or_else(|poisoned| poisoned.into_inner())
    }

    /// How often a zone's next stage ran on another unit than its last.
    pub fn migrations(&self) -> u64 {
        self.migrations.load(Ordering::Relaxed)
    }
}
