//! Bodies: C functions with their argument, and the views that they get.

use crate::view::tw_view;
use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr;
use std::sync::Arc;
use thalweg::Context;
use thalweg::error::BoxError;

/// The environment of a body; valid while the body runs, on its thread.
#[derive(Debug)]
pub struct tw_context {
    /// Null in a body for a stream.
    context: *const Context,
    stream: *mut c_void,
    device: i32,
    failure: Option<String>,
}

/// A body. It gets a view for each access, in their order, and the address of its argument. It returns 0 if it has
/// succeeded; otherwise the task fails, with the text of `tw_fail` if it was called. A body must not end by `longjmp`
/// or an exception, nor let anything use its context or its views after it has returned.
pub type tw_body = Option<
    unsafe extern "C" fn(context: *mut tw_context, views: *const tw_view, count: usize, argument: *mut c_void) -> c_int,
>;

/// The greatest number of bytes of an argument that is copied.
pub const TW_MAX_ARGUMENT_BYTES: usize = 1 << 20;

/// A body that is present.
pub(crate) type Body = unsafe extern "C" fn(*mut tw_context, *const tw_view, usize, *mut c_void) -> c_int;

/// The argument of a body, which is dropped with the body.
pub(crate) struct Argument {
    /// The copy, if the argument was copied. The element type gives it an alignment of 16.
    _copy: Vec<u128>,
    /// The address of the copy, or the one that was given.
    address: *mut c_void,
    destructor: Option<unsafe extern "C" fn(*mut c_void)>,
}

// SAFETY: the caller of `tw_submit` promises that the body may use its argument on any thread.
unsafe impl Send for Argument {}
// SAFETY: a shared reference gives access to the address alone, and only one body of a task runs.
unsafe impl Sync for Argument {}

impl Argument {
    /// Copies `bytes` bytes, at most `TW_MAX_ARGUMENT_BYTES`, or keeps the address if there are none.
    ///
    /// # Safety
    /// `given` points to `bytes` bytes. The destructor may be called once, on any thread, with the argument's address.
    pub(crate) unsafe fn new(
        given: *const c_void,
        bytes: usize,
        destructor: Option<unsafe extern "C" fn(*mut c_void)>,
    ) -> Self {
        let mut copy = vec![0u128; bytes.div_ceil(size_of::<u128>())];
        // SAFETY: both have at least `bytes` bytes, and the copy is new.
        unsafe { ptr::copy_nonoverlapping(given.cast::<u8>(), copy.as_mut_ptr().cast(), bytes) };
        let address = if copy.is_empty() { given.cast_mut() } else { copy.as_mut_ptr().cast() };
        Self { _copy: copy, address, destructor }
    }
}

impl Drop for Argument {
    fn drop(&mut self) {
        if let Some(destructor) = self.destructor {
            // SAFETY: the destructor is called only here, with its argument.
            unsafe { destructor(self.address) }
        }
    }
}

/// The argument of a body: its own, or one that it shares with other bodies of its task.
pub(crate) enum Held {
    Own(Argument),
    Shared(Arc<Argument>),
}

/// A body with its argument.
pub(crate) struct Bound {
    pub(crate) body: Body,
    pub(crate) argument: Held,
}

impl Bound {
    /// Calls the body.
    pub(crate) fn run(self, context: &Context, views: &[tw_view]) -> Result<(), BoxError> {
        let argument = match &self.argument {
            Held::Own(argument) => argument,
            Held::Shared(argument) => argument,
        };
        call(self.body, argument, context, (ptr::null_mut(), 0), views)
    }
}

/// Calls a body with its context, or with the stream of its task.
pub(crate) fn call(
    body: Body,
    argument: &Argument,
    context: *const Context,
    (stream, device): (*mut c_void, i32),
    views: &[tw_view],
) -> Result<(), BoxError> {
    let mut context = tw_context { context, stream, device, failure: None };
    // SAFETY: the caller of `tw_submit` promises that the body is a function of this type, which uses the views as
    // declared and only while it runs.
    let status = unsafe { body(&raw mut context, views.as_ptr(), views.len(), argument.address) };
    match (status, context.failure) {
        (0, _) => Ok(()),
        (_, Some(text)) => Err(text.into()),
        (status, None) => Err(format!("its body returned {status}").into()),
    }
}

/// Describes a region in the memory of a device with addresses.
#[cfg(any(feature = "cuda", feature = "hip"))]
pub(crate) fn view_on_device(data: *const u8, view: &thalweg::dynamic::AnyDeviceView<'_>) -> tw_view {
    tw_view {
        data: data.cast_mut().cast(),
        r#type: crate::view::number(view.dtype()),
        ndim: view.ndim(),
        shape: view.extents(),
        strides: view.strides(),
        count: view.extents().iter().product(),
        element_bytes: view.dtype().size(),
        is_writable: view.is_writable(),
    }
}

impl tw_context {
    /// Returns the runtime's context; `None` in a body for a stream.
    pub(crate) fn get(&self) -> Option<&Context> {
        // SAFETY: a `tw_context` is made only in `call`, and lives no longer than the context that it borrows.
        unsafe { self.context.as_ref() }
    }
}

/// Sets the text with which the task fails if its body returns another number than 0.
///
/// # Safety
/// `context` is that of the running body, and `text` ends with a zero byte.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_fail(context: *mut tw_context, text: *const c_char) -> c_int {
    // SAFETY: by this function's contract; a null pointer is ignored.
    if let (Some(context), false) = (unsafe { context.as_mut() }, text.is_null()) {
        // SAFETY: as above.
        context.failure = Some(unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned());
    }
    1
}

/// Returns the number of the unit that runs the body.
///
/// # Safety
/// `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_context_unit(context: *const tw_context) -> usize {
    // SAFETY: by this function's contract.
    unsafe { context.as_ref() }.and_then(tw_context::get).map_or(0, |context| context.unit().index())
}

/// Returns whether the task's group was cancelled, so that a long body can return early.
///
/// # Safety
/// `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_context_is_cancelled(context: *const tw_context) -> bool {
    // SAFETY: by this function's contract.
    unsafe { context.as_ref() }.and_then(tw_context::get).is_some_and(Context::is_cancelled)
}

/// Returns the stream of the task, in a body for CUDA or HIP: a `CUstream` or `hipStream_t`. Otherwise, null.
///
/// # Safety
/// `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_context_stream(context: *const tw_context) -> *mut c_void {
    // SAFETY: by this function's contract.
    unsafe { context.as_ref() }.map_or(ptr::null_mut(), |context| context.stream)
}

/// Returns the ordinal of the device, in a body for CUDA or HIP. Otherwise, 0.
///
/// # Safety
/// `context` is that of the running body.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn tw_context_device(context: *const tw_context) -> c_int {
    // SAFETY: by this function's contract.
    unsafe { context.as_ref() }.map_or(0, |context| context.device)
}
