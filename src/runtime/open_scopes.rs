//! Count of a runtime's open scopes.

use crate::error::SubmitError;
use std::sync::atomic::{AtomicU64, Ordering};

/// The number of open scopes of a runtime. Closed when the runtime ends; no scope can be opened after that.
#[derive(Debug, Default)]
pub(super) struct OpenScopes(AtomicU64);

/// An open scope.
#[derive(Debug)]
pub(super) struct OpenScope<'a>(&'a OpenScopes);

impl OpenScopes {
    const CLOSED: u64 = 1 << 63;

    /// Opens a scope, which is closed when the returned value is dropped.
    ///
    /// # Errors
    /// Fails if the runtime is ending.
    pub(super) fn open(&self) -> Result<OpenScope<'_>, SubmitError> {
        let one_more = |open: u64| (open & Self::CLOSED == 0).then_some(open + 1);
        let opened = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, one_more);
        opened.map(|_| OpenScope(self)).map_err(|_| SubmitError::ShutDown)
    }

    /// Refuses further scopes, on behalf of this call.
    ///
    /// # Errors
    /// Fails if a scope is open.
    pub(super) fn close(&self, call: &'static str) -> Result<(), SubmitError> {
        let closed = |open: u64| (open & !Self::CLOSED == 0).then_some(Self::CLOSED);
        let closed = self.0.fetch_update(Ordering::AcqRel, Ordering::Acquire, closed);
        closed.map(drop).map_err(|_| SubmitError::InsideScope { call })
    }
}

impl Drop for OpenScope<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::AcqRel);
    }
}
