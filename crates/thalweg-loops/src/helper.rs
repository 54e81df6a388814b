//! Functions that loops can call: `#[device]`.
//!
//! Such functions take and return numbers. Their bodies consist of `let`s, assignments and loops over numbers,
//! followed by a final value. In the kernel text, they precede the kernels that call them.

use crate::parse::{self, refuse, text_name};
use proc_macro2::TokenStream;
use quote::quote;
use syn::spanned::Spanned;
use syn::{FnArg, ItemFn, Pat, Result, ReturnType};

/// Returns the function itself, and a type of the same name that has the function's kernel text as a constant.
pub(crate) fn expand(item: &ItemFn) -> Result<TokenStream> {
    let text = text(item)?;
    let (name, vis) = (&item.sig.ident, &item.vis);
    Ok(quote! {
        #item

        #[doc(hidden)]
        #[allow(non_camel_case_types)]
        #vis enum #name {}

        impl #name {
            #[doc(hidden)]
            #vis const DEVICE_TEXT: &'static str = #text;
        }
    })
}

/// Returns the kernel text of a function with the attribute `device`.
pub(crate) fn text(item: &ItemFn) -> Result<String> {
    let signature = &item.sig;
    if let Some(generic) = signature.generics.params.first() {
        return refuse(generic.span(), "a kernel's function has no generic parameters; write the types");
    }
    let ReturnType::Type(_, result) = &signature.output else {
        return refuse(signature.ident.span(), "a kernel's function returns a number; write `-> f64`");
    };
    let Some(result) = parse::scalar(result) else {
        return refuse(result.span(), "a kernel's function returns a number; write `-> f64`");
    };
    let mut params = Vec::new();
    for argument in &signature.inputs {
        let FnArg::Typed(argument) = argument else {
            return refuse(argument.span(), "a kernel's function has no `self`; make it a free function");
        };
        let (Pat::Ident(name), Some(ty)) = (&*argument.pat, parse::scalar(&argument.ty)) else {
            return refuse(
                argument.ty.span(),
                "a kernel's function takes numbers; pass the element instead of the array",
            );
        };
        params.push((name.ident.clone(), ty));
    }
    let body = parse::helper(&params, result, &item.block)?;
    let heads: Vec<_> = params.iter().map(|(name, ty)| format!("{} {}", ty.text(), text_name(name))).collect();
    Ok(format!("DEVICE {} {}({})\n{{\n{body}}}\n", result.text(), text_name(&signature.ident), heads.join(", ")))
}
