//! The attributes `target` and `device`, which `thalweg` re-exports under its feature `macros`; see there.
//!
//! A proc-macro crate can export nothing else, so the implementation is in `thalweg-loops`, where it is tested and
//! where the program `thalweg` can use it.

use proc_macro::TokenStream;

/// Turns a function of loops into a task: see `thalweg::loops`.
#[proc_macro_attribute]
pub fn target(options: TokenStream, function: TokenStream) -> TokenStream {
    thalweg_loops::target(options.into(), function.into()).into()
}

/// Lets the loops of a `target` call a function: see `thalweg::loops`.
#[proc_macro_attribute]
pub fn device(options: TokenStream, function: TokenStream) -> TokenStream {
    thalweg_loops::device(options.into(), function.into()).into()
}
