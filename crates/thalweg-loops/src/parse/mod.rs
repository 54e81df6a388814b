//! Parsing of syntax into the intermediate representation in [`crate::ir`], for the subset that cores and devices
//! share.
//!
//! Syntax outside the subset is refused here, with an error at the offending token that suggests what to write
//! instead. Errors within the subset, such as conflicting iterations, are found by [`crate::check`].

mod expr;
mod params;
mod stmt;

use crate::clauses::Options;
use crate::ir::{Constant, Function, Helper, Param, VarId, Variable};
use crate::types::{Scalar, TypeId, Types};
use proc_macro2::{Ident, Span};
use std::collections::HashSet;
use syn::{Error, ItemFn, Result};

/// Parses a function.
pub(crate) fn function(options: &Options, item: &ItemFn) -> Result<(Function, Types)> {
    let mut parser = Parser::default();
    let params = params::all(options, item, &mut parser)?;
    for param in &params {
        let name = text_name(&param.name);
        let suffixes = [
            "_n0", "_n1", "_n2", "_s0", "_s1", "_b0", "_b1", "_b2", "_w0", "_w1", "_w2", "_team", "_chunk", "_lanes",
            "_part", "_parts", "_thread", "_all",
        ];
        let derived = suffixes.iter().map(|suffix| format!("{name}{suffix}"));
        for name in std::iter::once(name.clone()).chain(derived) {
            if !parser.names.insert(name) {
                return refuse(
                    param.name.span(),
                    "the kernel's text uses this name for something else; choose another one",
                );
            }
        }
    }
    parser.params = params;
    let (lets, kernels) = parser.top_level(&item.block)?;
    if let Some(split) = &options.split {
        if let Some(second) = kernels.get(1)
            && !options.fuse
        {
            return refuse(second.span, "a function that is split has one loop; write a function for each");
        }
        if let Some(shared) = options.shared.first() {
            let message = format!("pieces may write the same elements of `{shared}`; leave `shared` or `split` out");
            return refuse(shared.span(), message);
        }
        if parser.params.iter().any(|param| param.team.is_some() && param.direction() != Some(crate::ir::Direction::In))
        {
            let message =
                "arrays copied for each team are read-only in a loop that is split; leave `split` out, or make it `&`";
            return refuse(split.span, message);
        }
    }
    let Parser { params, variables, constants, helpers, types, .. } = parser;
    Ok((
        Function {
            name: item.sig.ident.clone(),
            params,
            variables,
            lets,
            kernels,
            constants,
            helpers,
            is_split: options.split.is_some(),
        },
        types,
    ))
}

/// Parses a function of numbers, and returns the text of its body.
pub(crate) fn helper(params: &[(Ident, Scalar)], result: Scalar, block: &syn::Block) -> Result<String> {
    let mut parser = Parser::default();
    for (name, ty) in params {
        let ty = parser.types.known(*ty);
        let kind = crate::ir::ParamKind::Number;
        let element = parser.types.of(ty);
        parser.params.push(Param { name: name.clone(), kind, element, ty, team: None, is_shared: false });
        parser.names.insert(text_name(name));
    }
    let (body, value) = parser.value_block(block)?;
    let result = parser.types.known(result);
    parser.types.unify(result, value.ty);
    if let Some(constant) = parser.constants.first() {
        return refuse(
            syn::spanned::Spanned::span(&constant.path),
            "a kernel's function can only use its parameters; make this one of them",
        );
    }
    if let Some(helper) = parser.helpers.first() {
        return refuse(
            syn::spanned::Spanned::span(&helper.path),
            "a kernel's function cannot call another; write out its body",
        );
    }
    let Parser { params, variables, types, .. } = parser;
    let name = Ident::new("helper", Span::call_site());
    let (lets, kernels) = (Vec::new(), Vec::new());
    let function = Function {
        name,
        params,
        variables,
        lets,
        kernels,
        constants: Vec::new(),
        helpers: Vec::new(),
        is_split: false,
    };
    Ok(crate::kernel::helper(&function, &types, &body, &value))
}

/// The state of the parser.
#[derive(Default)]
pub(super) struct Parser {
    params: Vec<Param>,
    variables: Vec<Variable>,
    constants: Vec<Constant>,
    helpers: Vec<Helper>,
    types: Types,
    /// The variables that names currently refer to, innermost scope last.
    scope: Vec<(Ident, VarId)>,
    /// Names that are already used in the text.
    names: HashSet<String>,
    /// The enclosing loops. An entry is true if `break` and `continue` are allowed, because the loop is not shared
    /// out.
    loops: Vec<bool>,
}

impl Parser {
    /// Declares a variable that is in scope from here on.
    fn declare(&mut self, name: &Ident, ty: TypeId, is_mutable: bool, array: Option<syn::Expr>) -> Result<VarId> {
        if self.params.iter().any(|param| param.name == *name) {
            return Err(Error::new(name.span(), format!("`{name}` is a parameter; give the variable another name")));
        }
        let stem = text_name(name);
        let text = (1..).map(|n| if n == 1 { stem.clone() } else { format!("{stem}_{n}") });
        let text = text.into_iter().find(|text| !self.names.contains(text)).expect("the numbers do not run out");
        self.names.insert(text.clone());
        self.variables.push(Variable { name: name.clone(), text, ty, is_mutable, array });
        let id = self.variables.len() - 1;
        self.scope.push((name.clone(), id));
        Ok(id)
    }

    fn variable(&self, name: &Ident) -> Option<VarId> {
        self.scope.iter().rev().find(|(known, _)| known == name).map(|(_, id)| *id)
    }

    fn param(&self, name: &Ident) -> Option<usize> {
        self.params.iter().position(|param| param.name == *name)
    }

    /// Parses something with a separate scope.
    fn inside<R>(&mut self, read: impl FnOnce(&mut Self) -> Result<R>) -> Result<R> {
        let depth = self.scope.len();
        let result = read(self);
        self.scope.truncate(depth);
        result
    }
}

/// Words that are reserved in one of the kernel languages, in addition to Rust's keywords.
const TAKEN: &[&str] = &[
    "auto",
    "bool",
    "case",
    "char",
    "default",
    "do",
    "double",
    "float",
    "goto",
    "inline",
    "int",
    "long",
    "register",
    "restrict",
    "short",
    "signed",
    "sizeof",
    "switch",
    "template",
    "this",
    "typedef",
    "typename",
    "union",
    "unsigned",
    "void",
    "volatile",
    "half",
    "uchar",
    "ushort",
    "uint",
    "ulong",
    "size_t",
    "global",
    "local",
    "constant",
    "private",
    "kernel",
    "class",
    "new",
    "delete",
    "operator",
    "namespace",
    "friend",
    "public",
    "protected",
    "virtual",
    "throw",
    "try",
    "catch",
    "asm",
    "explicit",
    "export",
    "mutable",
    "using",
    "barrier",
    "main",
    "image2d_t",
    "event_t",
    "vec3",
    "distance",
    "dot",
    "length",
    "cross",
    "normalize",
    "clamp",
    "mix",
    "step",
    "sign",
    "degrees",
    "radians",
    "select",
    "sin",
    "cos",
    "tan",
    "exp",
    "log",
    "sqrt",
    "pow",
    "fabs",
    "fmin",
    "fmax",
    "floor",
    "ceil",
    "fma",
    "min",
    "max",
    "abs",
    "y0",
    "y1",
    "j0",
    "j1",
    "yn",
    "jn",
    "gamma",
    "signbit",
    "read",
    "write",
    "pipe",
    "complex",
    "imaginary",
    "nullptr",
    "linux",
    "unix",
    "dialect",
    "and",
    "or",
    "not",
    "xor",
    "hadd",
    "rotate",
    "all",
    "any",
    "gridDim",
    "blockDim",
    "blockIdx",
    "threadIdx",
    "warpSize",
    "at",
    "at_x",
    "at_y",
    "at_z",
    "slot",
    "part",
    "part_count",
    "apart",
    "chunk",
    "chunks",
    "chunk_first",
    "chunk_length",
    "in_chunk",
    "loop_first",
    "loop_end",
    "piece_first",
    "piece_end",
    "run",
    "run_first",
    "run_end",
    "run_count",
    "scan_runs",
    "scan_parts",
    "scan_part",
    "scan_lanes",
    "scan_before",
    "scan_start",
    "scan_all",
];

/// Returns the name that a variable or parameter gets in the text.
pub(crate) fn text_name(name: &Ident) -> String {
    let name = name.to_string();
    let name = name.strip_prefix("r#").unwrap_or(&name);
    // Words of the dialect have no lowercase letters.
    let is_taken = TAKEN.contains(&name) || !name.chars().any(|c| c.is_ascii_lowercase()) || name.starts_with('_');
    let name = if name.is_ascii() { name.to_owned() } else { name.chars().map(escaped).collect() };
    if is_taken { format!("v_{name}") } else { name }
}

fn escaped(letter: char) -> String {
    if letter.is_ascii() { letter.to_string() } else { format!("u{:x}", u32::from(letter)) }
}

/// Returns the numeric type that a Rust type denotes, if any.
pub(crate) fn scalar(ty: &syn::Type) -> Option<Scalar> {
    let syn::Type::Path(path) = ty else { return None };
    path.path.get_ident().and_then(Scalar::of_name)
}

/// Refuses syntax outside the subset.
pub(crate) fn refuse<T>(span: Span, message: impl std::fmt::Display) -> Result<T> {
    Err(Error::new(span, message))
}
