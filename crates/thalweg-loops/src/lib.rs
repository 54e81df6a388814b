//! From a function of loops to a task for all units: what `#[thalweg::target]` does.
//!
//! Made after MACC (Ozen, Ayguadé and Labarta 2014): a loop is written once, annotated with how it is shared out over teams
//! and their threads, and becomes a task for cores and a kernel for devices. Data move as the task's directions say, which
//! are the types of the parameters.
//!
//! One stage per module, each a pure function of what the one before has made:
//! - [`parse`]: syntax to the representation of [`ir`], of the subset that cores and devices both have;
//! - [`fuse`]: two loops in one, if that is asked for;
//! - [`check`]: iterations that run at once leave each other alone; what each kernel consists of;
//! - [`plan`]: the function that looks at a loop with the numbers of a launch;
//! - [`cores`]: the body for cores;
//! - [`kernel`]: the text of the kernel;
//! - [`task`]: what puts these together;
//! - [`show`]: a kernel's text for people.
//!
//! Nothing here touches a runtime or a compiler. What it makes calls `thalweg::loops::support` alone.

/// Tokens of our own: their variables and the user's do not meet, whatever their names are.
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

/// The attribute `target`: the function itself, and beside it its task.
pub fn target(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        let options: Options = syn::parse2(options)?;
        let item: ItemFn = syn::parse2(function.clone())?;
        task::expand(&options, &item)
    };
    or_errors(made(), function)
}

/// The attribute `device`: the function itself, and beside it its text.
pub fn device(options: TokenStream, function: TokenStream) -> TokenStream {
    let made = || {
        if !options.is_empty() {
            return Err(syn::Error::new_spanned(options, "`device` has no options; leave them out"));
        }
        helper::expand(&syn::parse2(function.clone())?)
    };
    or_errors(made(), function)
}

/// Errors, and the function as it is, so that they are not followed by others that say it is missing.
fn or_errors(made: Result<TokenStream>, function: TokenStream) -> TokenStream {
    made.unwrap_or_else(|errors| {
        let errors = errors.into_compile_error();
        let plain = syn::parse2::<ItemFn>(function).ok().map(|item| task::plain(&item));
        quote!(#errors #plain)
    })
}
