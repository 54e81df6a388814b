//! Declared and detected running sums, and the check that contributions do not depend on the sum itself.
//!
//! Devices run the iterations twice: first to compute the sums of runs of consecutive iterations, without storing
//! anything, and then again, starting from the prefix of each run. So the contribution of an iteration may depend
//! neither on the loop's stores nor on the sum.

use super::reductions::{assignments, is_target, mentions, reduction_of};
use super::{Check, Facts, Scan, Target};
use crate::clauses::Reduction;
use crate::ir::{Array, Element, Expr, ExprKind, Function, Loop, ParamId, ParamKind, Place, Stmt, VarId};
use crate::walk;
use std::collections::BTreeSet;
use syn::Error;

fn target_of(place: &Place) -> Option<Target> {
    match place {
        Place::Var(var) => Some(Target::Local(*var)),
        Place::Cell(param) => Some(Target::Cell(*param)),
        Place::Element(_) => None,
    }
}

/// Returns the running sum that a loop declares with `scan` or contains implicitly: a variable of the function, or a
/// parameter that the loop also reads.
pub(super) fn find(function: &Function, kernel: &Loop) -> Option<(Target, Reduction)> {
    if let Some((reduction, name)) = kernel.share.scans().first() {
        let is_it = |var: &VarId| function.variables[*var].name == *name;
        let mut local = function.lets.iter().map(|(var, _)| *var).filter(|var| function.variables[*var].is_mutable);
        let cell = |param: &crate::ir::Param| param.name == *name && matches!(param.kind, ParamKind::Cell(_));
        return match (local.rfind(is_it), function.params.iter().position(cell)) {
            (Some(var), _) => Some((Target::Local(var), *reduction)),
            (None, cell) => cell.map(|cell| (Target::Cell(cell), *reduction)),
        };
    }
    if !kernel.share.is_combined() || !kernel.share.reductions().is_empty() {
        return None;
    }
    let mut found = None;
    assignments(&kernel.body, &mut |place, op, value| {
        let Some(target) = target_of(place) else { return };
        let is_known = match target {
            Target::Local(var) => {
                function.lets.iter().any(|(known, _)| *known == var) && function.variables[var].is_mutable
            }
            Target::Cell(_) => reads(kernel, target) > usize::from(op.is_none()),
        };
        if let Some(reduction) = reduction_of(op, value, target)
            && is_known
            && found.is_none()
        {
            found = Some((target, reduction));
        }
    });
    found
}

/// Counts how often a loop reads the target.
fn reads(kernel: &Loop, target: Target) -> usize {
    let mut count = 0;
    walk::statements(&kernel.body, &mut |expr| count += usize::from(is_target(expr, target)));
    count
}

/// Checks the `mut` variables declared before the loops: each must be a running sum in exactly one loop, and must not
/// be used elsewhere.
pub(super) fn variables(function: &Function, kernels: &[Loop], facts: &[Facts], errors: &mut Option<Error>) {
    let mut refuse = |span, message: String| {
        let error = Error::new(span, message);
        match errors {
            Some(errors) => errors.combine(error),
            None => *errors = Some(error),
        }
    };
    for (var, _) in &function.lets {
        let (variable, target) = (&function.variables[*var], Target::Local(*var));
        if !variable.is_mutable {
            continue;
        }
        let name = &variable.name;
        let is_its = |facts: &Facts| facts.scan.is_some_and(|scan| scan.target == target);
        let Some(home) = facts.iter().position(is_its) else {
            let message = format!(
                "variables outside the loops are computed before the launch and cannot change; leave `mut` out, add up in a parameter `{name}: &mut f64`, or write `{name} += ..` in a loop that is shared out over teams and threads, as a running sum"
            );
            refuse(name.span(), message);
            continue;
        };
        let mut elsewhere = Vec::new();
        let mut look = |expr: &Expr| {
            if is_target(expr, target) {
                elsewhere.push(expr.span);
            }
        };
        for (number, kernel) in kernels.iter().enumerate() {
            if number == home {
                [&kernel.first, &kernel.end].into_iter().for_each(|end| walk::expr(end, &mut look));
            } else {
                walk::of_loop(kernel, &mut look);
            }
        }
        function.lets.iter().filter_map(|(_, init)| init.as_ref()).for_each(|init| walk::expr(init, &mut look));
        for span in elsewhere {
            let message = format!(
                "`{name}` is a running sum of one loop, and unknown outside it; make it a parameter `{name}: &mut f64` and read it in another function"
            );
            refuse(span, message);
        }
    }
}

/// Information about the statements before the adding statement.
#[derive(Default)]
struct Head {
    /// Variables that depend on the sum so far.
    made_of_sum: BTreeSet<VarId>,
    /// Arrays that are stored to.
    stored: BTreeSet<ParamId>,
}

impl Check<'_> {
    pub(super) fn is_running(&self, target: Target) -> bool {
        self.facts.scan.is_some_and(|scan| scan.target == target)
    }

    /// Checks and records the loop's running sum, if it has one.
    pub(super) fn scan(&mut self, kernel: &Loop, running: Option<(Target, Reduction)>) {
        let mut inner = Vec::new();
        walk::loops(&kernel.body, &mut |one| inner.extend(one.share.scans().iter().map(|(_, name)| name.span())));
        for span in inner {
            self.refuse(span, "only the outermost loop can have a running sum; remove `#[parallel_for]` here");
        }
        if let Some((_, second)) = kernel.share.scans().get(1) {
            self.refuse(second.span(), "a loop has at most one running sum; write a loop for each");
        }
        let Some((target, reduction)) = running else {
            if let Some((_, name)) = kernel.share.scans().first() {
                let message = format!(
                    "there is no `{name}` to add to; declare `let mut {name} = 0.0` before the loop, or a parameter `{name}: &mut f64`"
                );
                self.refuse(name.span(), message);
            }
            return;
        };
        let (name, span) = match target {
            Target::Cell(param) => (self.function.params[param].name.to_string(), kernel.span),
            Target::Local(var) => (self.name(var), kernel.span),
        };
        let span = kernel.share.scans().first().map_or(span, |(_, name)| name.span());
        if !kernel.share.is_combined() {
            self.refuse(span, "a loop with a running sum must be shared out over teams and threads at once; write `#[distribute]` above `#[parallel_for(scan(..))]`");
        }
        if self.function.is_split {
            self.refuse(
                span,
                format!("the pieces of a loop do not know the sum before them; leave `split` out, or `{name}`"),
            );
        }
        if let Some((_, other)) = kernel.share.reductions().first() {
            self.refuse(
                span,
                format!("a loop with a running sum cannot also have a reduction; write another loop for `{other}`"),
            );
        }
        if let Some(clause) = kernel.share.distribute.as_ref().and_then(|one| one.chunked().next()) {
            self.refuse(
                clause.name.span(),
                "a loop with a running sum cannot hold chunks of arrays; remove the clause",
            );
        }
        if let Target::Cell(param) = target
            && self.function.params[param].direction() != Some(crate::ir::Direction::Inout)
        {
            self.refuse(span, format!("a running sum starts from the value of `{name}`; make it `&mut`"));
        }
        let is_update = |one: &Stmt| matches!(one, Stmt::Assign { place, .. } if target_of(place) == Some(target));
        let mut updates = 0;
        assignments(&kernel.body, &mut |place, _, _| updates += usize::from(target_of(place) == Some(target)));
        let Some(update) = kernel.body.iter().position(is_update).filter(|_| updates == 1) else {
            let message = format!(
                "iterations add to `{name}` exactly once each, directly in the loop's body; write one `{name} += ..`, with `if .. {{ .. }} else {{ 0.0 }}` as the value"
            );
            return self.refuse(span, message);
        };
        let Stmt::Assign { op, value, span, .. } = &kernel.body[update] else { return };
        if reduction_of(*op, value, target) != Some(reduction) {
            let message = if mentions(value, target) && op.is_some() {
                format!(
                    "the value added to `{name}` depends on `{name}` itself: the iterations would have to run one after the other; add a value that does not depend on it"
                )
            } else {
                format!(
                    "`scan` names a different operation; write `{name} += ..`, `{name} *= ..`, or `{name} = {name}.max(..)` and the like as the clause does"
                )
            };
            return self.refuse(*span, message);
        }
        self.facts.scan = Some(Scan { reduction, target, update });
        let mut head = Head::default();
        self.head(&kernel.body[..update], &mut head, (false, false));
        self.refuse_stored(&[value], &head);
        let others = |expr: &Expr| matches!(expr.kind, ExprKind::Var(var) if head.made_of_sum.contains(&var));
        let mut wrong = None;
        walk::expr(value, &mut |expr| wrong = wrong.or(others(expr).then_some(expr.span)));
        if let Some(span) = wrong {
            let message = format!(
                "this depends on `{name}` so far: the iterations would have to run one after the other; add a value that does not depend on it"
            );
            self.refuse(span, message);
        }
        let mut all = Vec::new();
        walk::statements(&kernel.body[..=update], &mut |expr| all.push(expr));
        let stored_shared: Vec<_> =
            all.into_iter().filter(|expr| self.reads_shared(expr, kernel)).map(|expr| expr.span).collect();
        for span in stored_shared {
            self.refuse(span, "the sum is computed before anything is stored, and any iteration may store to this; write another loop");
        }
    }

    /// Returns whether an expression reads an array element that any iteration may store to.
    fn reads_shared(&self, expr: &Expr, kernel: &Loop) -> bool {
        let ExprKind::Element(element) = &expr.kind else { return false };
        let Array::Param(param) = element.array else { return false };
        let mut is_stored = false;
        walk::places(&kernel.body, &mut |place| {
            is_stored |=
                matches!(place, Place::Element(Element { array: Array::Param(stored), .. }) if *stored == param);
        });
        is_stored && self.function.params[param].is_shared
    }

    /// Analyses the statements before the adding statement to find which variables depend on the sum, and which
    /// arrays are stored to. `is_made` means that the sum determines whether these statements run.
    fn head(&mut self, statements: &[Stmt], head: &mut Head, (is_loop, is_made): (bool, bool)) {
        let target = self.facts.scan.map(|scan| scan.target);
        let made = |head: &Head, expr: &Expr| {
            let mut found = false;
            walk::expr(expr, &mut |inner| {
                found |= target.is_some_and(|target| is_target(inner, target))
                    || matches!(inner.kind, ExprKind::Var(var) if head.made_of_sum.contains(&var))
                    || matches!(&inner.kind, ExprKind::Element(element) if matches!(element.array, Array::Local(var) if head.made_of_sum.contains(&var)));
            });
            found
        };
        for one in statements {
            let mut reads = Vec::new();
            match one {
                Stmt::Let { var, init } => {
                    reads.extend(init);
                    if is_made || init.as_ref().is_some_and(|init| made(head, init)) {
                        head.made_of_sum.insert(*var);
                    }
                }
                Stmt::LetArray { var, value } => {
                    reads.push(value);
                    if is_made || made(head, value) {
                        head.made_of_sum.insert(*var);
                    }
                }
                Stmt::Assign { place, value, span, .. } => {
                    reads.push(value);
                    let mut is_made = is_made || made(head, value);
                    if let Place::Element(element) = place {
                        reads.extend(&element.indices);
                        is_made |= element.indices.iter().any(|index| made(head, index));
                    }
                    self.refuse_stored(&std::mem::take(&mut reads), head);
                    match place {
                        Place::Var(var) | Place::Element(Element { array: Array::Local(var), .. }) if is_made => {
                            head.made_of_sum.insert(*var);
                        }
                        Place::Element(Element { array: Array::Param(param), .. }) => {
                            if is_loop {
                                self.refuse(
                                    *span,
                                    "inner loops must not store before the statement that adds; move this after it",
                                );
                            }
                            head.stored.insert(*param);
                        }
                        _ => {}
                    }
                }
                Stmt::If { condition, then, otherwise } => {
                    let is_made = is_made || made(head, condition);
                    self.refuse_stored(&[condition], head);
                    self.head(then, head, (is_loop, is_made));
                    self.head(otherwise, head, (is_loop, is_made));
                }
                Stmt::While { condition, body } => {
                    for _ in 0..2 {
                        let is_made = is_made || made(head, condition);
                        self.head(body, head, (true, is_made));
                    }
                    reads.push(condition);
                }
                Stmt::For(one) => {
                    reads.extend([&one.first, &one.end]);
                    let is_made = is_made || made(head, &one.first) || made(head, &one.end);
                    for _ in 0..2 {
                        self.head(&one.body, head, (true, is_made));
                    }
                }
                Stmt::Block(block) => self.head(block, head, (is_loop, is_made)),
                Stmt::Break | Stmt::Continue if is_made => {
                    let message = "the end of the inner loop depends on the sum so far, and so does everything after it; move the loop after the statement that adds";
                    let span = self.function.name.span();
                    self.refuse(span, message);
                }
                Stmt::Break | Stmt::Continue => {}
            }
            self.refuse_stored(&reads, head);
        }
    }

    fn refuse_stored(&mut self, reads: &[&Expr], head: &Head) {
        let mut wrong = Vec::new();
        for expr in reads {
            walk::expr(expr, &mut |inner| {
                if let ExprKind::Element(element) = &inner.kind
                    && let Array::Param(param) = element.array
                    && head.stored.contains(&param)
                {
                    wrong.push((inner.span, param));
                }
            });
        }
        for (span, param) in wrong {
            let name = &self.function.params[param].name;
            self.refuse(
                span,
                format!(
                    "the sum is computed before anything is stored; read `{name}` into a variable before the store"
                ),
            );
        }
    }
}
