//! The clock of a trace: the processor's counter, which takes a third of the time of the system's clock to read; in a
//! simulation, virtual time.
//!
//! The counters of a processor's cores agree with each other on machines where [`quanta`] trusts them; on others it
//! uses the system's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(super) enum Clock {
    Real {
        clock: quanta::Clock,
        /// The counter's value at the beginning, and the time of the beginning.
        first: u64,
        began: Instant,
        /// The time from the counter's beginning to the runtime's, in nanoseconds.
        runtime_began_ns: AtomicU64,
    },
    Virtual {
        now_ns: AtomicU64,
    },
}

impl Clock {
    pub(super) fn start(is_virtual: bool) -> Self {
        if is_virtual {
            return Self::Virtual { now_ns: AtomicU64::new(0) };
        }
        let clock = quanta::Clock::new();
        Self::Real { first: clock.raw(), began: Instant::now(), clock, runtime_began_ns: AtomicU64::new(0) }
    }

    /// Returns the ticks since the beginning.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Real { clock, first, .. } => clock.raw().saturating_sub(*first),
            Self::Virtual { now_ns } => now_ns.load(Ordering::Relaxed),
        }
    }

    /// Notes that the runtime's clock shows `ns` now.
    pub(super) fn set(&self, ns: u64) {
        match self {
            Self::Real { began, runtime_began_ns, .. } => {
                let began_ns = (began.elapsed().as_nanos() as u64).saturating_sub(ns);
                runtime_began_ns.store(began_ns, Ordering::Relaxed);
            }
            Self::Virtual { now_ns } => now_ns.store(ns, Ordering::Relaxed),
        }
    }

    /// Returns the ticks at a time on the runtime's clock.
    pub(super) fn at_ns(&self, ns: u64) -> u64 {
        match self {
            Self::Real { runtime_began_ns, .. } => self.ticks(ns + runtime_began_ns.load(Ordering::Relaxed)),
            Self::Virtual { .. } => ns,
        }
    }

    /// Returns the number of ticks in `ns` nanoseconds.
    pub(super) fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns()) as u64
    }

    pub(super) fn ticks_per_ns(&self) -> f64 {
        match self {
            // Uses the calibration, which is made once per process.
            Self::Real { clock, .. } => (1u64 << 40) as f64 / clock.delta_as_nanos(0, 1 << 40) as f64,
            Self::Virtual { .. } => 1.0,
        }
    }
}
