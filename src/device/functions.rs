//! Function tables of dynamically loaded libraries.
//!
//! Every function returns an error code as a plain integer. With an enumeration, a code that is newer than this
//! program would be undefined behaviour.

/// Declares a function table for a library. All functions in the table return an error code.
macro_rules! functions {
    ($table:ident { $($name:ident($($type:ty),* $(,)?);)* }) => {
        #[allow(non_snake_case)] // the library's names
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($type),*) -> std::ffi::c_uint,)* }

        impl $table {
            /// Returns the functions of a library, or the name of a function that the library lacks.
            ///
            /// # Safety
            /// The library's functions have the declared types, and the library is never closed.
            pub(super) unsafe fn of(library: &libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: the caller guarantees that the functions have these types and that the library is never
                // closed.
                unsafe { Ok(Self { $($name: *library.get(stringify!($name)).map_err(|_| stringify!($name))?,)* }) }
            }
        }
    };
}
pub(super) use functions;

/// Opens the first of these libraries that is installed.
pub(super) fn open_first(names: &[&str]) -> Option<libloading::Library> {
    // SAFETY: opening a library runs its initialisation code, whose soundness is the vendor's responsibility.
    names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())
}
