//! What is known of one kernel beside its loops, when it has been checked.

use crate::clauses::Reduction;
use crate::ir::{Binary, Expr, ExprKind, Function, Math, ParamId, VarId};
use crate::types::{Scalar, Types};
use std::collections::{BTreeMap, BTreeSet};

/// What a reduction combines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Target {
    Cell(ParamId),
    Local(VarId),
}

/// A running sum: what iterations add up and read.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Scan {
    pub(crate) reduction: Reduction,
    pub(crate) target: Target,
    /// The statement of the loop's body that adds. Those in front of it see the sum without this iteration, those behind it
    /// the sum with it.
    pub(crate) update: usize,
}

/// What is known of one kernel beside its loops.
#[derive(Default)]
pub(crate) struct Facts {
    /// Of each loop that is shared out over threads, by its variable.
    pub(crate) reductions: BTreeMap<VarId, Vec<(Reduction, Target)>>,
    pub(crate) scan: Option<Scan>,
    /// How deep loops over threads are nested below the outermost loop.
    pub(crate) depth: usize,
    /// Arrays of a team, declared in the loop over teams.
    pub(crate) team_arrays: Vec<VarId>,
    /// Parameters that it mentions.
    pub(crate) params: BTreeSet<ParamId>,
    /// Variables from before the loops that it mentions.
    pub(crate) lets: BTreeSet<VarId>,
    pub(crate) constants: BTreeSet<usize>,
    pub(crate) helpers: BTreeSet<usize>,
    /// How many iterations a team takes together, if clauses name arrays; and these.
    pub(crate) chunk: Option<syn::Expr>,
    pub(crate) chunked: BTreeSet<ParamId>,
    /// Variables whose value the host can tell before the launch, within bounds.
    pub(crate) predictable: BTreeSet<VarId>,
}

impl Facts {
    /// All reductions to parameters, once each.
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

    /// The type of what runs along.
    pub(crate) fn scan_element(&self, function: &Function, types: &Types) -> Option<Scalar> {
        self.scan.map(|scan| match scan.target {
            Target::Cell(param) => function.params[param].element,
            Target::Local(var) => types.of(function.variables[var].ty),
        })
    }

    /// The parameter that a running sum starts from and leads to, if it is one.
    pub(crate) fn scan_cell(&self) -> Option<ParamId> {
        match self.scan {
            Some(Scan { target: Target::Cell(param), .. }) => Some(param),
            _ => None,
        }
    }

    /// Whether the host can tell before the launch what the expression is, within bounds.
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
