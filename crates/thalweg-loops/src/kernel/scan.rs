//! Generation of running sums as three kernels. The first kernel adds up each run of iterations; the second computes
//! the prefix of each team's chunk; and the third runs the loop as written, with each thread starting from the prefix
//! of its run.
//!
//! The method is based on Blelloch (Prefix sums and their applications, 1990). Within a team, sums are scanned with
//! the algorithm of Hillis and Steele (1986).

use super::head::wrapped;
use super::{RUN, TargetKey, Writer, combine, identity};
use crate::check::{Facts, Scan, Target};
use crate::ir::{Function, Loop};
use crate::parse::text_name;
use crate::types::Types;

impl Writer<'_> {
    /// Writes the loop in runs of iterations. The runs of a team form a chunk. In the pass that only computes sums,
    /// each iteration ends after the adding statement.
    pub(super) fn runs(&mut self, kernel: &Loop, scan: Scan) {
        self.team_copies();
        let element = self.element(scan.target);
        let (text, combine) = (element.text(), combine(scan.reduction, element));
        let identity = identity(scan.reduction, element);
        let name = match scan.target {
            Target::Local(var) => self.function.variables[var].text.clone(),
            Target::Cell(param) => format!("{}_part", self.param_text(param)),
        };
        self.renamed.insert(TargetKey::from(scan.target), name.clone());
        if self.is_sum_alone {
            self.line(format!("LOCAL({text}, scan_lanes, TEAM_X);"));
        }
        let (first, end) = self.range(kernel);
        self.line(format!("INT64 loop_first = {first}, loop_end = {end};"));
        let head = "for (INT64 chunk = GROUP_ID(0); chunk < part_count; chunk += NUM_GROUPS(0)) {";
        let before =
            if self.is_sum_alone { identity.clone() } else { format!("{combine}(scan_parts[chunk], scan_runs[run])") };
        self.apart(head, "}", |this| {
        this.line(format!(
            "INT64 run = chunk * TEAM_X + LOCAL_ID(0), run_first = loop_first + run * {RUN}, run_end = LEAST(run_first + {RUN}, loop_end);"
        ));
        this.line(format!("{text} {name} = {before};"));
        this.apart("for (INT64 at = run_first; at < run_end; at++) {", "}", |this| {
        this.is_team = false;
        this.declare(kernel, "at");
        let body = if this.is_sum_alone { &kernel.body[..=scan.update] } else { &kernel.body[..] };
        this.statements(body, false);
        this.is_team = true;
        });
        if this.is_sum_alone {
            this.line(format!("{text} scan_before = {identity};"));
            this.line(format!("SCAN(scan_lanes, {name}, scan_before, {combine});"));
            this.barrier();
            this.line("scan_runs[run] = scan_before;");
            this.line(format!("if (LOCAL_ID(0) == TEAM_X - 1) scan_parts[chunk] = {name};"));
        }
        });
    }
}

/// Returns the text of the second kernel. It has a single team, which processes as many chunks at a time as it has
/// threads.
pub(super) fn offsets_text(function: &Function, types: &Types, facts: &Facts, name: &str) -> String {
    let Some((scan, element)) = facts.scan.zip(facts.scan_element(function, types)) else { return String::new() };
    let (text, combine, identity) =
        (element.text(), combine(scan.reduction, element), identity(scan.reduction, element));
    let cell = facts.scan_cell().map(|cell| text_name(&function.params[cell].name));
    let (buffer, region, start, back) = match &cell {
        Some(cell) => (
            format!("INOUT({text}, {cell}, 1), INT64 part_count"),
            format!(" REGION({cell});"),
            format!("{cell}[0]"),
            format!("    if (FIRST_THREAD && GROUP_ID(0) == 0) {cell}[0] = scan_all;\n"),
        ),
        None => (format!("INT64 part_count, {text} scan_start"), String::new(), "scan_start".to_owned(), String::new()),
    };
    let head = format!("KERNEL(TEAM_X, 1, 1) {name}(INOUT({text}, scan_parts, part_count), {buffer})");
    format!(
        "{head}
{{
    REGION(scan_parts);{region}
    LOCAL({text}, scan_lanes, TEAM_X);
    {text} scan_all = {start};
    for (INT64 loop_first = 0; loop_first < part_count; loop_first += TEAM_X) {{
        INT64 part = loop_first + LOCAL_ID(0);
        {text} scan_part = {identity}, scan_before = {identity};
        if (part < part_count) scan_part = scan_parts[part];
        SCAN(scan_lanes, scan_part, scan_before, {combine});
        if (part < part_count) scan_parts[part] = {combine}(scan_all, scan_before);
        scan_all = {combine}(scan_all, scan_lanes[TEAM_X - 1]);
        BARRIER();
    }}
{back}}}
",
        head = wrapped(&head)
    )
}
