//! The attributes `target` and `device`, which `thalweg` re-exports by its feature `macros`; see there.
//!
//! A crate of attributes can export nothing else, so all that they do is in `thalweg-loops`, where it is tested and where
//! the program `thalweg` gets at it.

use proc_macro::TokenStream;

/// Makes a task of a function of loops: see `thalweg::loops`.
#[proc_macro_attribute]
pub fn target(options: TokenStream, function: TokenStream) -> TokenStream {
    thalweg_loops::target(options.into(), function.into()).into()
}

/// Lets the loops of a `target` call a function: see `thalweg::loops`.
#[proc_macro_attribute]
pub fn device(options: TokenStream, function: TokenStream) -> TokenStream {
    thalweg_loops::device(options.into(), function.into()).into()
}
