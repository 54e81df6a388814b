//! One stream, and what is in flight on it.
//!
//! What is in flight is locked for as long as it takes to look or to enqueue something of ours. A task's body, which enqueues
//! what it likes, is called under no lock: it has the stream's scratch memory for itself meanwhile, and the stream because
//! one thread alone issues a device's tasks.

use super::Backend;
use crate::device::Mark;
use crate::error::DeviceError;
use parking_lot::Mutex;
use std::collections::VecDeque;
use std::time::Instant;

/// A stream of a device.
pub(super) struct Stream<B: Backend> {
    pub(super) stream: B::Stream,
    pub(super) state: Mutex<State<B>>,
}

/// What changes of a stream; the oldest flight comes first.
pub(super) struct State<B: Backend> {
    pub(super) flights: VecDeque<Flight<B>>,
    /// When a flight was last seen to have ended.
    pub(super) last_end: Instant,
    /// Memory for tasks on this stream: capacity, owner, handle.
    pub(super) scratch: Vec<(usize, B::Memory, usize)>,
}

/// Something enqueued that has not been seen to have ended.
pub(super) struct Flight<B: Backend> {
    pub(super) mark: Mark,
    pub(super) end: B::Event,
    pub(super) enqueued: Instant,
    /// Somebody is told when it ends.
    pub(super) armed: bool,
    /// Memory that it uses.
    _kept: Vec<B::Memory>,
}

impl<B: Backend> Stream<B> {
    pub(super) fn new(stream: B::Stream) -> Self {
        let state = State { flights: VecDeque::new(), last_end: Instant::now(), scratch: Vec::new() };
        Self { stream, state: Mutex::new(state) }
    }
}

impl<B: Backend> State<B> {
    /// How many of the oldest flights have ended. They end in order, so a search by halves asks about few of them.
    pub(super) fn done(&self, backend: &B) -> Result<usize, DeviceError> {
        let ended = |n: usize| backend.is_complete(&self.flights[n].end);
        if self.flights.is_empty() || !ended(0)? {
            return Ok(0);
        }
        let (mut done, mut in_flight) = (1, self.flights.len());
        if ended(in_flight - 1)? {
            return Ok(in_flight);
        }
        while done + 1 < in_flight {
            let middle = usize::midpoint(done, in_flight);
            if ended(middle - 1)? { done = middle } else { in_flight = middle }
        }
        Ok(done)
    }
}

impl<B: Backend> Flight<B> {
    pub(super) fn new(mark: Mark, end: B::Event, kept: Vec<B::Memory>) -> Self {
        Self { mark, end, enqueued: Instant::now(), armed: false, _kept: kept }
    }
}
