//! Parsing of attributes: the options of `target`, and the clauses that describe how a loop is shared out.

use proc_macro2::Span;
use syn::parse::{Parse, ParseStream};
use syn::punctuated::Punctuated;
use syn::{Attribute, Error, Ident, LitInt, Result, Token, bracketed, parenthesized};

/// The options of `target`.
pub(crate) struct Options {
    pub(crate) teams: Teams,
    pub(crate) off: Off,
    /// Parameters with elements that several iterations may touch.
    pub(crate) shared: Vec<Ident>,
    pub(crate) split: Option<Split>,
    /// Whether the function's two loops are fused.
    pub(crate) fuse: bool,
    pub(crate) device: Device,
}

/// The units that may run the task.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Device {
    /// All units.
    Any,
    /// `device(smp)`: CPU units.
    Smp,
    /// `device(acc)`: accelerators, and emulated devices.
    Acc,
}

/// The option `split`, which creates separate tasks for parts of the outermost loop.
pub(crate) struct Split {
    pub(crate) span: Span,
    /// The number of tasks; `None` means two per unit.
    pub(crate) pieces: Option<syn::Expr>,
}

/// The clause `teams`.
pub(crate) struct Teams {
    /// The maximum number of teams, if limited.
    pub(crate) num: Option<LitInt>,
    /// The maximum number of threads in a team.
    pub(crate) thread_limit: u32,
    pub(crate) private: Vec<Sized>,
    pub(crate) firstprivate: Vec<Sized>,
}

/// An array, with the number of elements that a team holds.
#[derive(Clone)]
pub(crate) struct Sized {
    pub(crate) name: Ident,
    pub(crate) len: syn::Expr,
}

/// The optimizations that are disabled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Off {
    /// If true, arrays named by clauses are not copied to team memory.
    pub(crate) team_memory: bool,
    /// If true, loops stay loops even when each thread gets only one iteration.
    pub(crate) once: bool,
    /// If true, the first nested loop gets the first dimension of a team, instead of the innermost loop.
    pub(crate) innermost_first: bool,
}

/// The maximum number of threads in a team that the interfaces support.
const MOST_THREADS: u32 = 1024;

/// The default maximum number of threads in a team.
pub(crate) const DEFAULT_THREADS: u32 = 256;

/// How a loop is shared out.
#[derive(Default)]
pub(crate) struct Share {
    /// How the loop is shared out over teams, if it is.
    pub(crate) distribute: Option<Distribute>,
    /// How the loop is shared out over the threads of a team, if it is.
    pub(crate) parallel: Option<Parallel>,
}

pub(crate) struct Distribute {
    pub(crate) span: Span,
    pub(crate) private: Vec<Sized>,
    pub(crate) firstprivate: Vec<Sized>,
    pub(crate) lastprivate: Vec<Sized>,
}

impl Distribute {
    /// Returns the arrays of which teams hold chunks in their memory.
    pub(crate) fn chunked(&self) -> impl Iterator<Item = &Sized> {
        self.private.iter().chain(&self.firstprivate).chain(&self.lastprivate)
    }
}

pub(crate) struct Parallel {
    pub(crate) span: Span,
    pub(crate) reductions: Vec<(Reduction, Ident)>,
    /// Running sums, and other running reductions.
    pub(crate) scans: Vec<(Reduction, Ident)>,
}

/// The operation of a reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reduction {
    Sum,
    Product,
    Min,
    Max,
}

impl Share {
    /// Returns whether the loop is shared out at all.
    pub(crate) fn is_shared(&self) -> bool {
        self.distribute.is_some() || self.parallel.is_some()
    }

    /// Returns whether the loop is shared out over teams and threads at once.
    pub(crate) fn is_combined(&self) -> bool {
        self.distribute.is_some() && self.parallel.is_some()
    }

    pub(crate) fn reductions(&self) -> &[(Reduction, Ident)] {
        self.parallel.as_ref().map_or(&[], |parallel| &parallel.reductions)
    }

    pub(crate) fn scans(&self) -> &[(Reduction, Ident)] {
        self.parallel.as_ref().map_or(&[], |parallel| &parallel.scans)
    }

    /// Parses the attributes of a loop.
    pub(crate) fn parse(attributes: &[Attribute]) -> Result<Self> {
        let mut share = Self::default();
        for attribute in attributes {
            let path = attribute.path();
            let is = |name: &str| path.segments.last().is_some_and(|segment| segment.ident == name);
            let has_clauses = matches!(attribute.meta, syn::Meta::List(_));
            let span = path.segments.last().map_or_else(Span::call_site, |segment| segment.ident.span());
            if is("distribute") {
                let mut distribute =
                    Distribute { span, private: Vec::new(), firstprivate: Vec::new(), lastprivate: Vec::new() };
                if has_clauses {
                    attribute.parse_args_with(|input: ParseStream<'_>| distribute.parse(input))?;
                }
                share.distribute = Some(distribute);
            } else if is("parallel_for") {
                let mut parallel = Parallel { span, reductions: Vec::new(), scans: Vec::new() };
                if has_clauses {
                    attribute.parse_args_with(|input: ParseStream<'_>| parallel.parse(input))?;
                }
                share.parallel = Some(parallel);
            } else if !is("allow") && !is("expect") {
                let message =
                    "cannot share out a loop by this attribute; write `#[distribute]`, `#[parallel_for]` or both";
                return Err(Error::new_spanned(path, message));
            }
        }
        Ok(share)
    }
}

/// Calls `clause` for each clause in a list, with the clause's name and the input after the name.
fn clauses(input: ParseStream<'_>, mut clause: impl FnMut(&Ident, ParseStream<'_>) -> Result<()>) -> Result<()> {
    while !input.is_empty() {
        let name: Ident = input.parse()?;
        clause(&name, input)?;
        if !input.is_empty() {
            input.parse::<Token![,]>()?;
        }
    }
    Ok(())
}

fn in_brackets<T>(input: ParseStream<'_>, parse: impl Fn(ParseStream<'_>) -> Result<T>) -> Result<Vec<T>> {
    let content;
    parenthesized!(content in input);
    let mut items = Vec::new();
    while !content.is_empty() {
        items.push(parse(&content)?);
        if !content.is_empty() {
            content.parse::<Token![,]>()?;
        }
    }
    Ok(items)
}

/// Parses `name: LEN`.
fn with_length(input: ParseStream<'_>) -> Result<Sized> {
    let name: Ident = input.parse()?;
    if !input.peek(Token![:]) {
        let message = "a team's copy needs a length; write `name: LENGTH`, with a literal or a constant";
        return Err(Error::new(name.span(), message));
    }
    input.parse::<Token![:]>()?;
    Ok(Sized { name, len: input.parse()? })
}

/// Parses `[CHUNK] name`.
fn with_chunk(input: ParseStream<'_>) -> Result<Sized> {
    if !input.peek(syn::token::Bracket) {
        return Err(input.error("a team's chunk needs a length; write `[CHUNK] name`"));
    }
    let content;
    bracketed!(content in input);
    Ok(Sized { len: content.parse()?, name: input.parse()? })
}

impl Distribute {
    fn parse(&mut self, input: ParseStream<'_>) -> Result<()> {
        clauses(input, |name, input| {
            let list = match name.to_string().as_str() {
                "dist_private" => &mut self.private,
                "dist_firstprivate" => &mut self.firstprivate,
                "dist_lastprivate" => &mut self.lastprivate,
                _ => {
                    let message = "`distribute` has no such clause; write `dist_private`, `dist_firstprivate` or `dist_lastprivate`";
                    return Err(Error::new(name.span(), message));
                }
            };
            list.extend(in_brackets(input, with_chunk)?);
            Ok(())
        })
    }
}

impl Parallel {
    fn parse(&mut self, input: ParseStream<'_>) -> Result<()> {
        clauses(input, |name, input| {
            let is_scan = name == "scan";
            if !is_scan && name != "reduction" {
                let message = "`parallel_for` has no such clause; write `reduction(+: name)` or `scan(+: name)`, or with `*`, `min` or `max`";
                return Err(Error::new(name.span(), message));
            }
            let content;
            parenthesized!(content in input);
            let operation = if content.peek(Token![+]) {
                content.parse::<Token![+]>().map(|_| Reduction::Sum)?
            } else if content.peek(Token![*]) {
                content.parse::<Token![*]>().map(|_| Reduction::Product)?
            } else {
                let operation: Ident = content.parse()?;
                match operation.to_string().as_str() {
                    "min" => Reduction::Min,
                    "max" => Reduction::Max,
                    _ => return Err(Error::new(operation.span(), "write `+`, `*`, `min` or `max`")),
                }
            };
            content.parse::<Token![:]>()?;
            let names = Punctuated::<Ident, Token![,]>::parse_terminated(&content)?;
            let list = if is_scan { &mut self.scans } else { &mut self.reductions };
            list.extend(names.into_iter().map(|name| (operation, name)));
            Ok(())
        })
    }
}

impl Parse for Options {
    fn parse(input: ParseStream<'_>) -> Result<Self> {
        let teams = Teams { num: None, thread_limit: DEFAULT_THREADS, private: Vec::new(), firstprivate: Vec::new() };
        let mut options =
            Self { teams, off: Off::default(), shared: Vec::new(), split: None, fuse: false, device: Device::Any };
        clauses(input, |name, input| {
            match name.to_string().as_str() {
                "teams" => {
                    let content;
                    parenthesized!(content in input);
                    options.teams.parse(&content)?;
                }
                "split" => {
                    let mut pieces = None;
                    if input.peek(Token![=]) {
                        input.parse::<Token![=]>()?;
                        let count: syn::Expr = input.parse()?;
                        if let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) = &count
                            && number.base10_parse::<usize>()? == 0
                        {
                            return Err(Error::new(number.span(), "zero tasks compute nothing; write 1 or more"));
                        }
                        pieces = Some(count);
                    }
                    options.split = Some(Split { span: name.span(), pieces });
                }
                "fuse" => options.fuse = true,
                "device" => {
                    let content;
                    parenthesized!(content in input);
                    let kind: Ident = content.parse()?;
                    options.device = match kind.to_string().as_str() {
                        "smp" => Device::Smp,
                        "acc" => Device::Acc,
                        _ => return Err(Error::new(kind.span(), "write `smp`, for cores, or `acc`, for accelerators")),
                    };
                    if !content.is_empty() {
                        return Err(content.error("a task has one kind of device; leave `device` out to allow both"));
                    }
                }
                "shared" => options.shared.extend(in_brackets(input, Ident::parse)?),
                "off" => {
                    for name in in_brackets(input, Ident::parse)? {
                        match name.to_string().as_str() {
                            "team_memory" => options.off.team_memory = true,
                            "once" => options.off.once = true,
                            "innermost_first" => options.off.innermost_first = true,
                            _ => {
                                let message =
                                    "there is no such optimization; write `team_memory`, `once` or `innermost_first`";
                                return Err(Error::new(name.span(), message));
                            }
                        }
                    }
                }
                _ => {
                    let message = "`target` has no such option; write `teams(..)`, `split`, `fuse`, `device(..)`, `shared(..)` or `off(..)`";
                    return Err(Error::new(name.span(), message));
                }
            }
            Ok(())
        })?;
        Ok(options)
    }
}

impl Teams {
    fn parse(&mut self, input: ParseStream<'_>) -> Result<()> {
        clauses(input, |name, input| {
            match name.to_string().as_str() {
                "num" => {
                    input.parse::<Token![=]>()?;
                    let number: LitInt = input.parse()?;
                    if number.base10_parse::<u32>()? == 0 {
                        return Err(Error::new(number.span(), "zero teams compute nothing; write 1 or more"));
                    }
                    self.num = Some(number);
                }
                "thread_limit" => {
                    input.parse::<Token![=]>()?;
                    let number: LitInt = input.parse()?;
                    let limit = number.base10_parse::<u32>()?;
                    if limit == 0 || limit > MOST_THREADS {
                        let message = format!("a team has 1 to {MOST_THREADS} threads; write a number in this range");
                        return Err(Error::new(number.span(), message));
                    }
                    self.thread_limit = limit;
                }
                "private" => self.private.extend(in_brackets(input, with_length)?),
                "firstprivate" => self.firstprivate.extend(in_brackets(input, with_length)?),
                _ => {
                    let message = "`teams` has no such clause; write `num = N`, `thread_limit = N`, `private(name: LENGTH)` or \
                                   `firstprivate(name: LENGTH)`";
                    return Err(Error::new(name.span(), message));
                }
            }
            Ok(())
        })
    }
}
