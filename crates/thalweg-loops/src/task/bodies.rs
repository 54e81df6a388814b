//! The two bodies of a task, as functions: what stands between the loops as it is written, and in their place what
//! [`crate::cores`] makes of them, or [`super::launch`].

use super::launch::launch;
use crate::check::Facts;
use crate::clauses::Options;
use crate::cores;
use crate::ir::{Function, Param, ParamKind};
use crate::kernel::Kernel;
use crate::types::Types;
use proc_macro2::TokenStream;
use quote::format_ident;
use syn::ItemFn;

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

pub(super) fn cores_body(
    function: &Function,
    types: &Types,
    facts: &[Facts],
    options: &Options,
    item: &ItemFn,
) -> TokenStream {
    let params = cores_params(function);
    let body = statements(item, |number| cores::lower(function, types, &facts[number], options, number));
    made! {
        #[allow(unused_variables, unused_mut, unused_parens, clippy::all)]
        fn cores(cores: usize, #(#params),*) { #body }
    }
}

pub(super) fn devices_body(
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
