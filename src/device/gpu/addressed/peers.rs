//! Direct access from one device to the memory of others: asked for once, when a copy first needs it.

use super::api::Api;
use super::error::{ApiError, PEER_ACCESS_ALREADY_ENABLED};
use parking_lot::Mutex;

/// The devices whose memory one device was given access to, or can't have access to.
#[derive(Debug, Default)]
pub(super) struct Peers(Mutex<Vec<usize>>);

impl Peers {
    /// Has a device reach another one's memory directly, where it can. Copies work without, through the host.
    ///
    /// # Safety
    /// [`Api::owner`] has named the device, of memory that is in use.
    pub(super) unsafe fn reach<A: Api>(&self, api: &A, name: &str, peer: usize) {
        let mut asked = self.0.lock();
        if asked.contains(&peer) {
            return;
        }
        asked.push(peer);
        // SAFETY: the caller has it from `Api::owner`, and its memory keeps the device open.
        match unsafe { api.enable_peer(peer) } {
            Ok(()) | Err(ApiError { code: PEER_ACCESS_ALREADY_ENABLED, .. }) => {}
            Err(ApiError { code, .. }) => tracing::debug!("{name} copies through the host: {}", A::describe(code)),
        }
    }
}
