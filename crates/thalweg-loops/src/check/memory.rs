//! Checks of a team's memory: which arrays are held in chunks, and whether everything fits.

use super::{Check, TEAM_BYTES};
use crate::clauses::Sized;
use crate::ir::{Loop, ParamKind};
use proc_macro2::Span;
use quote::ToTokens;
use std::collections::BTreeSet;

impl Check<'_> {
    /// Checks the clauses of `distribute`.
    pub(super) fn chunks(&mut self, kernel: &Loop) {
        let Some(distribute) = &kernel.share.distribute else { return };
        for Sized { name, len } in distribute.chunked() {
            let Some(param) = self.function.params.iter().position(|param| param.name == *name) else {
                self.refuse(name.span(), format!("the function has no parameter `{name}`"));
                continue;
            };
            let one = &self.function.params[param];
            if !matches!(one.kind, ParamKind::Array(_, 1)) || one.team.is_some() {
                self.refuse(
                    name.span(),
                    "a chunk belongs to a one-dimensional array, a slice, that `teams` does not name",
                );
            }
            let is_read_only = one.direction() == Some(crate::ir::Direction::In);
            if is_read_only && (distribute.lastprivate.iter().chain(&distribute.private)).any(|last| last.name == *name)
            {
                self.refuse(
                    name.span(),
                    format!("`{name}` is read-only; write `dist_firstprivate`, or make it `&mut`"),
                );
            }
            let tokens = |len: &syn::Expr| len.to_token_stream().to_string();
            match &self.facts.chunk {
                Some(chunk) if tokens(chunk) != tokens(len) => {
                    self.refuse(name.span(), "all chunks of a loop must have the same length; write the same number");
                }
                _ => self.facts.chunk = Some(len.clone()),
            }
            self.facts.chunked.insert(param);
        }
    }

    /// Checks that a team's memory is large enough, as far as array lengths are literals.
    pub(super) fn memory(&mut self, kernel: &Loop) {
        let literal = |len: &syn::Expr| match len {
            syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Int(number), .. }) => number.base10_parse::<usize>().ok(),
            _ => None,
        };
        let mut bytes = 0;
        let mut last = kernel.span;
        let mut add = |len: &syn::Expr, bits: u32, span: Span| {
            if let Some(len) = literal(len) {
                bytes += len * bits as usize / 8;
                last = span;
            }
        };
        for param in &self.facts.params {
            let param = &self.function.params[*param];
            if let Some(team) = &param.team {
                add(&team.len, param.element.bits(), param.name.span());
            }
        }
        if let Some(distribute) = &kernel.share.distribute {
            let mut seen = BTreeSet::new();
            for Sized { name, len } in distribute.chunked() {
                if let Some(param) = self.function.params.iter().find(|param| param.name == *name)
                    && seen.insert(name.clone())
                {
                    add(len, param.element.bits(), name.span());
                }
            }
        }
        for var in &self.facts.team_arrays {
            let variable = &self.function.variables[*var];
            if let Some(len) = &variable.array {
                add(len, self.types.of(variable.ty).bits(), variable.name.span());
            }
        }
        if bytes > TEAM_BYTES {
            let message = format!(
                "a team would need {bytes} bytes of memory, but has {TEAM_BYTES}; make the array or its chunk smaller"
            );
            self.refuse(last, message);
        }
    }
}
