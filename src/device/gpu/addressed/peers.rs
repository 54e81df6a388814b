//! Direct access from one device to the memory of others. Access is enabled once, when it is first needed.

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
        let mut asked = self.0.lock();
        if let Some((_, reached)) = asked.iter().find(|(known, _)| *known == peer) {
            return *reached;
        }
        // SAFETY: the caller got `peer` from `Api::owner`, and the memory in use keeps that device open.
        let reached = match unsafe { api.enable_peer(peer) } {
            Ok(()) | Err(ApiError { code: PEER_ACCESS_ALREADY_ENABLED, .. }) => true,
            Err(ApiError { code, .. }) => {
                log!(debug, "{name} copies through the host: {}", A::describe(code));
                false
            }
        };
        asked.push((peer, reached));
        reached
    }
}
