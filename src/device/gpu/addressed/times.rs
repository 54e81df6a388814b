//! Times of events. The interface reports the time between two events, as a number of milliseconds in single precision.
//!
//! The time of a stamp is measured from an anchor: an event that had occurred before the stamp was recorded, and whose
//! own time is known. While anchors are renewed several times a second, the number has an error of some ten
//! nanoseconds.

use super::Addressed;
use super::api::{Api, Handle};
use super::error::{ApiError, NOT_READY};
use super::objects::{Device, Stream};
use crate::error::DeviceError;
use std::sync::Arc;

/// A point in a stream's work: a timed event. The event is reused after this is dropped.
pub(in crate::device) struct Stamp<A: Api> {
    device: Arc<Device<A>>,
    raw: Handle,
    /// The anchor from which the time is measured; `None` before there is one.
    anchor: Option<Arc<Anchor<A>>>,
}

/// An event that has occurred, with its time since the first anchor.
pub(in crate::device) struct Anchor<A: Api> {
    stamp: Stamp<A>,
    at_ns: i64,
}

impl<A: Api> Addressed<A> {
    pub(super) fn stamp(&self, stream: &Stream<A>) -> Result<Stamp<A>, DeviceError> {
        let used = self.device.timed_events.lock().pop();
        let raw = used.map_or_else(|| self.device.call_at_once(|api| api.create_event(true)), Ok);
        let raw = raw.map_err(|refusal| self.device.error(refusal))?;
        let stamp = Stamp { device: self.device.clone(), raw, anchor: self.anchor.lock().clone() };
        // SAFETY: the stream and the event are alive.
        self.device.call_stream(|api| unsafe { api.record(stream.raw, raw) })?;
        Ok(stamp)
    }

    /// Measures the times of later stamps from this one, which has occurred.
    pub(super) fn set_anchor(&self, mut stamp: Stamp<A>) -> Result<(), DeviceError> {
        let Some(at_ns) = stamp.time()? else { return Ok(()) };
        stamp.anchor = None; // otherwise all earlier anchors would be kept
        *self.anchor.lock() = Some(Arc::new(Anchor { stamp, at_ns }));
        Ok(())
    }
}

impl<A: Api> Stamp<A> {
    /// Returns the time since the first anchor in nanoseconds, or `None` if the event has not occurred.
    pub(super) fn time(&self) -> Result<Option<i64>, DeviceError> {
        // SAFETY: the events are alive and timed.
        let elapsed = self.device.try_call_stream(|api| unsafe {
            match &self.anchor {
                Some(anchor) => {
                    let elapsed_ms = api.elapsed_ms(anchor.stamp.raw, self.raw)?;
                    Ok(anchor.at_ns + (f64::from(elapsed_ms) * 1e6) as i64)
                }
                None => api.query(self.raw).map(|()| 0),
            }
        });
        match elapsed {
            Ok(ns) => Ok(Some(ns)),
            Err(ApiError { code: NOT_READY, .. }) => Ok(None),
            Err(refusal) => Err(self.device.error(refusal)),
        }
    }
}

impl<A: Api> Drop for Stamp<A> {
    fn drop(&mut self) {
        self.device.timed_events.lock().push(self.raw);
    }
}
