//! Functions that visit all expressions below a node, in source order.

use crate::ir::{Element, Expr, ExprKind, Loop, Place, Stmt};

/// Calls `visit` for each expression in these statements, outer expressions first.
pub(crate) fn statements<'a>(statements: &'a [Stmt], visit: &mut dyn FnMut(&'a Expr)) {
    for one in statements {
        match one {
            Stmt::Let { init, .. } => init.iter().for_each(|init| expr(init, visit)),
            Stmt::LetArray { value, .. } => expr(value, visit),
            Stmt::Assign { place, value, .. } => {
                if let Place::Element(at) = place {
                    element(at, visit);
                }
                expr(value, visit);
            }
            Stmt::If { condition, then, otherwise } => {
                expr(condition, visit);
                self::statements(then, visit);
                self::statements(otherwise, visit);
            }
            Stmt::While { condition, body, .. } => {
                expr(condition, visit);
                self::statements(body, visit);
            }
            Stmt::For(one) => of_loop(one, visit),
            Stmt::Block(block) => self::statements(block, visit),
            Stmt::Break | Stmt::Continue => {}
        }
    }
}

/// Like [`statements`], for a loop and its range.
pub(crate) fn of_loop<'a>(one: &'a Loop, visit: &mut dyn FnMut(&'a Expr)) {
    expr(&one.first, visit);
    expr(&one.end, visit);
    statements(&one.body, visit);
}

fn element<'a>(at: &'a Element, visit: &mut dyn FnMut(&'a Expr)) {
    at.indices.iter().for_each(|index| expr(index, visit));
}

/// Like [`statements`], for an expression and all expressions inside it.
pub(crate) fn expr<'a>(one: &'a Expr, visit: &mut dyn FnMut(&'a Expr)) {
    visit(one);
    match &one.kind {
        ExprKind::Element(at) => element(at, visit),
        ExprKind::Minus(inner) | ExprKind::Not(inner) | ExprKind::Cast(inner) => expr(inner, visit),
        ExprKind::Binary(_, a, b) => {
            expr(a, visit);
            expr(b, visit);
        }
        ExprKind::Math(_, arguments) | ExprKind::Call(_, arguments) => {
            arguments.iter().for_each(|argument| expr(argument, visit));
        }
        ExprKind::If(parts) => {
            let (condition, then, otherwise) = &**parts;
            [condition, then, otherwise].into_iter().for_each(|part| expr(part, visit));
        }
        _ => {}
    }
}

/// Calls `visit` for each place that is assigned to.
pub(crate) fn places<'a>(statements: &'a [Stmt], visit: &mut dyn FnMut(&'a Place)) {
    for one in statements {
        match one {
            Stmt::Assign { place, .. } => visit(place),
            Stmt::If { then, otherwise, .. } => {
                places(then, visit);
                places(otherwise, visit);
            }
            Stmt::While { body, .. } | Stmt::Block(body) => places(body, visit),
            Stmt::For(one) => places(&one.body, visit),
            _ => {}
        }
    }
}

/// Calls `visit` for each loop, outer loops first.
pub(crate) fn loops<'a>(statements: &'a [Stmt], visit: &mut dyn FnMut(&'a Loop)) {
    for one in statements {
        match one {
            Stmt::If { then, otherwise, .. } => {
                loops(then, visit);
                loops(otherwise, visit);
            }
            Stmt::While { body, .. } | Stmt::Block(body) => loops(body, visit),
            Stmt::For(one) => {
                visit(one);
                loops(&one.body, visit);
            }
            _ => {}
        }
    }
}
