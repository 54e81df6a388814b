//! Compiler options that belong to one text.

use super::compiler::Compiler;
use super::platform::Platform;
use crate::device::gpu::Recipe;
use crate::kernel::Module;
use std::borrow::Cow;

/// Compiler options for one text, in addition to those for the architecture.
#[derive(Default)]
pub(super) struct Extra {
    options: Vec<String>,
    /// Whether an option names a folder with headers, whose contents no cache knows.
    pub(super) has_own_headers: bool,
}

impl Extra {
    /// Returns a module's options for its text, and the folders with the interface's headers if the text includes any.
    pub(super) fn of<A: Platform>(module: &Module, text: &str) -> Self {
        let own = module.options(A::KIND);
        let names_headers = |option: &&str| {
            ["-I", "--include-path", "-include", "--pre-include", "-isystem"]
                .iter()
                .any(|known| option.starts_with(known))
        };
        let has_own_headers = own.iter().any(names_headers);
        let mut options: Vec<_> = own.iter().map(|option| (*option).to_owned()).collect();
        if text.contains("#include") || has_own_headers {
            let headers = A::Compiler::load().map_or(&[][..], Compiler::headers);
            options.extend(headers.iter().map(|folder| format!("-I{}", folder.display())));
        }
        Self { options, has_own_headers }
    }

    /// Returns the recipe with these options.
    pub(super) fn add_to(&self, recipe: &Recipe) -> Recipe {
        let options = recipe.options.iter().chain(&self.options).cloned().collect();
        Recipe { options, ..recipe.clone() }
    }

    /// Returns a text that identifies `source` compiled with these options, for whichever compiler.
    pub(super) fn key<'a>(&self, source: &'a str) -> Cow<'a, str> {
        match self.options.is_empty() {
            true => Cow::Borrowed(source),
            false => Cow::Owned(format!("{source}\n{}", self.options.join("\n"))),
        }
    }
}

#[cfg(all(test, feature = "cuda"))]
mod tests {
    use super::*;
    use crate::device::cuda::Cuda;

    #[test]
    fn own_headers_are_noticed_and_options_distinguish_texts() {
        let of = |options| Extra::of::<Cuda>(&Module::new("m").cuda("text").cuda_options(options), "text");
        assert!(of(&[]).key("text") == "text" && !of(&[]).has_own_headers);
        let fast = of(&["--use_fast_math"]);
        assert!(fast.key("text") != "text" && !fast.has_own_headers);
        for option in [&["-Iown"], &["--include-path=own"], &["--pre-include=own.h"]] {
            assert!(of(option).has_own_headers);
        }
    }
}
