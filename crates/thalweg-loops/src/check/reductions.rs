//! Declared and detected reductions, and the check that their targets are not used for anything else.

use super::{Around, Check, Target};
use crate::clauses::Reduction;
use crate::ir::{Binary, Expr, ExprKind, Function, Loop, Math, ParamId, ParamKind, Place, Stmt};
use crate::walk;

/// Detects sums, maxima and minima that a loop computes without declaring them: `*sum += ..`,
/// `*most = f64::max(*most, ..)`.
pub(super) fn find_reductions(function: &Function, kernel: &mut Loop, running: Option<Target>) {
    let mut found: Vec<(Reduction, ParamId)> = Vec::new();
    assignments(&kernel.body, &mut |place, op, value| {
        if let Place::Cell(param) = place
            && running != Some(Target::Cell(*param))
            && let Some(reduction) = reduction_of(op, value, Target::Cell(*param))
            && !found.iter().any(|(_, known)| known == param)
        {
            found.push((reduction, *param));
        }
    });
    if let Some(parallel) = &mut kernel.share.parallel {
        let name = |(reduction, param): (Reduction, ParamId)| (reduction, function.params[param].name.clone());
        parallel.reductions = found.into_iter().map(name).collect();
    }
}

pub(super) fn assignments<'a>(statements: &'a [Stmt], visit: &mut dyn FnMut(&'a Place, Option<Binary>, &'a Expr)) {
    for one in statements {
        match one {
            Stmt::Assign { place, op, value, .. } => visit(place, *op, value),
            Stmt::If { then, otherwise, .. } => {
                assignments(then, visit);
                assignments(otherwise, visit);
            }
            Stmt::While { body, .. } | Stmt::Block(body) => assignments(body, visit),
            Stmt::For(one) => assignments(&one.body, visit),
            _ => {}
        }
    }
}

pub(super) fn is_target(expr: &Expr, target: Target) -> bool {
    match (&expr.kind, target) {
        (ExprKind::Cell(param), Target::Cell(cell)) => *param == cell,
        (ExprKind::Var(var), Target::Local(local)) => *var == local,
        _ => false,
    }
}

pub(super) fn mentions(expr: &Expr, target: Target) -> bool {
    let mut found = false;
    walk::expr(expr, &mut |inner| found |= is_target(inner, target));
    found
}

/// Returns the reduction operation with which an assignment updates the target, if it is one.
pub(super) fn reduction_of(op: Option<Binary>, value: &Expr, target: Target) -> Option<Reduction> {
    match (op, &value.kind) {
        (Some(Binary::Add), _) if !mentions(value, target) => Some(Reduction::Sum),
        (Some(Binary::Mul), _) if !mentions(value, target) => Some(Reduction::Product),
        (None, ExprKind::Math(math @ (Math::Min | Math::Max), arguments)) => {
            let [a, b] = arguments.as_slice() else { return None };
            let once = is_target(a, target) && !mentions(b, target) || is_target(b, target) && !mentions(a, target);
            let reduction = if *math == Math::Max { Reduction::Max } else { Reduction::Min };
            once.then_some(reduction)
        }
        _ => None,
    }
}

impl Check<'_> {
    pub(super) fn reductions(&mut self, one: &Loop, threads: usize, is_outermost: bool) {
        for (reduction, name) in one.share.reductions() {
            let local = self.scope.iter().rev().find(|(var, _)| self.function.variables[*var].name == *name);
            let cell = self.function.params.iter().position(|param| param.name == *name);
            let target = match (local, cell) {
                (Some((var, level)), _) if *level == 0 && threads == 0 => Target::Local(*var),
                (None, Some(param)) if matches!(self.function.params[param].kind, ParamKind::Cell(_)) => {
                    Target::Cell(param)
                }
                (Some(_), _) => {
                    self.refuse(
                        name.span(),
                        "threads of a nested loop cannot synchronise; remove `#[parallel_for]` from the inner loop",
                    );
                    continue;
                }
                _ => {
                    let message = format!(
                        "there is no `{name}` to add to; declare `let mut {name}` before the loop, or a parameter `{name}: &mut f64`"
                    );
                    self.refuse(name.span(), message);
                    continue;
                }
            };
            if threads > 0 && !is_outermost {
                self.refuse(
                    name.span(),
                    "threads of a nested loop cannot synchronise; remove `#[parallel_for]` from the inner loop",
                );
            }
            let mut deeper = None;
            walk::loops(&one.body, &mut |inner| {
                if let Some(parallel) = &inner.share.parallel {
                    deeper = Some(parallel.span);
                }
            });
            if let Some(span) = deeper {
                self.refuse(span, "a loop with a reduction has only one dimension; remove `#[parallel_for]` here");
            }
            if let Target::Cell(param) = target
                && self.function.params[param].direction() == Some(crate::ir::Direction::In)
            {
                self.refuse(name.span(), format!("`{name}` is read-only; make it `&mut`"));
            }
            self.facts.reductions.entry(one.var).or_default().push((*reduction, target));
        }
    }

    /// Returns whether an enclosing loop declares a reduction of the target with this operation.
    pub(super) fn is_reduced(&self, target: Target, op: Option<Binary>, value: &Expr, around: &[Around]) -> bool {
        let declared = around.iter().filter_map(|around| self.facts.reductions.get(&around.var)).flatten();
        let declared = declared.filter(|(_, reduced)| *reduced == target).map(|(reduction, _)| *reduction).next();
        declared.is_some() && declared == reduction_of(op, value, target)
    }
}
