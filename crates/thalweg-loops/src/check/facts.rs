//! The facts that the check collects about a kernel, apart from its loops.

use crate::clauses::Reduction;
use crate::ir::{Binary, Expr, ExprKind, Function, Math, ParamId, VarId};
use crate::types::{Scalar, Types};
use std::collections::{BTreeMap, BTreeSet};

/// The target of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Cell(ParamId),
    Local(VarId),
}

/// A running sum, which iterations both add to and read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    pub(crate) reduction: Reduction,
    pub(crate) target: Target,
    /// The position of the adding statement in the loop's body. Earlier statements see the sum without this
    /// iteration's contribution, and later statements see it with the contribution.
    pub(crate) update: usize,
}

/// The facts about a kernel, apart from its loops.
#[derive(Default)]
pub(crate) struct Facts {
    /// The reductions of each loop that is shared out over threads, keyed by the loop's variable.
    pub(crate) reductions: BTreeMap<VarId, Vec<(Reduction, Target)>>,
    pub(crate) scan: Option<Scan>,
    /// The nesting depth of loops over threads inside the outermost loop.
    pub(crate) depth: usize,
    /// The arrays that are declared in the loop over teams and shared by a team's threads.
    pub(crate) team_arrays: Vec<VarId>,
    /// Parameters that the kernel mentions.
    pub(crate) params: BTreeSet<ParamId>,
    /// Variables declared before the loops that the kernel mentions.
    pub(crate) lets: BTreeSet<VarId>,
    pub(crate) constants: BTreeSet<usize>,
    pub(crate) helpers: BTreeSet<usize>,
    /// The number of iterations that a team executes together, if clauses name arrays to be held in chunks; `chunked`
    /// has these arrays.
    pub(crate) chunk: Option<syn::Expr>,
    pub(crate) chunked: BTreeSet<ParamId>,
    /// Variables for whose values the host can compute bounds before the launch.
    pub(crate) predictable: BTreeSet<VarId>,
}

impl Facts {
    /// Returns all reductions whose target is a parameter, without duplicates.
    pub(crate) fn cells(&self) -> Vec<(Reduction, ParamId)> {
        let mut cells = Vec::new();
        for (reduction, target) in self.reductions.values().flatten() {
            if let Target::Cell(param) = target
                && !cells.contains(&(*reduction, *param))
            {
                cells.push((*reduction, *param));
            }
        }
        cells
    }

    /// Returns the type of the running sum.
    pub(crate) fn scan_element(&self, function: &Function, types: &Types) -> Option<Scalar> {
        self.scan.map(|scan| match scan.target {
            Target::Cell(param) => function.params[param].element,
            Target::Local(var) => types.of(function.variables[var].ty),
        })
    }

    /// Returns the parameter that holds the running sum before and after the loop, if the sum is a parameter.
    pub(crate) fn scan_cell(&self) -> Option<ParamId> {
        match self.scan {
            Some(Scan { target: Target::Cell(param), .. }) => Some(param),
            _ => None,
        }
    }

    /// Returns whether the host can compute bounds of the expression's value before the launch.
    pub(crate) fn is_predictable(&self, types: &Types, expr: &Expr) -> bool {
        let all = |parts: &[&Expr]| parts.iter().all(|part| self.is_predictable(types, part));
        types.of(expr.ty).is_integer()
            && match &expr.kind {
                ExprKind::Integer(_) | ExprKind::Number(_) | ExprKind::Constant(_) | ExprKind::Len(..) => true,
                ExprKind::Var(var) => self.predictable.contains(var),
                ExprKind::Cast(inner) => all(&[inner]),
                ExprKind::Binary(op, a, b) => {
                    let arithmetic = [Binary::Add, Binary::Sub, Binary::Mul, Binary::Div, Binary::Rem];
                    arithmetic.contains(op) && all(&[a, b])
                }
                ExprKind::Math(Math::Min | Math::Max, arguments) => all(&arguments.iter().collect::<Vec<_>>()),
                ExprKind::If(parts) => all(&[&parts.1, &parts.2]),
                _ => false,
            }
    }
}
