//! The task of a function: its accesses, its bodies, its kernels as constants.
//!
//! Beside the function `name`, which stays a plain one, there is a type `name`: a namespace for what belongs to it. Its
//! function `task` begins the description of a task.

use crate::check::{self, Facts};
use crate::clauses::{Options, Reduction};
use crate::cores;
use crate::ir::{Direction, Function, Param, ParamId, ParamKind};
use crate::kernel::{self, Argument, Kernel, lanes};
use crate::parse;
use crate::plan;
use crate::types::Types;
use proc_macro2::TokenStream;
use quote::format_ident;
use syn::visit_mut::VisitMut;
use syn::{ItemFn, Result};

/// All that is known of a function.
struct Made {
    function: Function,
    types: Types,
    facts: Vec<Facts>,
    kernels: Vec<Kernel>,
}

fn make(options: &Options, item: &ItemFn) -> Result<Made> {
    let (mut function, types) = parse::function(options, item)?;
    let facts = check::kernels(&mut function, &types)?;
    let kernel = |(number, facts): (usize, &Facts)| {
        kernel::lower(&function, &types, facts, options.off, (number, options.teams.thread_limit))
    };
    let kernels = facts.iter().enumerate().map(kernel).collect();
    Ok(Made { function, types, facts, kernels })
}

/// The texts of all kernels.
pub(crate) fn texts(options: &Options, item: &ItemFn) -> Result<String> {
    let made = make(options, item)?;
    Ok(made.kernels.into_iter().map(|kernel| kernel.text).collect::<Vec<_>>().join("\n"))
}

/// The function without the attributes of its loops.
pub(crate) fn plain(item: &ItemFn) -> ItemFn {
    struct Clear;
    impl VisitMut for Clear {
        fn visit_expr_for_loop_mut(&mut self, one: &mut syn::ExprForLoop) {
            one.attrs.retain(|attribute| {
                let last = attribute.path().segments.last().map(|last| last.ident.to_string());
                !matches!(last.as_deref(), Some("distribute" | "parallel_for"))
            });
            syn::visit_mut::visit_expr_for_loop_mut(self, one);
        }
    }
    let mut item = item.clone();
    Clear.visit_item_fn_mut(&mut item);
    item
}

/// The function, its task, and what that needs.
pub(crate) fn expand(options: &Options, item: &ItemFn) -> Result<TokenStream> {
    let Made { function, types, facts, kernels } = make(options, item)?;
    let plain = plain(item);
    let (name, vis) = (&item.sig.ident, &item.vis);
    let text = kernels.iter().map(|kernel| kernel.text.as_str()).collect::<Vec<_>>().join("\n");
    let plans: TokenStream = (0..kernels.len())
        .map(|number| {
            let plan = format_ident!("plan_{number}");
            let (declared, _) = plan::arguments(&function, &types, &facts[number]);
            let body = plan::lower(&function, &types, &facts[number], &function.kernels[number]);
            made! {
                #[allow(unused_mut, unused_variables, clippy::all)]
                fn #plan(#(#declared),*) -> thalweg_support::Nest { #body }
            }
        })
        .collect();
    let for_cores = cores_body(&function, &types, &facts, options, item);
    let for_devices = devices_body(&function, &types, (&facts, &kernels), options, item);
    let task = task_function(&function, item);
    let doc = format!("What belongs to [`fn@{name}`]: its task.");
    Ok(made! {
        #[allow(dead_code, clippy::too_many_arguments, clippy::needless_range_loop, clippy::manual_memcpy, clippy::assign_op_pattern)]
        #plain

        #[doc = #doc]
        #[allow(non_camel_case_types)]
        #vis enum #name {}

        const _: () = {
            use ::thalweg::loops::support as thalweg_support;
            #plans
            #for_cores
            #for_devices
            #[allow(clippy::too_many_arguments)]
            impl #name {
                /// The texts of the kernels, as devices get them behind the dialect.
                #vis const KERNELS: &'static str = #text;
                #task
            }
        };
    })
}

/// The type of a parameter on the host, without its reference.
fn pointee(param: &Param) -> TokenStream {
    let element = format_ident!("{}", param.element.rust());
    match param.kind {
        ParamKind::Array(_, 2) => made!(::thalweg::ndarray::ArrayRef<#element, ::thalweg::ndarray::Ix2>),
        ParamKind::Array(_, 3) => made!(::thalweg::ndarray::ArrayRef<#element, ::thalweg::ndarray::Ix3>),
        ParamKind::Array(..) => made!([#element]),
        ParamKind::Cell(_) | ParamKind::Number => made!(#element),
    }
}

/// The parameters of a body: all but what is each team's own.
fn cores_params(function: &Function) -> Vec<TokenStream> {
    let param = |param: &Param| {
        let (name, ty) = (&param.name, pointee(param));
        match (param.kind, param.is_written()) {
            (ParamKind::Number, _) => made!(#name: #ty),
            (_, true) => made!(#name: &mut #ty),
            (_, false) => made!(#name: &#ty),
        }
    };
    function.params.iter().filter(|one| one.kind == ParamKind::Number || one.is_access()).map(param).collect()
}

/// The statements of a function, with something else in the place of its loops.
fn statements(item: &ItemFn, mut replace: impl FnMut(usize) -> TokenStream) -> TokenStream {
    let mut number = 0;
    let statement = |statement: &syn::Stmt| match statement {
        syn::Stmt::Expr(syn::Expr::ForLoop(_), _) => {
            number += 1;
            replace(number - 1)
        }
        other => made!(#other),
    };
    item.block.stmts.iter().map(statement).collect()
}

fn cores_body(function: &Function, types: &Types, facts: &[Facts], options: &Options, item: &ItemFn) -> TokenStream {
    let params = cores_params(function);
    let body = statements(item, |number| cores::lower(function, types, &facts[number], options, number));
    made! {
        #[allow(unused_variables, unused_mut, unused_parens, clippy::all)]
        fn cores(cores: usize, #(#params),*) { #body }
    }
}

fn devices_body(
    function: &Function,
    types: &Types,
    (facts, kernels): (&[Facts], &[Kernel]),
    options: &Options,
    item: &ItemFn,
) -> TokenStream {
    let params = function.params.iter().filter(|one| one.kind == ParamKind::Number || one.is_access()).map(|param| {
        let (name, element) = (&param.name, format_ident!("{}", param.element.rust()));
        let view = format_ident!("view_of_{name}");
        match (param.kind, param.is_written()) {
            (ParamKind::Number, _) => made!(#name: #element),
            (_, true) => made!(mut #view: ::thalweg::kernel::DeviceViewMut<'_, #element>),
            (_, false) => made!(#view: ::thalweg::kernel::DeviceView<'_, #element>),
        }
    });
    let extents = function.params.iter().filter(|one| one.is_access()).map(|param| {
        let (name, dims) = (&param.name, param.dims());
        let view = format_ident!("view_of_{name}");
        let strides = format_ident!("strides_of_{name}");
        made!(let (#name, #strides) = (thalweg_support::Extents::<#dims>::of(#view.extents()), #view.strides());)
    });
    let body = statements(item, |number| launch(function, types, &facts[number], (&kernels[number], number), options));
    made! {
        #[allow(unused_variables, unused_mut, unused_parens, clippy::all)]
        fn devices(launcher: &mut ::thalweg::kernel::Launcher<'_>, #(#params),*) -> ::core::result::Result<(), ::thalweg::error::DeviceError> {
            #(#extents)*
            #body
            ::core::result::Result::Ok(())
        }
    }
}

/// The type and the value of a kernel's argument.
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
        Argument::Extent(id, dimension) => {
            let name = &function.params[id].name;
            (made!(i64), made!(#name.0[#dimension] as i64))
        }
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
    }
}

/// What enqueues a kernel.
fn launch(
    function: &Function,
    types: &Types,
    facts: &Facts,
    (kernel, number): (&Kernel, usize),
    options: &Options,
) -> TokenStream {
    let (plan, one) = (format_ident!("plan_{number}"), &function.kernels[number]);
    let (declared, _) = plan::arguments(function, types, facts);
    // Here the arrays' names stand for their extents.
    let given = facts.params.iter().filter(|id| {
        function.params[**id].kind == ParamKind::Number
            || matches!(function.params[**id].kind, ParamKind::Array(..)) && function.params[**id].is_access()
    });
    let given: Vec<TokenStream> = given
        .map(|id| {
            let name = &function.params[*id].name;
            made!(#name)
        })
        .chain(facts.lets.iter().map(|var| {
            let name = &function.variables[*var].name;
            made!(#name)
        }))
        .collect();
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
    let is_reduced = !facts.reductions.is_empty();
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
        // SAFETY: the kernel loads and stores what its head declares, since either the plan has found all indices below the
        // lengths that it is given, or it looks at each index itself. Nobody else launches it.
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
            launcher.launch(KERNEL.of(&shape), shape.threads(), (#(#values,)*))?;
            #total
        }
    }}
}

/// What enqueues the kernel that combines the parts of reductions.
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

/// How much of its memory a team needs, as an expression.
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
    let lanes = facts.reductions.values().flatten().count() * team as usize * 8;
    let _ = kernel;
    made!(#lanes #(+ #terms)*)
}

/// `task`: declares the accesses, and gives the task its bodies.
fn task_function(function: &Function, item: &ItemFn) -> TokenStream {
    let (name, vis) = (function.name.to_string(), &item.vis);
    let params = || function.params.iter().filter(|one| one.kind == ParamKind::Number || one.is_access());
    let shape = |param: &Param| format_ident!("Ix{}", param.dims());
    let element = |param: &Param| format_ident!("{}", param.element.rust());
    let declared = params().map(|param| {
        let (name, element, shape) = (&param.name, element(param), shape(param));
        if param.kind == ParamKind::Number {
            made!(#name: #element)
        } else {
            made!(#name: impl ::thalweg::task::IntoRegion<'d, #element, ::thalweg::ndarray::#shape>)
        }
    });
    let accesses: Vec<&Param> = function.params.iter().filter(|one| one.is_access()).collect();
    let access_types: Vec<TokenStream> = accesses
        .iter()
        .map(|param| {
            let (element, shape, kind) = (element(param), shape(param), format_ident!("{}", direction(param).0));
            made!(::thalweg::task::#kind<'d, #element, ::thalweg::ndarray::#shape>)
        })
        .collect();
    let made = accesses.iter().map(|param| {
        let (name, method) = (&param.name, format_ident!("{}", direction(param).1));
        made!(#name.into_region().#method())
    });
    let names: Vec<_> = accesses.iter().map(|param| &param.name).collect();
    let for_cores = params().map(|param| {
        let name = &param.name;
        match (param.kind, param.is_written()) {
            (ParamKind::Number, _) => made!(#name),
            (ParamKind::Cell(_), true) => made!(&mut #name[0]),
            (ParamKind::Cell(_), false) => made!(&#name[0]),
            (_, true) => made!(&mut *#name),
            (_, false) => made!(&*#name),
        }
    });
    let for_devices = params().map(|param| {
        let name = &param.name;
        made!(#name)
    });
    let views = made!((#(#names,)*));
    let mutable = accesses.iter().map(|param| {
        let name = &param.name;
        if param.is_written() { made!(mut #name) } else { made!(#name) }
    });
    let mutable = made!((#(#mutable,)*));
    let doc = format!(
        "Begins the description of a task that does what [`fn@{name}`] does: on cores, and on accelerators. Arrays are data \
         objects or regions; what the function has by `&` the task reads, what it has by `&mut` it reads and writes, and what \
         is `Out` it overwrites."
    );
    made! {
        #[doc = #doc]
        #[must_use = "a task runs only once it is submitted"]
        #vis fn task<'rt, 'd>(
            runtime: &'rt ::thalweg::Runtime,
            #(#declared),*
        ) -> ::thalweg::TaskBuilder<
            'rt,
            (#(#access_types,)*),
            impl ::thalweg::memory::Slot<<(#(#access_types,)*) as ::thalweg::task::Accesses>::Stored>
        > {
            #[allow(unused_imports)]
            use ::thalweg::task::IntoRegion as _;
            #[allow(unused_mut)]
            runtime
                .task(#name, (#(#made,)*))
                .cpu(move |context: &::thalweg::Context, #mutable| cores(context.inner_cores(), #(#for_cores),*))
                .gpu(move |launcher: &mut ::thalweg::kernel::Launcher<'_>, #views| devices(launcher, #(#for_devices),*))
        }
    }
}

/// The type of a parameter's access, and the method that makes it.
fn direction(param: &Param) -> (&'static str, &'static str) {
    match (param.direction(), &param.team) {
        (Some(Direction::Inout), None) => ("Inout", "inout"),
        (Some(Direction::Out), None) => ("Output", "output"),
        _ => ("Input", "input"),
    }
}
