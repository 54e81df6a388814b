//! Direct access from one device to the memory of others. Access is enabled when it is first needed. The call may
//! block, so it is made without a lock; if two threads make it at once, the second learns that access is enabled
//! already.

use super::api::Api;
use super::error::{ApiError, PEER_ACCESS_ALREADY_ENABLED};
use parking_lot::Mutex;

/// The devices to whose memory a device has requested direct access, each with whether the request succeeded.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Vec<(usize, bool)>>);

impl Peers {
    /// Gives a device direct access to the memory of the device `peer`, if possible, and returns whether it has
    /// access. Without direct access, copies go through the host.
    ///
    /// # Safety
    /// [`Api::owner`] must have returned `peer` for memory that is still in use.
    pub(super) unsafe fn reach<A: Api>(&self, api: &A, name: &str, peer: usize) -> bool {
        let known = self.0.lock().iter().find(|(known, _)| *known == peer).map(|(_, reached)| *reached);
        if let Some(reached) = known {
            return reached;
        }
        // SAFETY: the caller got `peer` from `Api::owner`, and the memory in use keeps that device open.
        let reached = match unsafe { api.enable_peer(peer) } {
            Ok(()) | Err(ApiError { code: PEER_ACCESS_ALREADY_ENABLED, .. }) => true,
            Err(ApiError { code, .. }) => {
                log!(debug, "{name} copies through the host: {}", A::describe(code));
                false
            }
        };
        self.0.lock().push((peer, reached));
        reached
    }
}
