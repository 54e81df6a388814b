//! One stream, what is in flight on it, and the moments that were asked for.
//!
//! What is in flight is locked for as long as it takes to look or to enqueue something of ours. A task's body, which enqueues
//! what it likes, is called under no lock: it has the stream's scratch memory and what users keep with it for itself meanwhile, and
//! the stream because one thread alone issues a device's tasks.
//!
//! Flights are numbered as they are enqueued. They end in this order, so an event that is recorded behind several of them
//! stands for all: a [`Moment`]. Invariants:
//! 1. A moment comes when all flights below its number have ended; moments come in order.
//! 2. `behind` never says more than what the stream has been told to wait for.

use super::staging::Staged;
use super::{Backend, STREAMS};
use crate::device::Mark;
use crate::error::DeviceError;
use crate::kernel::Kept;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Instant;

/// Of each stream of a device: the flights below this number.
pub(super) type Behind = [u64; STREAMS];

/// A stream of a device.
pub(super) struct Stream<B: Backend> {
    pub(super) stream: B::Stream,
    pub(super) state: Mutex<State<B>>,
}

/// What changes of a stream.
pub(super) struct State<B: Backend> {
    /// What has not been seen to have ended, the oldest first.
    pub(super) flights: VecDeque<Flight<B>>,
    /// What the next flight is numbered.
    pub(super) next: u64,
    /// Those that have not been seen to have come, the oldest first.
    pub(super) moments: VecDeque<Moment<B>>,
    /// What of other streams everything that comes from now on is behind.
    pub(super) behind: Behind,
    /// When a flight was last seen to have ended.
    pub(super) last_end: Instant,
    /// Memory for tasks on this stream: capacity, owner, handle.
    pub(super) scratch: Vec<(usize, B::Memory, usize)>,
    /// What users keep with the stream.
    pub(super) kept: Kept,
}

/// Something enqueued that has not been seen to have ended.
pub(super) struct Flight<B: Backend> {
    pub(super) mark: Mark,
    enqueued: Instant,
    /// Memory that it uses.
    _kept: Vec<B::Memory>,
    /// What it has of page-locked memory.
    staged: Vec<Staged<B>>,
    /// The graph that it is a launch of.
    _graph: Option<Arc<B::Graph>>,
}

/// An event behind some flights.
pub(super) struct Moment<B: Backend> {
    /// When it comes, the flights below this number have ended.
    pub(super) below: u64,
    pub(super) event: B::Event,
    /// And of other streams, those that the stream was behind.
    pub(super) behind: Behind,
    /// Somebody is told when it comes.
    pub(super) armed: bool,
    /// How often it was in vain that somebody might have asked.
    looks: u32,
}

/// With so much in flight behind a moment nobody is in a hurry: it is asked for ever less often.
const IN_NO_HURRY: usize = 4;

impl<B: Backend> Stream<B> {
    pub(super) fn new(stream: B::Stream) -> Self {
        let state = State {
            flights: VecDeque::new(),
            next: 0,
            moments: VecDeque::new(),
            behind: [0; STREAMS],
            last_end: Instant::now(),
            scratch: Vec::new(),
            kept: Kept::default(),
        };
        Self { stream, state: Mutex::new(state) }
    }
}

impl<B: Backend> State<B> {
    /// Takes a flight in; its number.
    pub(super) fn add(&mut self, flight: Flight<B>) -> u64 {
        self.flights.push_back(flight);
        self.next += 1;
        self.next - 1
    }

    /// Whether a flight is in flight, and the last one that was enqueued.
    pub(super) fn is_last(&self, number: u64) -> bool {
        !self.flights.is_empty() && number + 1 == self.next
    }

    /// The number of the oldest flight.
    fn first(&self) -> u64 {
        self.next - self.flights.len() as u64
    }

    /// A moment by which a flight has ended: one that was asked for before, or else now, behind all that was enqueued.
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

    /// An event was recorded behind all that was enqueued.
    pub(super) fn add_moment(&mut self, event: B::Event) {
        self.moments.push_back(Moment { below: self.next, event, behind: self.behind, armed: false, looks: 0 });
    }

    /// The oldest moment of what is in flight; it is asked for if nobody has.
    pub(super) fn oldest(&mut self, backend: &B, stream: &B::Stream) -> Result<Option<&mut Moment<B>>, DeviceError> {
        match self.flights.is_empty() {
            true => Ok(None),
            false => self.moment_of(backend, stream, self.first()).map(Some),
        }
    }

    /// Looks what has ended: the number of the oldest flights that have. Moments come in order, so a search by halves asks
    /// about few of them.
    pub(super) fn look(&mut self, backend: &B, stream: &B::Stream) -> Result<usize, DeviceError> {
        let in_flight = self.flights.len();
        let Some(oldest) = self.oldest(backend, stream)? else { return Ok(0) };
        oldest.looks += 1;
        // Whoever was told that an armed moment has come may be looking now.
        let patient = in_flight > IN_NO_HURRY && !oldest.armed && !oldest.looks.is_power_of_two();
        if patient || !backend.is_complete(&oldest.event)? {
            return Ok(0);
        }
        let (mut come, mut to_come) = (1, self.moments.len());
        while come < to_come {
            let middle = come + (to_come - come) / 2;
            match backend.is_complete(&self.moments[middle].event)? {
                true => come = middle + 1,
                false => to_come = middle,
            }
        }
        let ended = self.moments[come - 1].below - self.first();
        self.moments.drain(..come);
        Ok(ended as usize)
    }

    /// Lets go of the oldest flights, which have ended by now; how long each has had the stream.
    pub(super) fn end(&mut self, ended: usize, mut each: impl FnMut(Mark, u64)) {
        let now = Instant::now();
        let began = self.flights[0].enqueued.max(self.last_end);
        self.last_end = now;
        // What was seen to have ended together has taken equal parts, as far as anybody can tell.
        let each_ns = (now - began).as_nanos() as u64 / ended as u64;
        for flight in self.flights.drain(..ended) {
            flight.staged.into_iter().for_each(Staged::bring_back);
            each(flight.mark, each_ns);
        }
    }

    /// Waits until nothing of the stream is at work any more; what was in flight.
    pub(super) fn stop(&mut self, backend: &B, stream: &B::Stream) -> Vec<Mark> {
        let last = self.next.checked_sub(1).filter(|_| !self.flights.is_empty());
        if let Some(Ok(moment)) = last.map(|last| self.moment_of(backend, stream, last)) {
            let _ = backend.synchronize(&moment.event); // failed or not, it has stopped
        }
        for moment in self.moments.drain(..) {
            let _ = backend.synchronize(&moment.event); // as above
        }
        self.flights.drain(..).map(|flight| flight.mark).collect()
    }
}

impl<B: Backend> Moment<B> {
    /// Somebody is told when it comes, if the device has agreed.
    pub(super) fn arm(&mut self, agreed: bool) {
        self.armed = agreed;
    }
}

impl<B: Backend> Flight<B> {
    pub(super) fn new(mark: Mark, kept: Vec<B::Memory>, staged: Vec<Staged<B>>, graph: Option<Arc<B::Graph>>) -> Self {
        Self { mark, enqueued: Instant::now(), _kept: kept, staged, _graph: graph }
    }
}
