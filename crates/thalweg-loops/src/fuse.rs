//! The option `fuse`: merges two consecutive loops into one whose iterations do the work of both.
//!
//! The merge is done on the source, before the source is parsed for the kernel, so cores and kernels get the same
//! loop. It is allowed if iteration i of the second loop touches only element i of everything that the first loop
//! writes, and writes nothing else that the first loop touches, because then no iteration can tell the difference.
//! Code that is refused here would have a race or a different result if it were merged.

use crate::ir::{Array, Element, Expr, ExprKind, Function, Loop, ParamId, Place, VarId};
use crate::parse::refuse;
use crate::walk;
use quote::ToTokens;
use std::collections::BTreeSet;
use syn::spanned::Spanned;
use syn::{ItemFn, Result, Stmt, parse_quote};

/// Returns the function with its two loops replaced by one loop, and the parameters whose elements the second loop
/// uses right after the first loop has accessed them, so that they are not read a second time.
pub(crate) fn fuse(function: &Function, item: &ItemFn) -> Result<(ItemFn, Vec<ParamId>)> {
    let [first, second] = function.kernels.as_slice() else {
        let span = function.kernels.last().map_or_else(|| function.name.span(), |one| one.span);
        return refuse(
            span,
            "`fuse` makes one loop of two; write two loops that follow each other, or leave `fuse` out",
        );
    };
    refuse_hidden_names(item)?;
    if let Some((var, _)) = function.lets.iter().find(|(var, _)| function.variables[*var].is_mutable) {
        let name = &function.variables[*var].name;
        return refuse(name.span(), format!("a loop with the running sum `{name}` cannot be fused; leave `fuse` out"));
    }
    let tokens = |tokens: &dyn Fn(&syn::ExprForLoop) -> String| [tokens(&first.source), tokens(&second.source)];
    let [range, other] = tokens(&|source| source.expr.to_token_stream().to_string());
    if range != other {
        let message = format!(
            "the previous loop runs over `{range}`, and only iterations of the same range are fused; write that range, or leave `fuse` out"
        );
        return refuse(second.first.span, message);
    }
    let attributes = |source: &syn::ExprForLoop| -> String {
        source.attrs.iter().map(|attribute| attribute.to_token_stream().to_string()).collect()
    };
    let [shared, otherwise] = tokens(&attributes);
    if shared != otherwise {
        return refuse(second.span, "loops that are fused are shared out alike; write the same attributes above both");
    }
    let (before, behind) = (Touched::of(first), Touched::of(second));
    for (loop_of, touched, others) in [(second, &behind, &before), (first, &before, &behind)] {
        for (param, element) in &touched.elements {
            let is_written = touched.written.contains(param) || others.written.contains(param);
            if is_written && others.params.contains(param) && !is_own(element, loop_of.var) {
                let (name, var) = (&function.params[*param].name, &function.variables[loop_of.var].name);
                let message = format!(
                    "both loops touch `{name}`, and one writes it: fused, iteration `{var}` would access here an element that another one writes; write `{name}[{var}]`, or leave `fuse` out"
                );
                return refuse(element.span, message);
            }
        }
    }
    if let Some((cell, span)) = behind.cells.iter().find(|(cell, _)| before.written_cells.contains(cell)) {
        let message = format!(
            "the previous loop adds to `{}`, whose value is known only after it; leave `fuse` out",
            function.params[*cell].name
        );
        return refuse(*span, message);
    }
    let again = before.written.intersection(&behind.params).copied().collect();
    Ok((merged(item, first, second), again))
}

/// Refuses names that are declared after the first loop and shadow other names: the declarations are moved before the
/// first loop, so they would shadow the other names in that loop as well.
fn refuse_hidden_names(item: &ItemFn) -> Result<()> {
    let name = |pattern: &syn::Pat| match pattern {
        syn::Pat::Type(typed) => typed.pat.to_token_stream().to_string(),
        other => other.to_token_stream().to_string(),
    };
    let (mut known, mut is_behind) = (BTreeSet::new(), false);
    for statement in &item.block.stmts {
        match statement {
            Stmt::Expr(syn::Expr::ForLoop(_), _) => is_behind = true,
            Stmt::Local(local) if !known.insert(name(&local.pat)) && is_behind => {
                let message = format!(
                    "fused, the previous loop would also use this `{}`; give it another name, or leave `fuse` out",
                    name(&local.pat)
                );
                return refuse(local.pat.span(), message);
            }
            _ => {}
        }
    }
    Ok(())
}

/// Returns the function with the merged loop. Everything between the two loops is moved before the merged loop.
fn merged(item: &ItemFn, first: &Loop, second: &Loop) -> ItemFn {
    let mut item = item.clone();
    let is_loop = |statement: &Stmt| matches!(statement, Stmt::Expr(syn::Expr::ForLoop(_), _));
    let mut statements: Vec<Stmt> = item.block.stmts.iter().filter(|statement| !is_loop(statement)).cloned().collect();
    let mut source = first.source.clone();
    let (one, other) = (&first.source.body, &second.source.body);
    let (var, alias) = (&source.pat, &second.source.pat);
    let is_other = var.to_token_stream().to_string() != alias.to_token_stream().to_string();
    let alias: Option<Stmt> = is_other.then(|| parse_quote!(let #alias = #var;));
    source.body = parse_quote!({ #one #alias #other });
    statements.push(Stmt::Expr(syn::Expr::ForLoop(source), None));
    item.block.stmts = statements;
    item
}

/// Returns whether each iteration of the loop touches a separate element, which is the case if the first index is the
/// loop variable.
fn is_own(element: &Element, var: VarId) -> bool {
    matches!(element.indices.first().map(|index| &index.kind), Some(ExprKind::Var(index)) if *index == var)
}

/// Everything that a loop touches.
struct Touched<'a> {
    elements: Vec<(ParamId, &'a Element)>,
    params: BTreeSet<ParamId>,
    written: BTreeSet<ParamId>,
    cells: Vec<(ParamId, proc_macro2::Span)>,
    written_cells: BTreeSet<ParamId>,
}

impl<'a> Touched<'a> {
    fn of(one: &'a Loop) -> Self {
        let (mut elements, mut written, mut cells, mut written_cells) =
            (Vec::new(), BTreeSet::new(), Vec::new(), BTreeSet::new());
        walk::of_loop(one, &mut |expr: &Expr| match &expr.kind {
            ExprKind::Element(element) => {
                if let Array::Param(param) = element.array {
                    elements.push((param, &**element));
                }
            }
            ExprKind::Cell(cell) => cells.push((*cell, expr.span)),
            _ => {}
        });
        walk::places(&one.body, &mut |place| match place {
            Place::Element(element) => {
                if let Array::Param(param) = element.array {
                    elements.push((param, element));
                    written.insert(param);
                }
            }
            Place::Cell(cell) => {
                written_cells.insert(*cell);
            }
            Place::Var(_) => {}
        });
        let params = elements.iter().map(|(param, _)| *param).collect();
        Self { elements, params, written, cells, written_cells }
    }
}
