//! Tables of functions of libraries that are opened at run time.
//!
//! Every function returns a code, represented as a number: an enumeration would make codes that are newer than this
//! program undefined behaviour.

/// Declares a table of a library's functions, which all return a code.
macro_rules! functions {
    ($table:ident { $($name:ident($($type:ty),* $(,)?);)* }) => {
        #[allow(non_snake_case)] // the library's names
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($type),*) -> std::ffi::c_uint,)* }

        impl $table {
            /// Returns the functions of a library, or the name of one that it lacks.
            ///
            /// # Safety
            /// The library's functions have these types, and it is never closed.
            pub(super) unsafe fn of(library: &libloading::Library) -> Result<Self, &'static str> {
                // SAFETY: the caller has compared the types with the library's manual, and never closes it.
                unsafe { Ok(Self { $($name: *library.get(stringify!($name)).map_err(|_| stringify!($name))?,)* }) }
            }
        }
    };
}
pub(super) use functions;

/// Opens the first of these libraries that is installed.
pub(super) fn open_first(names: &[&str]) -> Option<libloading::Library> {
    // SAFETY: the vendor is responsible for what a library does when it is opened.
    names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())
}
