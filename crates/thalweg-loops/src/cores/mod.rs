//! Generation of the body for cores: the loops as written, with the outermost loop divided into pieces.
//!
//! Written arrays are cut at the positions where, according to the plan, one iteration's elements end and those of
//! the next iteration begin. Each piece accesses its part by the array's name and with the indices of the whole
//! array. The generated code is safe Rust, so a mistake here causes a panic or a compile error, but never a race.
//! Sums of floating-point numbers are computed in the order in which a team's threads compute them, so that both
//! bodies give the same bits.

mod scan;

use crate::check::{Facts, Target};
use crate::clauses::{Options, Reduction};
use crate::ir::{Function, Loop, ParamId, VarId};
use crate::kernel::{chunk, lanes};
use crate::plan;
use crate::types::{Scalar, Types};
use crate::walk;
use proc_macro2::{Ident, TokenStream};
use quote::format_ident;
use syn::visit_mut::VisitMut;

/// Returns the code that replaces an outermost loop of the function.
pub(crate) fn lower(
    function: &Function,
    types: &Types,
    facts: &Facts,
    options: &Options,
    number: usize,
) -> TokenStream {
    let kernel = &function.kernels[number];
    let plan = format_ident!("plan_{number}");
    let (_, given) = plan::arguments(function, types, facts);
    let team = lanes(options.teams.thread_limit) as usize;
    let mut body = kernel.source.body.clone();
    let mut loops = Vec::new();
    walk::loops(&kernel.body, &mut |inner| loops.push(inner.var));
    Inner { function, types, facts, team, loops, met: 0 }.visit_block_mut(&mut body);

    let written = plan::written(function, kernel);
    // Arrays of which each iteration has a private copy are not modified.
    let is_copied = |param: &ParamId| is_own(function, kernel, *param);
    let cut: Vec<(usize, &Ident)> = written
        .iter()
        .enumerate()
        .filter(|(_, param)| !is_copied(param))
        .map(|(n, param)| (n, &function.params[*param].name))
        .collect();
    let (numbers, names): (Vec<usize>, Vec<&Ident>) = cut.into_iter().unzip();
    let own = written.iter().filter(|param| is_copied(param)).map(|param| own(function, kernel, *param));
    let own: TokenStream = own.collect();
    let copies: TokenStream = facts.params.iter().filter_map(|param| team_copy(function, *param)).collect();

    let variable = &function.variables[kernel.var];
    let ty = format_ident!("{}", types.of(variable.ty).rust());
    let pattern = &kernel.source.pat;
    let cells = facts.cells();
    let range = if function.is_split { made!(piece.range::<#ty>()) } else { range_of(kernel) };
    let names_in: TokenStream = names.iter().map(|name| made!(mut #name,)).collect();
    let cuts = names.iter().zip(&numbers).map(|(name, number)| {
        // If any iteration may touch any element, the array cannot be cut, so iterations run one after the other.
        let is_shared = function.params.iter().any(|param| param.is_shared && param.name == **name);
        if is_shared { made!(::core::option::Option::None) } else { made!(nest.cut(#number)) }
    });
    let cuts: Vec<TokenStream> = cuts.collect();
    let parts = made!((#(thalweg_support::part(&mut *#names, #cuts),)*));
    if facts.scan.is_some() {
        let pieces = scan::Pieces {
            plan: made!(#plan(#(#given),*)),
            range,
            ty,
            names: names_in,
            parts,
            cuts,
            copies,
            own,
            team,
        };
        return scan::lower((function, types, facts), kernel, &body, &pieces);
    }
    if cells.is_empty() {
        return made! {{
            let nest = #plan(#(#given),*);
            let range = #range;
            thalweg_support::pieces::<#ty, _>(cores, range, #parts, &|range, (#names_in)| {
                #copies
                for #pattern in range { #own #body }
            });
        }};
    }
    let cell_names: Vec<&Ident> = cells.iter().map(|(_, cell)| &function.params[*cell].name).collect();
    let identities: Vec<TokenStream> =
        cells.iter().map(|(reduction, cell)| identity(*reduction, function.params[*cell].element)).collect();
    let combines: Vec<TokenStream> =
        cells.iter().map(|(reduction, cell)| combine(*reduction, function.params[*cell].element)).collect();
    let places: Vec<syn::Index> = (0..cells.len()).map(syn::Index::from).collect();
    let (length, work) = if kernel.share.is_combined() {
        let length = chunk(facts, kernel, team as u32);
        let threads: Vec<Ident> = cell_names.iter().map(|name| format_ident!("{name}_threads")).collect();
        let (mut pattern, mut zipped) = (made!(#pattern), made!(round));
        for (name, threads) in cell_names.iter().zip(&threads) {
            (pattern, zipped) = (made!((#pattern, #name)), made!(#zipped.zip(#threads.iter_mut())));
        }
        let work = made! {
            for chunk in thalweg_support::chunks(range, #length) {
                #(let mut #threads = [#identities; #team];)*
                for round in thalweg_support::chunks(chunk, #team) {
                    for #pattern in #zipped { #own #body }
                }
                out.push((#(thalweg_support::tree(&mut #threads, #combines),)*));
            }
        };
        (made!(#length), work)
    } else {
        let work = made! {
            for #pattern in range {
                #(let mut #cell_names = #identities;)*
                {
                    #(let #cell_names = &mut #cell_names;)*
                    #own
                    #body
                }
                out.push((#(#cell_names,)*));
            }
        };
        (made!(1), work)
    };
    made! {{
        let nest = #plan(#(#given),*);
        let range = #range;
        let parts = thalweg_support::collect::<#ty, _, _>(cores, range, #length, #parts, &|range, (#names_in), out| {
            #copies
            #work
        });
        #(if !parts.is_empty() {
            let all = thalweg_support::total(parts.iter().map(|part| part.#places), #identities, #team, #combines);
            *#cell_names = #combines(*#cell_names, all);
        })*
    }}
}

/// Returns a loop's range as written, with an exclusive end.
pub(crate) fn range_of(kernel: &Loop) -> TokenStream {
    let mut range = &*kernel.source.expr;
    while let syn::Expr::Paren(inner) = range {
        range = &inner.expr;
    }
    match range {
        syn::Expr::Range(syn::ExprRange { start: Some(first), end: Some(end), .. }) if kernel.is_inclusive => {
            made!(thalweg_support::half_open((#first)..=(#end)))
        }
        syn::Expr::Range(syn::ExprRange { start: Some(first), end: Some(end), .. }) => made!((#first)..(#end)),
        other => made!(#other),
    }
}

/// Returns whether each iteration has a private element of the array, which is not visible after the loop.
fn is_own(function: &Function, kernel: &Loop, param: ParamId) -> bool {
    let Some(distribute) = &kernel.share.distribute else { return false };
    let name = &function.params[param].name;
    let is_in = |list: &[crate::clauses::Sized]| list.iter().any(|one| one.name == *name);
    (is_in(&distribute.private) || is_in(&distribute.firstprivate)) && !is_in(&distribute.lastprivate)
}

fn own(function: &Function, kernel: &Loop, param: ParamId) -> TokenStream {
    let (name, variable) = (&function.params[param].name, &function.variables[kernel.var].name);
    let is_first =
        kernel.share.distribute.as_ref().is_some_and(|one| one.firstprivate.iter().any(|one| one.name == *name));
    let element = format_ident!("{}", function.params[param].element.rust());
    let value =
        if is_first { made!(#name[#variable]) } else { made!(<#element as ::core::default::Default>::default()) };
    made!(let mut #name = thalweg_support::Own(#value);)
}

/// Returns the code that gives a piece its own copy of an array that is private to each team.
fn team_copy(function: &Function, param: ParamId) -> Option<TokenStream> {
    let param = &function.params[param];
    let team = param.team.as_ref()?;
    let (name, len, element) = (&param.name, &team.len, format_ident!("{}", param.element.rust()));
    if team.is_first && param.direction() == Some(crate::ir::Direction::In) {
        return None;
    }
    let fill = team.is_first.then(|| made!(copy[..#name.len()].copy_from_slice(&#name[..]);));
    let len_of = if team.is_first { made!(#name.len()) } else { made!(#len) };
    Some(made! {
        let mut copy = [<#element as ::core::default::Default>::default(); #len];
        #fill
        let #name = &mut copy[..#len_of];
    })
}

pub(crate) fn identity(reduction: Reduction, element: Scalar) -> TokenStream {
    let ty = format_ident!("{}", element.rust());
    let name = match reduction {
        Reduction::Sum => "ZERO",
        Reduction::Product => "ONE",
        Reduction::Max => "LOWEST",
        Reduction::Min => "HIGHEST",
    };
    let name = format_ident!("{name}");
    made!(<#ty as thalweg_support::Number>::#name)
}

pub(crate) fn combine(reduction: Reduction, element: Scalar) -> TokenStream {
    let ty = format_ident!("{}", element.rust());
    let name = match reduction {
        Reduction::Sum => "sum",
        Reduction::Product => "product",
        Reduction::Max => "larger",
        Reduction::Min => "smaller",
    };
    let name = format_ident!("{name}");
    made!(<#ty as thalweg_support::Number>::#name)
}

/// A visitor that removes the attributes of loops, and replaces loops that reduce over threads.
struct Inner<'a> {
    function: &'a Function,
    types: &'a Types,
    facts: &'a Facts,
    team: usize,
    /// The loops' variables in source order, and the number of loops visited so far.
    loops: Vec<VarId>,
    met: usize,
}

impl VisitMut for Inner<'_> {
    fn visit_expr_mut(&mut self, expr: &mut syn::Expr) {
        let number = self.met;
        self.met += usize::from(matches!(expr, syn::Expr::ForLoop(_)));
        syn::visit_mut::visit_expr_mut(self, expr);
        let syn::Expr::ForLoop(source) = expr else { return };
        source.attrs.clear();
        let Some(reductions) = self.facts.reductions.get(&self.loops[number]) else { return };
        let element = |target: &Target| match target {
            Target::Cell(param) => self.function.params[*param].element,
            Target::Local(var) => self.types.of(self.function.variables[*var].ty),
        };
        // Reductions whose results do not depend on the order are left as written.
        let inexact: Vec<_> = reductions
            .iter()
            .filter(|(reduction, target)| {
                element(target).is_float() && matches!(reduction, Reduction::Sum | Reduction::Product)
            })
            .collect();
        if inexact.is_empty() {
            return;
        }
        let team = self.team;
        let (pattern, body, range) = (&source.pat, &source.body, &source.expr);
        let (mut pattern, mut zipped) = (made!(#pattern), made!(round));
        let (mut declare, mut before, mut after, mut behind) =
            (TokenStream::new(), TokenStream::new(), TokenStream::new(), TokenStream::new());
        for (reduction, target) in inexact {
            let (identity, combine) = (identity(*reduction, element(target)), combine(*reduction, element(target)));
            let name = match target {
                Target::Cell(param) => &self.function.params[*param].name,
                Target::Local(var) => &self.function.variables[*var].name,
            };
            let threads = format_ident!("{name}_threads");
            let thread = if let Target::Cell(_) = target { name.clone() } else { format_ident!("{name}_thread") };
            declare.extend(made!(let mut #threads = [#identity; #team];));
            (pattern, zipped) = (made!((#pattern, #thread)), made!(#zipped.zip(#threads.iter_mut())));
            let place = if let Target::Cell(_) = target { made!(*#name) } else { made!(#name) };
            if let Target::Local(_) = target {
                before.extend(made!(let mut #name = *#thread;));
                after.extend(made!(*#thread = #name;));
            }
            behind.extend(made!(#place = #combine(#place, thalweg_support::tree(&mut #threads, #combine));));
        }
        let whole = made! {{
            #declare
            for round in thalweg_support::chunks(thalweg_support::half_open(#range), #team) {
                for #pattern in #zipped { #before #body #after }
            }
            #behind
        }};
        *expr = syn::parse2(whole).expect("the replacement is a block");
    }
}
