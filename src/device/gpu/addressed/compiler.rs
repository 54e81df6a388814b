//! The compiler that comes with an interface, NVRTC or hipRTC: one call each.

use crate::device::gpu::Recipe;
use parking_lot::MutexGuard;
use std::ffi::{c_char, c_int, c_void};
use std::fmt::Display;

/// A program in a compiler.
pub(in crate::device) type RawUnit = *mut c_void;

/// One call each of a compiler. It shows itself with its version.
pub(in crate::device) trait Compiler: Display + Sized + 'static {
    /// What errors call it.
    const NAME: &'static str;

    /// The library, opened once.
    ///
    /// # Errors
    /// Why it can't be used.
    fn load() -> Result<&'static Self, &'static str>;

    /// What it is told so that it compiles for an architecture, which a device `is_there` of or perhaps not: one way at
    /// least, and further ones for devices that refuse what came of those before.
    ///
    /// # Errors
    /// Why it does not compile for it.
    fn options(&self, architecture: &str, is_there: bool) -> Result<Vec<Vec<String>>, String>;

    /// Held as long as a unit lives, by a library that can't work for two threads at once.
    fn alone(&self) -> Option<MutexGuard<'_, ()>> {
        None
    }

    /// A code, in words.
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
    /// The unit was created; there are so many options, each of which ends with a zero.
    unsafe fn compile(&self, unit: RawUnit, count: c_int, options: *const *const c_char) -> c_int;

    /// # Safety
    /// The unit was created.
    unsafe fn log_bytes(&self, unit: RawUnit, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit was created; there is a place of [`Self::log_bytes`].
    unsafe fn log(&self, unit: RawUnit, place: *mut c_char) -> c_int;

    /// # Safety
    /// The unit was compiled with the options of this recipe.
    unsafe fn code_bytes(&self, unit: RawUnit, recipe: &Recipe, bytes: &mut usize) -> c_int;

    /// # Safety
    /// The unit was compiled with the options of this recipe; there is a place of [`Self::code_bytes`].
    unsafe fn code(&self, unit: RawUnit, recipe: &Recipe, place: *mut c_char) -> c_int;
}
