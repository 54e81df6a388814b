//! Generation of the two bodies of a task, as functions. The statements between the loops are kept as written, and
//! the loops are replaced by the code from [`crate::cores`] or [`super::launch`].

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

/// Returns the type of a parameter on the host, without its reference.
fn pointee(param: &Param) -> TokenStream {
    let element = format_ident!("{}", param.element.rust());
    match param.kind {
        ParamKind::Array(_, 2) => made!(::thalweg::ndarray::ArrayRef<#element, ::thalweg::ndarray::Ix2>),
        ParamKind::Array(_, 3) => made!(::thalweg::ndarray::ArrayRef<#element, ::thalweg::ndarray::Ix3>),
        ParamKind::Array(..) => made!([#element]),
        ParamKind::Cell(_) | ParamKind::Number => made!(#element),
    }
}

/// Returns the parameters of a body: all parameters except arrays that are private to each team.
fn cores_params(function: &Function) -> Vec<TokenStream> {
    let param = |(id, param): (usize, &Param)| {
        let ty = if function.is_windowed(id) { part(param) } else { pointee(param) };
        let name = &param.name;
        match (param.kind, param.is_written()) {
            (ParamKind::Number, _) => made!(#name: #ty),
            (_, true) => made!(#name: &mut #ty),
            (_, false) => made!(#name: &#ty),
        }
    };
    let is_given = |(_, one): &(usize, &Param)| one.kind == ParamKind::Number || one.is_access();
    function.params.iter().enumerate().filter(is_given).map(param).collect()
}

/// Returns the type of the array part in a window.
fn part(param: &Param) -> TokenStream {
    let (element, dims, shape) =
        (format_ident!("{}", param.element.rust()), param.dims(), format_ident!("Ix{}", param.dims()));
    let view = match (dims, param.is_written()) {
        (1, true) => made!(&mut [#element]),
        (1, false) => made!(&[#element]),
        (_, true) => made!(::thalweg::ndarray::ArrayViewMut<'_, #element, ::thalweg::ndarray::#shape>),
        (_, false) => made!(::thalweg::ndarray::ArrayView<'_, #element, ::thalweg::ndarray::#shape>),
    };
    made!(thalweg_support::Part<#view, #dims>)
}

/// Returns the parameter that passes its piece of the loop to a body.
fn piece(function: &Function) -> Option<TokenStream> {
    function.is_split.then(|| made!(piece: thalweg_support::Piece,))
}

/// Returns the statements of a function, with its loops replaced.
pub(super) fn statements(item: &ItemFn, mut replace: impl FnMut(usize) -> TokenStream) -> TokenStream {
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
    let (params, piece) = (cores_params(function), piece(function));
    let body = statements(item, |number| cores::lower(function, types, &facts[number], options, number));
    made! {
        #[allow(unused_variables, unused_mut, unused_assignments, unused_parens, clippy::all)]
        fn cores(cores: usize, #piece #(#params),*) { #body }
    }
}

pub(super) fn devices_body(
    function: &Function,
    types: &Types,
    (facts, kernels): (&[Facts], &[Kernel]),
    options: &Options,
    item: &ItemFn,
) -> TokenStream {
    let is_given = |(_, one): &(usize, &Param)| one.kind == ParamKind::Number || one.is_access();
    let params = function.params.iter().enumerate().filter(is_given).map(|(id, param)| {
        let (name, element) = (&param.name, format_ident!("{}", param.element.rust()));
        let (view, window, dims) = (format_ident!("view_of_{name}"), format_ident!("window_of_{name}"), param.dims());
        let window = function.is_windowed(id).then(|| made!(, #window: thalweg_support::Window<#dims>));
        match (param.kind, param.is_written()) {
            (ParamKind::Number, _) => made!(#name: #element),
            (_, true) => made!(mut #view: ::thalweg::kernel::DeviceViewMut<'_, #element> #window),
            (_, false) => made!(#view: ::thalweg::kernel::DeviceView<'_, #element> #window),
        }
    });
    let accesses = function.params.iter().enumerate().filter(|(_, one)| one.is_access());
    let extents = accesses.map(|(id, param)| {
        let (name, dims) = (&param.name, param.dims());
        let view = format_ident!("view_of_{name}");
        let strides = format_ident!("strides_of_{name}");
        let here = made!(thalweg_support::Extents::<#dims>::of(#view.extents()));
        if function.is_windowed(id) {
            let (window, part) = (format_ident!("window_of_{name}"), format_ident!("part_of_{name}"));
            return made!(let (#name, #part, #strides) = (#window.whole, #here, #view.strides()););
        }
        made!(let (#name, #strides) = (#here, #view.strides());)
    });
    let piece = piece(function);
    let body = statements(item, |number| launch(function, types, &facts[number], (&kernels[number], number), options));
    made! {
        #[allow(dead_code, unused_variables, unused_mut, unused_assignments, unused_parens, clippy::all)]
        fn devices(launcher: &mut ::thalweg::kernel::Launcher<'_>, #piece #(#params),*) -> ::core::result::Result<(), ::thalweg::error::DeviceError> {
            #(#extents)*
            #body
            ::core::result::Result::Ok(())
        }
    }
}
