//! Parameters of recordings: values that a recorded task reads in addition to its regions, and that change from
//! replay to replay.
//!
//! A parameter needs no history, because the owner of the recording sets its value between replays. A task that is
//! submitted, by a replay or on its own, keeps the value that the parameter has at that moment. A task that stays from
//! replay to replay reads the value that was given to the current replay.
//!
//! The references of such tasks are sound because [`Setting::settle`] is called when no task of the recording runs or
//! can start, and only tasks of its own recording read a parameter.

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
    /// The ID of the recording that the parameter belongs to.
    recording: u64,
    /// The value for the next replay.
    next: Mutex<Arc<T>>,
    /// The value for the current replay, read by tasks that stay.
    now: UnsafeCell<Arc<T>>,
}

// SAFETY: `now` is written only when nothing reads it, and threads only read its content, which `T: Sync` permits.
unsafe impl<T: Send + Sync> Sync for Setting<T> {}

/// A parameter of any type.
pub(crate) trait AnySetting: Any + Send + Sync {
    fn name(&self) -> &str;

    fn recording(&self) -> u64;

    /// Returns the name of the parameter's type.
    fn type_name(&self) -> &'static str;

    /// Returns the value for the next replay, to be passed to [`Self::settle`].
    fn next(&self) -> Box<dyn Any + Send>;

    /// Sets the value that tasks that stay read, and returns the previous one.
    ///
    /// # Safety
    /// No task of the recording runs, or can start before this returns.
    unsafe fn settle(&self, value: Box<dyn Any + Send>) -> Box<dyn Any + Send>;
}

/// Captures the current values, and returns a closure that passes them to the tasks that stay when the turn of their
/// replay comes.
pub(crate) fn settle(settings: &[Arc<dyn AnySetting>]) -> Settle {
    let values: Vec<_> = settings.iter().map(|setting| (setting.clone(), setting.next())).collect();
    Box::new(move |_: &Idle<'_>| {
        // SAFETY: the recording's graph is idle, as the caller's `Idle` proves, and stays idle until this returns. No
        // other graph reads the recording's parameters, because `runtime/record` refuses parameters of other
        // recordings.
        let settle = |(setting, value): (Arc<dyn AnySetting>, _)| unsafe { setting.settle(value) };
        Box::new(values.into_iter().map(settle).collect::<Vec<_>>())
    })
}

impl<T: Send + Sync + 'static> Setting<T> {
    pub(crate) fn new(name: &str, recording: u64, value: T) -> Self {
        let value = Arc::new(value);
        Self { name: name.into(), recording, now: UnsafeCell::new(value.clone()), next: Mutex::new(value) }
    }

    /// Sets the value for future replays, and returns the previous one.
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
        let mut value = value.downcast::<Arc<T>>().expect("the value was made by this parameter");
        // SAFETY: the caller guarantees that nothing reads the value.
        std::mem::swap(unsafe { &mut *self.now.get() }, &mut *value);
        value
    }
}

/// A task's access to a parameter; the body gets `&T`.
pub struct ReadParameter<T> {
    setting: Arc<Setting<T>>,
    /// The value, if the task runs only once; otherwise `None`.
    once: Option<Arc<T>>,
}

impl<T: Send + Sync + 'static> ReadParameter<T> {
    /// Makes an access for a task that runs only once.
    pub(crate) fn once(setting: &Arc<Setting<T>>) -> Self {
        Self { setting: setting.clone(), once: Some(setting.next()) }
    }

    fn value(&self) -> &T {
        match &self.once {
            Some(value) => value,
            // SAFETY: the task belongs to the parameter's recording, as was checked when the task was recorded. The
            // task is running, so nothing writes the value.
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
    unsafe fn views<'a>(&'a self, _: &mut Sites<'_>) -> &'a T {
        self.value()
    }

    fn device_views<'a>(&'a self, _: &mut DeviceSites<'_>) -> &'a T {
        self.value()
    }

    fn again(&self, _: Internal, span: Span) -> Self {
        let once = match span {
            Span::Once => Some(self.setting.next()),
            Span::Always => None,
            Span::Loop => self.once.clone(),
        };
        Self { setting: self.setting.clone(), once }
    }
}

impl<T> fmt::Debug for ReadParameter<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ReadParameter({})", self.setting.name)
    }
}
