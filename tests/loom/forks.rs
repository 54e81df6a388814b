//! Fork-join calls: exactly one of two threads makes the second call, exactly once, and the writes of this call are
//! visible when the fork ends.

use super::fork::{End, Market, Offer, fork};
use super::sleep::Parker;
use super::{Traced, model};
use loom::sync::{Arc, Mutex};
use loom::thread;

/// A place for one offer that two threads share.
struct Place {
    offer: Mutex<Option<Offer<Traced>>>,
    parker: std::sync::Arc<Parker>,
}

impl Market<Traced> for Place {
    fn offer(&self, offer: Offer<Traced>) {
        *self.offer.lock().unwrap() = Some(offer);
    }

    fn take_back(&self) -> Option<Offer<Traced>> {
        self.offer.lock().unwrap().take()
    }

    fn run(&self, _: Offer<Traced>) {
        unreachable!("there is only one offer");
    }

    fn await_end(&self, end: &End) {
        if end.wakes(&self.parker) {
            self.parker.park(None);
        }
    }
}

/// Calls `check` with a value owned by this thread and a place that another thread checks once for an offer.
fn beside_a_helper(check: impl FnOnce(&Place, &Traced)) {
    let place = Arc::new(Place { offer: Mutex::new(None), parker: std::sync::Arc::new(Parker::new()) });
    let (other, own) = (place.clone(), Traced::new(0));
    let helping = thread::spawn(move || {
        let offer = other.take_back();
        offer.into_iter().for_each(|offer| offer.run(&Traced::new(0)));
    });
    check(&place, &own);
    helping.join().unwrap();
}

#[test]
fn second_call_is_made_exactly_once_by_either_thread() {
    let seen = std::sync::Arc::new([const { std::sync::atomic::AtomicBool::new(false) }; 2]);
    let all = seen.clone();
    model(3, move || {
        beside_a_helper(|place, own| {
            let written = Traced::new(0);
            let (first, elsewhere) = fork(place, own, |_| 1, |_, elsewhere| (written.write(2), elsewhere).1);
            assert_eq!((first, written.read()), (1, 2));
            seen[usize::from(elsewhere)].store(true, std::sync::atomic::Ordering::Relaxed);
        });
    });
    assert!(
        all.iter().all(|seen| seen.load(std::sync::atomic::Ordering::Relaxed)),
        "each of the two threads makes the call in some interleaving"
    );
}

#[test]
fn panic_of_the_second_call_is_returned_with_its_earlier_writes() {
    model(3, || {
        beside_a_helper(|place, own| {
            let written = Traced::new(0);
            let panics = |_: &Traced, _| {
                written.write(2);
                std::panic::resume_unwind(Box::new(3));
            };
            let forks = std::panic::AssertUnwindSafe(|| fork(place, own, |_| 1, panics));
            let panic = std::panic::catch_unwind(forks).unwrap_err();
            assert_eq!((panic.downcast_ref(), written.read()), (Some(&3), 2));
        });
    });
}
