//! Clock of a trace. This is the processor's counter, which takes a third as long to read as the system's clock, or
//! virtual time in a simulation.
//!
//! On machines where [`quanta`] trusts the counters of the processor's cores, they agree with each other. On other
//! machines `quanta` uses the system's clock.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

/// The processor's counter in nanoseconds, for times that are recorded later ([`Clock::at_host`]).
pub(crate) struct HostClock(quanta::Clock);

impl HostClock {
    pub(crate) fn new() -> Self {
        Self(quanta::Clock::new())
    }

    pub(crate) fn now_ns(&self) -> u64 {
        self.0.delta_as_nanos(0, self.0.raw())
    }
}

pub(super) enum Clock {
    Real {
        clock: quanta::Clock,
        /// By the calibration that is performed once per process.
        ticks_per_ns: f64,
        /// Counter value at the beginning of the trace, and the time of the beginning.
        first: u64,
        began: Instant,
        /// Time from the counter's beginning to the runtime's beginning, in nanoseconds.
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
        let ticks_per_ns = (1u64 << 40) as f64 / clock.delta_as_nanos(0, 1 << 40) as f64;
        let (first, began, runtime_began_ns) = (clock.raw(), Instant::now(), AtomicU64::new(0));
        Self::Real { clock, ticks_per_ns, first, began, runtime_began_ns }
    }

    /// Returns the number of ticks since the beginning.
    #[inline]
    pub(super) fn now(&self) -> u64 {
        match self {
            Self::Real { clock, first, .. } => clock.raw().saturating_sub(*first),
            Self::Virtual { now_ns } => now_ns.load(Ordering::Relaxed),
        }
    }

    /// Returns a function that returns the nanoseconds since the beginning; `None` if the time is virtual.
    pub(super) fn reader(&self) -> Option<impl Fn() -> u64 + Send + use<>> {
        let Self::Real { clock, ticks_per_ns, first, .. } = self else { return None };
        let (clock, ticks_per_ns, first) = (clock.clone(), *ticks_per_ns, *first);
        Some(move || (clock.raw().saturating_sub(first) as f64 / ticks_per_ns).round() as u64)
    }

    /// Notes that the runtime's clock now shows `ns` nanoseconds.
    pub(super) fn set(&self, ns: u64) {
        match self {
            Self::Real { began, runtime_began_ns, .. } => {
                let began_ns = (began.elapsed().as_nanos() as u64).saturating_sub(ns);
                runtime_began_ns.store(began_ns, Ordering::Relaxed);
            }
            Self::Virtual { now_ns } => now_ns.store(ns, Ordering::Relaxed),
        }
    }

    /// Converts a time on the runtime's clock to ticks.
    pub(super) fn at_ns(&self, ns: u64) -> u64 {
        match self {
            Self::Real { runtime_began_ns, .. } => self.ticks(ns + runtime_began_ns.load(Ordering::Relaxed)),
            Self::Virtual { .. } => ns,
        }
    }

    /// Converts a time of [`HostClock`] to ticks.
    pub(super) fn at_host(&self, ns: u64) -> u64 {
        match self {
            Self::Real { clock, first, .. } => self.ticks(ns.saturating_sub(clock.delta_as_nanos(0, *first))),
            Self::Virtual { .. } => ns,
        }
    }

    /// Converts `ns` nanoseconds to ticks.
    pub(super) fn ticks(&self, ns: u64) -> u64 {
        (ns as f64 * self.ticks_per_ns()) as u64
    }

    pub(super) fn ticks_per_ns(&self) -> f64 {
        match self {
            Self::Real { ticks_per_ns, .. } => *ticks_per_ns,
            Self::Virtual { .. } => 1.0,
        }
    }
}
