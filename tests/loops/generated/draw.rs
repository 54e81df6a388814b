//! Generator of random loop nests from a list of numbers, each of which decides one choice. Shorter lists and smaller
//! numbers make simpler nests, so that failures can be minimized.

use super::nest::{Cond, Float, Index, MOST, Nest, Op, SLOTS, Sharing, Stmt};

/// The numbers that decide choices. When they are used up, every further choice is 0.
pub(super) struct Choices<'a> {
    left: &'a [u16],
    /// Number of names assigned so far.
    names: usize,
}

impl<'a> Choices<'a> {
    pub(super) fn new(choices: &'a [u16]) -> Self {
        Self { left: choices, names: 0 }
    }

    fn below(&mut self, count: usize) -> usize {
        let Some((first, rest)) = self.left.split_first() else { return 0 };
        self.left = rest;
        *first as usize % count
    }

    fn name(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }
}

/// The names in scope.
#[derive(Clone, Default)]
struct Scope {
    integers: Vec<String>,
    floats: Vec<String>,
    /// Variables that may be assigned to.
    mutable: Vec<String>,
    arrays: Vec<String>,
    /// Number of enclosing loops within an iteration.
    loops: usize,
}

impl Nest {
    pub(super) fn draw(choices: &mut Choices<'_>) -> Self {
        let sharing = match choices.below(12) {
            0 | 1 => Sharing::Combined,
            2 => Sharing::Nested(2, 1),
            3 => Sharing::Nested(3, 2),
            4 => Sharing::Nested(3, 1),
            5 => Sharing::Nested(1, 0),
            6 => Sharing::Nested(2, 0),
            7 => Sharing::Nested(3, 0),
            8 => Sharing::Held,
            9 => Sharing::CombinedSum,
            10 => Sharing::Running,
            _ => Sharing::NestedSum,
        };
        let off = ["team_memory", "once", "innermost_first"].into_iter().filter(|_| choices.below(4) == 3).collect();
        let mut n = [1 + choices.below(MOST), choices.below(MOST + 1), choices.below(MOST + 1)];
        if matches!(sharing, Sharing::Combined | Sharing::CombinedSum | Sharing::Running) {
            n[0] += choices.below(300);
        }
        let c = choices.below(5) as f64 - 2.0;
        let orders = [[0, 1, 2], [2, 1, 0], [1, 0, 2], [0, 2, 1]];
        let order = orders[choices.below(orders.len())];
        let mut nest = Self { sharing, off, n, c, order, lead: Float::Number(0), body: Vec::new() };
        let mut scope = Scope { integers: vec!["i".to_owned()], ..Scope::default() };
        nest.lead = choices.float(&scope, 1);
        scope.integers.extend(["j", "k"][..nest.depth() - 1].iter().map(|&var| var.to_owned()));
        scope.floats.push("lead".to_owned());
        if sharing == Sharing::Held {
            scope.arrays.push("team".to_owned());
        }
        // Mention all parameters, so that all kernels have the same signature.
        let sum = |a, b| Float::Pair(Op::Add, Box::new((a, b)));
        let n = |number| Float::Of(Index::N(number));
        let all = sum(Float::X(choices.index(&scope, 1)), sum(Float::A(choices.index(&scope, 1)), Float::C));
        nest.body.push(Stmt::Store(0, Some(Op::Add), sum(all, sum(n(0), sum(n(1), n(2))))));
        if sharing == Sharing::Running {
            let (mut only, running) = (scope.clone(), || Float::Local("running".to_owned()));
            // The value must consist of small integers, as below.
            only.floats.clear();
            let value = Float::Pair(Op::Sub, Box::new((choices.leaf(&only), choices.leaf(&only))));
            nest.body.extend([Stmt::Store(2, None, running()), Stmt::Run(value), Stmt::Store(1, None, running())]);
            scope.floats.push("running".to_owned());
        }
        let count = 1 + choices.below(5);
        nest.body.extend(choices.statements(&mut scope, count));
        if nest.is_sum() {
            // The value must consist of small integers. It uses no variables, because variables may contain quotients.
            let only = Scope { integers: scope.integers.clone(), ..Scope::default() };
            let value = Float::Pair(Op::Sub, Box::new((choices.leaf(&only), choices.leaf(&only))));
            nest.body.push(Stmt::AddUp(value));
        }
        nest
    }
}

impl Choices<'_> {
    fn index(&mut self, scope: &Scope, depth: usize) -> Index {
        let of = |choices: &mut Self| Box::new(choices.index(scope, depth.saturating_sub(1)));
        match self.below(if depth == 0 { 3 } else { 8 }) {
            0 => Index::Var(scope.integers[self.below(scope.integers.len())].clone()),
            1 => Index::Number(self.below(9)),
            2 => Index::N(self.below(3)),
            3 | 4 => Index::Sum(of(self), of(self)),
            5 => Index::Times(of(self), 1 + self.below(6)),
            6 => Index::Modulo(of(self), 1 + self.below(6)),
            _ => Index::Over(of(self), 1 + self.below(4)),
        }
    }

    fn leaf(&mut self, scope: &Scope) -> Float {
        match self.below(7) {
            0 | 1 => Float::X(self.index(scope, 2)),
            2 => Float::A(self.index(scope, 1)),
            3 => Float::Of(self.index(scope, 2)),
            4 if !scope.floats.is_empty() => Float::Local(scope.floats[self.below(scope.floats.len())].clone()),
            5 if !scope.arrays.is_empty() => {
                let array = scope.arrays[self.below(scope.arrays.len())].clone();
                Float::Held(array, self.index(scope, 1))
            }
            6 => Float::C,
            _ => Float::Number(self.below(13) as i32 - 6),
        }
    }

    fn float(&mut self, scope: &Scope, depth: usize) -> Float {
        if depth == 0 {
            return self.leaf(scope);
        }
        let of = |choices: &mut Self| choices.float(scope, depth - 1);
        match self.below(12) {
            0..=2 => self.leaf(scope),
            3 | 4 => Float::Pair(Op::Add, Box::new((of(self), of(self)))),
            5 => Float::Pair(Op::Sub, Box::new((of(self), of(self)))),
            6 => Float::Pair(Op::Mul, Box::new((of(self), of(self)))),
            7 => Float::Pair(Op::Div, Box::new((of(self), of(self)))),
            8 => Float::Pair([Op::Min, Op::Max][self.below(2)], Box::new((of(self), of(self)))),
            9 => Float::Minus(Box::new(of(self))),
            10 if self.below(2) == 0 => Float::Abs(Box::new(of(self))),
            10 => Float::Root(Box::new(of(self))),
            _ => Float::If(Box::new((self.condition(scope, 1), of(self), of(self)))),
        }
    }

    fn condition(&mut self, scope: &Scope, depth: usize) -> Cond {
        let of = |choices: &mut Self| choices.condition(scope, depth.saturating_sub(1));
        match self.below(if depth == 0 { 4 } else { 7 }) {
            0 | 1 => Cond::Less(self.index(scope, 1), self.index(scope, 1)),
            2 => Cond::Same(self.index(scope, 1), self.index(scope, 1)),
            3 => Cond::Below(self.leaf(scope), self.leaf(scope)),
            4 => Cond::Both(Box::new((of(self), of(self)))),
            5 => Cond::Either(Box::new((of(self), of(self)))),
            _ => Cond::Not(Box::new(of(self))),
        }
    }

    fn statements(&mut self, scope: &mut Scope, count: usize) -> Vec<Stmt> {
        (0..count).map(|_| self.statement(scope)).collect()
    }

    fn inside(&mut self, scope: &Scope, is_loop: bool) -> Vec<Stmt> {
        let mut inner = scope.clone();
        inner.loops += usize::from(is_loop);
        let count = 1 + self.below(3);
        self.statements(&mut inner, count)
    }

    fn statement(&mut self, scope: &mut Scope) -> Stmt {
        let op = |choices: &mut Self| [None, Some(Op::Add), Some(Op::Sub), Some(Op::Max)][choices.below(4)];
        match self.below(10) {
            0 | 1 if !scope.mutable.is_empty() => {
                let name = scope.mutable[self.below(scope.mutable.len())].clone();
                Stmt::Set(name, op(self), self.float(scope, 2))
            }
            2 | 3 => {
                let value = self.float(scope, 2);
                let name = self.name("v");
                scope.floats.push(name.clone());
                scope.mutable.push(name.clone());
                Stmt::Let(name, value)
            }
            4 if scope.loops < 2 => {
                let condition = self.condition(scope, 1);
                let then = self.inside(scope, false);
                let otherwise = if self.below(2) == 1 { self.inside(scope, false) } else { Vec::new() };
                Stmt::If(condition, then, otherwise)
            }
            5 if scope.loops < 2 => {
                let (name, end, is_inclusive) = (self.name("t"), self.index(scope, 0), self.below(2) == 1);
                // Limit the number of iterations, because an iteration's index may be large.
                let end = Index::Modulo(Box::new(end), 5);
                let mut inner = scope.clone();
                inner.integers.push(name.clone());
                let body = self.inside(&inner, true);
                Stmt::For(name, end, is_inclusive, body)
            }
            6 if scope.loops < 2 => {
                let (name, count) = (self.name("w"), self.below(4));
                let mut inner = scope.clone();
                inner.integers.push(name.clone());
                let left_out = self.condition(&inner, 0);
                let body = self.inside(&inner, true);
                Stmt::While(name, count, left_out, body)
            }
            7 => {
                let value = self.leaf(scope);
                let name = self.name("h");
                scope.arrays.push(name.clone());
                Stmt::Array(name, value)
            }
            8 if scope.arrays.iter().any(|name| name != "team") => {
                let own: Vec<_> = scope.arrays.iter().filter(|name| *name != "team").cloned().collect();
                Stmt::SetHeld(own[self.below(own.len())].clone(), self.index(scope, 1), self.float(scope, 1))
            }
            _ => Stmt::Store(self.below(SLOTS), op(self), self.float(scope, 2)),
        }
    }
}
