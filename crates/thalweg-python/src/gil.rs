//! The interpreter's lock: attaching a unit's thread once, and waiting without the lock.

use crate::error::Refused;
use pyo3::exceptions::{PyTimeoutError, PyValueError};
use pyo3::ffi;
use pyo3::prelude::*;
use std::cell::Cell;
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake};
use std::thread::Thread;
use std::time::{Duration, Instant};

/// The longest time for which a wait does not look for signals.
const SLICE: Duration = Duration::from_millis(50);

/// Whether the interpreter is about to end, so that threads must not attach any more.
static IS_ENDING: AtomicBool = AtomicBool::new(false);

/// Notes that the interpreter is about to end.
pub(crate) fn ends() {
    IS_ENDING.store(true, Ordering::SeqCst);
}

/// The Python thread state of a unit's thread. Creating one takes about a hundred times as long as attaching it, so a
/// thread keeps it until it ends.
struct Kept(Cell<bool>);

thread_local! {
    static KEPT: Kept = const { Kept(Cell::new(false)) };
    /// The number of bodies that run on this thread.
    static BODIES: Cell<usize> = const { Cell::new(0) };
}

impl Kept {
    #[cold]
    #[allow(unsafe_code)] // PyO3 has no call that keeps a thread's state
    fn keep(&self) {
        // SAFETY: the interpreter runs as long as runtimes do: `end_all` ends them before the interpreter ends. The
        // state that `PyGILState_Ensure` creates remains, because its release is the one in `drop`. Meanwhile the
        // thread is detached.
        unsafe {
            let was_attached = ffi::PyGILState_Ensure();
            if matches!(was_attached, ffi::PyGILState_STATE::PyGILState_LOCKED) {
                return ffi::PyGILState_Release(was_attached); // a thread of Python's own
            }
            ffi::PyEval_SaveThread();
        }
        self.0.set(true);
    }
}

impl Drop for Kept {
    #[allow(unsafe_code)] // PyO3 has no call that frees a thread's state
    fn drop(&mut self) {
        if !self.0.get() || IS_ENDING.load(Ordering::SeqCst) {
            return;
        }
        // SAFETY: this thread is detached, and its state from `keep` has a count of 1. `Ensure` attaches it and makes
        // the count 2. The first release leaves it attached, and the second one frees it and detaches the thread. The
        // thread that joins this one has released the GIL.
        unsafe {
            if ffi::Py_IsInitialized() != 0 {
                ffi::PyGILState_Ensure();
                ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_LOCKED);
                ffi::PyGILState_Release(ffi::PyGILState_STATE::PyGILState_UNLOCKED);
            }
        }
    }
}

/// Runs a part of a body with the GIL, on a unit's thread.
#[inline]
pub(crate) fn with<R>(body: impl for<'py> FnOnce(Python<'py>) -> R) -> R {
    KEPT.with(|kept| {
        if !kept.0.get() {
            kept.keep();
        }
    });
    Python::attach(body)
}

/// Runs a body on this thread. Waits are refused meanwhile.
#[inline]
pub(crate) fn in_body<R>(body: impl FnOnce() -> R) -> R {
    struct Leave;
    impl Drop for Leave {
        fn drop(&mut self) {
            BODIES.with(|bodies| bodies.set(bodies.get() - 1));
        }
    }
    BODIES.with(|bodies| bodies.set(bodies.get() + 1));
    let _leave = Leave;
    body()
}

/// Returns whether this thread runs a body.
pub(crate) fn is_in_body() -> bool {
    BODIES.with(Cell::get) > 0
}

/// Refuses a wait inside a body.
pub(crate) fn may_wait(call: &str) -> PyResult<()> {
    if is_in_body() {
        return Err(Refused::new_err(format!(
            "cannot `{call}` inside a body: a unit's thread that waited could run nothing else; try a task that comes \
             after, or call it outside of bodies"
        )));
    }
    Ok(())
}

/// Returns a timeout as a duration, `None` for no limit.
pub(crate) fn duration(call: &str, seconds: Option<f64>) -> PyResult<Option<Duration>> {
    let Some(seconds) = seconds else { return Ok(None) };
    let refused = || format!("cannot `{call}` for {seconds} s: a timeout is a number of seconds; try 0 or more");
    match Duration::try_from_secs_f64(seconds) {
        Ok(timeout) => Ok(Some(timeout)),
        Err(_) if seconds > 0.0 => Ok(None),
        Err(_) => Err(PyValueError::new_err(refused())),
    }
}

/// Waits without the GIL until `step`, which waits for at most the given time, returns a value. Signals are handled in
/// between, so Ctrl-C ends the wait.
pub(crate) fn wait<T: Send>(
    py: Python<'_>,
    call: &str,
    timeout: Option<Duration>,
    mut step: impl FnMut(Duration) -> Option<T> + Send,
) -> PyResult<T> {
    let began = Instant::now();
    loop {
        let rest = timeout.map_or(SLICE, |timeout| timeout.saturating_sub(began.elapsed()));
        if let Some(found) = py.detach(|| step(rest.min(SLICE))) {
            return Ok(found);
        }
        py.check_signals()?;
        if rest.is_zero() {
            let seconds = timeout.unwrap_or_default().as_secs_f64();
            return Err(PyTimeoutError::new_err(format!("`{call}` has waited for {seconds} s")));
        }
    }
}

/// Wakes the thread that polls a future.
struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Waits for a future like [`wait`].
pub(crate) fn wait_for<F: Future + Send>(
    py: Python<'_>,
    call: &str,
    timeout: Option<Duration>,
    future: F,
) -> PyResult<F::Output>
where
    F::Output: Send,
{
    let mut future = pin!(future);
    let waker = Arc::new(Unpark(std::thread::current())).into();
    wait(py, call, timeout, |slice| {
        let (until, mut context) = (Instant::now() + slice, Context::from_waker(&waker));
        loop {
            if let Poll::Ready(output) = future.as_mut().poll(&mut context) {
                return Some(output);
            }
            let rest = until.saturating_duration_since(Instant::now());
            if rest.is_zero() {
                return None;
            }
            std::thread::park_timeout(rest);
        }
    })
}
