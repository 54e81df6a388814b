//! The functions of the compiler that comes with an interface (NVRTC or hipRTC), one method per function.

use crate::device::gpu::Recipe;
use parking_lot::MutexGuard;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Display;
use std::path::PathBuf;

/// A compiler's program object.
pub(in crate::device) type RawUnit = *mut c_void;

/// A compiler, with one method per library function. `Display` shows the compiler's name and version.
pub(in crate::device) trait Compiler: Display + Sized + 'static {
    /// The compiler's name in error messages.
    const NAME: &'static str;

    /// Opens the library on the first call.
    ///
    /// # Errors
    /// Returns the reason why the library cannot be used.
    fn load() -> Result<&'static Self, &'static str>;

    /// Returns the compiler options for an architecture: at least one set, followed by fallback sets for devices that
    /// refuse the code from the previous sets. `is_there` means that a device of this architecture is present.
    ///
    /// # Errors
    /// Returns the reason why the compiler cannot compile for the architecture.
    fn options(&self, architecture: &str, is_there: bool) -> Result<Vec<Vec<String>>, String>;

    /// Returns the folders with the headers that the interface's installation provides.
    fn headers(&self) -> &[PathBuf] {
        &[]
    }

    /// Locks the compiler for the lifetime of a unit, if the library cannot be used by two threads at the same time.
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }

    /// Returns a description of an error code.
    fn describe(&self, code: c_int) -> String {
        format!("{} error {code}", Self::NAME)
    }

    /// # Safety
    /// Both texts must be null-terminated.
    unsafe fn create(&self, unit: &mut RawUnit, source: *const c_char, name: *const c_char) -> c_int;

    /// # Safety
    /// The unit must have been created, and must not be used any more.
    unsafe fn destroy(&self, unit: &mut RawUnit) -> c_int;

    /// # Safety
    /// The unit must have been created, and `options` must point to `count` null-terminated texts.
    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int;

    /// # Safety
    /// The unit must have been created.
    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit must have been created, and the buffer must have the size that [`Self::log_bytes`] returned.
    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int;

    /// # Safety
    /// The unit must have been compiled with the options of this recipe.
    unsafe fn code_bytes(&self, unit: RawUnit, recipe: &Recipe, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit must have been compiled with the options of this recipe, and the buffer must have the size that
    /// [`Self::code_bytes`] returned.
    unsafe fn code(&self, unit: RawUnit, recipe: &Recipe, place: *mut c_char) -> c_int;
}
