//! A thread that waits for the events of one stream and runs callbacks.
//!
//! The host functions of CUDA and HIP are not used for this purpose, for two reasons. They are not called after an
//! error, although a waiting thread must be woken in that case. And a separate stream for host functions would occupy
//! one of the few hardware queues, where its waits block the kernels of other streams. One thread per stream is
//! enough, because the events of one stream occur in order: the thread never sleeps on one event while another has
//! already occurred.
//!
//! Invariants: all queued callbacks are called before the thread ends; when the thread's owner has been dropped, the
//! thread has ended and has released everything that it held of a device, so that no part of a runtime outlives the
//! runtime.

use crate::device::on_own_thread;
use crate::sync::start;
use std::sync::mpsc::{SendError, Sender, channel};
use std::thread::{self, JoinHandle};

type Job<E> = (E, Box<dyn FnOnce() + Send>);

/// A handle for sending work to the thread.
pub(super) struct Watcher<E>(Sender<Option<Job<E>>>);

/// Owns the thread. Dropping the owner ends the thread.
pub(super) struct Watch<E: Send + 'static> {
    watcher: Watcher<E>,
    thread: Option<JoinHandle<()>>,
}

impl<E> Clone for Watcher<E> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<E> Watcher<E> {
    /// Registers `then` to be called when the event has occurred. If the thread has already ended, `then` is called
    /// immediately, because in that case nothing is running on the stream any more.
    pub(super) fn watch(&self, event: E, then: Box<dyn FnOnce() + Send>) {
        if let Err(SendError(Some((event, then)))) = self.0.send(Some((event, then))) {
            drop(event);
            then();
        }
    }
}

impl<E: Send + 'static> Watch<E> {
    /// Starts the thread. `wait` must return when the event has occurred or can no longer occur.
    ///
    /// # Errors
    /// Returns an error if the system cannot start a thread.
    pub(super) fn spawn(wait: impl Fn(&E) + Send + 'static) -> std::io::Result<Self> {
        let (sender, jobs) = channel::<Option<Job<E>>>();
        let watch = move || {
            on_own_thread();
            let call = |(event, then): Job<E>| {
                wait(&event);
                drop(event); // the callback may drop the event's device
                then();
            };
            jobs.iter().map_while(|job| job).for_each(call);
            jobs.try_iter().flatten().for_each(call);
        };
        let thread = start(thread::Builder::new().name("thalweg-watch".to_owned()), watch)?;
        Ok(Self { watcher: Watcher(sender), thread: Some(thread) })
    }

    /// Returns a handle for sending work to the thread.
    pub(super) fn watcher(&self) -> Watcher<E> {
        self.watcher.clone()
    }
}

impl<E: Send + 'static> Drop for Watch<E> {
    fn drop(&mut self) {
        let _ = self.watcher.0.send(None); // fails only if the thread has ended
        if let Some(thread) = self.thread.take().filter(|thread| thread.thread().id() != thread::current().id()) {
            let _ = thread.join(); // its panic has been printed already
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc::Receiver;
    use std::time::Duration;

    #[test]
    fn callbacks_run_in_order_of_events() {
        let (come, wait_for): (Sender<u32>, Receiver<u32>) = channel();
        let watch = Watch::spawn(move |event| assert_eq!(wait_for.recv().unwrap(), *event)).unwrap();
        let watcher = watch.watcher();
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

    #[allow(dead_code)]
    struct Event(Watcher<Event>, Arc<()>); // like real events, it holds a watcher

    #[test]
    fn dropped_watch_has_run_all_callbacks() {
        let device = Arc::new(());
        let watch = Watch::spawn(|_: &Event| thread::sleep(Duration::from_millis(1))).unwrap();
        let called = Arc::new(AtomicUsize::new(0));
        for _ in 0..5 {
            let called = called.clone();
            let then = move || {
                called.fetch_add(1, Ordering::Relaxed);
                thread::sleep(Duration::from_millis(1));
            };
            watch.watcher().watch(Event(watch.watcher(), device.clone()), Box::new(then));
        }
        drop(watch);
        assert_eq!((called.load(Ordering::Relaxed), Arc::strong_count(&device)), (5, 1));
    }

    #[test]
    fn event_is_dropped_before_callback() {
        let device = Arc::new(());
        let watch = Watch::spawn(|_: &Event| ()).unwrap();
        let (told, holders) = channel();
        let weak = Arc::downgrade(&device);
        watch
            .watcher()
            .watch(Event(watch.watcher(), device), Box::new(move || told.send(weak.strong_count()).unwrap()));
        assert_eq!(holders.recv(), Ok(0));
    }

    #[test]
    fn callback_runs_at_once_after_thread_has_ended() {
        let watch = Watch::spawn(|_: &Event| unreachable!("the thread has ended")).unwrap();
        let (watcher, (told, calls)) = (watch.watcher(), channel());
        drop(watch);
        watcher.watch(Event(watcher.clone(), Arc::default()), Box::new(move || told.send(()).unwrap()));
        assert_eq!(calls.try_recv(), Ok(()));
    }

    #[test]
    fn watch_may_be_dropped_by_callback() {
        let watch = Watch::spawn(|_: &Event| ()).unwrap();
        let (watcher, (told, calls)) = (watch.watcher(), channel());
        let then = move || {
            drop(watch);
            told.send(()).unwrap();
        };
        watcher.watch(Event(watcher.clone(), Arc::default()), Box::new(then));
        assert_eq!(calls.recv(), Ok(()));
    }
}
