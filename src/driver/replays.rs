//! Replay session: which frozen graph is being replayed, and whether any thread has submitted anything since.
//!
//! As long as no other thread submits, a replay needs no registration: it comes after the previous replay, and no task
//! could observe the difference. So a runtime has one *session*, which consists of the graph that was replayed last,
//! and a flag in the word that counts all submissions ([`super::progress`]). A submitter sees the flag there at no
//! extra cost, and ends the session before doing anything else; the replays under way are then entered into the
//! histories.
//!
//! Tasks that were counted before the flag was set may be registered after that. So replays are registered like other
//! tasks until all of those tasks have ended, and then once more.
//!
//! No user value is dropped while the lock is held.

use super::progress::{Progress, SoFar};
use crate::depend::{Aftermath, Replays};
use parking_lot::Mutex;
use std::sync::Arc;

/// The session of one runtime.
#[derive(Default)]
pub(crate) struct Session(Mutex<State>);

#[derive(Default)]
struct State {
    replays: Option<Arc<Replays>>,
    /// The tasks that had been submitted when the session began.
    before: Option<SoFar>,
    /// Whether all tasks in `before` had ended when the last replay was registered.
    alone: bool,
}

impl Session {
    /// Calls `submit` for a replay of this graph, with a flag that tells whether the replay follows the previous one
    /// with no submission in between. Also returns the work left over from the end of another session. Without a
    /// session, a replay is registered like any other submission.
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

    /// Ends the session because a thread submits. With `only`, ends the session only if it belongs to that graph,
    /// which will no longer be replayed.
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
