//! What users call: `task`, which declares the accesses and gives a task its bodies.

use crate::ir::{Direction, Function, Param, ParamKind};
use proc_macro2::TokenStream;
use quote::format_ident;
use syn::ItemFn;

/// `task`: declares the accesses, and gives the task its bodies.
pub(super) fn task_function(function: &Function, item: &ItemFn) -> TokenStream {
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
pub(super) fn direction(param: &Param) -> (&'static str, &'static str) {
    match (param.direction(), &param.team) {
        (Some(Direction::Inout), None) => ("Inout", "inout"),
        (Some(Direction::Out), None) => ("Output", "output"),
        _ => ("Input", "input"),
    }
}
