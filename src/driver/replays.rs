//! Which frozen graph is replayed, and whether anybody has submitted anything since.
//!
//! As long as nobody does, a replay needs no registration: what it comes after is the replay before, and nobody could notice
//! it. So a runtime has one *session*: the graph that was replayed last, and a flag in the word by which all submissions are
//! counted ([`super::progress`]). Whoever submits finds the flag there, where it costs nothing, and ends the session before
//! anything else: then the replays under way are entered into the histories.
//!
//! Tasks that were counted before the flag was set may be registered later. So replays are registered as others are until all
//! of those have ended, and then once more.
//!
//! What never happens here: nothing of a user's is dropped under the lock.

use super::progress::{Progress, SoFar};
use crate::depend::{Aftermath, Replays};
use parking_lot::Mutex;
use std::sync::Arc;

/// The session of a runtime.
#[derive(Default)]
pub(crate) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    replays: Option<Arc<Replays>>,
    /// What had been submitted when it began.
    before: Option<SoFar>,
    /// Whether all of that had ended when the last replay was registered.
    alone: bool,
}

impl Session {
    /// Calls `submit` for a replay of this graph, with whether it follows the last one with nothing in between; what the end of
    /// another session has left comes back too. Without a session, all replays are as any submission.
    pub(crate) fn replay<R>(
        &self,
        replays: &Arc<Replays>,
        progress: &Progress,
        submit: impl FnOnce(bool) -> R,
    ) -> (R, Aftermath) {
        let mut state = self.0.lock();
        let mut aftermath = Aftermath::default();
        let is_ours = state.replays.as_ref().is_some_and(|ours| Arc::ptr_eq(ours, replays));
        if !is_ours {
            aftermath = state.end(progress);
            state.replays = Some(replays.clone());
            progress.set_replaying(true);
        }
        let follows = is_ours && state.alone;
        if !state.alone {
            if state.before.is_none() {
                state.before = progress.so_far().ok();
            }
            state.alone = state.before.as_ref().is_some_and(|before| progress.left(before) == 0);
        }
        (submit(follows), aftermath)
    }

    /// Somebody submits, or this graph is not replayed any more: ends the session.
    pub(crate) fn interrupt(&self, only: Option<&Arc<Replays>>, progress: &Progress) -> Aftermath {
        let mut state = self.0.lock();
        let is_meant = |replays: &Arc<Replays>| only.is_none_or(|only| Arc::ptr_eq(only, replays));
        if state.replays.as_ref().is_some_and(is_meant) { state.end(progress) } else { Aftermath::default() }
    }
}

impl State {
    fn end(&mut self, progress: &Progress) -> Aftermath {
        let Some(replays) = self.replays.take() else { return Aftermath::default() };
        (self.before, self.alone) = (None, false);
        let mut aftermath = replays.show();
        aftermath.drop_later(replays);
        progress.set_replaying(false);
        aftermath
    }
}
