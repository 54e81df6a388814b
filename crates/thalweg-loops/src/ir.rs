//! The intermediate representation of a function of loops, independent of syntax: numbers, arrays, loops and how they
//! are shared out.
//!
//! Every node keeps its source position for error messages. Variables are identified by indices; names are used only
//! in messages and in the generated text. Types are IDs from [`crate::types`] until a lowering resolves them.

use crate::clauses::Share;
use crate::types::{Scalar, TypeId};
use proc_macro2::{Ident, Span};

/// A function of loops.
pub(crate) struct Function {
    pub(crate) name: Ident,
    pub(crate) params: Vec<Param>,
    /// All variables of all kernels, as declared by `let` and `for`.
    pub(crate) variables: Vec<Variable>,
    /// The `let`s before, between and after the loops, in source order. They are computed on the host.
    pub(crate) lets: Vec<(VarId, Option<Expr>)>,
    /// The outermost loops, each of which becomes a kernel.
    pub(crate) kernels: Vec<Loop>,
    /// Names in capitals, which are numbers known to the Rust compiler.
    pub(crate) constants: Vec<Constant>,
    /// Functions that the loops call.
    pub(crate) helpers: Vec<Helper>,
    /// Whether the outermost loop may run in pieces, each of which accesses windows of the arrays.
    pub(crate) is_split: bool,
}

impl Function {
    /// Returns whether pieces of the loop access this parameter through windows.
    pub(crate) fn is_windowed(&self, id: ParamId) -> bool {
        let param = &self.params[id];
        self.is_split && matches!(param.kind, ParamKind::Array(..)) && param.team.is_none()
    }
}

/// How a task accesses a parameter.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    /// `&`
    In,
    /// `&mut`
    Inout,
    /// `Out`
    Out,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ParamKind {
    /// A number passed by value.
    Number,
    /// A reference to one number.
    Cell(Direction),
    /// A slice or an ndarray array with this many dimensions.
    Array(Direction, usize),
}

pub(crate) struct Param {
    pub(crate) name: Ident,
    pub(crate) kind: ParamKind,
    pub(crate) element: Scalar,
    pub(crate) ty: TypeId,
    /// The copy that each team has, if a clause of `teams` requests one.
    pub(crate) team: Option<TeamCopy>,
    /// Whether iterations may touch the same elements.
    pub(crate) is_shared: bool,
}

/// A small array that is copied for each team.
#[derive(Clone)]
pub(crate) struct TeamCopy {
    /// Whether the copy is initialized with the contents of the array.
    pub(crate) is_first: bool,
    /// The maximum number of elements in the copy.
    pub(crate) len: syn::Expr,
}

impl Param {
    pub(crate) fn direction(&self) -> Option<Direction> {
        match self.kind {
            ParamKind::Number => None,
            ParamKind::Cell(direction) | ParamKind::Array(direction, _) => Some(direction),
        }
    }

    /// Returns whether the task accesses the parameter. An array that is private to each team and starts
    /// uninitialized is not a data object at all.
    pub(crate) fn is_access(&self) -> bool {
        self.direction().is_some() && self.team.as_ref().is_none_or(|team| team.is_first)
    }

    /// Returns whether the task writes the parameter.
    pub(crate) fn is_written(&self) -> bool {
        matches!(self.direction(), Some(Direction::Inout | Direction::Out)) && self.team.is_none()
    }

    pub(crate) fn dims(&self) -> usize {
        match self.kind {
            ParamKind::Array(_, dims) => dims,
            _ => 1,
        }
    }
}

pub(crate) type VarId = usize;
pub(crate) type ParamId = usize;

pub(crate) struct Variable {
    pub(crate) name: Ident,
    /// The variable's name in the generated text, which is unique.
    pub(crate) text: String,
    pub(crate) ty: TypeId,
    pub(crate) is_mutable: bool,
    /// The number of elements, if the variable is an array.
    pub(crate) array: Option<syn::Expr>,
}

pub(crate) struct Constant {
    pub(crate) path: syn::Path,
    pub(crate) text: String,
    pub(crate) ty: TypeId,
}

pub(crate) struct Helper {
    pub(crate) path: syn::Path,
    /// The types of the arguments and of the result.
    pub(crate) arguments: Vec<TypeId>,
    pub(crate) result: TypeId,
}

/// A loop over a range of integers.
pub(crate) struct Loop {
    pub(crate) var: VarId,
    pub(crate) first: Expr,
    pub(crate) end: Expr,
    pub(crate) is_inclusive: bool,
    pub(crate) body: Vec<Stmt>,
    pub(crate) share: Share,
    pub(crate) span: Span,
    /// The source of the loop, from which the body for cores is generated.
    pub(crate) source: syn::ExprForLoop,
}

pub(crate) enum Stmt {
    Let {
        var: VarId,
        init: Option<Expr>,
    },
    /// The declaration of an array in which all elements have the same value.
    LetArray {
        var: VarId,
        value: Expr,
    },
    Assign {
        place: Place,
        op: Option<Binary>,
        value: Expr,
        span: Span,
    },
    If {
        condition: Expr,
        then: Vec<Stmt>,
        otherwise: Vec<Stmt>,
    },
    While {
        condition: Expr,
        body: Vec<Stmt>,
    },
    For(Box<Loop>),
    Block(Vec<Stmt>),
    Break,
    Continue,
}

pub(crate) enum Place {
    Var(VarId),
    Cell(ParamId),
    Element(Element),
}

/// An element of an array.
pub(crate) struct Element {
    pub(crate) array: Array,
    pub(crate) indices: Vec<Expr>,
    pub(crate) span: Span,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Array {
    Param(ParamId),
    Local(VarId),
}

pub(crate) struct Expr {
    pub(crate) kind: ExprKind,
    pub(crate) ty: TypeId,
    pub(crate) span: Span,
}

pub(crate) enum ExprKind {
    Integer(String),
    Float(String),
    Bool(bool),
    Var(VarId),
    Number(ParamId),
    Constant(usize),
    Cell(ParamId),
    /// The number of elements along a dimension; the total number of elements if no dimension is given.
    Len(ParamId, Option<usize>),
    Element(Box<Element>),
    Minus(Box<Expr>),
    Not(Box<Expr>),
    Binary(Binary, Box<Expr>, Box<Expr>),
    Cast(Box<Expr>),
    Math(Math, Vec<Expr>),
    If(Box<(Expr, Expr, Expr)>),
    Call(usize, Vec<Expr>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Binary {
    Add,
    Sub,
    Mul,
    Div,
    Rem,
    And,
    Or,
    BitAnd,
    BitOr,
    BitXor,
    Shl,
    Shr,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
}

impl Binary {
    pub(crate) fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }

    pub(crate) fn is_shift(self) -> bool {
        matches!(self, Self::Shl | Self::Shr)
    }

    pub(crate) fn text(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            Self::Div => "/",
            Self::Rem => "%",
            Self::And => "&&",
            Self::Or => "||",
            Self::BitAnd => "&",
            Self::BitOr => "|",
            Self::BitXor => "^",
            Self::Shl => "<<",
            Self::Shr => ">>",
            Self::Eq => "==",
            Self::Ne => "!=",
            Self::Lt => "<",
            Self::Le => "<=",
            Self::Gt => ">",
            Self::Ge => ">=",
        }
    }
}

/// A numeric method that kernels also support.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Math {
    /// Methods without further arguments.
    Sqrt,
    Abs,
    Exp,
    Ln,
    Sin,
    Cos,
    Tan,
    Tanh,
    Floor,
    Ceil,
    /// Methods with one further argument.
    Min,
    Max,
    Powf,
    Atan2,
    Hypot,
    /// Methods with two further arguments.
    MulAdd,
}

impl Math {
    pub(crate) const ALL: [(&'static str, Self, &'static str); 16] = [
        ("sqrt", Self::Sqrt, "sqrt"),
        ("abs", Self::Abs, "fabs"),
        ("exp", Self::Exp, "exp"),
        ("ln", Self::Ln, "log"),
        ("sin", Self::Sin, "sin"),
        ("cos", Self::Cos, "cos"),
        ("tan", Self::Tan, "tan"),
        ("tanh", Self::Tanh, "tanh"),
        ("floor", Self::Floor, "floor"),
        ("ceil", Self::Ceil, "ceil"),
        ("min", Self::Min, "fmin"),
        ("max", Self::Max, "fmax"),
        ("powf", Self::Powf, "pow"),
        ("atan2", Self::Atan2, "atan2"),
        ("hypot", Self::Hypot, "hypot"),
        ("mul_add", Self::MulAdd, "fma"),
    ];

    /// Returns the number of arguments in addition to the receiver.
    pub(crate) fn arguments(self) -> usize {
        match self {
            Self::Min | Self::Max | Self::Powf | Self::Atan2 | Self::Hypot => 1,
            Self::MulAdd => 2,
            _ => 0,
        }
    }

    /// Returns whether integers have the method too.
    pub(crate) fn is_for_integers(self) -> bool {
        matches!(self, Self::Min | Self::Max | Self::Abs)
    }
}
