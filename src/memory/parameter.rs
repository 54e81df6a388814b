//! Parameters of recordings: what a recorded task reads beside its regions, and what changes from replay to replay.
//!
//! A parameter has no history and needs none: its value is set by who owns the recording, between replays. A task that is
//! submitted, by a replay or by itself, keeps the value of that moment. A task that stays from replay to replay reads the
//! one value that the replay under way was given.
//!
//! What makes the reference of such a task sound: [`Setting::settle`] is called when no task of the recording runs or can be
//! run, and a parameter is read by tasks of its own recording alone.

use super::Replicated;
use super::access::Record;
use super::access_list::{AccessList, DeviceSites, Sites, Span};
use crate::depend::Settle;
use crate::sealed::{Internal, Sealed};
use crate::sync::Idle;
use parking_lot::Mutex;
use std::any::Any;
use std::cell::UnsafeCell;
use std::fmt;
use std::sync::Arc;

/// One parameter of a recording.
pub(crate) struct Setting<T> {
    name: Box<str>,
    /// Of the recording that it belongs to.
    recording: u64,
    /// For the next replay.
    next: Mutex<Arc<T>>,
    /// For the replay under way, of tasks that stay.
    now: UnsafeCell<Arc<T>>,
}

// SAFETY: `now` is written when nobody reads it, and what is in it is shared by threads that read.
unsafe impl<T: Send + Sync> Sync for Setting<T> {}

/// A parameter of any type.
pub(crate) trait AnySetting: Any + Send + Sync {
    fn name(&self) -> &str;

    fn recording(&self) -> u64;

    /// The name of its type.
    fn type_name(&self) -> &'static str;

    /// The value of the next replay, for [`Self::settle`].
    fn next(&self) -> Box<dyn Any + Send>;

    /// Gives the tasks that stay the value that was the next; what they had comes back.
    ///
    /// # Safety
    /// No task of the recording runs, or can be run before this returns.
    unsafe fn settle(&self, value: Box<dyn Any + Send>) -> Box<dyn Any + Send>;
}

/// Gives the tasks of a recording that stay the values of now, when its turn comes.
pub(crate) fn settle(settings: &[Arc<dyn AnySetting>]) -> Settle {
    let values: Vec<_> = settings.iter().map(|setting| (setting.clone(), setting.next())).collect();
    Box::new(move |_: &Idle<'_>| {
        // SAFETY: the graph of the recording is idle, as the caller shows, and stays so until this returns. No other reads
        // its parameters (`runtime/record` refuses those of others).
        let settle = |(setting, value): (Arc<dyn AnySetting>, _)| unsafe { setting.settle(value) };
        Box::new(values.into_iter().map(settle).collect::<Vec<_>>())
    })
}

impl<T: Send + Sync + 'static> Setting<T> {
    pub(crate) fn new(name: &str, recording: u64, value: T) -> Self {
        let value = Arc::new(value);
        Self { name: name.into(), recording, now: UnsafeCell::new(value.clone()), next: Mutex::new(value) }
    }

    /// The value of the replays to come; gives back the one before.
    pub(crate) fn set(&self, value: T) -> Arc<T> {
        std::mem::replace(&mut *self.next.lock(), Arc::new(value))
    }

    fn next(&self) -> Arc<T> {
        self.next.lock().clone()
    }
}

impl<T: Send + Sync + 'static> AnySetting for Setting<T> {
    fn name(&self) -> &str {
        &self.name
    }

    fn recording(&self) -> u64 {
        self.recording
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<T>()
    }

    fn next(&self) -> Box<dyn Any + Send> {
        Box::new(Setting::next(self))
    }

    unsafe fn settle(&self, value: Box<dyn Any + Send>) -> Box<dyn Any + Send> {
        let mut value = value.downcast::<Arc<T>>().expect("it was made by this parameter");
        // SAFETY: the caller's promise: nobody reads it.
        std::mem::swap(unsafe { &mut *self.now.get() }, &mut *value);
        value
    }
}

/// A parameter that a task reads: the body gets `&T`.
pub struct ReadParameter<T> {
    setting: Arc<Setting<T>>,
    /// If the task is run once.
    once: Option<Arc<T>>,
}

impl<T: Send + Sync + 'static> ReadParameter<T> {
    /// For a task that is run once.
    pub(crate) fn once(setting: &Arc<Setting<T>>) -> Self {
        Self { setting: setting.clone(), once: Some(setting.next()) }
    }

    fn value(&self) -> &T {
        match &self.once {
            Some(value) => value,
            // SAFETY: the task runs, so nobody writes it; it belongs to this recording, as was checked when it was recorded.
            None => unsafe { &*self.setting.now.get() },
        }
    }
}

impl<T> Sealed for ReadParameter<T> {}

impl<T: Send + Sync + 'static> AccessList for ReadParameter<T> {
    type Views<'a> = &'a T;
    type DeviceViews<'a> = &'a T;

    const COUNT: Option<usize> = Some(0);

    #[inline]
    fn count(&self) -> usize {
        0
    }

    #[inline]
    unsafe fn views<'a>(&'a self, _: &mut Sites<'_>) -> &'a T {
        self.value()
    }

    fn device_views<'a>(&'a self, _: &mut DeviceSites<'_>) -> &'a T {
        self.value()
    }

    #[inline]
    fn visit(&self, _: &mut dyn FnMut(Record<'_>)) {}

    fn at(&self, index: usize) -> &dyn Replicated {
        unreachable!("a parameter has no region {index}")
    }

    #[inline]
    unsafe fn keep(&self) {}

    fn again(&self, _: Internal, span: Span) -> Self {
        let once = (span == Span::Once).then(|| self.setting.next());
        Self { setting: self.setting.clone(), once }
    }
}

impl<T> fmt::Debug for ReadParameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadParameter({})", self.setting.name)
    }
}
