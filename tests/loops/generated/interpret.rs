//! Interpreter for loop nests, which runs the iterations one after the other.

use super::nest::{Cond, Float, HELD, Index, MOST, Nest, Op, Sharing, Stmt};
use std::collections::HashMap;

/// Runs the nest. Returns the new contents of `y`, and the sum.
pub(super) fn run(nest: &Nest, x: &[f64], a: &[f64], y: &[f64]) -> (Vec<f64>, f64) {
    let mut state = State {
        nest,
        x,
        a,
        y: y.to_vec(),
        sum: 0.0,
        ints: HashMap::new(),
        floats: HashMap::new(),
        arrays: HashMap::new(),
        at: [0; 3],
    };
    state.floats.insert("running".to_owned(), 0.0);
    let trips = |level: usize| if level < nest.depth() { nest.n[level] } else { 1 };
    for i in 0..trips(0) {
        state.at = [i, 0, 0];
        state.ints.insert("i".to_owned(), i);
        let lead = state.float(&nest.lead);
        state.floats.insert("lead".to_owned(), lead);
        if nest.sharing == Sharing::Held {
            let fill = |j: usize| if j < nest.n[1] { lead + x[(i * 5 + j * 3) % x.len()] } else { lead };
            state.arrays.insert("team".to_owned(), (0..MOST).map(fill).collect());
        }
        for j in 0..trips(1) {
            for k in 0..trips(2) {
                state.at = [i, j, k];
                state.ints.extend([("j".to_owned(), j), ("k".to_owned(), k)]);
                state.statements(&nest.body);
            }
        }
    }
    (state.y, state.sum)
}

struct State<'a> {
    nest: &'a Nest,
    x: &'a [f64],
    a: &'a [f64],
    y: Vec<f64>,
    sum: f64,
    ints: HashMap<String, usize>,
    floats: HashMap<String, f64>,
    arrays: HashMap<String, Vec<f64>>,
    at: [usize; 3],
}

impl State<'_> {
    fn index(&self, index: &Index) -> usize {
        match index {
            Index::Number(number) => *number,
            Index::Var(name) => self.ints[name],
            Index::N(number) => self.nest.n[*number],
            Index::Sum(a, b) => self.index(a) + self.index(b),
            Index::Times(a, by) => self.index(a) * by,
            Index::Modulo(a, by) => self.index(a) % by,
            Index::Over(a, by) => self.index(a) / by,
        }
    }

    fn float(&self, value: &Float) -> f64 {
        match value {
            Float::Number(number) => f64::from(*number),
            Float::C => self.nest.c,
            Float::Local(name) => self.floats[name],
            Float::X(index) => self.x[self.index(index) % self.x.len()],
            Float::A(index) => self.a[self.index(index) % self.a.len()],
            Float::Held(name, index) => {
                let array = &self.arrays[name];
                array[self.index(index) % array.len()]
            }
            Float::Of(index) => self.index(index) as f64,
            Float::Pair(Op::Div, pair) => self.float(&pair.0) / (self.float(&pair.1).abs() + 1.0),
            Float::Pair(op, pair) => apply(*op, self.float(&pair.0), self.float(&pair.1)),
            Float::Minus(inner) => -self.float(inner),
            Float::Abs(inner) => self.float(inner).abs(),
            Float::Root(inner) => self.float(inner).abs().sqrt(),
            Float::If(parts) => self.float(if self.condition(&parts.0) { &parts.1 } else { &parts.2 }),
        }
    }

    fn condition(&self, condition: &Cond) -> bool {
        match condition {
            Cond::Less(a, b) => self.index(a) < self.index(b),
            Cond::Same(a, b) => self.index(a) == self.index(b),
            Cond::Below(a, b) => self.float(a) < self.float(b),
            Cond::Both(pair) => self.condition(&pair.0) && self.condition(&pair.1),
            Cond::Either(pair) => self.condition(&pair.0) || self.condition(&pair.1),
            Cond::Not(inner) => !self.condition(inner),
        }
    }

    fn statements(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|one| self.statement(one));
    }

    fn statement(&mut self, one: &Stmt) {
        match one {
            Stmt::Let(name, value) => {
                let value = self.float(value);
                self.floats.insert(name.clone(), value);
            }
            Stmt::Set(name, op, value) => {
                let value = self.float(value);
                let value = op.map_or(value, |op| apply(op, self.floats[name], value));
                self.floats.insert(name.clone(), value);
            }
            Stmt::Store(slot, op, value) => {
                let (value, at) = (self.float(value), self.nest.slot(self.at, *slot));
                self.y[at] = op.map_or(value, |op| apply(op, self.y[at], value));
            }
            Stmt::Array(name, value) => {
                let value = self.float(value);
                self.arrays.insert(name.clone(), vec![value; HELD]);
            }
            Stmt::SetHeld(name, index, value) => {
                let (index, value) = (self.index(index) % HELD, self.float(value));
                self.arrays.get_mut(name).expect("the name was declared")[index] = value;
            }
            Stmt::If(condition, then, otherwise) => {
                self.statements(if self.condition(condition) { then } else { otherwise });
            }
            Stmt::While(turn, count, left_out, body) => {
                for n in 1..=*count {
                    self.ints.insert(turn.clone(), n);
                    if !self.condition(left_out) {
                        self.statements(body);
                    }
                }
            }
            Stmt::For(var, end, is_inclusive, body) => {
                for n in 0..self.index(end) + usize::from(*is_inclusive) {
                    self.ints.insert(var.clone(), n);
                    self.statements(body);
                }
            }
            Stmt::Run(value) => {
                let value = self.float(value);
                *self.floats.get_mut("running").expect("the name was declared") += value;
            }
            Stmt::AddUp(value) => self.sum += self.float(value),
        }
    }
}

fn apply(op: Op, a: f64, b: f64) -> f64 {
    match op {
        Op::Add => a + b,
        Op::Sub => a - b,
        Op::Mul => a * b,
        Op::Div => a / b,
        Op::Min => a.min(b),
        Op::Max => a.max(b),
    }
}
