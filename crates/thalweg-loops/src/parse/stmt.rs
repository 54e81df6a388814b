//! Parsing of statements and loops.

use super::{Parser, refuse, scalar};
use crate::clauses::{Distribute, Parallel, Share};
use crate::ir::{Binary, Expr, Loop, Place, Stmt, VarId};
use syn::spanned::Spanned;
use syn::{BinOp, Local, Pat, Result};

/// The `let`s outside the loops, and the loops themselves.
type TopLevel = (Vec<(VarId, Option<Expr>)>, Vec<Loop>);

impl Parser {
    /// Parses the statements of the function itself: `let`s of numbers, and loops.
    pub(super) fn top_level(&mut self, block: &syn::Block) -> Result<TopLevel> {
        let (mut lets, mut kernels) = (Vec::new(), Vec::new());
        for statement in &block.stmts {
            match statement {
                syn::Stmt::Local(local) => match self.local(local)? {
                    Stmt::Let { var, init } => lets.push((var, init)),
                    _ => return refuse(local.span(), "arrays are declared in the loops that use them; move it there"),
                },
                syn::Stmt::Expr(syn::Expr::ForLoop(source), _) => {
                    let mut one = self.for_loop(source)?;
                    if !one.share.is_shared() {
                        // A loop without attributes is shared out over all teams and threads.
                        let span = source.for_token.span;
                        one.share.distribute = Some(Distribute {
                            span,
                            private: Vec::new(),
                            firstprivate: Vec::new(),
                            lastprivate: Vec::new(),
                        });
                        one.share.parallel = Some(Parallel { span, reductions: Vec::new(), scans: Vec::new() });
                    } else if one.share.distribute.is_none() {
                        let span = one.share.parallel.as_ref().map_or(one.span, |parallel| parallel.span);
                        let message =
                            "the outermost loop is shared out over teams; write `#[distribute]` above it, too";
                        return refuse(span, message);
                    }
                    kernels.push(one);
                }
                syn::Stmt::Expr(other, _) => {
                    return refuse(
                        other.span(),
                        "outside the loops only `let`s of numbers are allowed; move this into a loop",
                    );
                }
                syn::Stmt::Item(item) => return refuse(item.span(), "items go outside the function; move it there"),
                syn::Stmt::Macro(one) => return refuse(one.span(), NO_MACROS),
            }
        }
        if kernels.is_empty() {
            return refuse(
                block.brace_token.span.close(),
                "there is no loop to share out; write `for i in 0..n { .. }`",
            );
        }
        Ok((lets, kernels))
    }

    /// Parses statements that end in a value.
    pub(super) fn value_block(&mut self, block: &syn::Block) -> Result<(Vec<Stmt>, Expr)> {
        let Some((syn::Stmt::Expr(value, None), before)) = block.stmts.split_last() else {
            return refuse(block.brace_token.span.close(), "the function must end in its value; write it there");
        };
        let statements = before.iter().map(|statement| self.statement(statement)).collect::<Result<_>>()?;
        Ok((statements, self.expr(value)?))
    }

    fn block(&mut self, block: &syn::Block) -> Result<Vec<Stmt>> {
        self.inside(|parser| block.stmts.iter().map(|statement| parser.statement(statement)).collect())
    }

    fn statement(&mut self, statement: &syn::Stmt) -> Result<Stmt> {
        match statement {
            syn::Stmt::Local(local) => self.local(local),
            syn::Stmt::Item(item) => refuse(item.span(), "items go outside the function; move it there"),
            syn::Stmt::Macro(one) => refuse(one.span(), NO_MACROS),
            syn::Stmt::Expr(expr, _) => self.effect(expr),
        }
    }

    fn local(&mut self, local: &Local) -> Result<Stmt> {
        let (pattern, declared) = match &local.pat {
            Pat::Type(typed) => (&*typed.pat, Some(&*typed.ty)),
            other => (other, None),
        };
        let Pat::Ident(name) = pattern else {
            return refuse(
                pattern.span(),
                "a variable of the subset is one number or one array; write one `let` for each",
            );
        };
        if let Some(by_ref) = &name.by_ref {
            return refuse(by_ref.span(), "there are no references in the subset; use the array itself");
        }
        let is_mutable = name.mutability.is_some();
        if let Some(init) = &local.init
            && let Some((_, diverge)) = &init.diverge
        {
            return refuse(diverge.span(), "there is no `let else` in the subset; write `if`");
        }
        let init = local.init.as_ref().map(|init| &*init.expr);
        if let Some(syn::Expr::Repeat(repeat)) = init {
            let value = self.expr(&repeat.expr)?;
            let ty = value.ty;
            if let Some(syn::Type::Array(array)) = declared {
                let Some(element) = scalar(&array.elem) else {
                    return refuse(array.elem.span(), "an array of the subset has numbers; write a type of number");
                };
                let element = self.types.known(element);
                self.types.unify(ty, element);
            }
            let var = self.declare(&name.ident, ty, is_mutable, Some((*repeat.len).clone()))?;
            return Ok(Stmt::LetArray { var, value });
        }
        let value = init.map(|init| self.expr(init)).transpose()?;
        let ty = value.as_ref().map_or_else(|| self.types.any(), |value| value.ty);
        if let Some(declared) = declared {
            let Some(number) = scalar(declared) else {
                return refuse(declared.span(), "a variable of the subset is a number; write a type of number");
            };
            let number = self.types.known(number);
            self.types.unify(ty, number);
        }
        let var = self.declare(&name.ident, ty, is_mutable, None)?;
        Ok(Stmt::Let { var, init: value })
    }

    /// Parses an expression that is used for its side effect.
    fn effect(&mut self, expr: &syn::Expr) -> Result<Stmt> {
        match expr {
            syn::Expr::Assign(assign) => {
                let (place, value) = (self.place(&assign.left)?, self.expr(&assign.right)?);
                self.unify_place(&place, &value);
                Ok(Stmt::Assign { place, op: None, value, span: assign.left.span() })
            }
            syn::Expr::Binary(binary) => {
                let op = match binary.op {
                    BinOp::AddAssign(_) => Binary::Add,
                    BinOp::SubAssign(_) => Binary::Sub,
                    BinOp::MulAssign(_) => Binary::Mul,
                    BinOp::DivAssign(_) => Binary::Div,
                    BinOp::RemAssign(_) => Binary::Rem,
                    BinOp::BitAndAssign(_) => Binary::BitAnd,
                    BinOp::BitOrAssign(_) => Binary::BitOr,
                    BinOp::BitXorAssign(_) => Binary::BitXor,
                    BinOp::ShlAssign(_) => Binary::Shl,
                    BinOp::ShrAssign(_) => Binary::Shr,
                    _ => return refuse(expr.span(), "this has no effect; assign it to something"),
                };
                let (place, value) = (self.place(&binary.left)?, self.expr(&binary.right)?);
                if !op.is_shift() {
                    self.unify_place(&place, &value);
                }
                Ok(Stmt::Assign { place, op: Some(op), value, span: binary.left.span() })
            }
            syn::Expr::If(one) => {
                let condition = self.expr(&one.cond)?;
                let then = self.block(&one.then_branch)?;
                let otherwise = match &one.else_branch {
                    None => Vec::new(),
                    Some((_, other)) => match self.effect(other)? {
                        Stmt::Block(block) => block,
                        other => vec![other],
                    },
                };
                Ok(Stmt::If { condition, then, otherwise })
            }
            syn::Expr::While(one) => {
                let condition = self.expr(&one.cond)?;
                self.loops.push(true);
                let body = self.block(&one.body);
                self.loops.pop();
                Ok(Stmt::While { condition, body: body? })
            }
            syn::Expr::ForLoop(one) => self.for_loop(one).map(|one| Stmt::For(Box::new(one))),
            syn::Expr::Block(one) => self.block(&one.block).map(Stmt::Block),
            syn::Expr::Paren(one) => self.effect(&one.expr),
            syn::Expr::Break(one) if one.label.is_none() && one.expr.is_none() => {
                self.expect_loop(one.span()).map(|()| Stmt::Break)
            }
            syn::Expr::Continue(one) if one.label.is_none() => self.expect_loop(one.span()).map(|()| Stmt::Continue),
            syn::Expr::Break(one) => refuse(one.span(), "there are no labels in the subset; write `if`"),
            syn::Expr::Continue(one) => refuse(one.span(), "there are no labels in the subset; write `if`"),
            syn::Expr::Loop(one) => refuse(one.loop_token.span, "a kernel's loop has a condition; write `while`"),
            syn::Expr::Match(one) => refuse(one.match_token.span, "there is no `match` in the subset; write `if`"),
            syn::Expr::Return(one) => refuse(one.return_token.span, "an iteration cannot end the function; write `if`"),
            syn::Expr::Macro(one) => refuse(one.span(), NO_MACROS),
            other => {
                self.expr(other)?;
                refuse(other.span(), "this has no effect; assign it to something")
            }
        }
    }

    fn expect_loop(&self, span: proc_macro2::Span) -> Result<()> {
        match self.loops.last() {
            Some(true) => Ok(()),
            _ => refuse(span, "the iterations of a loop that is shared out are independent of each other; write `if`"),
        }
    }

    fn unify_place(&mut self, place: &Place, value: &Expr) {
        let ty = self.place_type(place);
        self.types.unify(ty, value.ty);
    }

    fn place_type(&self, place: &Place) -> crate::types::TypeId {
        match place {
            Place::Var(var) => self.variables[*var].ty,
            Place::Cell(param) => self.params[*param].ty,
            Place::Element(element) => self.element_type(element),
        }
    }

    fn for_loop(&mut self, source: &syn::ExprForLoop) -> Result<Loop> {
        let share = Share::parse(&source.attrs)?;
        if let Some(label) = &source.label {
            return refuse(label.span(), "there are no labels in the subset; write `if`");
        }
        let name = match &*source.pat {
            Pat::Ident(name) if name.subpat.is_none() => name.ident.clone(),
            Pat::Wild(wild) => proc_macro2::Ident::new("nth", wild.span()),
            other => return refuse(other.span(), "a loop runs over integers, `for i in 0..n`; use them as indices"),
        };
        let mut range = &*source.expr;
        while let syn::Expr::Paren(inner) = range {
            range = &inner.expr;
        }
        let syn::Expr::Range(range) = range else {
            return refuse(
                source.expr.span(),
                "a loop runs over integers; write `0..n`, and use the number as an index",
            );
        };
        let (Some(first), Some(end)) = (&range.start, &range.end) else {
            return refuse(source.expr.span(), "a loop needs a first number and an end; write `0..n`");
        };
        let (first, end) = (self.expr(first)?, self.expr(end)?);
        self.types.unify(first.ty, end.ty);
        let is_inclusive = matches!(range.limits, syn::RangeLimits::Closed(_));
        let is_shared = share.is_shared() || self.loops.is_empty();
        self.loops.push(!is_shared);
        let loop_of = self.inside(|parser| {
            let var = parser.declare(&name, first.ty, false, None)?;
            Ok((var, parser.block(&source.body)?))
        });
        self.loops.pop();
        let (var, body) = loop_of?;
        let span = source.for_token.span;
        Ok(Loop { var, first, end, is_inclusive, body, share, span, source: source.clone() })
    }
}

const NO_MACROS: &str = "a kernel cannot call macros; put checks such as `assert!` before the task";
