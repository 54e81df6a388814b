//! Generation of a function's task: its accesses, its bodies, and its kernels as constants.
//!
//! The function `name` itself stays a plain function. In addition, a type `name` is generated, which serves as a
//! namespace for the generated items. Its function `task` begins the description of a task.

mod bodies;
mod front;
mod launch;

use crate::check::{self, Facts};
use crate::clauses::Options;
use crate::fuse;
use crate::ir::{Function, ParamId};
use crate::kernel::{self, Kernel};
use crate::parse;
use crate::plan;
use crate::types::Types;
use proc_macro2::TokenStream;
use quote::format_ident;
use syn::visit_mut::VisitMut;
use syn::{ItemFn, Result};

use bodies::{cores_body, devices_body};

/// The maximum number of parameters of a kernel.
const MOST_ARGUMENTS: usize = 24;

/// The results of all translation stages for a function.
struct Made {
    /// The source of the bodies: the user's function, or a version of it with fused loops.
    item: ItemFn,
    /// Parameters whose elements fused loops do not read a second time.
    again: Vec<ParamId>,
    function: Function,
    types: Types,
    facts: Vec<Facts>,
    kernels: Vec<Kernel>,
}

fn make(options: &Options, item: &ItemFn) -> Result<Made> {
    let (mut function, mut types) = parse::function(options, item)?;
    let (mut item, mut again) = (item.clone(), Vec::new());
    if options.fuse {
        (item, again) = fuse::fuse(&function, &item)?;
        (function, types) = parse::function(options, &item)?;
    }
    let facts = check::kernels(&mut function, &types)?;
    let kernel = |(number, facts): (usize, &Facts)| {
        kernel::lower(&function, &types, facts, options.off, (number, options.teams.thread_limit))
    };
    let kernels: Vec<Kernel> = facts.iter().enumerate().map(kernel).collect();
    if let Some(kernel) = kernels.iter().find(|kernel| kernel.arguments.len() > MOST_ARGUMENTS) {
        let message = format!(
            "a kernel has at most {MOST_ARGUMENTS} parameters, and this one would need {}: one for each number, and for each array its \
             extents, strides and, if the loop is split, windows; write two functions, or put numbers into an array",
            kernel.arguments.len()
        );
        return Err(syn::Error::new(function.name.span(), message));
    }
    Ok(Made { item, again, function, types, facts, kernels })
}

/// The texts of all kernels, and the items that the kernels refer to.
pub(crate) struct Texts {
    pub(crate) kernels: String,
    /// Macros for integers, without duplicates.
    pub(crate) defines: Vec<(String, syn::Expr)>,
    /// Names of functions with the attribute `device`.
    pub(crate) helpers: Vec<String>,
}

pub(crate) fn texts(options: &Options, item: &ItemFn) -> Result<Texts> {
    let Made { function, kernels, .. } = make(options, item)?;
    let mut defines: Vec<(String, syn::Expr)> = Vec::new();
    for (name, value) in kernels.iter().flat_map(|kernel| &kernel.defines) {
        if !defines.iter().any(|(known, _)| known == name) {
            defines.push((name.clone(), value.clone()));
        }
    }
    let last = |helper: &crate::ir::Helper| helper.path.segments.last().map(|last| last.ident.to_string());
    let helpers = function.helpers.iter().filter_map(last).collect();
    let kernels = kernels.into_iter().map(|kernel| kernel.text).collect::<Vec<_>>().join("\n");
    Ok(Texts { kernels, defines, helpers })
}

/// Returns the function without the attributes of its loops.
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

/// Returns the function, its task, and everything that both of them need.
pub(crate) fn expand(options: &Options, item: &ItemFn) -> Result<TokenStream> {
    let plain = plain(item);
    let Made { item, again, function, types, facts, kernels } = make(options, item)?;
    let item = &item;
    let (name, vis) = (&item.sig.ident, &item.vis);
    let text = kernels.iter().map(|kernel| kernel.text.as_str()).collect::<Vec<_>>().join("\n");
    let plans: TokenStream = (0..kernels.len())
        .map(|number| {
            let plan = format_ident!("plan_{number}");
            let (declared, _) = plan::arguments(&function, &types, &facts[number]);
            let body = plan::lower(&function, &types, &facts[number], &function.kernels[number]);
            made! {
                #[allow(dead_code, unused_mut, unused_variables, clippy::all)]
                fn #plan(#(#declared),*) -> thalweg_support::Nest { #body }
            }
        })
        .collect();
    let for_cores = cores_body(&function, &types, &facts, options, item);
    let for_devices = devices_body(&function, &types, (&facts, &kernels), options, item);
    let front = front::functions((&function, &again), &facts, options, item);
    let doc = format!("The namespace of [`fn@{name}`], with its task.");
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
                /// The texts of the kernels, as devices get them after the dialect.
                #[allow(dead_code)] // rarely used
                #vis const KERNELS: &'static str = #text;
                #front
            }
        };
    })
}
