//! Lowering of expressions to text.

use super::{TargetKey, Writer};
use crate::ir::{Array, Binary, Element, Expr, ExprKind, Math};
use crate::parse::text_name;
use crate::types::Scalar;

impl Writer<'_> {
    /// Returns the text of an expression, in brackets if operator precedence in the context could split it.
    pub(super) fn operand(&mut self, expr: &Expr) -> String {
        let text = self.expr(expr);
        match expr.kind {
            ExprKind::Binary(op, ..) if !is_call(op, self.type_of(expr), expr) => format!("({text})"),
            ExprKind::Cast(_) | ExprKind::Minus(_) | ExprKind::Not(_) | ExprKind::If(_) => format!("({text})"),
            _ => text,
        }
    }

    pub(super) fn expr(&mut self, expr: &Expr) -> String {
        let ty = self.type_of(expr);
        match &expr.kind {
            ExprKind::Integer(digits) if ty.is_float() => format!("{digits}.0"),
            ExprKind::Integer(digits) => digits.clone(),
            ExprKind::Float(digits) => {
                let digits = if digits.contains(['.', 'e', 'E']) { digits.clone() } else { format!("{digits}.0") };
                let digits = digits.replace('_', "");
                if ty == Scalar::F32 { format!("{digits}f") } else { digits }
            }
            ExprKind::Bool(value) => u8::from(*value).to_string(),
            ExprKind::Var(var) => self.variable(*var),
            ExprKind::Number(param) => self.param_text(*param),
            ExprKind::Constant(constant) => self.function.constants[*constant].text.clone(),
            ExprKind::Cell(param) => match self.renamed.get(&TargetKey::Cell(*param)) {
                Some(name) => name.clone(),
                None => format!("{}[0]", self.param_text(*param)),
            },
            ExprKind::Len(param, dimension) => self.extent(*param, *dimension),
            ExprKind::Element(element) => self.load(element),
            ExprKind::Minus(inner) => format!("-{}", self.operand(inner)),
            ExprKind::Not(inner) => format!("{}{}", if ty == Scalar::Bool { "!" } else { "~" }, self.operand(inner)),
            ExprKind::Binary(op, a, b) => self.binary(*op, a, b, ty),
            ExprKind::Cast(inner) => {
                let from = self.type_of(inner);
                if from.is_float() && ty.is_integer() {
                    return format!("to_{}({})", parameter_name(ty), self.expr(inner));
                }
                format!("({}){}", ty.text(), self.operand(inner))
            }
            ExprKind::Math(math, arguments) => self.math(*math, arguments, ty),
            ExprKind::If(parts) => {
                let (condition, then, otherwise) = &**parts;
                let (condition, then) = (self.operand(condition), self.operand(then));
                format!("{condition} ? {then} : {}", self.operand(otherwise))
            }
            ExprKind::Call(helper, arguments) => {
                let path = &self.function.helpers[*helper].path;
                let name = path.segments.last().map(|last| text_name(&last.ident)).unwrap_or_default();
                let arguments: Vec<_> = arguments.iter().map(|argument| self.expr(argument)).collect();
                format!("{name}({})", arguments.join(", "))
            }
        }
    }

    /// Returns the text of an array's length. For an array that is private to a team, this is the length of the
    /// private array.
    pub(super) fn extent(&mut self, param: usize, dimension: Option<usize>) -> String {
        let one = &self.function.params[param];
        let name = text_name(&one.name);
        if !one.is_access() {
            let length = one
                .team
                .as_ref()
                .map(|team| team.len.clone())
                .expect("a parameter that is not accessed is private to each team");
            return format!("(UINT64){}", self.length(&length));
        }
        // The size of a piece's window differs from the size of the array.
        let letter = if self.function.is_windowed(param) { 'w' } else { 'n' };
        match dimension {
            Some(dimension) => format!("(UINT64){name}_{letter}{dimension}"),
            None => {
                let all: Vec<_> =
                    (0..one.dims()).map(|dimension| format!("(UINT64){name}_{letter}{dimension}")).collect();
                if all.len() == 1 { all[0].clone() } else { format!("({})", all.join(" * ")) }
            }
        }
    }

    fn binary(&mut self, op: Binary, a: &Expr, b: &Expr, ty: Scalar) -> String {
        let operands = self.type_of(a);
        let is_literal = matches!(&b.kind, ExprKind::Integer(digits) if digits != "0");
        match op {
            Binary::Rem if ty.is_float() => format!("fmod({}, {})", self.expr(a), self.expr(b)),
            Binary::Div | Binary::Rem if ty.is_integer() && !is_literal => {
                let name = if op == Binary::Div { "quotient" } else { "remainder" };
                format!("{name}_{}({}, {})", parameter_name(ty), self.expr(a), self.expr(b))
            }
            Binary::Shl | Binary::Shr => {
                let mask = ty.bits() - 1;
                format!("{} {} ({} & {mask})", self.operand(a), op.text(), self.operand(b))
            }
            Binary::And | Binary::Or if operands == Scalar::Bool => {
                format!("{} {} {}", self.operand(a), op.text(), self.operand(b))
            }
            _ => {
                let (left, right) = (self.beside(op, a, true), self.beside(op, b, false));
                format!("{left} {} {right}", op.text())
            }
        }
    }

    /// Returns the text of an operand of the operation `op`, without brackets if the precedence is obvious to
    /// readers.
    fn beside(&mut self, op: Binary, operand: &Expr, is_left: bool) -> String {
        let is_sum = |op: Binary| matches!(op, Binary::Add | Binary::Sub);
        match &operand.kind {
            ExprKind::Binary(Binary::Mul, ..) if is_sum(op) => self.expr(operand),
            ExprKind::Binary(inner, ..) if is_left && is_sum(*inner) && is_sum(op) => self.expr(operand),
            ExprKind::Binary(Binary::Mul, ..) if is_left && op == Binary::Mul => self.expr(operand),
            _ => self.operand(operand),
        }
    }

    fn math(&mut self, math: Math, arguments: &[Expr], ty: Scalar) -> String {
        let texts: Vec<_> = arguments.iter().map(|argument| self.expr(argument)).collect();
        let name = Math::ALL.iter().find(|(_, known, _)| *known == math).map_or("", |(.., text)| text);
        if ty.is_integer() && math.is_for_integers() {
            let name = match math {
                Math::Min => "LEAST",
                Math::Max => "LARGEST",
                _ => "MAGNITUDE",
            };
            return format!("{name}({})", texts.join(", "));
        }
        format!("{name}({})", texts.join(", "))
    }

    pub(super) fn load(&mut self, element: &Element) -> String {
        let is_safe = self.is_safe(element);
        let (name, lengths) = self.site(element);
        let indices = self.indices(element);
        match lengths {
            None => format!("{name}[in_chunk]"),
            Some(length) if indices.len() == 1 => format!("{is_safe}LOAD({name}, {}, {length})", indices[0]),
            Some(_) => format!("{is_safe}LOAD{}({name}, {})", indices.len(), indices.join(", ")),
        }
    }

    /// Returns the text of a statement that stores a value.
    pub(super) fn store(&mut self, element: &Element, value: &str) -> String {
        let is_safe = self.is_safe(element);
        let (name, lengths) = self.site(element);
        let indices = self.indices(element);
        match lengths {
            None => format!("{name}[in_chunk] = {value};"),
            Some(length) if indices.len() == 1 => format!("{is_safe}STORE({name}, {}, {length}, {value});", indices[0]),
            Some(_) => format!("{is_safe}STORE{}({name}, {}, {value});", indices.len(), indices.join(", ")),
        }
    }

    /// Returns the indices within the task's part of the array.
    fn indices(&mut self, element: &Element) -> Vec<String> {
        let windowed = match element.array {
            Array::Param(param) if self.function.is_windowed(param) => Some(self.param_text(param)),
            _ => None,
        };
        let index = |(d, index): (usize, &Expr)| match &windowed {
            Some(name) => format!("(INT64){} - {name}_b{d}", self.operand(index)),
            None => self.expr(index),
        };
        element.indices.iter().enumerate().map(index).collect()
    }

    /// Returns the prefix `SAFE_` if the host cannot tell whether the element exists, and an empty string otherwise.
    fn is_safe(&self, element: &Element) -> &'static str {
        let all = element.indices.iter().all(|index| self.facts.is_predictable(self.types, index));
        if all { "" } else { "SAFE_" }
    }

    /// Returns the array's name in the text, and its length. A chunk has no length, because its index is always
    /// `in_chunk`.
    fn site(&mut self, element: &Element) -> (String, Option<String>) {
        match element.array {
            Array::Local(var) => {
                let variable = &self.function.variables[var];
                let (name, length) =
                    (variable.text.clone(), variable.array.clone().expect("only arrays have elements"));
                let length = self.length(&length);
                (name, Some(length))
            }
            Array::Param(param) if self.is_in_chunk(param) => (format!("{}_chunk", self.param_text(param)), None),
            Array::Param(param) => {
                let name = self.param_text(param);
                let length = self.extent(param, None);
                let length = match length.strip_prefix("(UINT64)") {
                    Some(_) if self.function.is_windowed(param) => format!("{name}_n0"),
                    Some(length) => length.to_owned(),
                    None => length,
                };
                (if self.is_in_team(param) { format!("{name}_team") } else { name }, Some(length))
            }
        }
    }
}

/// Returns whether the operation is written as a function call, which needs no brackets.
fn is_call(op: Binary, ty: Scalar, expr: &Expr) -> bool {
    let is_literal = matches!(&expr.kind, ExprKind::Binary(_, _, b) if matches!(&b.kind, ExprKind::Integer(digits) if digits != "0"));
    match op {
        Binary::Rem if ty.is_float() => true,
        Binary::Div | Binary::Rem => ty.is_integer() && !is_literal,
        _ => false,
    }
}

/// Returns the name of a type as used in function names, which is the name of its parameter type on the host.
fn parameter_name(ty: Scalar) -> &'static str {
    ty.parameter()
}
