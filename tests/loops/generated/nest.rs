//! Loop nests as data structures, and their conversion to source code.
//!
//! Invariants: an iteration stores only to its own `SLOTS` elements of `y`; other indices are taken modulo the length
//! of the array; integers are small. In a nest with a sum, all added values are small integers, so that the order of
//! summation makes no difference.

use std::fmt;

/// Number of elements of `y` that belong to an iteration.
pub(super) const SLOTS: usize = 3;
/// Maximum number of iterations of a loop.
pub(super) const MOST: usize = 7;
/// Number of elements of an array that is declared in a loop.
pub(super) const HELD: usize = 5;
/// Number of threads in a team in a nest with a sum, which is also the number of iterations that the team handles
/// together.
const LANES: usize = 8;
const CHUNK: usize = LANES * 16;
/// Number of iterations that a team handles together in a nest that reads the running sum.
const RUNS: usize = LANES * 8;

/// How the loops are distributed over teams and threads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sharing {
    /// One loop over teams and threads.
    Combined,
    /// Nested loops: the total number of loops, the outermost of which is over teams, and the number of inner loops
    /// over threads.
    Nested(usize, usize),
    /// Two loops; the threads of a team first fill an array that they share.
    Held,
    /// One loop with a sum.
    CombinedSum,
    /// One loop with a sum that it also reads.
    Running,
    /// Two loops; the inner one has a sum.
    NestedSum,
}

#[derive(Debug, Clone)]
pub(super) struct Nest {
    pub(super) sharing: Sharing,
    pub(super) off: Vec<&'static str>,
    pub(super) n: [usize; 3],
    pub(super) c: f64,
    /// The order in which the loop variables are combined into an index of `y`.
    pub(super) order: [usize; 3],
    /// Value that is computed in the outermost loop, before the inner loops.
    pub(super) lead: Float,
    pub(super) body: Vec<Stmt>,
}

/// A non-negative integer.
#[derive(Debug, Clone)]
pub(super) enum Index {
    Number(usize),
    /// A loop's variable.
    Var(String),
    /// A parameter.
    N(usize),
    Sum(Box<Index>, Box<Index>),
    Times(Box<Index>, usize),
    Modulo(Box<Index>, usize),
    Over(Box<Index>, usize),
}

#[derive(Debug, Clone)]
pub(super) enum Float {
    Number(i32),
    C,
    Local(String),
    X(Index),
    A(Index),
    Held(String, Index),
    Of(Index),
    Pair(Op, Box<(Float, Float)>),
    Minus(Box<Float>),
    Abs(Box<Float>),
    Root(Box<Float>),
    If(Box<(Cond, Float, Float)>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Op {
    Add,
    Sub,
    Mul,
    Div,
    Min,
    Max,
}

#[derive(Debug, Clone)]
pub(super) enum Cond {
    Less(Index, Index),
    Same(Index, Index),
    Below(Float, Float),
    Both(Box<(Cond, Cond)>),
    Either(Box<(Cond, Cond)>),
    Not(Box<Cond>),
}

#[derive(Debug, Clone)]
pub(super) enum Stmt {
    Let(String, Float),
    /// Assigns to a variable, with `=` or with an operation on the old value.
    Set(String, Option<Op>, Float),
    /// Stores to the iteration's element of `y` in this slot.
    Store(usize, Option<Op>, Float),
    /// Declares an array whose elements all have the same value.
    Array(String, Float),
    SetHeld(String, Index, Float),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    /// A loop with this many iterations. Iterations for which the condition holds are skipped.
    While(String, usize, Cond, Vec<Stmt>),
    For(String, Index, bool, Vec<Stmt>),
    AddUp(Float),
    /// Adds to the running sum.
    Run(Float),
}

impl Nest {
    pub(super) fn depth(&self) -> usize {
        match self.sharing {
            Sharing::Combined | Sharing::CombinedSum | Sharing::Running => 1,
            Sharing::Nested(depth, _) => depth,
            Sharing::Held | Sharing::NestedSum => 2,
        }
    }

    fn is_combined(&self) -> bool {
        matches!(self.sharing, Sharing::Combined | Sharing::CombinedSum | Sharing::Running)
    }

    /// Returns the number of loops over the threads of a team, below the outermost loop.
    fn thread_levels(&self) -> usize {
        match self.sharing {
            Sharing::Nested(_, threads) => threads,
            _ => usize::from(!self.is_combined()),
        }
    }

    pub(super) fn is_sum(&self) -> bool {
        matches!(self.sharing, Sharing::CombinedSum | Sharing::NestedSum)
    }

    /// Returns the number of partial sums; `None` for a nest without a sum.
    pub(super) fn parts(&self) -> Option<usize> {
        match self.sharing {
            Sharing::CombinedSum => Some(self.n[0].div_ceil(CHUNK)),
            Sharing::NestedSum => Some(self.n[0]),
            _ => None,
        }
    }

    /// In a nest that reads the running sum, returns the numbers of chunks and of runs of iterations, each of which has
    /// an offset.
    pub(super) fn offsets(&self) -> Option<[usize; 2]> {
        let chunks = self.n[0].div_ceil(RUNS);
        (self.sharing == Sharing::Running).then_some([chunks, chunks * LANES])
    }

    /// Returns the part of a team's shape that the nest uses.
    pub(super) fn team(&self, [x, y, z]: [u32; 3]) -> [u32; 3] {
        if self.is_sum() || self.sharing == Sharing::Running {
            return [LANES as u32, 1, 1];
        }
        match self.thread_levels() {
            0 | 1 => [x, 1, 1],
            2 => [x, y, 1],
            _ => [x, y, z],
        }
    }

    /// Returns, for the teams and for the threads along each dimension, whether each gets at most one iteration.
    pub(super) fn trips_per_level(&self, teams: usize, team: [u32; 3]) -> [bool; 4] {
        let outermost = if self.is_combined() { teams * team[0] as usize } else { teams };
        let mut once = [self.n[0] <= outermost, false, false, false];
        let levels = self.thread_levels();
        for level in 0..levels {
            let axis = if self.off.contains(&"innermost_first") { level } else { levels - 1 - level };
            once[1 + axis] = self.n[level + 1] <= team[axis] as usize;
        }
        once
    }

    /// Returns the index in `y` of an iteration's element in slot `slot`.
    pub(super) fn slot(&self, at: [usize; 3], slot: usize) -> usize {
        self.order.iter().fold(0, |index, level| index * (MOST + 1) + at[*level]) * SLOTS + slot
    }

    /// Returns the initial `x`, `a` and `y`.
    pub(super) fn arrays(&self) -> [Vec<f64>; 3] {
        let numbers = |count: usize, salt: usize| (0..count).map(|n| ((n * 7919 + salt) % 23) as f64 - 11.0).collect();
        let combined = if self.is_combined() { 40 } else { 1 };
        [numbers(37, 1), numbers(6, 5), numbers((MOST + 1).pow(3) * SLOTS * combined, 9)]
    }

    /// Returns the source code of a function with the attribute.
    pub(super) fn source(&self) -> String {
        let vars = ["i", "j", "k"];
        let mut text = Text { index: self.index(), ..Text::default() };
        let off = if self.off.is_empty() { String::new() } else { format!(", off({})", self.off.join(", ")) };
        text.line(&format!("#[target(teams(thread_limit = {LANES}){off})]"));
        let sum = if self.is_sum() { "sum: &mut f64, " } else { "" };
        text.open(&format!(
            "fn nest(x: &[f64], a: &[f64], y: &mut [f64], {sum}n0: usize, n1: usize, n2: usize, c: f64) {{"
        ));
        let share = |level: usize| match (self.sharing, level) {
            (Sharing::Combined, _) => "#[distribute] #[parallel_for]",
            (Sharing::CombinedSum, _) => "#[distribute] #[parallel_for(reduction(+: sum))]",
            (Sharing::Running, _) => "#[distribute] #[parallel_for(scan(+: running))]",
            (Sharing::NestedSum, 1) => "#[parallel_for(reduction(+: sum))]",
            (_, 0) => "#[distribute]",
            (_, level) if level <= self.thread_levels() => "#[parallel_for]",
            _ => "",
        };
        if self.sharing == Sharing::Running {
            text.line("let mut running = 0.0;");
        }
        for (level, var) in vars.iter().enumerate().take(self.depth()) {
            if level == 1 {
                text.line(&format!("let lead = {};", self.lead));
                if self.sharing == Sharing::Held {
                    text.line(&format!("let mut team = [lead; {MOST}];"));
                    text.line("#[parallel_for]");
                    text.line("for j in 0..n1 { team[j] = lead + x[(i * 5 + j * 3) % x.len()]; }");
                }
            }
            text.line(share(level));
            text.open(&format!("for {var} in 0..n{level} {{"));
        }
        if self.depth() == 1 {
            text.line(&format!("let lead = {};", self.lead));
        }
        text.statements(&self.body);
        for _ in 0..=self.depth() {
            text.close();
        }
        text.text
    }

    /// Returns the index of an iteration's first element as source code.
    fn index(&self) -> String {
        let step = |level: usize| self.slot(std::array::from_fn(|other| usize::from(other == level)), 0);
        let terms = (0..self.depth()).map(|level| format!("{} * {}", ["i", "j", "k"][level], step(level)));
        terms.collect::<Vec<_>>().join(" + ")
    }
}

#[derive(Default)]
struct Text {
    text: String,
    indent: usize,
    index: String,
}

impl Text {
    fn line(&mut self, line: &str) {
        if !line.is_empty() {
            self.text += &format!("{}{line}\n", "    ".repeat(self.indent));
        }
    }

    fn open(&mut self, line: &str) {
        self.line(line);
        self.indent += 1;
    }

    fn close(&mut self) {
        self.indent -= 1;
        self.line("}");
    }

    fn block(&mut self, head: &str, statements: &[Stmt]) {
        self.open(head);
        self.statements(statements);
        self.close();
    }

    fn statements(&mut self, statements: &[Stmt]) {
        statements.iter().for_each(|one| self.statement(one));
    }

    fn statement(&mut self, one: &Stmt) {
        match one {
            Stmt::Let(name, value) => self.line(&format!("let mut {name} = {value};")),
            Stmt::Set(name, op, value) => self.assign(name, *op, value),
            Stmt::Store(slot, op, value) => self.assign(&format!("y[{} + {slot}]", self.index), *op, value),
            Stmt::Array(name, value) => self.line(&format!("let mut {name} = [{value}; {HELD}];")),
            Stmt::SetHeld(name, index, value) => self.assign(&format!("{name}[{index} % {HELD}]"), None, value),
            Stmt::If(condition, then, otherwise) => {
                self.block(&format!("if {condition} {{"), then);
                if !otherwise.is_empty() {
                    self.block("else {", otherwise);
                }
            }
            Stmt::While(turn, count, left_out, body) => {
                self.line(&format!("let mut {turn} = 0usize;"));
                self.open(&format!("while {turn} < {count} {{"));
                self.line(&format!("{turn} += 1;"));
                self.line(&format!("if {left_out} {{ continue; }}"));
                self.statements(body);
                self.close();
            }
            Stmt::For(var, end, is_inclusive, body) => {
                self.block(&format!("for {var} in 0..{}{end} {{", if *is_inclusive { "=" } else { "" }), body);
            }
            Stmt::Run(value) => self.line(&format!("running += {value};")),
            Stmt::AddUp(value) => self.line(&format!("*sum += {value};")),
        }
    }

    fn assign(&mut self, place: &str, op: Option<Op>, value: &Float) {
        match op {
            None => self.line(&format!("{place} = {value};")),
            Some(op @ (Op::Min | Op::Max)) => {
                let name = if op == Op::Min { "min" } else { "max" };
                self.line(&format!("{place} = {place}.{name}({value});"));
            }
            Some(op) => self.line(&format!("{place} {}= {value};", op.symbol())),
        }
    }
}

impl Op {
    fn symbol(self) -> &'static str {
        match self {
            Self::Add => "+",
            Self::Sub => "-",
            Self::Mul => "*",
            _ => "/",
        }
    }
}

impl fmt::Display for Index {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => write!(f, "{number}"),
            Self::Var(name) => f.write_str(name),
            Self::N(number) => write!(f, "n{number}"),
            Self::Sum(a, b) => write!(f, "({a} + {b})"),
            Self::Times(a, by) => write!(f, "({a} * {by})"),
            Self::Modulo(a, by) => write!(f, "({a} % {by})"),
            Self::Over(a, by) => write!(f, "({a} / {by})"),
        }
    }
}

impl fmt::Display for Float {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) if *number < 0 => write!(f, "(-{}.0)", -number),
            Self::Number(number) => write!(f, "{number}.0"),
            Self::C => f.write_str("c"),
            Self::Local(name) => f.write_str(name),
            Self::X(index) => write!(f, "x[{index} % x.len()]"),
            Self::A(index) => write!(f, "a[{index} % a.len()]"),
            Self::Held(name, index) if name == "team" => write!(f, "team[{index} % {MOST}]"),
            Self::Held(name, index) => write!(f, "{name}[{index} % {HELD}]"),
            Self::Of(index) => write!(f, "({index} as f64)"),
            Self::Pair(op @ (Op::Min | Op::Max), pair) => {
                write!(f, "f64::{}({}, {})", if *op == Op::Min { "min" } else { "max" }, pair.0, pair.1)
            }
            Self::Pair(Op::Div, pair) => write!(f, "({} / (({}).abs() + 1.0))", pair.0, pair.1),
            Self::Pair(op, pair) => write!(f, "({} {} {})", pair.0, op.symbol(), pair.1),
            Self::Minus(inner) => write!(f, "(-{inner})"),
            Self::Abs(inner) => write!(f, "({inner}).abs()"),
            Self::Root(inner) => write!(f, "({inner}).abs().sqrt()"),
            Self::If(parts) => write!(f, "(if {} {{ {} }} else {{ {} }})", parts.0, parts.1, parts.2),
        }
    }
}

impl fmt::Display for Cond {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Less(a, b) => write!(f, "({a} < {b})"),
            Self::Same(a, b) => write!(f, "({a} == {b})"),
            Self::Below(a, b) => write!(f, "({a} < {b})"),
            Self::Both(pair) => write!(f, "({} && {})", pair.0, pair.1),
            Self::Either(pair) => write!(f, "({} || {})", pair.0, pair.1),
            Self::Not(inner) => write!(f, "(!{inner})"),
        }
    }
}
