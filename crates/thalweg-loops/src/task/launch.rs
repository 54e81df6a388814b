//! Generation of the code that enqueues a loop's kernel: the program as a constant, the shape of the teams, and the
//! arguments.

use crate::check::{Facts, Target};
use crate::clauses::{Options, Reduction};
use crate::ir::{Direction, Function, ParamId, ParamKind};
use crate::kernel::{self, Argument, Kernel, lanes};
use crate::plan;
use crate::types::Types;
use proc_macro2::TokenStream;
use quote::format_ident;

/// Returns the type and the value of a kernel's argument.
fn argument(function: &Function, types: &Types, facts: &Facts, argument: Argument) -> (TokenStream, TokenStream) {
    let view = |id: ParamId| format_ident!("view_of_{}", function.params[id].name);
    let number = |ty: crate::types::Scalar, value: TokenStream| {
        let parameter = format_ident!("{}", ty.parameter());
        (made!(#parameter), made!((#value) as #parameter))
    };
    match argument {
        Argument::Buffer(id) => {
            let (param, view) = (&function.params[id], view(id));
            let element = format_ident!("{}", param.element.rust());
            if param.is_written() {
                (made!(::thalweg::kernel::Write<#element>), made!(&mut #view))
            } else {
                (made!(::thalweg::kernel::Read<#element>), made!(&#view))
            }
        }
        Argument::Extent(id, dimension) if function.is_windowed(id) => {
            let part = format_ident!("part_of_{}", function.params[id].name);
            (made!(i64), made!(#part.0[#dimension] as i64))
        }
        Argument::Extent(id, dimension) | Argument::Whole(id, dimension) => {
            let name = &function.params[id].name;
            (made!(i64), made!(#name.0[#dimension] as i64))
        }
        Argument::Base(id, dimension) => {
            let window = format_ident!("window_of_{}", function.params[id].name);
            (made!(i64), made!(#window.base[#dimension] as i64))
        }
        Argument::PieceFirst => (made!(i64), made!(piece.first as i64)),
        Argument::PieceEnd => (made!(i64), made!(piece.end as i64)),
        Argument::Stride(id, dimension) => {
            let strides = format_ident!("strides_of_{}", function.params[id].name);
            (made!(i64), made!(#strides[#dimension] as i64))
        }
        Argument::Number(id) => {
            let name = &function.params[id].name;
            number(function.params[id].element, made!(#name))
        }
        Argument::Let(var) => {
            let variable = &function.variables[var];
            let name = &variable.name;
            number(types.of(variable.ty), made!(#name))
        }
        Argument::Constant(constant) => {
            let constant = &function.constants[constant];
            let path = &constant.path;
            number(types.of(constant.ty), made!(#path))
        }
        Argument::Parts(number) => {
            let element = format_ident!("{}", function.params[facts.cells()[number].1].element.rust());
            let parts = format_ident!("parts_{number}");
            (made!(::thalweg::kernel::Write<#element>), made!(&mut #parts))
        }
        Argument::PartCount => (made!(i64), made!(shape.parts as i64)),
        Argument::RunCount => (made!(i64), made!(scan_run_count as i64)),
        Argument::ScanRuns | Argument::ScanParts => {
            let element = facts.scan_element(function, types).map_or("f64", crate::types::Scalar::parameter);
            let element = format_ident!("{element}");
            let name = made_scan(argument);
            (made!(::thalweg::kernel::Read<#element>), made!(&#name))
        }
    }
}

/// Returns the name of a scratch buffer of a running sum.
fn made_scan(argument: Argument) -> TokenStream {
    if argument == Argument::ScanRuns { made!(scan_runs) } else { made!(scan_parts) }
}

/// Returns the code that enqueues the kernels that precede a kernel with a running sum.
fn scan_launch(
    (function, types, facts): (&Function, &Types, &Facts),
    (sums, offsets): &(String, String),
    kernel: &Kernel,
    team: u32,
) -> TokenStream {
    let Some((scan, element)) = facts.scan.zip(facts.scan_element(function, types)) else { return TokenStream::new() };
    let parameter = format_ident!("{}", element.parameter());
    let with = |one: &Argument| match one {
        Argument::ScanRuns | Argument::ScanParts => {
            let name = made_scan(*one);
            (made!(::thalweg::kernel::Write<#parameter>), made!(&mut #name))
        }
        other => argument(function, types, facts, *other),
    };
    let (sum_types, sum_values): (Vec<_>, Vec<_>) = kernel.arguments.iter().map(with).unzip();
    let write = made!(::thalweg::kernel::Write<#parameter>);
    let (rest, given) = match scan.target {
        Target::Cell(cell) => {
            let view = format_ident!("view_of_{}", function.params[cell].name);
            (made!(#write, i64), made!(&mut #view, shape.parts as i64))
        }
        Target::Local(var) => {
            let (name, ty) = (&function.variables[var].name, format_ident!("{}", element.rust()));
            (made!(i64, #parameter), made!(shape.parts as i64, { let start: #ty = #name; start as #parameter }))
        }
    };
    made! {
        let mut scan_parts = launcher.scratch::<#parameter>(shape.parts)?;
        let scan_run_count = shape.parts * #team as usize;
        let mut scan_runs = launcher.scratch::<#parameter>(scan_run_count)?;
        type SumTypes = (#(#sum_types,)*);
        static SUMS: thalweg_support::Variants<SumTypes> = thalweg_support::Variants::new(&PROGRAM, #sums);
        launcher.launch(SUMS.of(&shape), shape.threads(), (#(#sum_values,)*))?;
        type OffsetTypes = (#write, #rest);
        static OFFSETS: thalweg_support::Variants<OffsetTypes> = thalweg_support::Variants::new(&PROGRAM, #offsets);
        launcher.launch(OFFSETS.of(&thalweg_support::Shape::of_one_team(#team)), #team as usize, (&mut scan_parts, #given))?;
    }
}

/// Returns the arguments of a kernel's plan, for use where the arrays' names denote their extents.
pub(super) fn plan_arguments(function: &Function, facts: &Facts) -> Vec<TokenStream> {
    let params = facts.params.iter().map(|id| &function.params[*id]);
    let params = params.filter(|param| {
        param.kind == ParamKind::Number || matches!(param.kind, ParamKind::Array(..)) && param.is_access()
    });
    let lets = facts.lets.iter().map(|var| &function.variables[*var].name);
    let names = params.map(|param| &param.name).chain(lets).map(|name| made!(#name));
    names.chain(function.is_split.then(|| made!(piece))).collect()
}

/// Returns the code that enqueues a kernel.
pub(super) fn launch(
    function: &Function,
    types: &Types,
    facts: &Facts,
    (kernel, number): (&Kernel, usize),
    options: &Options,
) -> TokenStream {
    let (plan, one) = (format_ident!("plan_{number}"), &function.kernels[number]);
    let (declared, _) = plan::arguments(function, types, facts);
    let given = plan_arguments(function, facts);
    debug_assert_eq!(declared.len(), given.len());
    let (argument_types, values): (Vec<_>, Vec<_>) =
        kernel.arguments.iter().map(|one| argument(function, types, facts, *one)).unzip();
    let (name, text) = (&kernel.name, &kernel.text);
    let file = format!("{}.cl", kernel.name);
    let helpers: TokenStream = facts
        .helpers
        .iter()
        .map(|helper| {
            let path = &function.helpers[*helper].path;
            let name = made!(#path).to_string();
            made!(.header(#name, #path::DEVICE_TEXT))
        })
        .collect();
    let helper_types: TokenStream = facts
        .helpers
        .iter()
        .map(|helper| {
            let helper = &function.helpers[*helper];
            let path = &helper.path;
            let arguments = helper.arguments.iter().map(|ty| format_ident!("{}", types.of(*ty).rust()));
            let result = format_ident!("{}", types.of(helper.result).rust());
            made!(const _: fn(#(#arguments),*) -> #result = #path;)
        })
        .collect();
    let defines: TokenStream =
        kernel.defines.iter().map(|(name, value)| made!(.define(#name, (#value) as i64))).collect();
    let team = lanes(options.teams.thread_limit);
    let chunk = kernel::chunk(facts, one, team);
    let chunk = match &chunk {
        Some(chunk) => made!(::core::option::Option::Some((#chunk) as usize)),
        None => made!(::core::option::Option::None),
    };
    let teams = match &options.teams.num {
        Some(number) => made!(::core::option::Option::Some(#number)),
        None => made!(::core::option::Option::None),
    };
    let (limit, depth, is_combined) = (options.teams.thread_limit, facts.depth, one.share.is_combined());
    let is_reduced = !facts.reductions.is_empty() || facts.scan.is_some();
    let scan = kernel.scan.as_ref().map(|names| scan_launch((function, types, facts), names, kernel, team));
    let (once, reversed) = (!options.off.once, !options.off.innermost_first);
    let function_name = function.name.to_string();
    let written = plan::written(function, one);
    let array_names: Vec<String> = written.iter().map(|id| function.params[*id].name.to_string()).collect();
    let bytes = team_bytes(function, types, facts, options, one, team);
    let cells = facts.cells();
    let parts: Vec<_> = (0..cells.len()).map(|n| format_ident!("parts_{n}")).collect();
    let cell_elements: Vec<_> =
        cells.iter().map(|(_, cell)| format_ident!("{}", function.params[*cell].element.rust())).collect();
    let total = kernel.total.as_ref().map(|(total, cells)| total_launch(function, total, cells, team));
    made! {{
        #helper_types
        #[allow(unsafe_code)]
        // SAFETY: the kernel loads and stores only elements that its head declares, because either the plan has found
        // all indices to be less than the lengths that the kernel is given, or the kernel checks each index itself.
        // Nothing else launches the kernel.
        const PROGRAM: ::thalweg::kernel::Program = unsafe { ::thalweg::kernel::Program::new(#file, #text) }
            .header("loops.h", thalweg_support::LOOPS)
            #helpers
            .define("THALWEG_EXACT", 1)
            #defines;
        type Types = (#(#argument_types,)*);
        static KERNEL: thalweg_support::Variants<Types> = thalweg_support::Variants::new(&PROGRAM, #name);
        const TEAM_BYTES: usize = #bytes;
        const _: () = ::core::assert!(TEAM_BYTES <= thalweg_support::MOST_TEAM_BYTES, "a team has 48 KiB of memory; make arrays or chunks smaller");
        const LAUNCH: thalweg_support::Launch = thalweg_support::Launch {
            function: #function_name,
            arrays: &[#(#array_names),*],
            teams: #teams,
            thread_limit: #limit,
            chunk: #chunk,
            depth: #depth,
            is_combined: #is_combined,
            is_reduced: #is_reduced,
            once: #once,
            innermost_first: #reversed,
            team_bytes: TEAM_BYTES,
        };
        let nest = #plan(#(#given),*);
        if let ::core::option::Option::Some(shape) = nest.shape(&LAUNCH, launcher)? {
            #(let mut #parts = launcher.scratch::<#cell_elements>(shape.parts)?;)*
            #scan
            launcher.launch(KERNEL.of(&shape), shape.threads(), (#(#values,)*))?;
            #total
        }
    }}
}

/// Returns the code that enqueues the kernel that combines the partial results of reductions.
fn total_launch(function: &Function, name: &str, cells: &[(Reduction, ParamId)], team: u32) -> TokenStream {
    let element = |cell: &ParamId| format_ident!("{}", function.params[*cell].element.rust());
    let reads = cells.iter().map(|(_, cell)| element(cell)).map(|element| made!(::thalweg::kernel::Read<#element>));
    let writes = cells.iter().map(|(_, cell)| element(cell)).map(|element| made!(::thalweg::kernel::Write<#element>));
    let parts = (0..cells.len()).map(|n| format_ident!("parts_{n}"));
    let views = cells.iter().map(|(_, cell)| format_ident!("view_of_{}", function.params[*cell].name));
    made! {
        type TotalTypes = (#(#reads,)* #(#writes,)* i64);
        static TOTAL: thalweg_support::Variants<TotalTypes> = thalweg_support::Variants::new(&PROGRAM, #name);
        launcher.launch(TOTAL.of(&thalweg_support::Shape::of_one_team(#team)), #team as usize, (#(&#parts,)* #(&mut #views,)* shape.parts as i64))?;
    }
}

/// Returns an expression for the number of bytes of memory that a team needs.
fn team_bytes(
    function: &Function,
    types: &Types,
    facts: &Facts,
    options: &Options,
    kernel: &crate::ir::Loop,
    team: u32,
) -> TokenStream {
    let mut terms = Vec::new();
    for param in &facts.params {
        let param = &function.params[*param];
        if let Some(copy) = &param.team
            && !(options.off.team_memory && param.direction() == Some(Direction::In))
        {
            let (len, bytes) = (&copy.len, (param.element.bits() / 8) as usize);
            terms.push(made!((#len) * #bytes));
        }
    }
    if let Some(chunk) = &facts.chunk {
        for param in &facts.chunked {
            let bytes = (function.params[*param].element.bits() / 8) as usize;
            terms.push(made!((#chunk) * #bytes));
        }
    }
    for var in &facts.team_arrays {
        let variable = &function.variables[*var];
        let (len, bytes) = (&variable.array, (types.of(variable.ty).bits() / 8) as usize);
        terms.push(made!((#len) * #bytes));
    }
    let lanes = (facts.reductions.values().flatten().count() + usize::from(facts.scan.is_some())) * team as usize * 8;
    let _ = kernel;
    made!(#lanes #(+ #terms)*)
}
