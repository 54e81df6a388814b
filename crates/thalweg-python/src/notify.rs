//! Callbacks at the end of tasks.
//!
//! The thread that ends a task must not wait for the GIL, since it may hold locks of the runtime. So it wakes a
//! separate thread, which exists only if there are callbacks and calls them one after the other.

use crate::error::submit_error;
use crate::task::Task;
use pyo3::prelude::*;
use std::collections::HashMap;
use std::pin::Pin;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Wake};
use std::thread::JoinHandle;
use thalweg::error::{RunError, SubmitError};

type Ending = Pin<Box<dyn Future<Output = Result<(), RunError>> + Send>>;

/// A callback to call with a task when it has ended.
pub(crate) struct Job {
    pub(crate) ending: Ending,
    pub(crate) task: Py<Task>,
    pub(crate) callback: Py<PyAny>,
}

enum Message {
    Job(Job),
    Woken(u64),
    End,
}

/// The thread that calls callbacks, started for the first one.
#[derive(Default)]
pub(crate) struct Notifier(Mutex<Option<(Sender<Message>, JoinHandle<()>)>>);

struct Woken(u64, Mutex<Sender<Message>>);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        _ = self.1.lock().unwrap_or_else(PoisonError::into_inner).send(Message::Woken(self.0));
    }
}

impl Notifier {
    pub(crate) fn add(&self, job: Job) -> PyResult<()> {
        let mut thread = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if thread.is_none() {
            let (sender, receiver) = channel();
            let own = sender.clone();
            let builder = std::thread::Builder::new().name("thalweg-notify".to_owned());
            let started = builder.spawn(move || call_all(&own, &receiver));
            *thread = Some((sender, started.map_err(|_| submit_error(&SubmitError::ShutDown))?));
        }
        if let Some((sender, _)) = &*thread {
            _ = sender.send(Message::Job(job));
        }
        Ok(())
    }

    /// Ends the thread. The runtime has ended, so all tasks have.
    pub(crate) fn end(&self) {
        let thread = self.0.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some((sender, thread)) = thread else { return };
        _ = sender.send(Message::End);
        if thread.thread().id() != std::thread::current().id() {
            _ = Python::try_attach(|py| py.detach(|| thread.join()));
        }
    }
}

/// Calls the callbacks of jobs whose tasks have ended, until the message `End`.
fn call_all(sender: &Sender<Message>, receiver: &Receiver<Message>) {
    let (mut jobs, mut next) = (HashMap::<u64, Job>::new(), 0);
    while let Ok(message) = receiver.recv() {
        let number = match message {
            Message::End => break,
            Message::Job(job) => {
                next += 1;
                jobs.insert(next, job);
                next
            }
            Message::Woken(number) => number,
        };
        let Some(job) = jobs.get_mut(&number) else { continue };
        let waker = Arc::new(Woken(number, Mutex::new(sender.clone()))).into();
        if job.ending.as_mut().poll(&mut Context::from_waker(&waker)).is_ready()
            && let Some(Job { task, callback, .. }) = jobs.remove(&number)
        {
            crate::gil::with(|py| {
                if let Err(error) = callback.call1(py, (task,)) {
                    error.write_unraisable(py, Some(callback.bind(py)));
                }
            });
        }
    }
}
