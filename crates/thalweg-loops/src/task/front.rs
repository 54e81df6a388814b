//! Generation of the functions that users call: `task`, which declares a task's accesses and sets its bodies, and
//! `split`, which submits one task for each piece of the loop.

use super::bodies::statements;
use super::launch::plan_arguments;
use crate::check::Facts;
use crate::clauses::{Device, Options, Reduction};
use crate::cores::range_of;
use crate::ir::{Direction, Function, Param, ParamId, ParamKind};
use proc_macro2::TokenStream;
use quote::format_ident;
use syn::ItemFn;

/// Returns the functions in the namespace that has the user function's name.
///
/// `again` are the parameters whose elements fused loops do not read a second time.
pub(super) fn functions(
    (function, again): (&Function, &[ParamId]),
    facts: &[Facts],
    options: &Options,
    item: &ItemFn,
) -> TokenStream {
    let front = Front { function, again, item, device: options.device };
    let task = front.task();
    let split = options.split.as_ref().map(|split| front.split(&facts[0], split.pieces.as_ref()));
    made!(#task #split)
}

struct Front<'a> {
    function: &'a Function,
    again: &'a [ParamId],
    item: &'a ItemFn,
    device: Device,
}

impl Front<'_> {
    /// Returns the parameters of a task, which are numbers and accesses.
    fn params(&self) -> impl Iterator<Item = (ParamId, &Param)> {
        let all = self.function.params.iter().enumerate();
        all.filter(|(_, one)| one.kind == ParamKind::Number || one.is_access())
    }

    fn accesses(&self) -> impl Iterator<Item = (ParamId, &Param)> {
        self.params().filter(|(_, one)| one.is_access())
    }

    /// Returns the parameters in the form in which users pass them.
    fn declared(&self) -> TokenStream {
        let declared = self.params().map(|(_, param)| {
            let (name, element, shape) = (&param.name, element(param), shape(param));
            if param.kind == ParamKind::Number {
                made!(#name: #element)
            } else {
                made!(#name: impl ::thalweg::task::IntoRegion<'d, #element, ::thalweg::ndarray::#shape>)
            }
        });
        made!(#(#declared),*)
    }

    /// Returns the bodies of a task with these accesses.
    fn bodies(&self) -> TokenStream {
        let for_cores = self.params().map(|(id, param)| {
            let (name, window) = (&param.name, format_ident!("window_of_{}", param.name));
            match (param.kind, param.is_written()) {
                (ParamKind::Number, _) => made!(#name),
                (ParamKind::Cell(_), true) => made!(&mut #name[0]),
                (ParamKind::Cell(_), false) => made!(&#name[0]),
                (_, true) if self.function.is_windowed(id) => made!(&mut #window.written(&mut *#name)),
                (_, false) if self.function.is_windowed(id) => made!(&#window.seen(&*#name)),
                (_, true) => made!(&mut *#name),
                (_, false) => made!(&*#name),
            }
        });
        let for_devices = self.params().map(|(id, param)| {
            let (name, window) = (&param.name, format_ident!("window_of_{}", param.name));
            if self.function.is_windowed(id) { made!(#name, #window) } else { made!(#name) }
        });
        let names: Vec<_> = self.accesses().map(|(_, param)| &param.name).collect();
        let mutable = self.accesses().map(|(_, param)| {
            let name = &param.name;
            if param.is_written() { made!(mut #name) } else { made!(#name) }
        });
        let (views, mutable) = (made!((#(#names,)*)), made!((#(#mutable,)*)));
        let piece = self.function.is_split.then(|| made!(piece,));
        let cores =
            made!((move |context: &::thalweg::Context, #mutable| cores(context.inner_cores(), #piece #(#for_cores),*)));
        let devices = made!(
            .gpu(move |launcher: &mut ::thalweg::kernel::Launcher<'_>, #views| devices(launcher, #piece #(#for_devices),*))
        );
        match self.device {
            Device::Any => made!(.cpu #cores #devices),
            Device::Smp => made!(.host #cores),
            Device::Acc => made!(.emulated #cores #devices),
        }
    }

    /// Binds the regions to separate names. The arrays' own names denote extents here, from which the loop's range is
    /// computed.
    fn regions(&self) -> TokenStream {
        let regions = self.accesses().map(|(_, param)| {
            let (name, region, dims) = (&param.name, format_ident!("region_of_{}", param.name), param.dims());
            let extents = matches!(param.kind, ParamKind::Array(..))
                .then(|| made!(let #name = thalweg_support::extents::<_, _, #dims>(&#region);));
            made!(let #region = #name.into_region(); #extents)
        });
        let lets = statements(self.item, |_| TokenStream::new());
        made!(#(#regions)* #lets)
    }

    fn task(&self) -> TokenStream {
        let (function, vis) = (self.function, &self.item.vis);
        let name = function.name.to_string();
        let declared = self.declared();
        let types: Vec<TokenStream> = self
            .accesses()
            .map(|(_, param)| {
                let (element, shape, kind) = (element(param), shape(param), format_ident!("{}", direction(param).0));
                made!(::thalweg::task::#kind<'d, #element, ::thalweg::ndarray::#shape>)
            })
            .collect();
        let begin = function.is_split.then(|| {
            let (regions, range) = (self.regions(), range_of(&function.kernels[0]));
            let windows = self.accesses().filter(|(id, _)| function.is_windowed(*id)).map(|(_, param)| {
                let (name, window) = (&param.name, format_ident!("window_of_{}", param.name));
                made!(let #window = thalweg_support::Window::all(#name);)
            });
            made!(#regions let piece = thalweg_support::Piece::of(#range); #(#windows)*)
        });
        let spared = self.again.iter().map(|id| {
            let param = &function.params[*id];
            let (name, element) = (&param.name, element(param));
            let region = if function.is_split { format_ident!("region_of_{}", param.name) } else { name.clone() };
            let named = (!function.is_split).then(|| made!(let #name = #name.into_region();));
            made!(#named thalweg_support::spared(runtime, #region.len(), ::core::mem::size_of::<#element>());)
        });
        let spared: TokenStream = spared.collect();
        let made = self.accesses().map(|(_, param)| {
            let (name, region) = (&param.name, format_ident!("region_of_{}", param.name));
            let method = format_ident!("{}", direction(param).1);
            if function.is_split { made!(#region.#method()) } else { made!(#name.into_region().#method()) }
        });
        let bodies = self.bodies();
        let units = match self.device {
            Device::Any => "on cores and on accelerators",
            Device::Smp => "on cores",
            Device::Acc => "on accelerators",
        };
        let doc = format!(
            "Begins the description of a task with the work of [`fn@{name}`], {units}. Arrays are data \
             objects or regions; the task reads `&` parameters, reads and writes `&mut` parameters, and overwrites `Out` \
             parameters."
        );
        made! {
            #[doc = #doc]
            #[must_use = "a task runs only once it is submitted"]
            #[allow(unused_variables, unused_parens, clippy::all)]
            #vis fn task<'rt, 'd>(
                runtime: &'rt ::thalweg::Runtime,
                #declared
            ) -> ::thalweg::TaskBuilder<
                'rt,
                (#(#types,)*),
                impl ::thalweg::memory::Slot<<(#(#types,)*) as ::thalweg::task::Accesses>::Stored>
            > {
                #[allow(unused_imports)]
                use ::thalweg::task::IntoRegion as _;
                #begin
                #spared
                #[allow(unused_mut)]
                runtime.task(#name, (#(#made,)*))#bodies
            }
        }
    }

    /// Returns the function `split`, which computes all windows, checks whether they overlap, and submits a task for
    /// each piece.
    fn split(&self, facts: &Facts, pieces: Option<&syn::Expr>) -> TokenStream {
        let (function, vis) = (self.function, &self.item.vis);
        let name = function.name.to_string();
        let (declared, regions, range) = (self.declared(), self.regions(), range_of(&function.kernels[0]));
        let count = match pieces {
            Some(pieces) => made!((#pieces) as usize),
            None => made!(2 * runtime.machine().num_units()),
        };
        let given = plan_arguments(function, facts);
        let written = self.accesses().filter(|(id, param)| function.is_windowed(*id) && param.is_written());
        let apart = written.map(|(id, param)| {
            let (param, array) = (&param.name, param.name.to_string());
            made!(thalweg_support::apart(#name, #array, nests.iter().map(|nest| nest.window(#id, #param)))?;)
        });
        let parts = self.accesses().map(|(id, param)| {
            let (name, region) = (&param.name, format_ident!("region_of_{}", param.name));
            let (window, part) = (format_ident!("window_of_{}", param.name), format_ident!("part_of_{}", param.name));
            if function.is_windowed(id) {
                made!(let (#window, #part) = thalweg_support::Window::on(&#region, &nest.window(#id, #name));)
            } else {
                made!(let #part = #region.clone();)
            }
        });
        let cells = facts.cells();
        let accesses = self.accesses().map(|(id, param)| {
            let part = format_ident!("part_of_{}", param.name);
            if let Some((reduction, _)) = cells.iter().find(|(_, cell)| *cell == id) {
                let reducer = reducer(*reduction);
                return made!(#part.reduction(#reducer));
            }
            let method = format_ident!("{}", direction(param).1);
            made!(#part.#method())
        });
        let again = self.again.iter().map(|id| format_ident!("region_of_{}", function.params[*id].name));
        let again_elements = self.again.iter().map(|id| element(&function.params[*id]));
        let bodies = self.bodies();
        let doc = format!(
            "Submits the work of [`fn@{name}`] as several tasks. Each runs a part of the outermost loop on the parts of \
             the arrays that it touches; the scheduler chooses where each runs. Returns the number of tasks.\n\n\
             # Errors\nIf parts of the loop write the same elements, or as for \
             [`submit`](::thalweg::TaskBuilder::submit)."
        );
        made! {
            #[doc = #doc]
            #[allow(unused_variables, unused_parens, clippy::all)]
            #[track_caller]
            #vis fn split<'d>(
                runtime: &::thalweg::Runtime,
                #declared
            ) -> ::core::result::Result<usize, ::thalweg::error::SubmitError> {
                #[allow(unused_imports)]
                use ::thalweg::task::IntoRegion as _;
                #regions
                let pieces = thalweg_support::Piece::of(#range).cut(#count);
                let nests: ::std::vec::Vec<thalweg_support::Nest> =
                    pieces.iter().map(|piece| { let piece = *piece; plan_0(#(#given),*) }).collect();
                #(#apart)*
                #(thalweg_support::spared(runtime, #again.len(), ::core::mem::size_of::<#again_elements>());)*
                for (nest, piece) in nests.iter().zip(&pieces) {
                    let piece = *piece;
                    #(#parts)*
                    #[allow(unused_mut)]
                    runtime.task(#name, (#(#accesses,)*))#bodies.submit()?;
                }
                ::core::result::Result::Ok(pieces.len())
            }
        }
    }
}

fn shape(param: &Param) -> proc_macro2::Ident {
    format_ident!("Ix{}", param.dims())
}

fn element(param: &Param) -> proc_macro2::Ident {
    format_ident!("{}", param.element.rust())
}

fn reducer(reduction: Reduction) -> TokenStream {
    match reduction {
        Reduction::Sum => made!(::thalweg::memory::Sum),
        Reduction::Product => made!(thalweg_support::Product),
        Reduction::Min => made!(::thalweg::memory::Min),
        Reduction::Max => made!(::thalweg::memory::Max),
    }
}

/// Returns the type of a parameter's access, and the method that creates it.
fn direction(param: &Param) -> (&'static str, &'static str) {
    match (param.direction(), &param.team) {
        (Some(Direction::Inout), None) => ("Inout", "inout"),
        (Some(Direction::Out), None) => ("Output", "output"),
        _ => ("Input", "input"),
    }
}
