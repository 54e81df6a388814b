//! Direct access of a device to the memory of others, enabled once, when a copy first needs it.

use super::api::Api;
use super::error::{ApiError, PEER_ACCESS_ALREADY_ENABLED};
use parking_lot::Mutex;

/// The devices whose memory one device has tried to reach directly, and whether it succeeded.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Vec<(usize, bool)>>);

impl Peers {
    /// Gives a device direct access to another one's memory, if possible, and returns whether it has it. Without,
    /// copies go through the host.
    ///
    /// # Safety
    /// [`Api::owner`] has returned the device, for memory that is in use.
    pub(super) unsafe fn reach<A: Api>(&self, api: &A, name: &str, peer: usize) -> bool {
        let mut asked = self.0.lock();
        if let Some((_, reached)) = asked.iter().find(|(known, _)| *known == peer) {
            return *reached;
        }
        // SAFETY: the caller has the device from `Api::owner`, and its memory keeps the device open.
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
