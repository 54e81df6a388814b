//! Statuses, and the text of the last failure.

use std::cell::RefCell;
use std::ffi::{CStr, CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;
use thalweg::dlpack::ImportError;
use thalweg::error::{BuildError, RunError, SubmitError};

/// The result of a call.
#[repr(C)]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum tw_status {
    /// The call has succeeded.
    TW_OK = 0,
    /// The call was refused, and nothing has changed.
    TW_REFUSED = 1,
    /// A task has failed, or a value is missing because of it.
    TW_FAILED = 2,
    /// The time is over.
    TW_TIMEOUT = 3,
    /// An argument is a null pointer, a released handle, or not valid UTF-8.
    TW_INVALID = 4,
    /// The library has an error; please report it.
    TW_PANICKED = 5,
}

/// The reason why a call does not succeed.
pub(crate) enum Problem {
    Refused(String),
    Failed(String),
    Timeout(String),
    Invalid(String),
}

impl Problem {
    pub(crate) fn invalid(call: &str, problem: &str) -> Self {
        Self::Invalid(format!("cannot `{call}`: {problem}"))
    }
}

/// Returns the entries of an array of the caller. `absent` says that there is none, if it is null.
///
/// # Safety
/// `first` is null or points to `count` entries, which stay valid while the result is used.
pub(crate) unsafe fn entries<'a, T>(
    call: &str,
    first: *const T,
    count: usize,
    absent: &str,
) -> Result<&'a [T], Problem> {
    if count == 0 {
        return Ok(&[]);
    }
    if first.is_null() {
        return Err(Problem::invalid(call, &format!("{absent}; try an array, or a count of 0")));
    }
    if count.checked_mul(size_of::<T>()).is_none_or(|bytes| bytes > isize::MAX as usize) {
        return Err(Problem::invalid(call, &format!("no array has {count} entries; try the number of its entries")));
    }
    // SAFETY: by this function's contract; the size was just checked.
    Ok(unsafe { std::slice::from_raw_parts(first, count) })
}

impl From<SubmitError> for Problem {
    fn from(error: SubmitError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<BuildError> for Problem {
    fn from(error: BuildError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<ImportError> for Problem {
    fn from(error: ImportError) -> Self {
        Self::Refused(error.to_string())
    }
}

impl From<RunError> for Problem {
    fn from(error: RunError) -> Self {
        match error {
            RunError::Refused(refusal) => refusal.into(),
            failed => Self::Failed(failed.to_string()),
        }
    }
}

/// Waits by `wait`, which returns whether it has ended before the time is over. `what` names the unfinished part in the
/// error.
pub(crate) fn timed(
    call: &str,
    seconds: f64,
    what: &str,
    wait: impl FnOnce(Duration) -> Result<bool, RunError>,
) -> Result<(), Problem> {
    let time = match Duration::try_from_secs_f64(seconds) {
        Ok(time) => time,
        Err(_) if seconds > 0.0 => Duration::MAX,
        Err(_) => return Err(Problem::invalid(call, &format!("it cannot wait {seconds} s; try 0 or more"))),
    };
    if wait(time)? { Ok(()) } else { Err(Problem::Timeout(format!("{what} not done after {seconds} s"))) }
}

thread_local! {
    static LAST: RefCell<CString> = RefCell::default();
}

fn set_last(text: String) {
    let text = CString::new(text.replace('\0', " ")).unwrap_or_default();
    _ = LAST.try_with(|last| last.replace(text)); // the thread may be ending
}

/// Runs a call, and notes the text if it does not succeed.
pub(crate) fn call(f: impl FnOnce() -> Result<(), Problem>) -> tw_status {
    let (status, text) = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(())) => return tw_status::TW_OK,
        Ok(Err(Problem::Refused(text))) => (tw_status::TW_REFUSED, text),
        Ok(Err(Problem::Failed(text))) => (tw_status::TW_FAILED, text),
        Ok(Err(Problem::Timeout(text))) => (tw_status::TW_TIMEOUT, text),
        Ok(Err(Problem::Invalid(text))) => (tw_status::TW_INVALID, text),
        Err(panic) => {
            let text = panic.downcast_ref::<String>().cloned();
            let text = text.or_else(|| panic.downcast_ref::<&str>().map(ToString::to_string)).unwrap_or_default();
            // A panic's payload may panic when it is dropped; it is text in all but strange cases.
            std::mem::forget(panic);
            (tw_status::TW_PANICKED, text)
        }
    };
    set_last(text);
    status
}

/// Returns the text of the last call on this thread that did not return `TW_OK`, or an empty text. The text is valid
/// until the next call on this thread that does not return `TW_OK`.
#[unsafe(no_mangle)]
pub extern "C" fn tw_last_error() -> *const c_char {
    LAST.try_with(|last| last.borrow().as_ptr()).unwrap_or(c"".as_ptr())
}

/// Sets the text that [`tw_last_error`] returns on this thread, for modules of other languages over this interface.
///
/// # Safety
/// `text` is null or ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_set_last_error(text: *const c_char) {
    if !text.is_null() {
        // SAFETY: by this function's contract.
        set_last(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    }
}

/// Returns the text at `text`; `None` if it is null.
///
/// # Safety
/// `text` is null or ends with a zero byte, and is valid during the call.
pub(crate) unsafe fn text(call: &str, argument: &str, text: *const c_char) -> Result<Option<String>, Problem> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller upholds the contract.
    match unsafe { CStr::from_ptr(text) }.to_str() {
        Ok(text) => Ok(Some(text.to_owned())),
        Err(_) => Err(Problem::invalid(call, &format!("its `{argument}` is not valid UTF-8; try plain characters"))),
    }
}

/// Writes a result to the caller's variable.
///
/// # Safety
/// `to` is null or points to a variable of this type.
pub(crate) unsafe fn put<T>(call: &str, to: *mut T, value: T) -> Result<(), Problem> {
    if to.is_null() {
        return Err(Problem::invalid(call, "its last argument is null; try the address of a variable"));
    }
    // SAFETY: the caller upholds the contract.
    unsafe { to.write(value) };
    Ok(())
}
