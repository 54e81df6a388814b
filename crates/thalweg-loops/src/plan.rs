//! Generation of the plan, which is the function that analyses a loop for the sizes and bounds of a launch. The plan
//! determines which elements the loop touches, and whether different iterations touch the same elements.
//!
//! The plan computes with forms (`thalweg::loops::support::Form`) instead of numbers. A form describes the structure
//! of an index, and its smallest and largest value. Both bodies call the plan. The body for cores uses it to cut
//! arrays; the body for accelerators uses it to choose the team, and to decide whether the kernel has to check
//! indices itself.

use crate::check::Facts;
use crate::ir::{Array, Binary, Element, Expr, ExprKind, Function, Loop, Math, ParamId, ParamKind, Place, Stmt, VarId};
use crate::types::Types;
use crate::walk;
use proc_macro2::TokenStream;
use quote::format_ident;

/// Returns the arrays that a kernel writes. The plan refers to arrays by their positions in this list.
pub(crate) fn written(function: &Function, kernel: &Loop) -> Vec<ParamId> {
    let mut written = Vec::new();
    walk::places(&kernel.body, &mut |place| {
        if let Place::Element(Element { array: Array::Param(param), .. }) = place
            && function.params[*param].team.is_none()
            && !written.contains(param)
        {
            written.push(*param);
        }
    });
    written.sort_unstable();
    written
}

/// Returns the arguments of a kernel's plan, both as declared and as passed.
pub(crate) fn arguments(function: &Function, types: &Types, facts: &Facts) -> (Vec<TokenStream>, Vec<TokenStream>) {
    let (mut declared, mut given) = (Vec::new(), Vec::new());
    for param in &facts.params {
        let param = &function.params[*param];
        let name = &param.name;
        match param.kind {
            ParamKind::Number => {
                let ty = format_ident!("{}", param.element.rust());
                declared.push(made!(#name: #ty));
                given.push(made!(#name));
            }
            ParamKind::Array(_, dims) if param.is_access() => {
                declared.push(made!(#name: thalweg_support::Extents<#dims>));
                given.push(made!(thalweg_support::Measure::measure(&*#name)));
            }
            _ => {}
        }
    }
    for var in &facts.lets {
        let variable = &function.variables[*var];
        let (name, ty) = (&variable.name, format_ident!("{}", types.of(variable.ty).rust()));
        declared.push(made!(#name: #ty));
        given.push(made!(#name));
    }
    if function.is_split {
        declared.push(made!(piece: thalweg_support::Piece));
        given.push(made!(piece));
    }
    (declared, given)
}

/// Returns the body of the plan.
pub(crate) fn lower(function: &Function, types: &Types, facts: &Facts, kernel: &Loop) -> TokenStream {
    let written = written(function, kernel);
    let count = written.len();
    let mut plan = Plan { function, types, facts, written, level: 0, region: 0, regions: 0 };
    let lets = facts.lets.iter().filter(|var| types.of(function.variables[**var].ty).is_integer());
    let lets = lets.map(|var| {
        let (form, name) = (form_of(*var), &function.variables[*var].name);
        made!(let #form = thalweg_support::Form::of(#name);)
    });
    let lets: TokenStream = lets.collect();
    let copies = facts.params.iter().filter_map(|param| {
        let param = &function.params[*param];
        let team = param.team.as_ref().filter(|team| team.is_first)?;
        let (name, len) = (&param.name, &team.len);
        let text = name.to_string();
        Some(made!(nest.copy(#text, #name.len(), #len);))
    });
    let copies: TokenStream = copies.collect();
    let walk = plan.of_loop(kernel);
    made! {
        let mut nest = thalweg_support::Nest::new(#count);
        #lets
        #copies
        #walk
        nest
    }
}

fn form_of(var: VarId) -> proc_macro2::Ident {
    format_ident!("form_{}", var)
}

struct Plan<'a> {
    function: &'a Function,
    types: &'a Types,
    facts: &'a Facts,
    written: Vec<ParamId>,
    /// The number of enclosing shared-out loops.
    level: usize,
    /// The index of the enclosing loop over threads, counted from 1; 0 outside such loops.
    region: usize,
    regions: usize,
}

impl Plan<'_> {
    fn statements(&mut self, statements: &[Stmt]) -> TokenStream {
        statements.iter().map(|one| self.statement(one)).collect()
    }

    fn statement(&mut self, one: &Stmt) -> TokenStream {
        match one {
            Stmt::Let { var, init } => {
                let reads = init.as_ref().map(|init| self.touches(init));
                let is_known = self.facts.predictable.contains(var);
                let form = init.as_ref().filter(|_| is_known).map(|init| {
                    let (name, form) = (form_of(*var), self.form(init));
                    made!(let #name = #form;)
                });
                made!(#reads #form)
            }
            Stmt::LetArray { value, .. } => self.touches(value),
            Stmt::Assign { place, value, .. } => {
                let value = self.touches(value);
                let place = match place {
                    Place::Element(element) => {
                        let indices: TokenStream = element.indices.iter().map(|index| self.touches(index)).collect();
                        let touch = self.touch(element, true);
                        made!(#indices #touch)
                    }
                    _ => TokenStream::new(),
                };
                made!(#value #place)
            }
            Stmt::If { condition, then, otherwise } => {
                let (condition, then) = (self.touches(condition), self.statements(then));
                let otherwise = self.statements(otherwise);
                made!(#condition { #then } { #otherwise })
            }
            Stmt::While { condition, body, .. } => {
                let (condition, body) = (self.touches(condition), self.statements(body));
                made!(#condition { #body })
            }
            Stmt::For(one) => self.of_loop(one),
            Stmt::Block(block) => {
                let block = self.statements(block);
                made!({ #block })
            }
            Stmt::Break | Stmt::Continue => TokenStream::new(),
        }
    }

    fn of_loop(&mut self, one: &Loop) -> TokenStream {
        let reads = [self.touches(&one.first), self.touches(&one.end)];
        let (level, region) = (self.level, self.region);
        let is_known = self.facts.predictable.contains(&one.var);
        let head = is_known.then(|| {
            let (name, first, end, is_inclusive) =
                (form_of(one.var), self.form(&one.first), self.form(&one.end), one.is_inclusive);
            let level = if one.share.is_shared() {
                made!(::core::option::Option::Some(#level))
            } else {
                made!(::core::option::Option::None)
            };
            let ty = format_ident!("{}", self.types.of(one.first.ty).rust());
            if self.function.is_split && self.level == 0 && one.share.is_shared() {
                let chunked: Vec<ParamId> =
                    self.facts.chunked.iter().copied().filter(|id| self.function.is_windowed(*id)).collect();
                return made!(let #name = nest.piece::<#ty>(piece); #(nest.see(#chunked, &[#name]);)*);
            }
            made!(let #name = nest.range::<#ty>(#level, #first, #end, #is_inclusive);)
        });
        if one.share.is_shared() {
            self.level += 1;
            if one.share.parallel.is_some() && one.share.distribute.is_none() && region == 0 {
                self.regions += 1;
                self.region = self.regions;
            }
        }
        let body = self.statements(&one.body);
        (self.level, self.region) = (level, region);
        let [first, end] = reads;
        made!(#first #end { #head #body })
    }

    /// Returns code that records the elements that an expression reads.
    fn touches(&self, expr: &Expr) -> TokenStream {
        let mut touches = TokenStream::new();
        walk::expr(expr, &mut |inner| {
            if let ExprKind::Element(element) = &inner.kind {
                touches.extend(self.touch(element, false));
            }
        });
        touches
    }

    fn touch(&self, element: &Element, is_write: bool) -> TokenStream {
        let windowed = match element.array {
            Array::Param(param) if self.function.is_windowed(param) => Some(param),
            _ => None,
        };
        if !element.indices.iter().all(|index| self.facts.is_predictable(self.types, index)) {
            // The kernel's text checks the index.
            return windowed.map(|param| made!(nest.see_all(#param);)).unwrap_or_default();
        }
        let forms: Vec<_> = element.indices.iter().map(|index| self.form(index)).collect();
        let see = windowed.map(|param| made!(nest.see(#param, &[#(#forms),*]);));
        let (region, level) = (self.region, self.level);
        match element.array {
            Array::Local(var) => {
                let len = self.function.variables[var].array.as_ref();
                made!(nest.within(&[#(#forms),*], &[#len]);)
            }
            Array::Param(param) if self.function.params[param].team.is_some() => {
                let one = &self.function.params[param];
                let (name, len) = (&one.name, one.team.as_ref().map(|team| &team.len));
                let len = if one.is_access() { made!(#name.len()) } else { made!(#len) };
                made!(nest.within(&[#(#forms),*], &[#len]);)
            }
            Array::Param(param) => {
                let one = &self.function.params[param];
                let name = &one.name;
                let touch = match self.written.iter().position(|written| *written == param) {
                    Some(number) if !one.is_shared => {
                        made!(nest.touch(#number, (#region, #level, #is_write), &[#(#forms),*], #name);)
                    }
                    _ => made!(nest.within(&[#(#forms),*], &#name.0);),
                };
                made!(#see #touch)
            }
        }
    }

    /// Returns an integer as a form.
    fn form(&self, expr: &Expr) -> TokenStream {
        let ty = format_ident!("{}", self.types.of(expr.ty).rust());
        match &expr.kind {
            ExprKind::Integer(digits) => {
                let number = proc_macro2::Literal::u64_unsuffixed(digits.parse().unwrap_or(u64::MAX));
                made!(thalweg_support::Form::of::<u64>(#number))
            }
            ExprKind::Number(param) => {
                let name = &self.function.params[*param].name;
                made!(thalweg_support::Form::of(#name))
            }
            ExprKind::Constant(constant) => {
                let path = &self.function.constants[*constant].path;
                made!(thalweg_support::Form::of(#path))
            }
            ExprKind::Len(param, dimension) => {
                let param = &self.function.params[*param];
                let name = &param.name;
                if !param.is_access() {
                    let len = param.team.as_ref().map(|team| &team.len);
                    return made!(thalweg_support::Form::of::<usize>(#len));
                }
                match dimension {
                    Some(dimension) => made!(thalweg_support::Form::of(#name.0[#dimension])),
                    None => made!(thalweg_support::Form::of(#name.len())),
                }
            }
            ExprKind::Var(var) => {
                let name = form_of(*var);
                made!(#name)
            }
            ExprKind::Cast(inner) => {
                let inner = self.form(inner);
                made!(#inner.fit::<#ty>())
            }
            ExprKind::Binary(op, a, b) => {
                let (a, b) = (self.form(a), self.form(b));
                let method = match op {
                    Binary::Add => "plus",
                    Binary::Sub => "minus",
                    Binary::Mul => "times",
                    Binary::Div => "over",
                    _ => "modulo",
                };
                let method = format_ident!("{method}");
                made!(#a.#method(#b).fit::<#ty>())
            }
            ExprKind::Math(math, arguments) => {
                let [a, b] = [self.form(&arguments[0]), self.form(&arguments[1])];
                let method = format_ident!("{}", if *math == Math::Min { "least" } else { "largest" });
                made!(#a.#method(#b))
            }
            ExprKind::If(parts) => {
                let [a, b] = [self.form(&parts.1), self.form(&parts.2)];
                made!(#a.or(#b))
            }
            _ => made!(thalweg_support::Form::UNKNOWN),
        }
    }
}
