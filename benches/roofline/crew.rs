//! Threads that work at the same time, each on its own core.

use std::error::Error;
use std::sync::Barrier;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A pool with one thread per unit. Each thread is pinned to its own core if there are enough cores.
pub(crate) struct Crew {
    pool: ThreadPool,
    units: usize,
}

impl Crew {
    pub(crate) fn new(units: usize) -> Result<Self, Box<dyn Error>> {
        let cores = core_affinity::get_core_ids().unwrap_or_default();
        let pin = move |thread: usize| {
            if let Some(&core) = cores.get(thread) {
                core_affinity::set_for_current(core);
            }
        };
        let pool = ThreadPoolBuilder::new().num_threads(units).start_handler(pin).build()?;
        Ok(Self { pool, units })
    }

    pub(crate) fn units(&self) -> usize {
        self.units
    }

    /// Runs `work` on one thread of the pool; parallel iterators in `work` use the other threads as well.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Lets each thread prepare its own value. All threads then run `pass` on their values at the same time, `times`
    /// times. Returns the shortest time, in seconds, in which all threads have finished a pass.
    pub(crate) fn time<P>(&self, times: usize, prepare: impl Fn() -> P + Sync, pass: impl Fn(&mut P) + Sync) -> f64 {
        let together = Barrier::new(self.units);
        let times_of_threads = self.pool.broadcast(|_| {
            let mut own = prepare();
            pass(&mut own);
            let one = |_| {
                together.wait();
                let start = Instant::now();
                pass(&mut own);
                start.elapsed().as_secs_f64()
            };
            (0..times).map(one).collect::<Vec<_>>()
        });
        let slowest = |time: usize| times_of_threads.iter().map(|own| own[time]).fold(0.0, f64::max);
        (0..times).map(slowest).fold(f64::INFINITY, f64::min)
    }
}
