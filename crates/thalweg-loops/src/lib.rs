//! From a function of loops to a task for all units: what `#[thalweg::target]` does.
//!
//! Made after MACC (Ozen, Ayguadé and Labarta 2014): a loop is written once, annotated with how it is shared out over teams
//! and their threads, and becomes a task for cores and a kernel for devices. Data move as the task's directions say, which
//! are the types of the parameters.
//!
//! One stage per module, each a pure function of what the one before has made:
//! - [`parse`]: syntax to the representation of [`ir`], of the subset that cores and devices both have;
//! - [`check`]: iterations that run at once leave each other alone; what each kernel consists of;
//! - [`plan`]: the function that looks at a loop with the numbers of a launch;
//! - [`cores`]: the body for cores;
//! - [`kernel`]: the text of the kernel;
//! - [`task`]: what puts these together.
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
mod helper;
mod ir;
mod kernel;
mod parse;
mod plan;
mod task;
#[cfg(test)]
mod tests;
mod types;
mod walk;

use clauses::Options;
use proc_macro2::TokenStream;
use quote::quote;
use syn::{ItemFn, Result};

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

/// The texts of a function's kernels, as devices get them behind the dialect, from a source file: of the function of this
/// name with the attribute `target`, or of a helper with `device`.
///
/// # Errors
/// If the file is no Rust, has no such function, or the function is not in the subset.
pub fn kernel_text(file: &str, name: &str) -> std::result::Result<String, String> {
    let located = |error: syn::Error| error.to_string();
    let file = syn::parse_file(file).map_err(located)?;
    let mut found = None;
    find(&file.items, name, &mut found);
    let (attribute, item) = found.ok_or_else(|| {
        format!("there is no function `{name}` with the attribute `target`; try the name as it stands behind `fn`")
    })?;
    let options = match &attribute.meta {
        syn::Meta::List(list) => list.tokens.clone(),
        _ => TokenStream::new(),
    };
    let options: Options = syn::parse2(options).map_err(located)?;
    task::texts(&options, item).map_err(located)
}

fn find<'a>(items: &'a [syn::Item], name: &str, found: &mut Option<(&'a syn::Attribute, &'a ItemFn)>) {
    for item in items {
        match item {
            syn::Item::Fn(function) if function.sig.ident == name => {
                let is_target =
                    |one: &&syn::Attribute| one.path().segments.last().is_some_and(|last| last.ident == "target");
                if let Some(attribute) = function.attrs.iter().find(is_target) {
                    *found = Some((attribute, function));
                }
            }
            syn::Item::Mod(module) => {
                if let Some((_, items)) = &module.content {
                    find(items, name, found);
                }
            }
            _ => {}
        }
    }
}
