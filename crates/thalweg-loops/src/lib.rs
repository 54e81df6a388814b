//! Translation of functions of loops to tasks for all units: the implementation of `#[thalweg::target]`.
//!
//! Modelled on MACC (Ozen, Ayguadé and Labarta 2014): a loop is written once, annotated with how it is shared out
//! over teams and their threads, and becomes a task for cores and a kernel for devices. Data move according to the
//! task's directions, which are given by the types of the parameters.
//!
//! One stage per module, each a pure function of the result of the previous one:
//! - [`parse`]: from syntax to the representation of [`ir`], for the subset that cores and devices share;
//! - [`fuse`]: fuses two loops, if requested;
//! - [`check`]: checks that concurrent iterations do not conflict, and collects the facts about each kernel;
//! - [`plan`]: generates the function that analyses a loop with the numbers of a launch;
//! - [`cores`]: the body for cores;
//! - [`kernel`]: the text of the kernel;
//! - [`task`]: combines these;
//! - [`show`]: a kernel's text for human readers.
//!
//! Nothing here touches a runtime or a compiler. The generated code calls only `thalweg::loops::support`.

/// Generated tokens: their variables and the user's cannot collide, whatever their names.
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

/// The attribute `target`: returns the function itself, and in addition its task.
pub fn target(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        let options: Options = syn::parse2(options)?;
        let item: ItemFn = syn::parse2(function.clone())?;
        task::expand(&options, &item)
    };
    or_errors(made(), function)
}

/// The attribute `device`: returns the function itself, and in addition its text.
pub fn device(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        if !options.is_empty() {
            return Err(syn::Error::new_spanned(options, "`device` has no options; leave them out"));
        }
        helper::expand(&syn::parse2(function.clone())?)
    };
    or_errors(made(), function)
}

/// Returns the errors together with the plain function, to avoid follow-up errors that it is missing.
fn or_errors(made: Result<TokenStream>, function: TokenStream) -> TokenStream {
    made.unwrap_or_else(|errors| {
        let errors = errors.into_compile_error();
        let plain = syn::parse2::<ItemFn>(function).ok().map(|item| task::plain(&item));
        quote!(#errors #plain)
    })
}
