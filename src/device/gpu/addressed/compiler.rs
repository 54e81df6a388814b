//! The calls of the compiler that comes with an interface (NVRTC or hipRTC), one method each.

use crate::device::gpu::Recipe;
use parking_lot::MutexGuard;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Display;

/// A program in a compiler.
pub(in crate::device) type RawUnit = *mut c_void;

/// The calls of a compiler, one method each. Its `Display` shows its name and version.
pub(in crate::device) trait Compiler: Display + Sized + 'static {
    /// The compiler's name in errors.
    const NAME: &'static str;

    /// Opens the library, once.
    ///
    /// # Errors
    /// Returns the reason why it can't be used.
    fn load() -> Result<&'static Self, &'static str>;

    /// Returns the options for an architecture: at least one set, followed by sets for devices that refuse the code
    /// of the previous ones. `is_there` says that a device of this architecture is present.
    ///
    /// # Errors
    /// Returns the reason why it can't compile for the architecture.
    fn options(&self, architecture: &str, is_there: bool) -> Result<Vec<Vec<String>>, String>;

    /// Locks the compiler for the lifetime of a unit, if the library can't be used by two threads at once.
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }

    /// Returns the text for a code.
    fn describe(&self, code: c_int) -> String {
        format!("{} error {code}", Self::NAME)
    }

    /// # Safety
    /// Texts end with a zero.
    unsafe fn create(&self, unit: &mut RawUnit, source: *const c_char, name: *const c_char) -> c_int;

    /// # Safety
    /// The unit was created, and is not used any more.
    unsafe fn destroy(&self, unit: &mut RawUnit) -> c_int;

    /// # Safety
    /// The unit was created; there are `count` options, each of which ends with a zero.
    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int;

    /// # Safety
    /// The unit was created.
    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit was created; the buffer has the size that [`Self::log_bytes`] returned.
    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int;

    /// # Safety
    /// The unit was compiled with the options of this recipe.
    unsafe fn code_bytes(&self, unit: RawUnit, recipe: &Recipe, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit was compiled with the options of this recipe; the buffer has the size that [`Self::code_bytes`]
    /// returned.
    unsafe fn code(&self, unit: RawUnit, recipe: &Recipe, place: *mut c_char) -> c_int;
}
