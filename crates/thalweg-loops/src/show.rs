//! Extraction of a function's kernel text from a source file, for human readers and for compilers. The text is
//! complete except for the dialect.
//!
//! In addition to the kernels, the text includes the items that the kernels refer to, provided that they are in the
//! same file: functions with the attribute `device`, and constants in the form of macros. When a program is compiled,
//! the attribute generates the same text. Nothing in this module takes part in macro expansion.

use crate::clauses::Options;
use crate::{helper, task};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::{ItemFn, Result};

/// Returns the text of a function's kernels from a source file, in the form in which devices get it after the dialect
/// and `loops.h`. `name` is a function with the attribute `target`. Helpers and constants from the same file come
/// first.
///
/// # Errors
/// Returns an error if the file is not valid Rust or has no such function, or if the function is not in the supported
/// subset.
pub fn kernel_text(file: &str, name: &str) -> std::result::Result<String, String> {
    let file = syn::parse_file(file).map_err(located)?;
    let mut items = Items::default();
    items.gather(&file.items);
    let (options, item) = items.targets.get(name).ok_or_else(|| {
        format!("there is no function `{name}` with the attribute `target`; try the name that follows `fn`")
    })?;
    items.text(options.clone(), item).map_err(located)
}

/// Returns the names of the functions in a source file that have the attribute `target`.
///
/// # Errors
/// Returns an error if the file is not valid Rust.
pub fn kernel_functions(file: &str) -> std::result::Result<Vec<String>, String> {
    let file = syn::parse_file(file).map_err(located)?;
    let mut items = Items::default();
    items.gather(&file.items);
    Ok(items.targets.keys().cloned().collect())
}

fn located(error: syn::Error) -> String {
    let at = error.span().start();
    format!("line {}, column {}: {error}", at.line, at.column + 1)
}

/// The items in a file by name, including the items in its modules.
#[derive(Default)]
struct Items<'a> {
    targets: BTreeMap<String, (TokenStream, &'a ItemFn)>,
    helpers: BTreeMap<String, &'a ItemFn>,
    constants: BTreeMap<String, &'a syn::Expr>,
}

impl<'a> Items<'a> {
    fn gather(&mut self, items: &'a [syn::Item]) {
        for item in items {
            match item {
                syn::Item::Fn(function) => {
                    let name = function.sig.ident.to_string();
                    for attribute in &function.attrs {
                        let Some(last) = attribute.path().segments.last() else { continue };
                        let options = match &attribute.meta {
                            syn::Meta::List(list) => list.tokens.clone(),
                            _ => TokenStream::new(),
                        };
                        if last.ident == "target" {
                            self.targets.entry(name.clone()).or_insert((options, function));
                        } else if last.ident == "device" {
                            self.helpers.insert(name.clone(), function);
                        }
                    }
                }
                syn::Item::Const(constant) => {
                    self.constants.insert(constant.ident.to_string(), &constant.expr);
                }
                syn::Item::Mod(module) => {
                    if let Some((_, items)) = &module.content {
                        self.gather(items);
                    }
                }
                _ => {}
            }
        }
    }

    fn text(&self, options: TokenStream, item: &ItemFn) -> Result<String> {
        let options: Options = syn::parse2(options)?;
        let texts = task::texts(&options, item)?;
        let mut text = String::new();
        for (name, define) in &texts.defines {
            if let Some(value) = self.value(&quote::quote!(#define)) {
                // The value of a constant is already in brackets.
                let is_whole = matches!(define, syn::Expr::Path(_));
                text +=
                    &if is_whole { format!("#define {name} {value}\n") } else { format!("#define {name} ({value})\n") };
            }
        }
        for name in &texts.helpers {
            if let Some(function) = self.helpers.get(name) {
                text += &helper::text(function)?;
                text.push('\n');
            }
        }
        Ok(text + &texts.kernels)
    }

    /// Translates an expression of integers and the file's constants to C syntax, if possible.
    fn value(&self, tokens: &TokenStream) -> Option<String> {
        let mut value = String::new();
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(name) => {
                    // The constant's macro would have the same name as the macro being defined, and a macro cannot be
                    // defined in terms of itself, so the value is inserted instead.
                    let constant = self.constants.get(&name.to_string())?;
                    value += &format!("({})", self.value(&quote::quote!(#constant))?);
                }
                TokenTree::Literal(literal) => {
                    let number: syn::LitInt = syn::parse_str(&literal.to_string()).ok()?;
                    value += number.base10_digits();
                }
                TokenTree::Punct(sign) if "+-*/%<>&|".contains(sign.as_char()) => value.push(sign.as_char()),
                TokenTree::Group(group) => {
                    value += &format!("({})", self.value(&group.stream())?);
                }
                TokenTree::Punct(_) => return None,
            }
        }
        (!value.is_empty()).then_some(value)
    }
}
