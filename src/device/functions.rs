//! Tables of functions of libraries that are opened at run time.
//!
//! Every function returns a code, and a code is a number here: not an enumeration, which a code that is newer than this
//! program would not fit, with no behaviour defined then.

/// Declares a table of functions that a library has, all returning a code.
macro_rules! functions {
    ($table:ident { $($name:ident($($type:ty),* $(,)?);)* }) => {
        #[allow(non_snake_case)] // the library's names
        pub(super) struct $table { $(pub(super) $name: unsafe extern "C" fn($($type),*) -> std::ffi::c_uint,)* }

        impl $table {
            /// The functions of a library, or the name of one that it does not have.
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

/// The first of these libraries that is installed.
pub(super) fn open_first(names: &[&str]) -> Option<libloading::Library> {
    // SAFETY: what a library does when it is opened is its vendor's matter.
    names.iter().find_map(|name| unsafe { libloading::Library::new(*name) }.ok())
}
