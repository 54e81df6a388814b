//! Lowering of statements to text.

use super::Writer;
use crate::check::Target;
use crate::ir::{Element, Expr, ExprKind, ParamId, Place, Stmt};
use crate::kernel::TargetKey;
use crate::types::Scalar;

impl Writer<'_> {
    pub(super) fn team_copies(&mut self) {
        let held: Vec<ParamId> = self.facts.params.iter().copied().filter(|param| self.is_in_team(*param)).collect();
        let mut is_filled = false;
        for param in held {
            let one = &self.function.params[param];
            let Some(team) = one.team.clone() else { continue };
            let (element, name, length) = (one.element.text(), self.param_text(param), self.length(&team.len));
            self.line(format!("LOCAL({element}, {name}_team, {length});"));
            if team.is_first {
                let fill = format!("if (slot < {name}_n0) {name}_team[slot] = {name}[slot];");
                self.together(&length, &[fill]);
                is_filled = true;
            }
        }
        if is_filled {
            self.barrier();
        }
    }

    /// Declares the arrays of the loop over teams. They are shared by the team's threads, so they must be declared
    /// here, at the outermost level.
    pub(super) fn team_arrays(&mut self) {
        for var in self.facts.team_arrays.clone() {
            let variable = &self.function.variables[var];
            let (ty, name) = (self.types.of(variable.ty).text(), variable.text.clone());
            let length = variable.array.clone().map(|length| self.length(&length)).unwrap_or_default();
            self.line(format!("LOCAL({ty}, {name}, {length});"));
        }
    }

    /// Writes statements. `follows` means that the team has more work after them.
    pub(super) fn statements(&mut self, statements: &[Stmt], follows: bool) {
        for (n, one) in statements.iter().enumerate() {
            self.statement(one, follows || n + 1 < statements.len());
        }
    }

    fn statement(&mut self, one: &Stmt, follows: bool) {
        match one {
            Stmt::Let { var, init } => {
                let variable = &self.function.variables[*var];
                let (ty, name) = (self.types.of(variable.ty).text(), variable.text.clone());
                match init {
                    Some(init) => {
                        let init = self.expr(init);
                        self.line(format!("{ty} {name} = {init};"));
                    }
                    None => self.line(format!("{ty} {name};")),
                }
            }
            Stmt::LetArray { var, value } => self.array(*var, value),
            Stmt::Assign { place, op, value, .. } => self.assign(place, *op, value),
            Stmt::If { condition, then, otherwise } => {
                let condition = self.expr(condition);
                let other = (!otherwise.is_empty()).then_some(|this: &mut Self| this.statements(otherwise, follows));
                self.either(&condition, |this| this.statements(then, follows), other);
            }
            Stmt::While { condition, body, .. } => {
                let condition = self.expr(condition);
                self.repeat(&format!("while ({condition}) {{"), |this| this.statements(body, true));
            }
            Stmt::For(one) if one.share.parallel.is_some() => self.parallel(one, follows),
            Stmt::For(one) => self.sequential(one),
            Stmt::Block(block) => {
                self.open("{");
                self.statements(block, follows);
                self.close();
            }
            Stmt::Break => self.jump("break;"),
            Stmt::Continue => self.jump("continue;"),
        }
    }

    fn array(&mut self, var: usize, value: &Expr) {
        let variable = &self.function.variables[var];
        let (ty, name) = (self.types.of(variable.ty).text(), variable.text.clone());
        let length = variable.array.clone().map(|length| self.length(&length)).unwrap_or_default();
        let value = self.expr(value);
        if self.is_team {
            self.barrier();
            self.together(&length, &[format!("{name}[slot] = {value};")]);
            self.barrier();
        } else {
            self.line(format!("{ty} {name}[{length}];"));
            self.line(format!("for (int slot = 0; slot < {length}; slot++) {name}[slot] = {value};"));
        }
    }

    fn assign(&mut self, place: &Place, op: Option<crate::ir::Binary>, value: &Expr) {
        if self.is_sum_alone && matches!(place, Place::Element(Element { array: crate::ir::Array::Param(_), .. })) {
            return;
        }
        let element = match place {
            Place::Element(element) => Some(element),
            _ => None,
        };
        let name = match place {
            Place::Var(var) => self.variable(*var),
            Place::Cell(param) => match self.renamed.get(&TargetKey::Cell(*param)) {
                Some(name) => name.clone(),
                None => format!("{}[0]", self.param_text(*param)),
            },
            Place::Element(element) => self.load(element),
        };
        let value = match op {
            None => self.expr(value),
            Some(op) => self.updated(place, &name, op, value),
        };
        let Some(element) = element else { return self.line(format!("{name} = {value};")) };
        let is_own = matches!(element.array, crate::ir::Array::Local(var) if !self.facts.team_arrays.contains(&var));
        let store = self.store(element, &value);
        if self.is_team && !is_own {
            // One thread writes for its team, after the other threads have read the old value and before they read
            // the new one.
            self.barrier();
            let is_one_condition = store.starts_with("STORE");
            self.line(format!("{}{store}", if is_one_condition { "FIRST_" } else { "if (FIRST_THREAD) " }));
            self.barrier();
        } else {
            self.line(store);
        }
    }

    /// Returns the new value of the place for `place op= value`.
    fn updated(&mut self, place: &Place, name: &str, op: crate::ir::Binary, value: &Expr) -> String {
        use crate::ir::Binary;
        let ty = match place {
            Place::Var(var) => self.types.of(self.function.variables[*var].ty),
            Place::Cell(param) => self.function.params[*param].element,
            Place::Element(element) => self.element_type(element),
        };
        let is_literal = matches!(&value.kind, ExprKind::Integer(digits) if digits != "0");
        match op {
            Binary::Rem if ty.is_float() => format!("fmod({name}, {})", self.expr(value)),
            Binary::Div | Binary::Rem if ty.is_integer() && !is_literal => {
                let call = if op == Binary::Div { "quotient" } else { "remainder" };
                format!("{call}_{}({name}, {})", ty.parameter(), self.expr(value))
            }
            Binary::Shl | Binary::Shr => format!("{name} {} ({} & {})", op.text(), self.operand(value), ty.bits() - 1),
            _ => format!("{name} {} {}", op.text(), self.operand(value)),
        }
    }

    fn element_type(&self, element: &Element) -> Scalar {
        match element.array {
            crate::ir::Array::Param(param) => self.function.params[param].element,
            crate::ir::Array::Local(var) => self.types.of(self.function.variables[var].ty),
        }
    }

    pub(super) fn element(&self, target: Target) -> Scalar {
        match target {
            Target::Cell(param) => self.function.params[param].element,
            Target::Local(var) => self.types.of(self.function.variables[var].ty),
        }
    }

    pub(super) fn target_name(&self, target: Target) -> String {
        match target {
            Target::Cell(param) => self.param_text(param),
            Target::Local(var) => self.function.variables[var].text.clone(),
        }
    }

    pub(super) fn lanes(&self, target: Target) -> String {
        format!("{}_lanes", self.target_name(target))
    }

    pub(super) fn renamed_name(&self, target: Target) -> String {
        match self.renamed.get(&TargetKey::from(target)) {
            Some(name) => name.clone(),
            None => self.target_name(target),
        }
    }
}
