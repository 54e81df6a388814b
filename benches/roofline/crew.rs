//! Threads with a core each that do something at the same time.

use std::error::Error;
use std::sync::Barrier;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A pool of one thread per unit, each on a core of its own as far as there are cores.
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

    /// Does `work` on one of the threads, to which parallel iterators spread from there.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Each thread prepares something of its own; then all do `pass` with it at once, some times over. Gives the least
    /// seconds that all of them took for a time.
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
