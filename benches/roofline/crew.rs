//! Threads that work at the same time, each on its own core.

use std::error::Error;
use std::sync::Barrier;
use std::time::Instant;

use rayon::{ThreadPool, ThreadPoolBuilder};

/// A pool of one thread per unit, each on its own core while there are enough cores.
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

    /// Runs `work` on one of the threads; its parallel iterators spread to the others.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        self.pool.install(work)
    }

    /// Lets each thread prepare its own value; then all threads run `pass` on theirs at once, `times` times.
    /// Returns the least time, in seconds, in which all of them finished one pass.
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
