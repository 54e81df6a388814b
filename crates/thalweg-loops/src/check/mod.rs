//! Checks that concurrent iterations do not conflict, as far as this can be seen in the source, and collects facts
//! about each kernel.
//!
//! Code that is refused here would give a different result on a device than in a plain loop, or a different result in
//! each run. Whether *different* index expressions refer to the same element depends on the sizes and bounds of a
//! launch, so the plan that [`crate::plan`] generates checks that at run time.

mod facts;
mod memory;
mod reductions;
mod scan;

use crate::clauses::Reduction;
use crate::ir::{Array, Binary, Element, Expr, ExprKind, Function, Loop, Place, Stmt, VarId};
use crate::types::Types;
use crate::walk;
use proc_macro2::Span;
use std::collections::{BTreeMap, BTreeSet};
use syn::{Error, Result};

pub(crate) use facts::{Facts, Scan, Target};
use reductions::{find_reductions, is_target};

/// The amount of team memory that every device has, in bytes.
pub(crate) const TEAM_BYTES: usize = 48 << 10;

/// Checks all kernels.
pub(crate) fn kernels(function: &mut Function, types: &Types) -> Result<Vec<Facts>> {
    let mut errors: Option<Error> = None;
    let mut all = Vec::new();
    let mut kernels = std::mem::take(&mut function.kernels);
    for kernel in &mut kernels {
        let running = scan::find(function, kernel);
        if kernel.share.is_combined() && kernel.share.reductions().is_empty() {
            find_reductions(function, kernel, running.map(|(target, _)| target));
        }
        let mut check = Check {
            function,
            types,
            facts: Facts::default(),
            scope: Vec::new(),
            made_of: BTreeMap::new(),
            errors: &mut errors,
        };
        check.kernel(kernel, running);
        all.push(check.facts);
    }
    scan::variables(function, &kernels, &all, &mut errors);
    function.kernels = kernels;
    match errors {
        Some(errors) => Err(errors),
        None => Ok(all),
    }
}

/// A loop that encloses the current position of the walk.
struct Around {
    var: VarId,
    is_shared: bool,
    is_parallel: bool,
    /// Whether a loop inside it is also shared out over threads.
    has_inner: bool,
}

struct Check<'a> {
    function: &'a Function,
    types: &'a Types,
    facts: Facts,
    /// Variables in scope, each with the number of loops over threads that enclose its declaration.
    scope: Vec<(VarId, usize)>,
    /// For each variable, the variables from which its value is computed.
    made_of: BTreeMap<VarId, BTreeSet<VarId>>,
    errors: &'a mut Option<Error>,
}

impl Check<'_> {
    fn refuse(&mut self, span: Span, message: impl std::fmt::Display) {
        let error = Error::new(span, message);
        match self.errors {
            Some(errors) => errors.combine(error),
            None => *self.errors = Some(error),
        }
    }

    fn name(&self, var: VarId) -> String {
        self.function.variables[var].name.to_string()
    }

    fn kernel(&mut self, kernel: &Loop, running: Option<(Target, Reduction)>) {
        self.scan(kernel, running);
        self.mentioned(kernel);
        let lets: Vec<_> = self.function.lets.iter().map(|(var, _)| *var).collect();
        self.facts.predictable.extend(lets.into_iter().filter(|var| {
            self.types.of(self.function.variables[*var].ty).is_integer() && !self.function.variables[*var].is_mutable
        }));
        for expr in [&kernel.first, &kernel.end] {
            if !self.facts.is_predictable(self.types, expr) {
                self.refuse(expr.span, "the range of the outermost loop must be known before the launch; compute it from parameters and lengths");
            }
        }
        self.chunks(kernel);
        let mut around = Vec::new();
        self.shared_loop(kernel, &mut around);
        self.memory(kernel);
    }

    fn mentioned(&mut self, kernel: &Loop) {
        let Facts { params, lets, constants, helpers, .. } = &mut self.facts;
        // The initial value of a running sum is not an argument of the loop.
        let variables = &self.function.variables;
        let before = self.function.lets.iter().map(|(var, _)| *var).filter(|var| !variables[*var].is_mutable);
        let before: BTreeSet<VarId> = before.collect();
        walk::of_loop(kernel, &mut |expr| match &expr.kind {
            ExprKind::Number(param) | ExprKind::Cell(param) | ExprKind::Len(param, _) => {
                params.insert(*param);
            }
            ExprKind::Element(element) => {
                if let Array::Param(param) = element.array {
                    params.insert(param);
                }
            }
            ExprKind::Var(var) if before.contains(var) => {
                lets.insert(*var);
            }
            ExprKind::Constant(constant) => {
                constants.insert(*constant);
            }
            ExprKind::Call(helper, _) => {
                helpers.insert(*helper);
            }
            _ => {}
        });
        walk::places(&kernel.body, &mut |place| match place {
            Place::Element(Element { array: Array::Param(param), .. }) | Place::Cell(param) => {
                params.insert(*param);
            }
            _ => {}
        });
    }

    fn shared_loop(&mut self, one: &Loop, around: &mut Vec<Around>) {
        let threads = around.iter().filter(|around| around.is_parallel).count();
        let is_outermost = around.is_empty();
        if let Some(distribute) = &one.share.distribute
            && !is_outermost
        {
            self.refuse(
                distribute.span,
                "only the outermost loop can be shared out over teams; write `#[parallel_for]` here",
            );
        }
        if let Some(parallel) = &one.share.parallel {
            if !is_outermost && around[0].is_parallel {
                let message =
                    "the outermost loop is already shared out over threads; remove `#[parallel_for]` there, or here";
                self.refuse(parallel.span, message);
            }
            if threads >= 3 {
                self.refuse(
                    parallel.span,
                    "a team has only three dimensions of threads; remove `#[parallel_for]` here",
                );
            }
            for range in [&one.first, &one.end] {
                if !self.facts.is_predictable(self.types, range) {
                    self.refuse(range.span, "the number of threads is chosen before the launch; compute the range from parameters, lengths and outer loops' variables");
                }
            }
            self.reductions(one, threads, is_outermost);
            if !is_outermost {
                self.facts.depth = self.facts.depth.max(threads + 1);
            }
        }
        let is_parallel = one.share.parallel.is_some();
        let first_known =
            self.facts.is_predictable(self.types, &one.first) && self.facts.is_predictable(self.types, &one.end);
        if first_known {
            self.facts.predictable.insert(one.var);
        }
        let mut has_inner = false;
        walk::loops(&one.body, &mut |inner| has_inner |= inner.share.parallel.is_some());
        around.push(Around { var: one.var, is_shared: one.share.is_shared(), is_parallel, has_inner });
        let mut used = BTreeSet::new();
        [&one.first, &one.end].into_iter().for_each(|range| self.used(range, &mut used));
        self.made_of.insert(one.var, used);
        let depth = self.scope.len();
        self.scope.push((one.var, threads + usize::from(is_parallel)));
        self.statements(&one.body, around);
        self.scope.truncate(depth);
        around.pop();
    }

    fn statements(&mut self, statements: &[Stmt], around: &mut Vec<Around>) {
        let depth = self.scope.len();
        for one in statements {
            self.statement(one, around);
        }
        self.scope.truncate(depth);
    }

    fn statement(&mut self, one: &Stmt, around: &mut Vec<Around>) {
        let threads = around.iter().filter(|around| around.is_parallel).count();
        match one {
            Stmt::Let { var, init } => {
                init.iter().for_each(|init| self.reads(init, around));
                self.scope.push((*var, threads));
                if let Some(init) = init
                    && !self.function.variables[*var].is_mutable
                    && self.facts.is_predictable(self.types, init)
                {
                    self.facts.predictable.insert(*var);
                    let mut used = BTreeSet::new();
                    self.used(init, &mut used);
                    self.made_of.insert(*var, used);
                }
            }
            Stmt::LetArray { var, value } => {
                self.reads(value, around);
                self.scope.push((*var, threads));
                if threads == 0 {
                    self.facts.team_arrays.push(*var);
                }
            }
            Stmt::Assign { place, op, value, span } => {
                self.reads_of(value, around, Some(place));
                if let Place::Element(element) = place {
                    element.indices.iter().for_each(|index| self.reads(index, around));
                }
                self.assignment(place, *op, value, *span, around);
            }
            Stmt::If { condition, then, otherwise } => {
                self.reads(condition, around);
                self.statements(then, around);
                self.statements(otherwise, around);
            }
            Stmt::While { condition, body, .. } => {
                self.reads(condition, around);
                around.push(Around { var: usize::MAX, is_shared: false, is_parallel: false, has_inner: false });
                self.statements(body, around);
                around.pop();
            }
            Stmt::For(one) => {
                self.reads(&one.first, around);
                self.reads(&one.end, around);
                self.shared_loop(one, around);
            }
            Stmt::Block(block) => self.statements(block, around),
            Stmt::Break | Stmt::Continue => {}
        }
    }

    fn reads(&mut self, expr: &Expr, around: &[Around]) {
        self.reads_of(expr, around, None);
    }

    /// Checks a value that is assigned to a place. Inside the loop, a reduction's target holds only one thread's
    /// partial result, so it must not be read except to update it.
    fn reads_of(&mut self, expr: &Expr, around: &[Around], to: Option<&Place>) {
        let mut wrong = Vec::new();
        let reduced: Vec<_> =
            around.iter().filter_map(|around| self.facts.reductions.get(&around.var)).flatten().collect();
        walk::expr(expr, &mut |inner| {
            let own = |target| match to {
                Some(Place::Var(var)) => target == Target::Local(*var),
                Some(Place::Cell(param)) => target == Target::Cell(*param),
                _ => false,
            };
            if reduced.iter().any(|(_, target)| is_target(inner, *target) && !own(*target)) {
                let message = "inside the loop this is one thread's part of the reduction; use it after the loop, or write `scan` instead of `reduction` if each iteration reads the sum so far";
                wrong.push((inner.span, message.to_owned()));
            }
            if let ExprKind::Element(element) = &inner.kind {
                wrong.extend(self.chunk_index(element, around));
            }
        });
        for (span, message) in wrong {
            self.refuse(span, message);
        }
    }

    /// Checks an access to an array that is held in chunks: iteration i may access only element i.
    fn chunk_index(&self, element: &Element, around: &[Around]) -> Option<(Span, String)> {
        let Array::Param(param) = element.array else { return None };
        let name = &self.function.params[param].name;
        let outermost = around.first()?;
        if !self.facts.chunked.contains(&param) {
            return None;
        }
        let is_own = matches!(element.indices[0].kind, ExprKind::Var(var) if var == outermost.var);
        let loop_var = self.name(outermost.var);
        let message = format!(
            "a team holds a chunk of `{name}`, and iteration `{loop_var}` may access only its own element; write `{name}[{loop_var}]`, or remove `{name}` from the clause"
        );
        (!is_own).then_some((element.indices[0].span, message))
    }

    fn assignment(&mut self, place: &Place, op: Option<Binary>, value: &Expr, span: Span, around: &[Around]) {
        let threads = around.iter().filter(|around| around.is_parallel).count();
        match place {
            Place::Var(var) if self.is_running(Target::Local(*var)) => {}
            Place::Cell(param) if self.is_running(Target::Cell(*param)) => {}
            Place::Var(var) => {
                let level = self.scope.iter().rev().find(|(known, _)| known == var).map(|(_, level)| *level);
                let name = self.name(*var);
                let Some(level) = level else {
                    return self.refuse(
                        span,
                        format!(
                            "`{name}` is declared before the loops and cannot be changed in them; declare it inside"
                        ),
                    );
                };
                if level < threads && !self.is_reduced(Target::Local(*var), op, value, around) {
                    self.refuse(span, format!("all threads would assign to `{name}`; declare it inside the loop, or write `reduction(+: {name})` and `{name} += ..`"));
                }
            }
            Place::Cell(param) => {
                let name = &self.function.params[*param].name;
                if !self.is_reduced(Target::Cell(*param), op, value, around) {
                    let message = format!(
                        "all iterations would assign to `*{name}`; write `#[parallel_for(reduction(+: {name}))]` and `*{name} += ..`"
                    );
                    self.refuse(span, message);
                }
            }
            Place::Element(element) => self.element(element, around),
        }
    }

    /// Checks that an element is written by only one iteration.
    fn element(&mut self, element: &Element, around: &[Around]) {
        let threads = around.iter().filter(|around| around.is_parallel).count();
        if let Some((span, message)) = self.chunk_index(element, around) {
            self.refuse(span, message);
        }
        if around.iter().rev().find(|around| around.is_parallel).is_some_and(|around| around.has_inner) {
            let message = "this is between two loops over threads, where each thread of the inner one would execute it; move it into the inner loop, or before the outer one";
            self.refuse(element.span, message);
        }
        let (name, is_shared) = match element.array {
            Array::Local(var) => {
                let level = self.scope.iter().rev().find(|(known, _)| *known == var).map_or(0, |(_, level)| *level);
                if level == threads {
                    return; // private to the thread
                }
                (self.name(var), false)
            }
            Array::Param(param) => {
                let param = &self.function.params[param];
                if param.direction() == Some(crate::ir::Direction::In) {
                    let message = format!("`{}` is read-only; make it `&mut`", param.name);
                    return self.refuse(element.span, message);
                }
                if param.team.is_some() && threads == 0 {
                    return;
                }
                (param.name.to_string(), param.is_shared)
            }
        };
        if is_shared {
            return;
        }
        let is_team = match element.array {
            Array::Local(_) => true,
            Array::Param(param) => self.function.params[param].team.is_some(),
        };
        if let Some(index) = element.indices.iter().find(|index| !self.facts.is_predictable(self.types, index)) {
            let message = format!(
                "the index into `{name}` depends on data, so iterations may conflict; compute the index from loops' variables, or write `target(shared({name}))`"
            );
            return self.refuse(index.span, message);
        }
        let mut used = BTreeSet::new();
        element.indices.iter().for_each(|index| self.used(index, &mut used));
        for one in around.iter().filter(|around| around.is_shared) {
            if is_team && !one.is_parallel || used.contains(&one.var) {
                continue;
            }
            let var = self.name(one.var);
            let message = format!(
                "all iterations of `{var}` write this element of `{name}`; use `{var}` in the index, or a reduction"
            );
            self.refuse(element.span, message);
        }
    }

    /// Adds the variables that an expression depends on, directly or indirectly.
    fn used(&self, expr: &Expr, used: &mut BTreeSet<VarId>) {
        walk::expr(expr, &mut |inner| {
            if let ExprKind::Var(var) = inner.kind {
                used.insert(var);
                if let Some(made_of) = self.made_of.get(&var) {
                    used.extend(made_of);
                }
            }
        });
    }
}
