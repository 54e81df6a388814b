//! Lowering of a loop to the text of a kernel, in the dialect defined by `kernels/dialect.h` with the additions in
//! `kernels/loops.h`.
//!
//! The text is the same for all team shapes. Macros define the number of threads in a team (`TEAM_X`, `TEAM_Y`,
//! `TEAM_Z`), whether each thread gets at most one iteration (`ONCE_..`), and whether indices are compared with array
//! lengths (`CHECKED`). The host defines these macros once it knows the trip counts.
//!
//! Invariants:
//! 1. Every access to a parameter or a local array is a `LOAD` or a `STORE` whose index the plan checks; or a
//!    `SAFE_..` operation, which checks the index itself; or an access to a chunk, which is in bounds by
//!    construction.
//! 2. Every thread of a team reaches each `BARRIER`: no barrier is inside a loop over threads, and the loops around a
//!    barrier run identically for all threads of a team.
//! 3. A loop over threads ends with a barrier if its team has more work afterwards.
//! 4. Outside loops over threads, no path contains two barriers directly after one another (`barriers`).

mod barriers;
mod expr;
mod head;
mod loops;
mod scan;
mod stmt;

use crate::check::{Facts, Target};
use crate::clauses::{Off, Reduction, Sized};
use crate::ir::{Direction, Expr, Function, Loop, ParamId, VarId};
use crate::parse::text_name;
use crate::types::{Scalar, Types};
use std::collections::BTreeMap;
use std::fmt::Write as _;

use head::{arguments, parameter, part_name, region, wrapped};

/// An argument of a kernel. A kernel's list of arguments is in the order of its head.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Argument {
    Buffer(ParamId),
    /// The number of elements along a dimension.
    Extent(ParamId, usize),
    /// The number of elements of a whole windowed array along a dimension. Passed only if the loop uses it.
    Whole(ParamId, usize),
    /// The first index in an array's window along a dimension.
    Base(ParamId, usize),
    /// The stride along a dimension, in elements.
    Stride(ParamId, usize),
    Number(ParamId),
    Let(VarId),
    /// A constant that is not an integer.
    Constant(usize),
    /// The partial results of this reduction, which the teams produce.
    Parts(usize),
    /// The number of partial results.
    PartCount,
    /// The prefix of each run of iterations in its chunk, and (`ScanParts`) of each chunk.
    ScanRuns,
    ScanParts,
    RunCount,
    /// The first iteration of a piece, and (`PieceEnd`) the end of the piece's iterations, which is exclusive.
    PieceFirst,
    PieceEnd,
}

/// A kernel, with the information that the host needs to launch it.
pub(crate) struct Kernel {
    pub(crate) name: String,
    pub(crate) text: String,
    pub(crate) arguments: Vec<Argument>,
    /// Macros for constants of the program that are integers.
    pub(crate) defines: Vec<(String, syn::Expr)>,
    /// The name of the kernel that combines the teams' partial results in a fixed order, and the reductions that it
    /// completes; `None` if there are no reductions.
    pub(crate) total: Option<(String, Vec<(Reduction, ParamId)>)>,
    /// For a kernel with a running sum, the names of the two kernels that precede it: the first computes the sums of
    /// the runs, and the second the prefixes of the chunks.
    pub(crate) scan: Option<(String, String)>,
}

/// The number of consecutive iterations that a thread executes in a running sum.
pub(crate) const RUN: u32 = 8;

/// The number of iterations that each thread of a team contributes to each part of a reduction.
const ROUNDS: u32 = 16;

/// Returns the number of iterations that a team executes together, as a literal or a constant; `None` if teams
/// execute single iterations.
pub(crate) fn chunk(facts: &Facts, kernel: &Loop, team: u32) -> Option<syn::Expr> {
    let is_reduced = kernel.share.is_combined() && !facts.cells().is_empty();
    let is_running = facts.scan.is_some();
    facts.chunk.clone().or_else(|| {
        (is_reduced || is_running).then(|| {
            let rounds = if is_running { RUN } else { ROUNDS };
            let number = syn::LitInt::new(&(team * rounds).to_string(), proc_macro2::Span::call_site());
            syn::Expr::Lit(syn::ExprLit { attrs: Vec::new(), lit: syn::Lit::Int(number) })
        })
    })
}

/// Returns the number of threads in a team that computes a reduction, which is a power of two.
pub(crate) fn lanes(thread_limit: u32) -> u32 {
    1 << thread_limit.ilog2()
}

/// A writer for the text of a kernel.
pub(super) struct Writer<'a> {
    function: &'a Function,
    types: &'a Types,
    facts: &'a Facts,
    /// The loop that becomes the kernel; `None` while writing a function that kernels call.
    kernel: Option<&'a Loop>,
    off: Off,
    text: String,
    indent: usize,
    /// On every path to this point, the team has synchronised at a barrier or the kernel's start, and has touched no
    /// shared memory since.
    has_met: bool,
    /// For each enclosing loop, the value of `has_met` for all paths that leave the loop or its current iteration
    /// with a jump.
    jumps: Vec<bool>,
    /// Names of partial results of reductions, which are used here instead of the names of the variables and cells.
    renamed: BTreeMap<TargetKey, String>,
    defines: Vec<(String, syn::Expr)>,
    /// Whether a single thread stores values for the whole team, as is the case outside the loops over threads.
    is_team: bool,
    /// The number of enclosing loops over threads.
    level: usize,
    /// Whether threads synchronise before loops over threads.
    reads_first: bool,
    /// Whether nothing is stored to parameters, as in the first pass of a running sum, which only computes sums.
    is_sum_alone: bool,
}

impl<'a> Writer<'a> {
    fn new(function: &'a Function, types: &'a Types, facts: &'a Facts) -> Self {
        Self {
            function,
            types,
            facts,
            kernel: None,
            off: Off::default(),
            text: String::new(),
            indent: 1,
            has_met: true,
            jumps: Vec::new(),
            renamed: BTreeMap::new(),
            defines: Vec::new(),
            is_team: false,
            level: 0,
            reads_first: false,
            is_sum_alone: false,
        }
    }
}

/// A reduction target in a form that can serve as a map key.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum TargetKey {
    Cell(ParamId),
    Local(VarId),
}

impl From<Target> for TargetKey {
    fn from(target: Target) -> Self {
        match target {
            Target::Cell(param) => Self::Cell(param),
            Target::Local(var) => Self::Local(var),
        }
    }
}

/// Returns the text of the kernel with this index.
pub(crate) fn lower(
    function: &Function,
    types: &Types,
    facts: &Facts,
    off: Off,
    (number, thread_limit): (usize, u32),
) -> Kernel {
    let kernel = &function.kernels[number];
    let name = text_name(&function.name);
    let name = if number == 0 { format!("{name}_loop") } else { format!("{name}_loop{}", number + 1) };
    let writer = || Writer { kernel: Some(kernel), off, is_team: true, ..Writer::new(function, types, facts) };
    let arguments = arguments(function, types, facts, kernel);
    let regions: Vec<String> = arguments.iter().filter_map(|argument| region(function, facts, *argument)).collect();
    let whole = |name: &str, body: &str, is_first: bool| {
        let parameter = |argument: &Argument| parameter(function, types, (facts, is_first), *argument);
        let heads: Vec<String> = arguments.iter().map(parameter).collect();
        let head = format!("KERNEL(TEAM_X, TEAM_Y, TEAM_Z) {name}({})", heads.join(", "));
        format!("{}\n{{\n    {}\n{body}}}\n", wrapped(&head), regions.join(" "))
    };
    let mut text = String::new();
    let scan = facts.scan.map(|scan| {
        let names = (format!("{name}_sums"), format!("{name}_offsets"));
        let mut writer = writer();
        writer.is_sum_alone = true;
        writer.runs(kernel, scan);
        text = format!(
            "{}\n{}\n",
            whole(&names.0, &writer.text, true),
            scan::offsets_text(function, types, facts, &names.1)
        );
        names
    });
    let mut writer = writer();
    match facts.scan {
        Some(scan) => writer.runs(kernel, scan),
        None => writer.body(kernel, chunk(facts, kernel, lanes(thread_limit))),
    }
    let Writer { text: body, mut defines, .. } = writer;
    for constant in &facts.constants {
        let constant = &function.constants[*constant];
        if !types.of(constant.ty).is_float() && !defines.iter().any(|(known, _)| *known == constant.text) {
            let path = syn::ExprPath { attrs: Vec::new(), qself: None, path: constant.path.clone() };
            defines.push((constant.text.clone(), syn::Expr::Path(path)));
        }
    }
    text += &whole(&name, &body, false);
    let cells = facts.cells();
    let total = (!cells.is_empty()).then(|| {
        let total = format!("{name}_total");
        text += &total_text(function, &total, &cells);
        (total, cells)
    });
    Kernel { name, text, arguments, defines, total, scan }
}

/// Returns the text of the body of a function that kernels call.
pub(crate) fn helper(function: &Function, types: &Types, body: &[crate::ir::Stmt], value: &Expr) -> String {
    let facts = Facts::default();
    let mut writer = Writer::new(function, types, &facts);
    writer.statements(body, false);
    let value = writer.expr(value);
    writer.line(format!("return {value};"));
    writer.text
}

/// Returns the text of a reduction's identity element.
pub(super) fn identity(reduction: Reduction, element: Scalar) -> String {
    match reduction {
        Reduction::Sum => if element.is_float() { "0.0" } else { "0" }.to_owned(),
        Reduction::Product => if element.is_float() { "1.0" } else { "1" }.to_owned(),
        Reduction::Max => format!("LOWEST_{}", element.parameter()),
        Reduction::Min => format!("HIGHEST_{}", element.parameter()),
    }
}

/// Returns the name of the macro that combines two numbers in a reduction.
pub(super) fn combine(reduction: Reduction, element: Scalar) -> &'static str {
    match (reduction, element.is_float()) {
        (Reduction::Sum, _) => "SUM",
        (Reduction::Product, _) => "PRODUCT",
        (Reduction::Max, true) => "fmax",
        (Reduction::Min, true) => "fmin",
        (Reduction::Max, false) => "LARGEST",
        (Reduction::Min, false) => "LEAST",
    }
}

/// Returns the text of the kernel that runs after a kernel with reductions. It has a single team, which combines the
/// partial results in ascending order of their indices.
fn total_text(function: &Function, name: &str, cells: &[(Reduction, ParamId)]) -> String {
    let (mut heads, mut body, mut regions) = (Vec::new(), String::new(), Vec::new());
    for (_, cell) in cells {
        let (parts, element) = (part_name(function, *cell), function.params[*cell].element.text());
        heads.push(format!("IN({element}, {parts}, part_count)"));
        regions.push(format!("REGION({parts});"));
    }
    for (reduction, cell) in cells {
        let (param, parts) = (&function.params[*cell], part_name(function, *cell));
        let (element, cell) = (param.element, text_name(&param.name));
        heads.push(format!("INOUT({}, {cell}, 1)", element.text()));
        regions.push(format!("REGION({cell});"));
        let (all, combine) = (format!("{cell}_all"), combine(*reduction, element));
        let _ = write!(
            body,
            "    {0} {all} = {1};\n    LOCAL({0}, {cell}_lanes, TEAM_X);\n    for (INT64 part = LOCAL_ID(0); part < part_count; part += \
             TEAM_X) {all} = {combine}({all}, {parts}[part]);\n    REDUCE({cell}_lanes, {all}, {combine});\n    if (FIRST_THREAD && \
             GROUP_ID(0) == 0) {cell}[0] = {combine}({cell}[0], {all});\n",
            element.text(),
            identity(*reduction, element),
        );
    }
    heads.push("INT64 part_count".to_owned());
    let head = format!("KERNEL(TEAM_X, 1, 1) {name}({})", heads.join(", "));
    format!("\n{}\n{{\n    {}\n{body}}}\n", wrapped(&head), regions.join(" "))
}

impl Writer<'_> {
    /// Returns the text of a length. A length that is not a literal becomes a macro.
    pub(super) fn length(&mut self, length: &syn::Expr) -> String {
        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) = length {
            return number.base10_digits().to_owned();
        }
        let tokens = quote::quote!(#length).to_string();
        if let Some((name, _)) = self.defines.iter().find(|(_, known)| quote::quote!(#known).to_string() == tokens) {
            return name.clone();
        }
        let name = match length {
            syn::Expr::Path(path) => {
                let names: Vec<_> = path.path.segments.iter().map(|segment| text_name(&segment.ident)).collect();
                names.join("_")
            }
            _ => format!("LENGTH_{}", self.defines.len()),
        };
        self.defines.push((name.clone(), length.clone()));
        name
    }

    pub(super) fn param_text(&self, id: ParamId) -> String {
        text_name(&self.function.params[id].name)
    }

    pub(super) fn type_of(&self, expr: &Expr) -> Scalar {
        self.types.of(expr.ty)
    }

    pub(super) fn variable(&self, var: VarId) -> String {
        match self.renamed.get(&TargetKey::Local(var)) {
            Some(name) => name.clone(),
            None => self.function.variables[var].text.clone(),
        }
    }

    /// Returns whether the array is in the team's memory because of a clause of `teams`, unless that optimization is
    /// disabled.
    pub(super) fn is_in_team(&self, id: ParamId) -> bool {
        let param = &self.function.params[id];
        param.team.is_some() && !(self.off.team_memory && param.direction() == Some(Direction::In))
    }

    /// Returns whether a chunk of the array is in the team's memory because of a clause of `distribute`, unless that
    /// optimization is disabled and not needed for correctness.
    pub(super) fn is_in_chunk(&self, id: ParamId) -> bool {
        let is_private = self.clause(id, |distribute| &distribute.private);
        let is_last = self.clause(id, |distribute| &distribute.lastprivate);
        // Values that must not be visible after their iteration cannot be stored where other iterations can see them.
        let is_needed = is_private || self.function.params[id].direction() != Some(Direction::In) && !is_last;
        self.facts.chunked.contains(&id) && (!self.off.team_memory || is_needed)
    }

    pub(super) fn clause(&self, id: ParamId, list: impl Fn(&crate::clauses::Distribute) -> &Vec<Sized>) -> bool {
        let name = &self.function.params[id].name;
        self.kernel
            .and_then(|kernel| kernel.share.distribute.as_ref())
            .is_some_and(|distribute| list(distribute).iter().any(|one| one.name == *name))
    }
}
