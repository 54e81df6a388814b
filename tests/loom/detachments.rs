//! Detached tasks: the thread that returns the last hold gets the task and sees all writes made under the other holds;
//! a task that is woken is polled again.

use super::detached::Detached;
use super::{Traced, model};
use loom::sync::Arc;
use loom::thread;

#[test]
fn last_hold_returned_takes_the_parked_task_exactly_once() {
    model(3, || {
        let (lent, state) = (Arc::new(Traced::new(0)), Arc::new(Detached::new()));
        let takers = [1, 2].map(|value| {
            state.hold();
            let (lent, state) = (lent.clone(), state.clone());
            thread::spawn(move || {
                if value == 1 {
                    lent.write(value); // one of the holders writes the lent value
                }
                state.give_back()
            })
        });
        state.park_for_good(7);
        let own = state.give_back();
        let taken: Vec<u32> = takers.into_iter().filter_map(|taker| taker.join().unwrap()).chain(own).collect();
        assert_eq!(taken, [7], "exactly one thread takes the task");
    });
}

#[test]
fn taker_sees_writes_made_under_every_hold() {
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
fn woken_task_is_polled_again_and_sees_the_flag() {
    model(3, || {
        let (value, state) = (Arc::new(Flag::new()), Arc::new(Detached::new()));
        let (theirs, waking) = (value.clone(), state.clone());
        let waker = thread::spawn(move || {
            theirs.set();
            let woken = waking.wake();
            woken.and_then(|polls| poll(&waking, &theirs, polls))
        });
        let own = poll(&state, &value, 0);
        assert!(own.is_some() != waker.join().unwrap().is_some(), "the task must become ready exactly once");
    });
}

#[test]
fn two_wakers_make_the_task_ready_exactly_once() {
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
        assert_eq!(ready, 1, "the task must become ready exactly once, and never stay parked");
    });
}

/// A flag that is set without memory ordering, so only `wake` can make it visible.
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

/// Polls like a unit: parks between polls, and continues immediately if the task was woken in the meantime. Returns
/// `None` if the task stays parked, in which case the thread that wakes the task polls it.
fn poll_until(state: &Detached<u32>, is_ready: impl Fn() -> bool, mut polls: u32) -> Option<u32> {
    loop {
        state.run();
        if is_ready() {
            return Some(polls);
        }
        polls = state.park(polls + 1)?;
    }
}
