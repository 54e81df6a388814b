//! Translation of functions of loops to tasks for all units: the implementation of `#[thalweg::target]`.
//!
//! The translation is modelled on MACC (Ozen, Ayguadé and Labarta 2014). A loop is written once, with annotations
//! that describe how it is shared out over teams and their threads, and becomes a task for cores and a kernel for
//! devices. Data is transferred according to the task's access directions, which are given by the parameter types.
//!
//! Each module is one stage of the translation, and each stage is a pure function of the previous stage's result:
//! - [`parse`]: converts syntax to the intermediate representation in [`ir`], for the subset that cores and devices
//!   share;
//! - [`fuse`]: fuses two loops, if requested;
//! - [`check`]: checks that concurrent iterations do not conflict, and collects the facts about each kernel;
//! - [`plan`]: generates the function that analyses a loop for the sizes and bounds of a launch;
//! - [`cores`]: generates the body for cores;
//! - [`kernel`]: generates the text of the kernel;
//! - [`task`]: combines the results into a task;
//! - [`show`]: shows a kernel's text to human readers.
//!
//! This crate uses neither a runtime nor a compiler. The generated code calls only `thalweg::loops::support`.

/// Like `quote!`, but with hygiene: variables in the generated code cannot collide with the user's variables,
/// whatever their names.
macro_rules! made {
    ($($tokens:tt)*) => {
        quote::quote_spanned!(proc_macro2::Span::mixed_site()=> $($tokens)*)
    };
}

mod check;
mod clauses;
mod cores;
mod fuse;
mod helper;
mod ir;
mod kernel;
mod parse;
mod plan;
mod show;
mod task;
#[cfg(test)]
mod tests;
mod types;
mod walk;

use clauses::Options;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemFn, Result};

pub use show::{kernel_functions, kernel_text};

/// Implements the attribute `target`: returns the function itself and, in addition, its task.
pub fn target(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        let options: Options = syn::parse2(options)?;
        let item: ItemFn = syn::parse2(function.clone())?;
        task::expand(&options, &item)
    };
    or_errors(made(), function)
}

/// Implements the attribute `device`: returns the function itself and, in addition, its kernel text.
pub fn device(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        if !options.is_empty() {
            return Err(syn::Error::new_spanned(options, "`device` has no options; leave them out"));
        }
        helper::expand(&syn::parse2(function.clone())?)
    };
    or_errors(made(), function)
}

/// Returns the errors together with the plain function, to avoid follow-up errors about a missing function.
fn or_errors(made: Result<TokenStream>, function: TokenStream) -> TokenStream {
    made.unwrap_or_else(|errors| {
        let errors = errors.into_compile_error();
        let plain = syn::parse2::<ItemFn>(function).ok().map(|item| task::plain(&item));
        quote!(#errors #plain)
    })
}
