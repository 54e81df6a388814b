//! The text of a function's kernels from a source file, for people and for compilers: complete but for the dialect.
//!
//! Beside the kernels it has what these refer to, as far as that stands in the same file: functions with the attribute
//! `device`, and constants as macros. A program gets the same from the compiler. Nothing here is part of an expansion.

use crate::clauses::Options;
use crate::{helper, task};
use proc_macro2::{TokenStream, TokenTree};
use std::collections::BTreeMap;
use syn::{ItemFn, Result};

/// The texts of a function's kernels, as devices get them behind the dialect and `loops.h`, from a source file: of the
/// function of this name with the attribute `target`, with the helpers and the constants of the same file in front.
///
/// # Errors
/// If the file is no Rust, has no such function, or the function is not in the subset.
pub fn kernel_text(file: &str, name: &str) -> std::result::Result<String, String> {
    let file = syn::parse_file(file).map_err(located)?;
    let mut items = Items::default();
    items.gather(&file.items);
    let (options, item) = items.targets.get(name).ok_or_else(|| {
        format!("there is no function `{name}` with the attribute `target`; try the name as it stands behind `fn`")
    })?;
    items.text(options.clone(), item).map_err(located)
}

/// The functions of a source file with the attribute `target`, by name.
///
/// # Errors
/// If the file is no Rust.
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

/// What a file has, its modules' included, by name.
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
                // A constant's value has brackets already.
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

    /// An expression of integers and the file's constants as C has it, if it has.
    fn value(&self, tokens: &TokenStream) -> Option<String> {
        let mut value = String::new();
        for token in tokens.clone() {
            match token {
                TokenTree::Ident(name) => {
                    // Its macro has the same name, and is not defined by itself.
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
