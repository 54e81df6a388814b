//! Parsing of expressions.

use super::{Parser, refuse, scalar, text_name};
use crate::ir::{Array, Binary, Constant, Element, Expr, ExprKind, Helper, Math, ParamKind, Place};
use crate::types::{Scalar, TypeId};
use syn::spanned::Spanned;
use syn::{BinOp, Lit, Result, UnOp};

const METHODS: &str = "kernels have no such method; write `sqrt`, `abs`, `min`, `max`, `mul_add`, `exp`, `ln`, `sin`, `cos`, \
                       `tan`, `tanh`, `powf`, `atan2`, `hypot`, `floor`, `ceil`, or `len`, `nrows`, `ncols` of an array";

impl Parser {
    pub(super) fn expr(&mut self, expr: &syn::Expr) -> Result<Expr> {
        let span = expr.span();
        let node = |kind, ty| Ok(Expr { kind, ty, span });
        match expr {
            syn::Expr::Paren(inner) => self.expr(&inner.expr),
            syn::Expr::Group(inner) => self.expr(&inner.expr),
            syn::Expr::Lit(literal) => self.literal(&literal.lit),
            syn::Expr::Path(path) => self.path(path),
            syn::Expr::Unary(unary) => {
                if let UnOp::Deref(_) = unary.op {
                    return match self.place(expr)? {
                        Place::Cell(param) => node(ExprKind::Cell(param), self.params[param].ty),
                        _ => refuse(span, "there are no references in the subset; use the array itself"),
                    };
                }
                let inner = self.expr(&unary.expr)?;
                let ty = inner.ty;
                match unary.op {
                    UnOp::Neg(_) => node(ExprKind::Minus(Box::new(inner)), ty),
                    _ => node(ExprKind::Not(Box::new(inner)), ty),
                }
            }
            syn::Expr::Binary(binary) => self.binary(binary),
            syn::Expr::Cast(cast) => {
                let Some(number) = scalar(&cast.ty) else {
                    return refuse(
                        cast.ty.span(),
                        "a number can only be cast to another type of number; write one of these",
                    );
                };
                let inner = self.expr(&cast.expr)?;
                let ty = self.types.known(number);
                node(ExprKind::Cast(Box::new(inner)), ty)
            }
            syn::Expr::Index(_) => {
                let element = self.element(expr)?;
                let ty = self.element_type(&element);
                node(ExprKind::Element(Box::new(element)), ty)
            }
            syn::Expr::MethodCall(call) => self.method(call),
            syn::Expr::Call(call) => self.call(call),
            syn::Expr::If(one) => {
                let condition = self.expr(&one.cond)?;
                let Some((_, otherwise)) = &one.else_branch else {
                    return refuse(one.if_token.span, "a value needs an `else`; write one");
                };
                let then = self.tail(&one.then_branch)?;
                let otherwise = match &**otherwise {
                    syn::Expr::Block(block) => self.tail(&block.block)?,
                    other => self.expr(other)?,
                };
                self.types.unify(then.ty, otherwise.ty);
                let ty = then.ty;
                node(ExprKind::If(Box::new((condition, then, otherwise))), ty)
            }
            syn::Expr::Block(block) => self.tail(&block.block),
            syn::Expr::Reference(one) => {
                refuse(one.and_token.span, "there are no references in the subset; use the array itself")
            }
            syn::Expr::Closure(one) => refuse(
                one.or1_token.span,
                "there are no closures in the subset; write the loop, or a function with `#[device]`",
            ),
            syn::Expr::Match(one) => refuse(one.match_token.span, "there is no `match` in the subset; write `if`"),
            syn::Expr::Macro(one) => refuse(one.span(), "a kernel cannot call macros; write their expansion"),
            syn::Expr::Tuple(_) => refuse(span, "there are no tuples in the subset; write a variable for each number"),
            syn::Expr::Struct(_) | syn::Expr::Field(_) => {
                refuse(span, "there are no structs in the subset; make each field a separate parameter")
            }
            syn::Expr::Array(_) => refuse(span, "an array of the subset begins with one value; write `[0.0; N]`"),
            syn::Expr::Range(_) => refuse(span, "a part of an array cannot be used here; use indices"),
            syn::Expr::Try(one) => refuse(one.question_token.span, "a kernel cannot fail; check before the task"),
            _ => {
                refuse(span, "the subset of kernels lacks this; write it with numbers, arrays, `if`, `while` and `for`")
            }
        }
    }

    /// Parses a block that consists only of a value.
    fn tail(&mut self, block: &syn::Block) -> Result<Expr> {
        match block.stmts.as_slice() {
            [syn::Stmt::Expr(value, None)] => self.expr(value),
            _ => {
                refuse(block.span(), "a branch with a value must be one expression; declare variables before the `if`")
            }
        }
    }

    fn literal(&mut self, literal: &Lit) -> Result<Expr> {
        let span = literal.span();
        let suffixed = |parser: &mut Self, suffix: &str, default: TypeId| {
            let number = Scalar::of_name(&syn::Ident::new(if suffix.is_empty() { "none" } else { suffix }, span));
            match number {
                Some(number) => parser.types.known(number),
                None => default,
            }
        };
        match literal {
            Lit::Int(number) => {
                let default = self.types.integer();
                let ty = suffixed(self, number.suffix(), default);
                let digits = number.base10_digits().to_owned();
                if self.types.of(ty).is_float() {
                    return Ok(Expr { kind: ExprKind::Float(format!("{digits}.0")), ty, span });
                }
                match digits.parse::<u64>() {
                    Ok(_) => Ok(Expr { kind: ExprKind::Integer(digits), ty, span }),
                    Err(_) => refuse(span, "kernels have integers of 64 bits at most; write a smaller one"),
                }
            }
            Lit::Float(number) => {
                let default = self.types.float();
                let ty = suffixed(self, number.suffix(), default);
                Ok(Expr { kind: ExprKind::Float(number.base10_digits().to_owned()), ty, span })
            }
            Lit::Bool(value) => {
                let ty = self.types.known(Scalar::Bool);
                Ok(Expr { kind: ExprKind::Bool(value.value), ty, span })
            }
            _ => refuse(span, "kernels have only numbers; write one"),
        }
    }

    fn path(&mut self, path: &syn::ExprPath) -> Result<Expr> {
        let span = path.span();
        if let Some(name) = path.path.get_ident() {
            if let Some(var) = self.variable(name) {
                if self.variables[var].array.is_some() {
                    return refuse(span, "an array is not a number; write an index, as in `a[i]`");
                }
                return Ok(Expr { kind: ExprKind::Var(var), ty: self.variables[var].ty, span });
            }
            if let Some(param) = self.param(name) {
                return match self.params[param].kind {
                    ParamKind::Number => Ok(Expr { kind: ExprKind::Number(param), ty: self.params[param].ty, span }),
                    ParamKind::Cell(_) => refuse(span, format!("`{name}` is a reference; write `*{name}`")),
                    ParamKind::Array(..) => {
                        refuse(span, format!("an array is not a number; write an index, as in `{name}[i]`"))
                    }
                };
            }
        }
        let last = path.path.segments.last().expect("a path has a segment");
        let name = last.ident.to_string();
        if name.chars().any(char::is_lowercase) {
            return refuse(
                span,
                format!(
                    "a kernel can use its parameters, its variables and constants in capitals; make `{name}` a parameter"
                ),
            );
        }
        let position = self.constants.iter().position(|constant| same(&constant.path, &path.path));
        let position = position.unwrap_or_else(|| {
            let ty = match path.path.segments.first().and_then(|first| Scalar::of_name(&first.ident)) {
                Some(number) => self.types.known(number),
                None => self.types.any(),
            };
            let segments: Vec<_> = path.path.segments.iter().map(|segment| text_name(&segment.ident)).collect();
            self.constants.push(Constant { path: path.path.clone(), text: segments.join("_"), ty });
            self.constants.len() - 1
        });
        Ok(Expr { kind: ExprKind::Constant(position), ty: self.constants[position].ty, span })
    }

    fn binary(&mut self, binary: &syn::ExprBinary) -> Result<Expr> {
        let span = binary.span();
        let op = match binary.op {
            BinOp::Add(_) => Binary::Add,
            BinOp::Sub(_) => Binary::Sub,
            BinOp::Mul(_) => Binary::Mul,
            BinOp::Div(_) => Binary::Div,
            BinOp::Rem(_) => Binary::Rem,
            BinOp::And(_) => Binary::And,
            BinOp::Or(_) => Binary::Or,
            BinOp::BitXor(_) => Binary::BitXor,
            BinOp::BitAnd(_) => Binary::BitAnd,
            BinOp::BitOr(_) => Binary::BitOr,
            BinOp::Shl(_) => Binary::Shl,
            BinOp::Shr(_) => Binary::Shr,
            BinOp::Eq(_) => Binary::Eq,
            BinOp::Lt(_) => Binary::Lt,
            BinOp::Le(_) => Binary::Le,
            BinOp::Ne(_) => Binary::Ne,
            BinOp::Ge(_) => Binary::Ge,
            BinOp::Gt(_) => Binary::Gt,
            other => return refuse(other.span(), "an assignment has no value; write it as a statement"),
        };
        let (a, b) = (self.expr(&binary.left)?, self.expr(&binary.right)?);
        if !op.is_shift() {
            self.types.unify(a.ty, b.ty);
        }
        let ty = if op.is_comparison() { self.types.known(Scalar::Bool) } else { a.ty };
        Ok(Expr { kind: ExprKind::Binary(op, Box::new(a), Box::new(b)), ty, span })
    }

    fn method(&mut self, call: &syn::ExprMethodCall) -> Result<Expr> {
        let (span, name) = (call.span(), call.method.to_string());
        if let syn::Expr::Path(path) = &*call.receiver
            && let Some(ident) = path.path.get_ident()
            && self.variable(ident).is_none()
            && let Some(param) = self.param(ident)
            && let ParamKind::Array(_, dims) = self.params[param].kind
        {
            let dimension = match (name.as_str(), dims) {
                ("len", _) => None,
                ("nrows", 2) => Some(0),
                ("ncols", 2) => Some(1),
                _ => {
                    return refuse(
                        call.method.span(),
                        "an array has `len`, `nrows`, `ncols` and `shape()[k]`; write one of these",
                    );
                }
            };
            let ty = self.types.known(Scalar::Usize);
            return Ok(Expr { kind: ExprKind::Len(param, dimension), ty, span });
        }
        let Some((_, math, _)) = Math::ALL.iter().find(|(rust, ..)| name == *rust) else {
            return refuse(call.method.span(), METHODS);
        };
        if call.args.len() != math.arguments() {
            return refuse(call.method.span(), format!("`{name}` takes a different number of arguments"));
        }
        let mut arguments = vec![self.expr(&call.receiver)?];
        for argument in &call.args {
            let argument = self.expr(argument)?;
            self.types.unify(arguments[0].ty, argument.ty);
            arguments.push(argument);
        }
        let ty = arguments[0].ty;
        Ok(Expr { kind: ExprKind::Math(*math, arguments), ty, span })
    }

    /// Parses a call of a `device` function, or of a numeric method in function call syntax.
    fn call(&mut self, call: &syn::ExprCall) -> Result<Expr> {
        let span = call.span();
        let syn::Expr::Path(path) = &*call.func else {
            return refuse(call.func.span(), "a kernel calls functions by their names; write one");
        };
        let arguments = call.args.iter().map(|argument| self.expr(argument)).collect::<Result<Vec<_>>>()?;
        let segments: Vec<_> = path.path.segments.iter().collect();
        if let [number, name] = segments.as_slice()
            && let Some(number) = Scalar::of_name(&number.ident)
        {
            let math =
                Math::ALL.iter().find(|(rust, math, _)| name.ident == rust && math.arguments() + 1 == arguments.len());
            let Some((_, math, _)) = math else { return refuse(name.ident.span(), METHODS) };
            let ty = self.types.known(number);
            arguments.iter().for_each(|argument| self.types.unify(ty, argument.ty));
            return Ok(Expr { kind: ExprKind::Math(*math, arguments), ty, span });
        }
        let position = self.helpers.iter().position(|helper| same(&helper.path, &path.path));
        let position = position.unwrap_or_else(|| {
            let types = arguments.iter().map(|_| self.types.any()).collect();
            let result = self.types.any();
            self.helpers.push(Helper { path: path.path.clone(), arguments: types, result });
            self.helpers.len() - 1
        });
        if self.helpers[position].arguments.len() != arguments.len() {
            return refuse(span, "the function is called with a different number of arguments elsewhere");
        }
        for (n, argument) in arguments.iter().enumerate() {
            self.types.unify(self.helpers[position].arguments[n], argument.ty);
        }
        Ok(Expr { kind: ExprKind::Call(position, arguments), ty: self.helpers[position].result, span })
    }

    /// Parses an expression that can be assigned to.
    pub(super) fn place(&mut self, expr: &syn::Expr) -> Result<Place> {
        match expr {
            syn::Expr::Paren(inner) => self.place(&inner.expr),
            syn::Expr::Unary(unary) if matches!(unary.op, UnOp::Deref(_)) => {
                if let syn::Expr::Path(path) = &*unary.expr
                    && let Some(name) = path.path.get_ident()
                    && let Some(param) = self.param(name)
                    && let ParamKind::Cell(_) = self.params[param].kind
                {
                    return Ok(Place::Cell(param));
                }
                refuse(unary.expr.span(), "the only references in the subset are parameters such as `&mut f64`")
            }
            syn::Expr::Index(_) => self.element(expr).map(Place::Element),
            syn::Expr::Path(path) => {
                let Some(name) = path.path.get_ident() else {
                    return refuse(path.span(), "this cannot be assigned to; declare a variable");
                };
                match (self.variable(name), self.param(name)) {
                    (Some(var), _) if self.variables[var].array.is_some() => {
                        refuse(name.span(), format!("an array is assigned element by element; write `{name}[i] = ..`"))
                    }
                    (Some(var), _) => Ok(Place::Var(var)),
                    (None, Some(_)) => refuse(
                        name.span(),
                        format!(
                            "a parameter cannot be reassigned; write `*{name} = ..` or `{name}[i] = ..`, or copy it: `let mut`"
                        ),
                    ),
                    (None, None) => refuse(name.span(), format!("there is no variable `{name}`; declare it")),
                }
            }
            other => refuse(other.span(), "this cannot be assigned to; write a variable or an element"),
        }
    }

    /// Parses an element of an array: `a[i]`, or `a[[i, j]]`.
    fn element(&mut self, expr: &syn::Expr) -> Result<Element> {
        let syn::Expr::Index(index) = expr else { return refuse(expr.span(), "write an element, as in `a[i]`") };
        let span = index.span();
        if let syn::Expr::MethodCall(call) = &*index.expr
            && call.method == "shape"
        {
            return refuse(span, "write `nrows()` or `ncols()`, or give the extent as a parameter");
        }
        let syn::Expr::Path(path) = &*index.expr else {
            return refuse(index.expr.span(), "an array must be a name here; in several dimensions write `a[[i, j]]`");
        };
        let Some(name) = path.path.get_ident() else {
            return refuse(path.span(), "an array must be a parameter or a variable; make it a parameter");
        };
        let (array, dims) = match (self.variable(name), self.param(name)) {
            (Some(var), _) if self.variables[var].array.is_some() => (Array::Local(var), 1),
            (None, Some(param)) if matches!(self.params[param].kind, ParamKind::Array(..)) => {
                (Array::Param(param), self.params[param].dims())
            }
            (Some(_), _) | (_, Some(_)) => {
                return refuse(name.span(), format!("`{name}` is not an array; use it as a number"));
            }
            (None, None) => return refuse(name.span(), format!("there is no array `{name}`; make it a parameter")),
        };
        let inner: Vec<&syn::Expr> = match &*index.index {
            syn::Expr::Array(list) if dims > 1 => list.elems.iter().collect(),
            one => vec![one],
        };
        if inner.len() != dims {
            let what = ["i", "i, j", "i, j, k"][dims - 1];
            let message = format!("`{name}` has {dims} dimensions; write `{name}[[{what}]]`");
            return refuse(index.index.span(), message);
        }
        let usize = self.types.known(Scalar::Usize);
        let indices = inner.into_iter().map(|index| self.expr(index)).collect::<Result<Vec<_>>>()?;
        indices.iter().for_each(|index| self.types.unify(usize, index.ty));
        Ok(Element { array, indices, span })
    }

    pub(super) fn element_type(&self, element: &Element) -> TypeId {
        match element.array {
            Array::Param(param) => self.params[param].ty,
            Array::Local(var) => self.variables[var].ty,
        }
    }
}

fn same(a: &syn::Path, b: &syn::Path) -> bool {
    quote::quote!(#a).to_string() == quote::quote!(#b).to_string()
}
