//! A thread that waits for events of one stream and calls back.
//!
//! Why not a host function behind the event, as CUDA and HIP have them? It would not be called after an error, which is when
//! somebody has to be woken; and a stream for host functions takes one of few hardware queues, where its waiting holds up
//! the kernels of other streams. One thread per stream, because events of one stream come in order, so that the thread never
//! sleeps on one while another has come.

use std::sync::mpsc::{Sender, channel};
use std::thread;

type Job<E> = (E, Box<dyn FnOnce() + Send>);

/// Gives work to the thread, which ends with the last watcher when it has none left.
pub(super) struct Watcher<E>(Sender<Job<E>>);

impl<E> Clone for Watcher<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E: Send + 'static> Watcher<E> {
    /// Starts the thread. `wait` returns when an event has come, or never will.
    ///
    /// # Errors
    /// If the system gives no thread.
    pub(super) fn spawn(wait: impl Fn(&E) + Send + 'static) -> std::io::Result<Self> {
        let (sender, jobs) = channel::<Job<E>>();
        let watch = move || {
            for (event, then) in jobs {
                wait(&event);
                then();
            }
        };
        thread::Builder::new().name("thalweg-watch".to_owned()).spawn(watch)?;
        Ok(Self(sender))
    }

    /// Has `then` called when the event has come.
    pub(super) fn watch(&self, event: E, then: Box<dyn FnOnce() + Send>) {
        self.0.send((event, then)).unwrap_or_else(|_| unreachable!("the thread lives as long as its watchers"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::Receiver;

    #[test]
    fn calls_in_the_order_of_events() {
        let (come, wait_for): (Sender<u32>, Receiver<u32>) = channel();
        let watcher = Watcher::spawn(move |event| assert_eq!(wait_for.recv().unwrap(), *event)).unwrap();
        let (called, calls) = channel();
        for event in 0..3u32 {
            let called = called.clone();
            watcher.watch(event, Box::new(move || called.send(event).unwrap()));
        }
        for event in 0..3 {
            assert!(calls.try_recv().is_err(), "not before the event");
            come.send(event).unwrap();
            assert_eq!(calls.recv().unwrap(), event);
        }
    }

    #[test]
    fn ends_when_nobody_can_ask_any_more() {
        struct Event(#[allow(dead_code)] Watcher<Event>); // as events hold the means to be waited for
        let (alive, ended) = channel::<()>();
        let watcher = Watcher::spawn(move |_: &Event| drop(alive.clone())).unwrap();
        watcher.watch(Event(watcher.clone()), Box::new(|| ()));
        drop(watcher);
        assert!(ended.recv().is_err());
    }
}
