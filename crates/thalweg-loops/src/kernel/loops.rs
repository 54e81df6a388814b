//! Lowering of loops to text: loops over teams, loops over threads, loops in chunks, and plain loops.

use super::head::part_name;
use super::{TargetKey, Writer, combine, identity};
use crate::check::Target;
use crate::clauses::Reduction;
use crate::ir::{Element, Expr, ExprKind, Loop, ParamId, Stmt};
use crate::walk;

/// The closing brackets for loop heads that may consist of a declaration and an `if`. Such heads are enclosed in an
/// additional block.
const HEAD_ENDS: &str = "} }";

impl Writer<'_> {
    /// Writes the body of the kernel.
    pub(super) fn body(&mut self, kernel: &Loop, chunk: Option<syn::Expr>) {
        self.team_copies();
        self.team_arrays();
        for (_, target) in self.facts.reductions.values().flatten().copied().collect::<Vec<_>>() {
            let line = format!("LOCAL({}, {}, TEAM_X);", self.element(target).text(), self.lanes(target));
            self.line(line);
        }
        let (first, end) = if self.function.is_split {
            ("piece_first".to_owned(), "piece_end".to_owned())
        } else {
            self.range(kernel)
        };
        match chunk {
            Some(chunk) => self.chunked(kernel, &chunk, (&first, &end)),
            None if kernel.share.is_combined() => {
                self.apart(&format!("{{ DISTRIBUTE_PARALLEL(at, {first}, {end}) {{"), HEAD_ENDS, |this| {
                    this.is_team = false;
                    this.iteration(kernel, "at");
                });
            }
            None => {
                let part = format!("at - ({first})");
                self.repeat_in(&format!("{{ DISTRIBUTE(at, {first}, {end}) {{"), HEAD_ENDS, |this| {
                    this.team_iteration(kernel, &part);
                });
            }
        }
    }

    /// Returns the ends of a loop's range, as 64-bit integers.
    pub(super) fn range(&mut self, one: &Loop) -> (String, String) {
        let (first, end) = (self.operand(&one.first), self.operand(&one.end));
        let end = if one.is_inclusive { format!("(INT64){end} + 1") } else { format!("(INT64){end}") };
        (format!("(INT64){first}"), end)
    }

    pub(super) fn declare(&mut self, one: &Loop, at: &str) {
        let variable = &self.function.variables[one.var];
        let ty = self.types.of(variable.ty).text();
        let line = format!("{ty} {} = ({ty}){at};", variable.text);
        self.line(line);
    }

    fn iteration(&mut self, one: &Loop, at: &str) {
        self.declare(one, at);
        self.statements(&one.body, false);
    }

    /// Writes an iteration that a team executes together. `part` is the index of the iteration's partial result in
    /// each reduction.
    fn team_iteration(&mut self, one: &Loop, part: &str) {
        let cells = self.facts.cells();
        for (reduction, cell) in &cells {
            self.begin_part(*reduction, Target::Cell(*cell));
        }
        self.declare(one, "at");
        self.reads_first = self.team_reads(&one.body);
        let has_copies = self.facts.params.iter().any(|param| self.is_in_team(*param));
        self.statements(&one.body, !self.facts.team_arrays.is_empty() || has_copies || self.has_chunks());
        self.end_parts(&cells, part);
    }

    /// Returns whether statements outside the loops over threads read memory that the kernel writes. In that case, a
    /// thread might write to the memory in a loop over threads before another thread has read it.
    fn team_reads(&self, statements: &[Stmt]) -> bool {
        let is_written = |element: &Element| match element.array {
            crate::ir::Array::Local(_) => true,
            crate::ir::Array::Param(param) => self.function.params[param].direction() != Some(crate::ir::Direction::In),
        };
        let mut found = false;
        let mut look = |expr: &Expr| {
            walk::expr(expr, &mut |inner| {
                found |= matches!(&inner.kind, ExprKind::Element(element) if is_written(element));
            });
        };
        for one in statements {
            match one {
                Stmt::Let { init: Some(init), .. } => look(init),
                Stmt::LetArray { value, .. } => look(value),
                Stmt::Assign { value, .. } => look(value),
                Stmt::If { condition, .. } | Stmt::While { condition, .. } => look(condition),
                Stmt::For(one) => [&one.first, &one.end].into_iter().for_each(&mut look),
                _ => {}
            }
        }
        found
            || statements.iter().any(|one| match one {
                Stmt::If { then, otherwise, .. } => self.team_reads(then) || self.team_reads(otherwise),
                Stmt::While { body, .. } | Stmt::Block(body) => self.team_reads(body),
                Stmt::For(one) if one.share.parallel.is_none() => self.team_reads(&one.body),
                _ => false,
            })
    }

    pub(super) fn has_chunks(&self) -> bool {
        self.facts.chunked.iter().any(|param| self.is_in_chunk(*param))
    }

    fn begin_part(&mut self, reduction: Reduction, target: Target) {
        let element = self.element(target);
        let name = format!("{}_part", self.target_name(target));
        self.line(format!("{} {name} = {};", element.text(), identity(reduction, element)));
        self.renamed.insert(TargetKey::from(target), name);
    }

    fn end_parts(&mut self, cells: &[(Reduction, ParamId)], part: &str) {
        for (_, cell) in cells {
            self.renamed.remove(&TargetKey::Cell(*cell));
            let (parts, name) = (part_name(self.function, *cell), self.param_text(*cell));
            self.line(format!("if (FIRST_THREAD) {parts}[{part}] = {name}_part;"));
        }
    }

    /// Writes a loop whose iterations a team executes in groups of `chunk`: either because the team's memory holds a
    /// chunk of the arrays, or because each group computes one part of a sum.
    fn chunked(&mut self, kernel: &Loop, chunk: &syn::Expr, (first, end): (&str, &str)) {
        let chunk = self.length(chunk);
        let arrays: Vec<ParamId> =
            self.facts.chunked.iter().copied().filter(|param| self.is_in_chunk(*param)).collect();
        for param in &arrays {
            let line = format!(
                "LOCAL({}, {}_chunk, {chunk});",
                self.function.params[*param].element.text(),
                self.param_text(*param)
            );
            self.line(line);
        }
        self.line(format!(
            "INT64 loop_first = {first}, loop_end = {end}, chunks = (loop_end - loop_first + {chunk} - 1) / {chunk};"
        ));
        let head = "for (INT64 chunk = GROUP_ID(0); chunk < chunks; chunk += NUM_GROUPS(0)) {";
        self.apart(head, "}", |this| this.one_chunk(kernel, &chunk, &arrays));
    }

    fn one_chunk(&mut self, kernel: &Loop, chunk: &str, arrays: &[ParamId]) {
        self.line(format!("INT64 chunk_first = loop_first + chunk * {chunk};"));
        self.line(format!("int chunk_length = (int)LEAST(loop_end - chunk_first, (INT64){chunk});"));
        let (mut fills, mut backs) = (Vec::new(), Vec::new());
        for param in arrays {
            let (name, is_last) = (self.param_text(*param), self.clause(*param, |one| &one.lastprivate));
            let base = if self.function.is_windowed(*param) { format!(" - {name}_b0") } else { String::new() };
            // Everything that is written back must be loaded first, whether or not the loop writes all of it.
            if is_last || self.clause(*param, |one| &one.firstprivate) {
                fills.push(format!("{name}_chunk[slot] = LOAD({name}, chunk_first + slot{base}, {name}_n0);"));
            }
            if is_last {
                backs.push(format!("STORE({name}, chunk_first + slot{base}, {name}_n0, {name}_chunk[slot]);"));
            }
        }
        self.together("chunk_length", &fills);
        if !fills.is_empty() {
            self.barrier();
        }
        let cells = self.facts.cells();
        if kernel.share.is_combined() {
            for (reduction, cell) in &cells {
                self.begin_part(*reduction, Target::Cell(*cell));
            }
            self.apart(
                "for (int in_chunk = LOCAL_ID(0); in_chunk < chunk_length; in_chunk += TEAM_X) {",
                "}",
                |this| {
                    this.is_team = false;
                    this.iteration(kernel, "(chunk_first + in_chunk)");
                    this.is_team = true;
                },
            );
            for (reduction, cell) in &cells {
                let (lanes, name) = (self.lanes(Target::Cell(*cell)), self.param_text(*cell));
                let combine = combine(*reduction, self.function.params[*cell].element);
                self.line(format!("REDUCE({lanes}, {name}_part, {combine});"));
            }
            self.end_parts(&cells, "chunk");
        } else {
            self.repeat("for (int in_chunk = 0; in_chunk < chunk_length; in_chunk++) {", |this| {
                this.line("INT64 at = chunk_first + in_chunk;");
                this.team_iteration(kernel, "at - loop_first");
            });
        }
        if !backs.is_empty() || !fills.is_empty() {
            self.barrier();
        }
        self.together("chunk_length", &backs);
        if !backs.is_empty() {
            self.barrier();
        }
    }

    /// Writes statements that a team's threads execute for each number below `count`, assigned cyclically.
    pub(super) fn together(&mut self, count: &str, statements: &[String]) {
        if statements.is_empty() {
            return;
        }
        self.apart(&format!("for (int slot = THREAD; slot < {count}; slot += THREADS) {{"), "}", |this| {
            statements.iter().for_each(|statement| this.line(statement));
        });
    }

    pub(super) fn sequential(&mut self, one: &Loop) {
        let variable = &self.function.variables[one.var];
        let (ty, name) = (self.types.of(variable.ty).text(), variable.text.clone());
        let (first, end) = (self.expr(&one.first), self.operand(&one.end));
        let compare = if one.is_inclusive { "<=" } else { "<" };
        // Rust evaluates the end of a range only once.
        let is_fixed = self.facts.is_predictable(self.types, &one.end);
        let end = if is_fixed {
            end
        } else {
            self.open("{");
            self.line(format!("{ty} {name}_end = {end};"));
            format!("{name}_end")
        };
        self.repeat(&format!("for ({ty} {name} = {first}; {name} {compare} {end}; {name}++) {{"), |this| {
            this.statements(&one.body, true);
        });
        if !is_fixed {
            self.close();
        }
    }

    /// Writes a loop over a team's threads.
    pub(super) fn parallel(&mut self, one: &Loop, follows: bool) {
        let level = if self.is_team { 0 } else { self.level };
        let (depth, is_outer, own) = (self.facts.depth, self.is_team, nested(one));
        let is_reversed = !self.off.innermost_first;
        let axis = |level: usize| ["X", "Y", "Z"][if is_reversed { depth - 1 - level } else { level }];
        if is_outer && self.reads_first {
            self.barrier();
        }
        let reductions = self.facts.reductions.get(&one.var).cloned().unwrap_or_default();
        let outer_names: Vec<_> = reductions.iter().map(|(_, target)| self.renamed_name(*target)).collect();
        if !reductions.is_empty() {
            self.open("{");
        }
        let mut before = Vec::new();
        for (reduction, target) in &reductions {
            let key = TargetKey::from(*target);
            before.push(self.renamed.remove(&key));
            let element = self.element(*target);
            let name = format!("{}_thread", self.target_name(*target));
            self.line(format!("{} {name} = {};", element.text(), identity(*reduction, element)));
            self.renamed.insert(key, name);
        }
        if is_outer {
            // Threads along dimensions that this loop does not use would repeat the work, so they are excluded.
            for unused in own..depth {
                let axis = axis(unused).as_bytes()[0] - b'X';
                self.line(format!("if (LOCAL_ID({axis}) == 0)"));
            }
        }
        let axis = axis(level);
        let (first, end) = self.range(one);
        let at = format!("at_{}", axis.to_lowercase());
        self.apart(&format!("{{ PARALLEL_{axis}({at}, {first}, {end}) {{"), HEAD_ENDS, |this| {
            (this.is_team, this.level) = (false, level + 1);
            this.iteration(one, &at);
            (this.is_team, this.level) = (is_outer, level);
        });
        for (n, (reduction, target)) in reductions.iter().enumerate() {
            let key = TargetKey::from(*target);
            self.renamed.remove(&key);
            if let Some(name) = before[n].take() {
                self.renamed.insert(key, name);
            }
            let combine = combine(*reduction, self.element(*target));
            let (lanes, thread) = (self.lanes(*target), format!("{}_thread", self.target_name(*target)));
            self.line(format!("REDUCE({lanes}, {thread}, {combine});"));
            let name = &outer_names[n];
            self.line(format!("{name} = {combine}({name}, {thread});"));
        }
        if !reductions.is_empty() {
            self.close();
        } else if is_outer && follows {
            self.barrier();
        }
    }
}

/// Returns the nesting depth of loops over threads, including this one.
fn nested(one: &Loop) -> usize {
    let mut most = 0;
    walk::loops(&one.body, &mut |inner| {
        if inner.share.parallel.is_some() {
            most = most.max(nested(inner));
        }
    });
    most + 1
}
