//! Generation of a kernel's head: its parameters, their order, and the elements of each buffer that the kernel may
//! touch.

use super::Argument;
use crate::check::Facts;
use crate::ir::{Direction, ExprKind, Function, Loop, Param, ParamId, ParamKind};
use crate::parse::text_name;
use crate::types::Types;
use crate::walk;
use std::collections::BTreeSet;

/// Wraps a head into several lines.
pub(super) fn wrapped(head: &str) -> String {
    let indent =
        " ".repeat(head.find(") ").map_or(4, |at| head[at + 2..].find('(').map_or(4, |open| at + 3 + open)).min(60));
    let (mut lines, mut line) = (String::new(), String::new());
    for part in head.split_inclusive(", ") {
        if line.len() + part.trim_end().len() > 120 && !line.trim().is_empty() {
            lines += line.trim_end();
            lines.push('\n');
            line = indent.clone();
        }
        line += part;
    }
    lines + &line
}

pub(super) fn arguments(function: &Function, types: &Types, facts: &Facts, kernel: &Loop) -> Vec<Argument> {
    let mut asked = BTreeSet::new();
    walk::statements(&kernel.body, &mut |expr| {
        if let ExprKind::Len(id, dimension) = &expr.kind {
            let dims = dimension.map_or(0..function.params[*id].dims(), |dimension| dimension..dimension + 1);
            asked.extend(dims.map(|dimension| (*id, dimension)));
        }
    });
    let mut arguments = Vec::new();
    let cells = facts.cells();
    let is_cell = |id: ParamId| cells.iter().any(|(_, cell)| *cell == id) || facts.scan_cell() == Some(id);
    let accessed = || facts.params.iter().copied().filter(|id| function.params[*id].is_access() && !is_cell(*id));
    arguments.extend(accessed().map(Argument::Buffer));
    arguments.extend((0..cells.len()).map(Argument::Parts));
    if facts.scan.is_some() {
        arguments.extend([Argument::ScanRuns, Argument::ScanParts]);
    }
    for id in accessed() {
        if let ParamKind::Array(_, dims) = function.params[id].kind {
            arguments.extend((0..dims).map(|dimension| Argument::Extent(id, dimension)));
            arguments.extend((0..dims - 1).map(|dimension| Argument::Stride(id, dimension)));
            if function.is_windowed(id) {
                let whole = (0..dims).filter(|dimension| asked.contains(&(id, *dimension)));
                arguments.extend(whole.map(|dimension| Argument::Whole(id, dimension)));
                arguments.extend((0..dims).map(|dimension| Argument::Base(id, dimension)));
            }
        }
    }
    if !cells.is_empty() || facts.scan.is_some() {
        arguments.push(Argument::PartCount);
    }
    if facts.scan.is_some() {
        arguments.push(Argument::RunCount);
    }
    if function.is_split {
        arguments.extend([Argument::PieceFirst, Argument::PieceEnd]);
    }
    let is_number = |id: &&ParamId| function.params[**id].kind == ParamKind::Number;
    arguments.extend(facts.params.iter().filter(is_number).map(|id| Argument::Number(*id)));
    arguments.extend(facts.lets.iter().map(|var| Argument::Let(*var)));
    let floats = facts.constants.iter().filter(|constant| types.of(function.constants[**constant].ty).is_float());
    arguments.extend(floats.map(|constant| Argument::Constant(*constant)));
    arguments
}

pub(super) fn part_name(function: &Function, cell: ParamId) -> String {
    format!("{}_parts", text_name(&function.params[cell].name))
}

/// Returns a parameter of the head. The first kernel of a running sum writes the buffers that the last kernel reads.
pub(super) fn parameter(
    function: &Function,
    types: &Types,
    (facts, is_first): (&Facts, bool),
    argument: Argument,
) -> String {
    let scan = |name: &str, count: &str| {
        let element = facts.scan_element(function, types).map_or("double", crate::types::Scalar::text);
        format!("{}({element}, {name}, {count})", if is_first { "OUT" } else { "IN" })
    };
    let name = |id: ParamId| text_name(&function.params[id].name);
    match argument {
        Argument::Buffer(id) => {
            let (param, name) = (&function.params[id], name(id));
            let bounds = match param.kind {
                ParamKind::Array(_, 2) => format!("[{name}_n0 : {name}_s0][{name}_n1]"),
                ParamKind::Array(_, 3) => format!("[{name}_n0 : {name}_s0][{name}_n1 : {name}_s1][{name}_n2]"),
                ParamKind::Array(..) => format!("{name}_n0"),
                _ => "1".to_owned(),
            };
            format!("{}({}, {name}, {bounds})", mode(param), param.element.text())
        }
        Argument::Extent(id, dimension) => format!("INT64 {}_n{dimension}", name(id)),
        Argument::Stride(id, dimension) => format!("INT64 {}_s{dimension}", name(id)),
        Argument::Whole(id, dimension) => format!("INT64 {}_w{dimension}", name(id)),
        Argument::Base(id, dimension) => format!("INT64 {}_b{dimension}", name(id)),
        Argument::PieceFirst => "INT64 piece_first".to_owned(),
        Argument::PieceEnd => "INT64 piece_end".to_owned(),
        Argument::Number(id) => format!("{} {}", function.params[id].element.text(), name(id)),
        Argument::Let(var) => {
            let variable = &function.variables[var];
            format!("{} {}", types.of(variable.ty).text(), variable.text)
        }
        Argument::Constant(constant) => {
            let constant = &function.constants[constant];
            format!("{} {}", types.of(constant.ty).text(), constant.text)
        }
        Argument::Parts(number) => {
            let (_, cell) = facts.cells()[number];
            format!("OUT({}, {}, part_count)", function.params[cell].element.text(), part_name(function, cell))
        }
        Argument::PartCount => "INT64 part_count".to_owned(),
        Argument::ScanRuns => scan("scan_runs", "run_count"),
        Argument::ScanParts => scan("scan_parts", "part_count"),
        Argument::RunCount => "INT64 run_count".to_owned(),
    }
}

fn mode(param: &Param) -> &'static str {
    match (param.direction(), &param.team) {
        (Some(Direction::Inout), None) => "INOUT",
        (Some(Direction::Out), None) => "OUT",
        _ => "IN",
    }
}

pub(super) fn region(function: &Function, facts: &Facts, argument: Argument) -> Option<String> {
    match argument {
        Argument::Buffer(id) => Some(format!("REGION({});", text_name(&function.params[id].name))),
        Argument::Parts(number) => Some(format!("REGION({});", part_name(function, facts.cells()[number].1))),
        Argument::ScanRuns => Some("REGION(scan_runs);".to_owned()),
        Argument::ScanParts => Some("REGION(scan_parts);".to_owned()),
        _ => None,
    }
}
