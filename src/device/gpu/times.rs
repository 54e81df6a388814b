//! Times at which a device began and ended its work, on the host's clock. They exist only while a trace is recorded.
//!
//! A device notes times on its own clock. The host enqueues a point of the device's work before the device reaches it,
//! and sees afterwards that the device has reached it. So each point bounds the offset between the two clocks
//! ([`Offset`]). Clocks drift apart, so the bounds become wider with time. Therefore one more point is enqueued ten
//! times a second, on a stream without other work ([`Times::look`]).
//!
//! Invariants:
//! 1. Work begins after the host has begun to enqueue it, and ends before the host has seen its end.
//! 2. Pieces of work of one stream do not overlap.
//! 3. The host never waits for a point, except when the device is opened.

use super::Backend;
use crate::device::OnDevice;
use crate::error::DeviceError;
use crate::trace::HostClock;
use parking_lot::Mutex;

/// Two clocks are assumed to drift apart by at most one nanosecond in this many nanoseconds, which is 100 ppm. Quartz
/// oscillators are several times better.
const DRIFT_NS: i64 = 10_000;
/// Time between two points that are enqueued only in order to compare the clocks.
const INTERVAL_NS: i64 = 100_000_000;
/// Number of comparisons when the device is opened. The best of them counts.
const FIRST_COMPARISONS: usize = 8;
/// Number of times that the host looks for a point which it has just enqueued, before it leaves it for later.
const LOOKS: usize = 16;

/// The offset between two clocks: the host's time minus the device's time, in nanoseconds.
#[derive(Debug, Clone, Copy)]
pub(super) struct Offset {
    /// The offset is in this range at the host's time `at`.
    low: i64,
    high: i64,
    at: i64,
    /// The offset by which times are converted. It changes only if it is found to be wrong, because otherwise times
    /// that were converted before and after the change would not fit together.
    used: i64,
}

impl Offset {
    fn unknown() -> Self {
        Self { low: i64::MIN / 4, high: i64::MAX / 4, at: 0, used: 0 }
    }

    /// Takes into account that the device's time `begun` was after the host's time `after`, and that the device's time
    /// `ended` was before the host's time `before`.
    pub(super) fn narrow(&mut self, after: i64, [begun, ended]: [i64; 2], before: i64) {
        let slack = ((before - self.at) / DRIFT_NS).max(0);
        self.at += slack * DRIFT_NS;
        let (low, high) = (after - begun, before - ended);
        let known = (low.max(self.low - slack), high.min(self.high + slack));
        (self.low, self.high) = match known.0 <= known.1 {
            true => known,
            false => (low.min(high), high.max(low)), // the clocks drift faster, or the device's clock was set
        };
        self.used = self.used.clamp(self.low, self.high);
    }

    /// Uses the middle of the range.
    fn settle(&mut self) {
        self.used = self.low + (self.high - self.low) / 2;
    }
}

/// A piece of work whose times the device notes.
pub(super) struct Timed<B: Backend> {
    /// The host's time before the work was enqueued.
    after: i64,
    ends: [B::Stamp; 2],
}

/// A piece of work that is being enqueued.
pub(super) struct Begun<B: Backend> {
    after: i64,
    begun: B::Begun,
}

/// The clocks of a device and of the host; see the module documentation.
pub(super) struct Times<B: Backend> {
    /// A stream for nothing but comparisons.
    stream: B::Stream,
    host: HostClock,
    clocks: Mutex<Clocks<B>>,
}

struct Clocks<B: Backend> {
    offset: Offset,
    /// A comparison under way.
    comparing: Option<Timed<B>>,
    /// The host's time of the last comparison.
    compared: i64,
}

impl<B: Backend> Times<B> {
    /// Compares the clocks for the first time.
    ///
    /// # Errors
    /// Fails if the device cannot create a stream or cannot reach a point of it.
    pub(super) fn new(backend: &B) -> Result<Self, DeviceError> {
        let stream = backend.stream()?;
        let clocks = Clocks { offset: Offset::unknown(), comparing: None, compared: 0 };
        let mut times = Self { stream, host: HostClock::new(), clocks: Mutex::new(clocks) };
        for _ in 0..FIRST_COMPARISONS {
            times.look_at(backend, 0)?;
            let pending = times.clocks.get_mut().comparing.is_some();
            if pending {
                backend.synchronize(&backend.record(&times.stream)?)?;
                times.look_at(backend, 0)?;
            }
        }
        let Clocks { offset, .. } = times.clocks.get_mut();
        offset.settle();
        log!(debug, "the clock of {} is known within {} ns", backend.name(), offset.high - offset.low);
        Ok(times)
    }

    fn now(&self) -> i64 {
        self.host.now_ns() as i64
    }

    /// Compares the clocks if the last comparison was a while ago, or continues with a comparison. Does not wait.
    pub(super) fn look(&self, backend: &B) {
        if let Err(error) = self.look_at(backend, INTERVAL_NS) {
            log!(debug, "cannot compare the clock of {} with the host's: {error}", backend.name());
        }
    }

    fn look_at(&self, backend: &B, interval_ns: i64) -> Result<(), DeviceError> {
        let clocks = &mut *self.clocks.lock();
        let after = self.now();
        let mut looks = 1;
        if clocks.comparing.is_none() {
            if clocks.compared > 0 && after - clocks.compared < interval_ns {
                return Ok(());
            }
            clocks.compared = after;
            if let Some(read) = backend.clock_ns() {
                clocks.offset.narrow(after, [read; 2], self.now());
                return Ok(());
            }
            let ends = backend.end_work(&self.stream, backend.begin_work(&self.stream)?)?;
            backend.flush(&self.stream)?;
            clocks.comparing = Some(Timed { after, ends });
            looks = LOOKS;
        }
        for _ in 0..looks {
            let Some(Timed { after, ends: [_, end] }) = &clocks.comparing else { break };
            if let Some(time) = backend.time_of(end)? {
                clocks.offset.narrow(*after, [time; 2], self.now());
                let reached = clocks.comparing.take().map(|Timed { ends: [_, end], .. }| end);
                reached.map_or(Ok(()), |end| backend.anchor(end))?;
            }
        }
        Ok(())
    }

    /// Begins a piece of work on a stream.
    pub(super) fn begin(&self, backend: &B, stream: &B::Stream) -> Result<Begun<B>, DeviceError> {
        Ok(Begun { after: self.now(), begun: backend.begin_work(stream)? })
    }

    /// Ends a piece of work on a stream.
    pub(super) fn end(&self, backend: &B, stream: &B::Stream, begun: Begun<B>) -> Result<Timed<B>, DeviceError> {
        Ok(Timed { after: begun.after, ends: backend.end_work(stream, begun.begun)? })
    }

    /// Converts the times of pieces of work of one stream, in order, whose ends the host has just seen. No work of
    /// this stream was under way before `free_from`, which is moved to the last end. A piece whose times the interface
    /// does not report has none.
    pub(super) fn convert(
        &self,
        backend: &B,
        works: &[Option<Timed<B>>],
        free_from: &mut u64,
    ) -> Vec<Option<OnDevice>> {
        let clocks = &mut *self.clocks.lock();
        let seen = self.now();
        let read = |work: &Option<Timed<B>>| {
            let Timed { after, ends: [begin, end] } = work.as_ref()?;
            let [begun, ended] = [backend.time_of(begin).ok()??, backend.time_of(end).ok()??];
            Some((*after, [begun, ended.max(begun)]))
        };
        let read: Vec<_> = works.iter().map(read).collect();
        for (after, ends) in read.iter().flatten() {
            clocks.offset.narrow(*after, *ends, seen);
        }
        let used = clocks.offset.used;
        let mut place = |(after, [begun, ended]): (i64, [i64; 2])| {
            let earliest = after.max(*free_from as i64);
            let begun = (begun + used).clamp(earliest, seen.max(earliest));
            let ended = (ended + used).clamp(begun, seen.max(begun));
            *free_from = ended as u64;
            OnDevice { enqueued: after as u64, begun: begun as u64, ended: ended as u64 }
        };
        read.into_iter().map(|work| work.map(&mut place)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offset_is_within_all_bounds_and_changes_only_if_wrong() {
        let mut offset = Offset::unknown();
        offset.narrow(1000, [0, 0], 1200);
        offset.settle();
        assert_eq!((offset.low, offset.high, offset.used), (1000, 1200, 1100));
        offset.narrow(1300, [100, 200], 1350); // between 1200 and 1150: the device's clock is fast
        assert_eq!((offset.low, offset.high, offset.used), (1150, 1200, 1150));
        offset.narrow(2000, [800, 820], 2010);
        assert_eq!((offset.low, offset.high, offset.used), (1190, 1200, 1190));
    }

    #[test]
    fn offset_follows_a_drifting_clock_within_the_width_of_a_comparison() {
        for ppm in [-80, 0, 80] {
            let (mut offset, first, width) = (Offset::unknown(), 5_000_000, 20_000);
            let device = |host: i64| host + host / 1_000_000 * ppm - first;
            offset.narrow(0, [device(width / 2); 2], width);
            offset.settle();
            for host in (1..1000).map(|n| n * INTERVAL_NS) {
                offset.narrow(host, [device(host + width / 3); 2], host + width);
                let error = (device(host + width / 3) + offset.used) - (host + width / 3);
                assert!(error.abs() <= width, "{ppm} ppm: {error} ns after {host} ns");
            }
        }
    }

    #[test]
    fn many_short_steps_widen_the_range_like_a_long_one() {
        let mut offset = Offset { low: 0, high: 0, at: 0, used: 0 };
        (1..=1000).for_each(|step| offset.narrow(step * 1000 - 500, [step * 1000; 2], step * 1000 + 500));
        assert_eq!((offset.low, offset.high), (-100, 100));
    }
}
