//! Parsing of a function's signature: its parameters, and the clauses of `teams` that refer to them.

use super::{Parser, refuse, scalar};
use crate::clauses::{Options, Sized};
use crate::ir::{Direction, Param, ParamKind, TeamCopy};
use crate::types::Scalar;
use syn::spanned::Spanned;
use syn::{Error, FnArg, GenericArgument, ItemFn, Pat, PathArguments, Result, ReturnType, Type};

/// The maximum number of accesses that a task can have without lists.
const MOST_ACCESSES: usize = 12;

pub(super) fn all(options: &Options, item: &ItemFn, parser: &mut Parser) -> Result<Vec<Param>> {
    let signature = &item.sig;
    if let Some(generic) = signature.generics.params.iter().find(|p| !matches!(p, syn::GenericParam::Lifetime(_))) {
        return refuse(generic.span(), "a kernel has no generic parameters; write the types");
    }
    if let Some(token) = &signature.asyncness {
        return refuse(token.span(), "a loop on a device cannot be `async`; leave it out");
    }
    if let Some(token) = &signature.unsafety {
        return refuse(token.span(), "code for devices is checked like safe code; leave `unsafe` out");
    }
    if let ReturnType::Type(_, ty) = &signature.output {
        return refuse(
            ty.span(),
            "a task returns nothing; write the result through a parameter such as `sum: &mut f64`",
        );
    }
    let mut params = Vec::new();
    for argument in &signature.inputs {
        let FnArg::Typed(argument) = argument else {
            return refuse(argument.span(), "a task has no `self`; make it a free function");
        };
        let Pat::Ident(name) = &*argument.pat else {
            return refuse(argument.pat.span(), "a parameter needs a name here; destructure it in the body");
        };
        let (kind, element) = kind(&argument.ty)?;
        let ty = parser.types.known(element);
        params.push(Param { name: name.ident.clone(), kind, element, ty, team: None, is_shared: false });
    }
    for (list, is_first) in [(&options.teams.private, false), (&options.teams.firstprivate, true)] {
        for Sized { name, len } in list {
            let param = find(&mut params, name)?;
            if !matches!(param.kind, ParamKind::Array(_, 1)) {
                return refuse(name.span(), "a team's copy must be of a one-dimensional array, a slice");
            }
            if !is_first && param.direction() == Some(Direction::In) {
                return refuse(
                    name.span(),
                    "a private array begins without contents, so it has to be written: make it `&mut`, or write `firstprivate`",
                );
            }
            param.team = Some(TeamCopy { is_first, len: len.clone() });
        }
    }
    for name in &options.shared {
        find(&mut params, name)?.is_shared = true;
    }
    let accesses: Vec<_> = params.iter().filter(|param| param.is_access()).collect();
    match accesses.get(MOST_ACCESSES) {
        Some(param) => refuse(param.name.span(), "a task has at most twelve accesses; put some arrays into one"),
        None => Ok(params),
    }
}

fn find<'p>(params: &'p mut [Param], name: &syn::Ident) -> Result<&'p mut Param> {
    let unknown = || Error::new(name.span(), format!("the function has no parameter `{name}`"));
    params.iter_mut().find(|param| param.name == *name).ok_or_else(unknown)
}

/// Returns the kind of a parameter of this type.
fn kind(ty: &Type) -> Result<(ParamKind, Scalar)> {
    match ty {
        Type::Reference(reference) => {
            let direction = if reference.mutability.is_some() { Direction::Inout } else { Direction::In };
            behind(&reference.elem, direction)
        }
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a segment");
            if last.ident == "Out" {
                if let PathArguments::AngleBracketed(arguments) = &last.arguments
                    && let Some(GenericArgument::Type(ty)) = arguments.args.last()
                {
                    return behind(ty, Direction::Out);
                }
                return refuse(last.ident.span(), "write `Out<'_, [f64]>`");
            }
            match scalar(ty) {
                Some(number) => Ok((ParamKind::Number, number)),
                None => refuse(
                    ty.span(),
                    "a kernel has no such parameter; write a number, `&[f64]`, `&mut [f64]`, `Out<'_, [f64]>`, or a reference to an `ArrayRef2`",
                ),
            }
        }
        _ => refuse(ty.span(), "a kernel has no such parameter; write a number, or a reference to numbers"),
    }
}

fn behind(ty: &Type, direction: Direction) -> Result<(ParamKind, Scalar)> {
    let element = |ty: &Type| match scalar(ty) {
        Some(number) if number.is_element() => Ok(number),
        _ => refuse(ty.span(), "devices hold `f64`, `f32`, `i32`, `u32`, `i64` and `u64`; write one of these"),
    };
    match ty {
        Type::Slice(slice) => Ok((ParamKind::Array(direction, 1), element(&slice.elem)?)),
        Type::Path(path) => {
            let last = path.path.segments.last().expect("a path has a segment");
            let arguments: Vec<&Type> = match &last.arguments {
                PathArguments::AngleBracketed(arguments) => {
                    let types = arguments.args.iter();
                    types.filter_map(|one| if let GenericArgument::Type(ty) = one { Some(ty) } else { None }).collect()
                }
                _ => Vec::new(),
            };
            let dims = match (last.ident.to_string().as_str(), arguments.as_slice()) {
                ("ArrayRef1", [_]) => 1,
                ("ArrayRef2", [_]) => 2,
                ("ArrayRef3", [_]) => 3,
                _ if scalar(ty).is_some() => return Ok((ParamKind::Cell(direction), element(ty)?)),
                _ => {
                    return refuse(
                        ty.span(),
                        "a kernel has no such array; write `[f64]`, `ArrayRef2<f64>` or `ArrayRef3<f64>`",
                    );
                }
            };
            if dims == 1 {
                return refuse(ty.span(), "one-dimensional arrays are passed as slices; write `[f64]`");
            }
            Ok((ParamKind::Array(direction, dims), element(arguments[0])?))
        }
        _ => refuse(ty.span(), "a kernel has no such array; write `[f64]`, `ArrayRef2<f64>` or `ArrayRef3<f64>`"),
    }
}
