//! The clock of a trace: the processor's counter, which takes a third of the time of the system's clock to read; or, in a
//! simulation, virtual time.
//!
//! Counters of a processor's cores agree with each other on machines where [`quanta`] trusts them; elsewhere it asks the
//! system.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

pub(super) enum Clock {
    Real {
        clock: quanta::Clock,
        /// What the counter showed at the beginning, and when that was.
        first: u64,
        began: Instant,
        /// From the counter's beginning to the runtime's, in nanoseconds.
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

    /// Ticks since the beginning.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Real { clock, first, .. } => clock.raw().saturating_sub(*first),
            Self::Virtual { now_ns } => now_ns.load(Ordering::Relaxed),
        }
    }

    /// The runtime's clock shows so many nanoseconds now.
    pub(super) fn set(&self, ns: u64) {
        match self {
            Self::Real { began, runtime_began_ns, .. } => {
                let began_ns = (began.elapsed().as_nanos() as u64).saturating_sub(ns);
                runtime_began_ns.store(began_ns, Ordering::Relaxed);
            }
            Self::Virtual { now_ns } => now_ns.store(ns, Ordering::Relaxed),
        }
    }

    /// The ticks at a time on the runtime's clock.
    pub(super) fn at_ns(&self, ns: u64) -> u64 {
        match self {
            Self::Real { runtime_began_ns, .. } => self.ticks(ns + runtime_began_ns.load(Ordering::Relaxed)),
            Self::Virtual { .. } => ns,
        }
    }

    /// The ticks in so many nanoseconds.
    pub(super) fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns()) as u64
    }

    pub(super) fn ticks_per_ns(&self) -> f64 {
        match self {
            // By the calibration, which is made once in a process.
            Self::Real { clock, .. } => (1u64 << 40) as f64 / clock.delta_as_nanos(0, 1 << 40) as f64,
            Self::Virtual { .. } => 1.0,
        }
    }
}
