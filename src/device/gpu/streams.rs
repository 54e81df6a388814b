//! Streams, with the work in flight on them and the events (moments) recorded on them.
//!
//! The state of a stream is locked only while our own code inspects it or enqueues something. A task's body, which
//! may enqueue anything, is called without any lock. While the body runs, its task owns the stream's scratch memory
//! and the objects that users keep with the stream. The task has the stream to itself, because only one thread issues
//! the tasks of a device. The memory of flights is given back without a lock too, since freeing it may block.
//!
//! Flights are numbered in the order in which they are enqueued. They also end in this order, so one event that is
//! recorded after several flights stands for all of them: a [`Moment`]. Invariants:
//! 1. A moment occurs when all flights with lower numbers than `below` have ended, and moments occur in order.
//! 2. `behind` never claims more flights than the stream actually waits for.

use super::scratch::Block;
use super::staging::Staged;
use super::times::{Timed, Times};
use super::{Backend, MOST_STREAMS};
use crate::device::{Mark, Took};
use crate::error::DeviceError;
use crate::kernel::Kept;
use crate::sync::Brief;
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Instant;

/// For each stream of a device, a number such that the work waits for all flights of that stream with lower numbers.
pub(super) type Behind = [u64; MOST_STREAMS];

/// A stream of a device.
pub(super) struct Stream<B: Backend> {
    pub(super) stream: B::Stream,
    pub(super) state: Brief<State<B>>,
}

/// The mutable state of a stream.
pub(super) struct State<B: Backend> {
    /// Flights that are not yet known to have ended, the oldest first.
    pub(super) flights: VecDeque<Flight<B>>,
    /// The number of the next flight.
    pub(super) next: u64,
    /// Moments that are not yet known to have occurred, the oldest first.
    pub(super) moments: VecDeque<Moment<B>>,
    /// The flights of other streams that all future work on this stream waits for.
    pub(super) behind: Behind,
    /// The time at which a flight was last found to have ended.
    pub(super) last_end: Instant,
    /// The time at which the device ended the last flight, as far as it has noted times.
    free_from: u64,
    /// Scratch memory for tasks on this stream.
    pub(super) scratch: Vec<Block<B::Memory>>,
    /// Objects that users keep with the stream.
    pub(super) kept: Kept,
}

/// Enqueued work that is not yet known to have ended.
pub(super) struct Flight<B: Backend> {
    pub(super) mark: Mark,
    enqueued: Instant,
    /// The device memory that the flight uses.
    _kept: Vec<B::Memory>,
    /// The page-locked staging memory that the flight uses.
    staged: Vec<Staged<B>>,
    /// The points at which the flight begins and ends, if the device notes times.
    times: Option<Timed<B>>,
    /// The graph that the flight is a launch of, if any.
    _graph: Option<Arc<B::Graph>>,
}

/// An event that follows some flights.
pub(super) struct Moment<B: Backend> {
    /// When the moment has occurred, all flights with lower numbers than this have ended.
    pub(super) below: u64,
    pub(super) event: B::Event,
    /// The flights of other streams that the work before this moment waited for.
    pub(super) behind: Behind,
    /// Whether the moment has occurred, if a waker is called when it occurs. Set before the waker is called.
    pub(super) armed: Option<Arc<AtomicBool>>,
    /// The number of polls so far in which this was the oldest moment, whether or not they checked the event.
    looks: u32,
}

/// With more tasks in flight than this, the device has enough work, so the oldest moment of a stream is checked less
/// and less often.
const IN_NO_HURRY: usize = 4;

/// The number of events that the tasks in flight on a device need, so that their ends are noticed in time.
const EVENTS_IN_FLIGHT: u64 = 8;

impl<B: Backend> Stream<B> {
    pub(super) fn new(stream: B::Stream) -> Self {
        let state = State {
            flights: VecDeque::new(),
            next: 0,
            moments: VecDeque::new(),
            behind: [0; MOST_STREAMS],
            last_end: Instant::now(),
            free_from: 0,
            scratch: Vec::new(),
            kept: Kept::default(),
        };
        Self { stream, state: Brief::new(state) }
    }
}

impl<B: Backend> State<B> {
    /// Adds a flight and returns its number.
    pub(super) fn add(&mut self, flight: Flight<B>) -> u64 {
        self.flights.push_back(flight);
        self.next += 1;
        self.next - 1
    }

    /// Returns whether a flight is in flight and is the last one that was enqueued.
    pub(super) fn is_last(&self, number: u64) -> bool {
        !self.flights.is_empty() && number + 1 == self.next
    }

    /// Returns the number of the oldest flight.
    fn first(&self) -> u64 {
        self.next - self.flights.len() as u64
    }

    /// Returns a moment by which a flight has ended: an existing moment, or a new one after everything that was
    /// enqueued.
    pub(super) fn moment_of(
        &mut self,
        backend: &B,
        stream: &B::Stream,
        number: u64,
    ) -> Result<&mut Moment<B>, DeviceError> {
        let known = self.moments.partition_point(|moment| moment.below <= number);
        if known == self.moments.len() {
            self.add_moment(backend.record(stream)?);
        }
        Ok(&mut self.moments[known])
    }

    /// Adds an event that was recorded after everything that was enqueued.
    pub(super) fn add_moment(&mut self, event: B::Event) {
        self.moments.push_back(Moment { below: self.next, event, behind: self.behind, armed: None, looks: 0 });
    }

    /// Returns the oldest moment of the work in flight; records a new moment if there is none.
    pub(super) fn oldest(&mut self, backend: &B, stream: &B::Stream) -> Result<Option<&mut Moment<B>>, DeviceError> {
        match self.flights.is_empty() {
            true => Ok(None),
            false => self.moment_of(backend, stream, self.first()).map(Some),
        }
    }

    /// Returns whether the flight that is about to be added needs its own event if it takes long, given the number of
    /// tasks on the device. If few tasks are in flight, each needs one. In any case, the stream has work left when the
    /// ends of others are noticed.
    pub(super) fn needs_event(&self, in_flight: usize) -> bool {
        let last = self.moments.back().map_or_else(|| self.first(), |moment| moment.below);
        let since = self.next + 1 - last.max(self.first());
        since * EVENTS_IN_FLIGHT > in_flight as u64 || since * 2 > self.flights.len() as u64
    }

    /// Moves the oldest flights that have ended to `ended`, with how long each of them occupied the stream and, if the
    /// device notes times, with its times, given the number of tasks on the device. Because moments occur in order, a
    /// binary search needs to check only a few of them.
    pub(super) fn look(
        &mut self,
        backend: &B,
        stream: &B::Stream,
        in_flight: usize,
        times: Option<&Times<B>>,
        ended: &mut Vec<(Flight<B>, Took)>,
    ) -> Result<(), DeviceError> {
        let Some(oldest) = self.oldest(backend, stream)? else { return Ok(()) };
        oldest.looks += 1;
        let is_due = match &oldest.armed {
            Some(come) => come.load(Ordering::Acquire),
            None if in_flight <= IN_NO_HURRY => true,
            // After 2, 8, 32, ... polls.
            None => oldest.looks.is_power_of_two() && !oldest.looks.trailing_zeros().is_multiple_of(2),
        };
        if !is_due || !backend.is_complete(&oldest.event)? {
            return Ok(());
        }
        let (mut come, mut to_come) = (1, self.moments.len());
        while come < to_come {
            let middle = come + (to_come - come) / 2;
            match backend.is_complete(&self.moments[middle].event)? {
                true => come = middle + 1,
                false => to_come = middle,
            }
        }
        let count = (self.moments[come - 1].below - self.first()) as usize;
        self.moments.drain(..come);
        let now = Instant::now();
        let began = self.flights[0].enqueued.max(self.last_end);
        self.last_end = now;
        // Flights that are found to have ended together are assumed to have taken equally long.
        let elapsed_ns = (now - began).as_nanos() as u64 / count as u64;
        let on_device = times.map(|times| {
            let noted: Vec<_> = self.flights.iter_mut().take(count).map(|flight| flight.times.take()).collect();
            times.convert(backend, &noted, &mut self.free_from)
        });
        let mut on_device = on_device.into_iter().flatten();
        let took = self.flights.drain(..count).map(|flight| {
            let on_device = on_device.next().flatten();
            (flight, Took { elapsed_ns, on_device, stream: None })
        });
        ended.extend(took);
        Ok(())
    }

    /// Removes all flights, and returns them with events that occur when all work of the stream has stopped.
    pub(super) fn take_all(&mut self, backend: &B, stream: &B::Stream) -> Stopping<B> {
        let last = self.next.checked_sub(1).filter(|_| !self.flights.is_empty());
        let _ = last.map(|last| self.moment_of(backend, stream, last).map(drop)); // an earlier moment must do
        let events = self.moments.drain(..).map(|moment| moment.event).collect();
        Stopping { events, flights: self.flights.drain(..).collect() }
    }
}

/// Flights of a stream that are being stopped.
pub(super) struct Stopping<B: Backend> {
    events: Vec<B::Event>,
    flights: Vec<Flight<B>>,
}

impl<B: Backend> Stopping<B> {
    /// Waits until all work has stopped, and returns what was in flight.
    pub(super) fn wait(self, backend: &B) -> impl Iterator<Item = Mark> {
        for event in self.events.iter().rev() {
            let _ = backend.synchronize(event); // even if this returns an error, the work has stopped
        }
        self.flights.into_iter().map(|flight| flight.mark)
    }
}

impl<B: Backend> Flight<B> {
    pub(super) fn new(
        mark: Mark,
        kept: Vec<B::Memory>,
        staged: Vec<Staged<B>>,
        graph: Option<Arc<B::Graph>>,
        times: Option<Timed<B>>,
    ) -> Self {
        Self { mark, enqueued: Instant::now(), _kept: kept, staged, times, _graph: graph }
    }

    /// Copies data from staging memory to its destination, and returns the mark. Called when the flight has ended.
    pub(super) fn end(self) -> Mark {
        self.staged.into_iter().for_each(Staged::bring_back);
        self.mark
    }
}
