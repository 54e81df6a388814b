//! Generation of running sums on cores. The loop runs as written if that gives the same results as on devices;
//! otherwise, it runs in two passes, which combine values in the same order as the kernels.

use super::{combine, identity};
use crate::check::{Facts, Target};
use crate::clauses::Reduction;
use crate::ir::{Function, Loop};
use crate::kernel::RUN;
use crate::types::Types;
use proc_macro2::{Ident, TokenStream};
use syn::visit_mut::VisitMut;

/// The components of a body for cores.
pub(super) struct Pieces {
    /// The call that computes the plan.
    pub(super) plan: TokenStream,
    pub(super) range: TokenStream,
    /// The type of the loop variable.
    pub(super) ty: Ident,
    /// The written arrays: their names as a pattern, their parts, and the positions where they are cut.
    pub(super) names: TokenStream,
    pub(super) parts: TokenStream,
    pub(super) cuts: Vec<TokenStream>,
    /// The code that runs before each piece, and (`own`) before each iteration.
    pub(super) copies: TokenStream,
    pub(super) own: TokenStream,
    pub(super) team: usize,
}

/// A function that returns the code that declares a variable with a given value.
type Begin<'a> = Box<dyn Fn(TokenStream) -> TokenStream + 'a>;

pub(super) fn lower(
    (function, types, facts): (&Function, &Types, &Facts),
    kernel: &Loop,
    body: &syn::Block,
    pieces: &Pieces,
) -> TokenStream {
    let Some((scan, element)) = facts.scan.zip(facts.scan_element(function, types)) else { return TokenStream::new() };
    let Pieces { plan, range, ty, names, parts, cuts, copies, own, team } = pieces;
    let (identity, combine) = (identity(scan.reduction, element), combine(scan.reduction, element));
    let is_exact = !element.is_float() || matches!(scan.reduction, Reduction::Min | Reduction::Max);
    let number = &quote::format_ident!("{}", element.rust());
    let (length, run) = (team * RUN as usize, RUN as usize);
    let pattern = &kernel.source.pat;
    let mut sums_alone = body.clone();
    sums_alone.stmts.truncate(scan.update + 1);
    NoStores { function }.visit_block_mut(&mut sums_alone);
    // `begin` declares the sum under its own name with an initial value; `value` reads the sum.
    let (start, begin, value, back) = match scan.target {
        Target::Local(var) => {
            let name = &function.variables[var].name;
            let begin = move |value: TokenStream| made!(let mut #name: #number = #value;);
            (made!(#name), Box::new(begin) as Begin<'_>, made!(#name), None)
        }
        Target::Cell(param) => {
            let name = &function.params[param].name;
            let begin = move |value: TokenStream| made!(let mut value: #number = #value; let #name = &mut value;);
            (made!(*#name), Box::new(begin) as Begin<'_>, made!(*#name), Some(made!(*#name = all;)))
        }
    };
    let (of_start, of_identity) = (begin(made!(start)), begin(identity.clone()));
    let of_before = begin(made!(#combine(before, *offset)));
    made! {{
        let nest = #plan;
        let range = #range;
        let start: #number = #start;
        let can_be_cut = true #(&& thalweg_support::is_cut(#cuts))*;
        let all = if !can_be_cut || cores <= 1 && #is_exact {
            #of_start
            #copies
            for #pattern in range { #own #body }
            #value
        } else {
            let sums = thalweg_support::collect::<#ty, _, _>(cores, range.clone(), #length, (), &|range, (), out| {
                #copies
                for chunk in thalweg_support::chunks(range, #length) {
                    let mut runs = [#identity; #team];
                    for (range, run) in thalweg_support::chunks(chunk, #run).zip(runs.iter_mut()) {
                        #of_identity
                        for #pattern in range #sums_alone
                        *run = #value;
                    }
                    let all = thalweg_support::exclusive(&mut runs, #identity, #combine);
                    out.push((runs, all));
                }
            });
            let (befores, all) = thalweg_support::offsets(sums.iter().map(|(_, all)| *all), (start, #identity), #team, #combine);
            let first = range.start;
            thalweg_support::collect::<#ty, _, ()>(cores, range, #length, #parts, &|range, (#names), _| {
                #copies
                for chunk in thalweg_support::chunks(range, #length) {
                    let number = thalweg_support::chunk_number(first, chunk.start, #length);
                    let before = befores[number];
                    for (range, offset) in thalweg_support::chunks(chunk, #run).zip(&sums[number].0) {
                        #of_before
                        for #pattern in range { #own #body }
                    }
                }
            });
            all
        };
        #back
    }}
}

/// Removes stores to parameters.
struct NoStores<'a> {
    function: &'a Function,
}

impl NoStores<'_> {
    fn is_store(&self, expr: &syn::Expr) -> bool {
        let place = match expr {
            syn::Expr::Paren(inner) => return self.is_store(&inner.expr),
            syn::Expr::Assign(assign) => &assign.left,
            syn::Expr::Binary(binary) if is_assignment(&binary.op) => &binary.left,
            _ => return false,
        };
        let mut place = &**place;
        while let syn::Expr::Paren(inner) = place {
            place = &inner.expr;
        }
        let syn::Expr::Index(index) = place else { return false };
        let mut array = &*index.expr;
        while let syn::Expr::Paren(inner) = array {
            array = &inner.expr;
        }
        let syn::Expr::Path(path) = array else { return false };
        self.function.params.iter().any(|param| path.path.is_ident(&param.name))
    }
}

impl VisitMut for NoStores<'_> {
    fn visit_block_mut(&mut self, block: &mut syn::Block) {
        block.stmts.retain(|one| !matches!(one, syn::Stmt::Expr(expr, _) if self.is_store(expr)));
        syn::visit_mut::visit_block_mut(self, block);
    }
}

fn is_assignment(op: &syn::BinOp) -> bool {
    use syn::BinOp::{
        AddAssign, BitAndAssign, BitOrAssign, BitXorAssign, DivAssign, MulAssign, RemAssign, ShlAssign, ShrAssign,
        SubAssign,
    };
    matches!(
        op,
        AddAssign(_)
            | SubAssign(_)
            | MulAssign(_)
            | DivAssign(_)
            | RemAssign(_)
            | BitAndAssign(_)
            | BitOrAssign(_)
            | BitXorAssign(_)
            | ShlAssign(_)
            | ShrAssign(_)
    )
}
