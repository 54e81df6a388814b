//! What goes on without a thread: the last one to give a hold back takes it, with all that was done under the others; and
//! whoever is woken runs on.

use super::detached::Detached;
use super::{Traced, model};
use loom::sync::Arc;
use loom::thread;

#[test]
fn the_last_hold_takes_what_is_parked_whoever_gives_it_back() {
    model(3, || {
        let (lent, state) = (Arc::new(Traced::new(0)), Arc::new(Detached::new()));
        let takers = [1, 2].map(|value| {
            state.hold();
            let (lent, state) = (lent.clone(), state.clone());
            thread::spawn(move || {
                if value == 1 {
                    lent.write(value); // one of them writes what it was lent
                }
                state.give_back()
            })
        });
        state.park_for_good(7);
        let own = state.give_back();
        let taken: Vec<u32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).chain(own).collect();
        assert_eq!(taken, [7], "one takes it");
    });
}

#[test]
fn who_takes_it_sees_what_was_done_with_each_hold() {
    model(3, || {
        let lent = Arc::new([Traced::new(0), Traced::new(0)]);
        let state = Arc::new(Detached::new());
        let see = |lent: &[Traced; 2]| assert_eq!([lent[0].read(), lent[1].read()], [1, 1]);
        let givers = [0, 1].map(|part| {
            state.hold();
            let (lent, state) = (lent.clone(), state.clone());
            thread::spawn(move || {
                lent[part].write(1);
                state.give_back().into_iter().for_each(|()| see(&lent));
            })
        });
        state.park_for_good(());
        state.give_back().into_iter().for_each(|()| see(&lent));
        givers.into_iter().for_each(|giver| giver.join().unwrap());
    });
}

#[test]
fn what_is_woken_runs_on_and_sees_why() {
    model(3, || {
        let (value, state) = (Arc::new(Flag::new()), Arc::new(Detached::new()));
        let (theirs, waking) = (value.clone(), state.clone());
        let waker = thread::spawn(move || {
            theirs.set();
            let woken = waking.wake();
            woken.and_then(|polls| poll(&waking, &theirs, polls))
        });
        let own = poll(&state, &value, 0);
        assert!(own.is_some() != waker.join().unwrap().is_some(), "it is ready once");
    });
}

#[test]
fn two_wakers_wake_it_for_both_reasons() {
    model(2, || {
        let values = Arc::new([Flag::new(), Flag::new()]);
        let state = Arc::new(Detached::new());
        let wakers = [0, 1].map(|which| {
            let (values, state) = (values.clone(), state.clone());
            thread::spawn(move || {
                values[which].set();
                state.wake().and_then(|polls| poll_both(&state, &values, polls))
            })
        });
        let own = poll_both(&state, &values, 0);
        let ready = wakers.into_iter().filter_map(|waker| waker.join().unwrap()).chain(own).count();
        assert_eq!(ready, 1, "it is ready once, and never left asleep");
    });
}

/// Set without any order: what `wake` gives is all that there is.
struct Flag(loom::sync::atomic::AtomicBool);

impl Flag {
    fn new() -> Self {
        Self(loom::sync::atomic::AtomicBool::new(false))
    }

    fn set(&self) {
        self.0.store(true, loom::sync::atomic::Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(loom::sync::atomic::Ordering::Relaxed)
    }
}

fn poll(state: &Detached<u32>, value: &Flag, polls: u32) -> Option<u32> {
    poll_until(state, || value.is_set(), polls)
}

fn poll_both(state: &Detached<u32>, values: &[Flag; 2], polls: u32) -> Option<u32> {
    poll_until(state, || values.iter().all(Flag::is_set), polls)
}

/// Polls as a unit does: parks in between, and goes on at once if it was woken meanwhile. Nothing if it stays parked: whoever
/// wakes it polls it on.
fn poll_until(state: &Detached<u32>, is_ready: impl Fn() -> bool, mut polls: u32) -> Option<u32> {
    loop {
        state.run();
        if is_ready() {
            return Some(polls);
        }
        polls = state.park(polls + 1)?;
    }
}
